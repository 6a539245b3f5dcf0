"""One role of a Disaggregated service has no worker (field case F3): refused at once and counted, never half served."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.operator.data_path.real_fleet import RealFleet, SimulatedWorker, is_whole
from tests.operator.fleet import Fleet

pytest.importorskip("vllm_router", reason="the router of users: pip install vllm-router==0.1.17")

Pair = tuple[RealFleet, SimulatedWorker, SimulatedWorker]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    fleet = RealFleet(tmp_path)
    try:
        prefill, decode = fleet.worker("prefill"), fleet.worker("decode")
        fleet.start_router(prefill=[prefill], decode=[decode])
        assert is_whole(fleet.ask(), 4)
        yield fleet, prefill, decode
    finally:
        fleet.stop()


def test_without_decode_nothing_is_prefilled(pair: Pair) -> None:
    fleet, prefill, decode = pair
    fleet.forget(decode)
    before = prefill.asked()
    answer = fleet.ask()
    assert answer.status_code == 503
    assert "0 decode" in answer.text
    assert prefill.asked() == before, "no prefill work for a request that nobody can decode"
    assert readiness(fleet) == 503


def test_without_prefill_decode_does_not_take_over_in_silence(pair: Pair) -> None:
    fleet, prefill, decode = pair
    fleet.forget(prefill)
    before = decode.asked()
    answer = fleet.ask()
    assert answer.status_code == 503
    assert "0 prefill" in answer.text
    assert decode.asked() == before
    assert readiness(fleet) == 503


def readiness(fleet: RealFleet) -> int:
    return httpx.get(fleet.router.url + "/readiness", timeout=5, trust_env=False).status_code


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_the_service_is_ready_only_with_both(role: str) -> None:
    fleet = Fleet()
    fleet.settle()
    assert fleet.condition("Ready")["status"] == "True"
    (pod,) = fleet.pods(role=role)
    pod["status"]["conditions"][0]["status"] = "False"
    fleet.step()
    ready = fleet.condition("Ready")
    assert ready["status"] == "False"
    assert f"0 of 1 {role} workers serve" in ready["message"]
