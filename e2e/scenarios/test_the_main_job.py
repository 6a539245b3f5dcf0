"""The demo, as a test: one manifest, real engines, both roles scaled up and down from their own metrics."""

import asyncio
from pathlib import Path

import pytest

from e2e.demo.__main__ import up
from e2e.demo.screen import Screen
from e2e.demo.stage import Stage

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(1800)
def test_prompt_heavy_load_raises_prefill_and_output_heavy_load_raises_decode(stage: Stage) -> None:
    try:
        with Screen() as screen:
            report = asyncio.run(up(stage, screen))
    finally:
        stage.kubectl("delete", "infsvc", "chat", "-n", "default", "--ignore-not-found", "--timeout=180s")
    prompt_heavy, _, output_heavy, _ = report["acts"]
    assert prompt_heavy["most_ready"]["prefill"] >= 2 and prompt_heavy["most_ready"]["decode"] == 1
    assert output_heavy["most_ready"]["decode"] >= 2 and output_heavy["most_ready"]["prefill"] == 1
    for act in (prompt_heavy, output_heavy):
        assert act["requests"] > 0
        assert act["failed"] == 0, act["failures"]
    sources = report["decode_prompt_tokens_by_source"]
    transferred, computed = sources["external_kv_transfer"], sources.get("local_compute", 0.0)
    assert transferred > 0, "prompts reach decode workers as KV, over NIXL"
    assert computed <= 0.02 * transferred, "decode workers compute (almost) no prompt tokens themselves"
