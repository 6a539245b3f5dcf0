"""Decode refuses after prefill has worked, or the client goes between the legs (field cases F4, F5).

What is left then is the KV cache that the prefill worker keeps for its decode peer. Nobody tells it to let go, so its
lease is the bound.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tandem_operator.plan.settings import Settings
from tests.operator.data_path.real_fleet import RealFleet, SimulatedWorker, is_whole

pytest.importorskip("vllm_router", reason="the router of users: pip install vllm-router==0.1.17")

Legs = tuple[RealFleet, SimulatedWorker, list[SimulatedWorker]]
LEASE_SECONDS = Settings().kv_lease_seconds


@contextmanager
def started(folder: Path) -> Iterator[Legs]:
    fleet = RealFleet(folder)
    try:
        prefill, decode = fleet.worker("prefill"), [fleet.worker("decode") for _ in range(2)]
        fleet.start_router(prefill=[prefill], decode=decode)
        yield fleet, prefill, decode
    finally:
        fleet.stop()


@pytest.fixture(scope="module")
def legs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Legs]:
    """For tests that leave all as it was."""
    with started(tmp_path_factory.mktemp("legs")) as found:
        yield found


@pytest.fixture
def own_legs(tmp_path: Path) -> Iterator[Legs]:
    """For tests that end workers."""
    with started(tmp_path) as found:
        yield found


def held_kv(worker: SimulatedWorker) -> float:
    return worker.series("vllm:kv_cache_usage_perc")


def until(condition: object, *, seconds: float) -> float:
    """Seconds until it holds."""
    assert callable(condition)
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds
        time.sleep(0.1)
    return time.monotonic() - began


def test_who_goes_while_the_prompt_is_computed_costs_no_decode(legs: Legs) -> None:
    fleet, prefill, decode = legs
    before = sum(worker.asked() for worker in decode)
    prefill.send(signal.SIGSTOP)
    with pytest.raises(httpx.TimeoutException):
        fleet.ask(timeout=1)
    prefill.send(signal.SIGCONT)
    until(lambda: prefill.series("vllm:num_requests_running") == 0, seconds=10)
    time.sleep(1)
    assert sum(worker.asked() for worker in decode) == before
    assert is_whole(fleet.ask(), 4)


def test_who_goes_between_the_legs_leaves_nothing_running_and_the_kv_for_its_lease_at_most(
    legs: Legs,
) -> None:
    fleet, prefill, decode = legs
    for worker in decode:
        worker.send(signal.SIGSTOP)
    with pytest.raises(httpx.TimeoutException):
        fleet.ask(timeout=2)
    assert held_kv(prefill) > 0, "prefill has done its part"
    for worker in decode:
        worker.send(signal.SIGCONT)
    for worker in (prefill, *decode):
        until(lambda worker=worker: worker.series("vllm:num_requests_running") == 0, seconds=10)
    until(lambda: held_kv(prefill) == 0, seconds=LEASE_SECONDS + 10)
    assert all(held_kv(worker) == 0 for worker in decode)


def test_who_goes_in_the_middle_of_the_answer_frees_both(legs: Legs) -> None:
    fleet, prefill, decode = legs
    body = {"model": "tiny", "prompt": "hello " * 50, "max_tokens": 3000, "stream": True}
    with httpx.stream(
        "POST", fleet.router.url + "/v1/completions", json=body, timeout=20, trust_env=False
    ) as answer:
        next(answer.iter_lines())
    for worker in (prefill, *decode):
        until(lambda worker=worker: worker.series("vllm:num_requests_running") == 0, seconds=10)
        until(lambda worker=worker: held_kv(worker) == 0, seconds=10)


def test_a_refusal_of_decode_reaches_the_client_once_and_the_kv_is_freed_with_its_lease(
    own_legs: Legs,
) -> None:
    fleet, prefill, decode = own_legs
    decode[0].close_the_gate()
    answers = [fleet.ask() for _ in range(4)]
    assert sorted(answer.status_code for answer in answers) == [200, 200, 503, 503]
    assert all(is_whole(answer, 4) for answer in answers if answer.status_code == 200)

    decode[1].close_the_gate()
    refused, prefilled = sum(worker.asked() for worker in decode), prefill.asked()
    answer = fleet.ask()
    # The gate's own words: the client may try again, and is told when.
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    # No hidden second try, which would prefill again or take the KV of a first that is still running.
    assert prefill.asked() - prefilled == 1
    assert sum(worker.asked() for worker in decode) - refused == 1
    assert held_kv(prefill) > 0
    assert until(lambda: held_kv(prefill) == 0, seconds=LEASE_SECONDS + 10) <= LEASE_SECONDS + 5
    assert prefill.series("vllm:num_requests_running") == 0


def test_a_peer_that_is_lost_costs_its_own_requests_only(own_legs: Legs) -> None:
    """Its KV is gone with it (F6): those requests fail with an error, and nothing else does."""
    fleet, _, decode = own_legs
    lost, other = decode
    answers: list[httpx.Response | httpx.HTTPError] = []

    def ask() -> None:
        try:
            answers.append(fleet.ask(tokens=400))
        except httpx.HTTPError as error:
            answers.append(error)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    until(lambda: lost.series("vllm:num_requests_running") == 3, seconds=20)
    lost.end()
    for thread in threads:
        thread.join()
    whole = [answer for answer in answers if isinstance(answer, httpx.Response) and is_whole(answer, 400)]
    assert len(whole) == 3
    assert other.series("vllm:num_requests_running") == 0
