"""An engine that sleeps says 200 on /health and serves nobody (field case C6): it is alive, and not ready."""

from typing import Any

import httpx
import pytest

from tandem_api.inference_service import InferenceServiceSpec
from tandem_operator.build.images import Images
from tandem_operator.build.worker_pod import worker_pods
from tandem_worker.gate import Gate
from tests.operator.fleet import colocated


class SleepyEngine:
    """vLLM's health and sleep routes. `asleep` None: not in development mode, so the route is not there."""

    def __init__(self, asleep: bool | None) -> None:
        self.asleep, self.health, self.asked = asleep, 200, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status, body = self.health, b""
        if scope["path"] == "/is_sleeping":
            self.asked += 1
            status, body = (404, b"{}") if self.asleep is None else (200, self._says())
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _says(self) -> bytes:
        return b'{"is_sleeping":true}' if self.asleep else b'{"is_sleeping":false}'


@pytest.fixture
def engine() -> SleepyEngine:
    return SleepyEngine(asleep=False)


async def probe(gate: Gate, path: str) -> int:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://worker") as client:
        return (await client.get(path)).status_code


async def test_it_is_ready_while_it_is_awake(engine: SleepyEngine, gate_directory: Any) -> None:
    gate = Gate(engine)
    assert await probe(gate, "/health?ready") == 200
    engine.asleep = True
    assert await probe(gate, "/health?ready") == 503
    engine.asleep = False
    assert await probe(gate, "/health?ready") == 200


async def test_it_is_alive_all_the_while_so_that_nobody_restarts_it(
    engine: SleepyEngine, gate_directory: Any
) -> None:
    engine.asleep = True
    assert await probe(Gate(engine), "/health") == 200
    assert engine.asked == 0


async def test_an_engine_that_has_no_such_route_is_awake_and_asked_once(gate_directory: Any) -> None:
    engine = SleepyEngine(asleep=None)
    gate = Gate(engine)
    assert [await probe(gate, "/health?ready") for _ in range(3)] == [200] * 3
    assert engine.asked == 1


async def test_one_that_is_awake_and_sick_is_not_ready(engine: SleepyEngine, gate_directory: Any) -> None:
    engine.health = 503
    assert await probe(Gate(engine), "/health?ready") == 503


async def test_what_the_engine_says_in_other_words_is_left_to_its_health(
    engine: SleepyEngine, gate_directory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(engine)
    for words in (b"", b"[]", b"null", b'{"is_sleeping":"yes"}', b"\xff"):
        monkeypatch.setattr(engine, "_says", lambda words=words: words)
        assert await probe(gate, "/health?ready") == 200


async def test_a_closed_gate_is_neither_ready_nor_healthy(engine: SleepyEngine, gate_directory: Any) -> None:
    gate = Gate(engine)
    await probe(gate, "/health")
    gate.door.close(10)
    assert [await probe(gate, path) for path in ("/health", "/health?ready")] == [503, 503]
    assert engine.asked == 0


def test_the_pods_ask_so_for_readiness_and_for_nothing_else() -> None:
    spec = InferenceServiceSpec.model_validate(colocated())
    (pod,) = worker_pods(
        namespace="team", service="chat", spec=spec, role_name="workers", ordinal=0, owner={"uid": "u"},
        images=Images(),
    )  # fmt: skip
    container = pod["spec"]["containers"][0]
    paths = {kind: container[kind]["httpGet"]["path"] for kind in container if kind.endswith("Probe")}
    assert paths == {
        "startupProbe": "/health",
        "livenessProbe": "/health",
        "readinessProbe": "/health?ready",
    }
