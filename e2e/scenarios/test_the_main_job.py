"""The demo, as a test: one manifest, real engines, both roles scaled up and down from their own metrics."""

import asyncio
import time
from typing import Any

import httpx
import pytest

from e2e.cluster.control_plane import free_ports
from e2e.demo.__main__ import page_command, up
from e2e.demo.screen import Screen
from e2e.demo.stage import Stage


@pytest.mark.timeout(1800)
def test_prompt_heavy_load_raises_prefill_and_output_heavy_load_raises_decode(stage: Stage) -> None:
    try:
        with Screen() as screen:
            report = asyncio.run(up(stage, screen))
        page, fleet = web_page(stage)
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
    assert "<title>Tandem" in page
    (shown,) = (one for one in fleet["services"] if (one["namespace"], one["name"]) == ("default", "chat"))
    assert shown["mode"] == "Auto"


def web_page(stage: Stage, most_seconds: float = 30) -> tuple[str, dict[str, Any]]:
    """The page and what it is told of the fleet, by the command that the demo ends with."""
    (port,) = free_ports(1)
    forward = stage.start(*page_command(port))
    try:
        ends = time.monotonic() + most_seconds
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=10) as http:
            while True:
                try:
                    return http.get("/").text, http.get("/api/fleet").json()
                except httpx.TransportError:
                    assert time.monotonic() < ends, "the page does not answer"
                    time.sleep(0.5)
    finally:
        forward.terminate()
        forward.wait(10)
