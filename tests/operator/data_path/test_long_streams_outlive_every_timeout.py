"""The router's own time limits and its end (field cases C3, F7), with the command line that the operator writes."""

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tandem_api.durations import parse_seconds
from tandem_operator.build.images import Images
from tandem_operator.build.router_deployment import router_args, router_deployment
from tandem_operator.observe.spec import read_spec
from tests.operator.data_path.real_fleet import RealFleet, is_whole
from tests.operator.fleet import colocated, spec

pytest.importorskip("vllm_router", reason="the router of users: pip install vllm-router==0.1.17")

LONGEST_STREAM_SECONDS = 3600.0


@pytest.fixture(params=["Disaggregated", "Colocated"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealFleet]:
    """One sequence at a time in each engine, so that requests queue."""
    found = RealFleet(tmp_path, mode=request.param, engine={"maxModelLen": 16384, "maxSequences": 1})
    try:
        if request.param == "Colocated":
            found.start_router(workers=[found.worker("workers")])
        else:
            found.start_router(prefill=[found.worker("prefill")], decode=[found.worker("decode")])
        yield found
    finally:
        found.stop()


def test_a_router_that_is_told_to_end_serves_what_it_has_taken_also_what_still_queues(
    fleet: RealFleet,
) -> None:
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: answers.append(fleet.ask(tokens=600))) for _ in range(4)]
    for thread in threads:
        thread.start()
    engine = fleet.engine_that_answers()
    while engine.series("vllm:num_requests_running") != 1 or engine.series("vllm:num_requests_waiting") != 3:
        assert not answers, "one is being served and three wait"
        time.sleep(0.02)
    fleet.router.send(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert [is_whole(answer, 600) for answer in answers] == [True] * 4
    assert fleet.router.wait(20) == 0


@pytest.mark.parametrize("wish", [spec(), colocated()], ids=["Disaggregated", "Colocated"])
def test_no_queue_of_the_routers_own_is_switched_on(wish: dict[str, object]) -> None:
    """What waits in it when SIGTERM comes is answered with 408 at once (0.1.17); in the engines' queues nothing is."""
    parsed, _ = read_spec(wish)
    assert parsed is not None
    words = router_args(namespace="team", service="chat", spec=parsed)
    assert not {"--max-concurrent-requests", "--queue-size", "--rate-limit-tokens-per-second"} & set(words)
    # A total, from the first byte to the last: there is no idle time limit that a pause could meet.
    assert float(words[words.index("--request-timeout-secs") + 1]) >= LONGEST_STREAM_SECONDS


def test_its_grace_period_covers_what_open_streams_may_take() -> None:
    parsed, _ = read_spec(spec(drain={"deadline": "300s"}))
    assert parsed is not None
    owner = {"uid": "u"}
    manifest = router_deployment(namespace="team", service="chat", spec=parsed, owner=owner, images=Images())
    pod = manifest["spec"]["template"]["spec"]
    wait = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    # Endpoints hear of its end first, then SIGTERM; the pod's own probes never cut it short.
    assert wait >= 5
    assert pod["terminationGracePeriodSeconds"] >= wait + parse_seconds("300s")
    assert manifest["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_pauses_between_chunks_that_are_longer_than_any_probe_do_not_end_a_stream(fleet: RealFleet) -> None:
    """Scaled down from one chunk each 20 s: the engine stands still for longer than health checks and time limits of
    everything else on the way (12 s against 10 s), twice in one stream."""
    engine = fleet.engine_that_answers()
    body = {"model": "tiny", "prompt": "hello " * 50, "max_tokens": 400, "stream": True}
    url, lines = fleet.router.url + "/v1/completions", []
    with httpx.stream("POST", url, json=body, timeout=120, trust_env=False) as answer:
        for line in answer.iter_lines():
            lines.append(line)
            if line.startswith("data: ") and len(lines) in (1, 101):
                engine.send(signal.SIGSTOP)
                time.sleep(12)
                engine.send(signal.SIGCONT)
    told = [line for line in lines if line.startswith("data: ")]
    assert len(told) == 401 and told[-1] == "data: [DONE]"
