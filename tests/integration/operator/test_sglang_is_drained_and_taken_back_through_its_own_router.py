"""The promises with `engine.type: sglang` and mode Disaggregated: the real operator, the real sglang-router with its
own discovery on the real API server, the real gate; the engines are simulated, with SGLang's hand-over.

sglang-router heeds no change of labels, so all that leaves it or comes back is the operator's doing.
"""

import http.client
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem_api import names
from tests.integration.operator.conftest import Manifest, Operator, Place, disaggregated, eventually
from tests.integration.operator.test_no_stream_is_cut_when_the_fleet_shrinks import MODEL, TOKENS, LiveFleet

pytestmark = pytest.mark.integration
pytest.importorskip("sglang_router", reason="the router of users: pip install --no-deps sglang-router==0.3.2")


class SGLangFleet(LiveFleet):
    """Engines and router of the other kind; the router has a pod, so that the operator finds it."""

    def _start(self, command: list[str], log: str, **environment: str) -> subprocess.Popen[bytes]:
        words = [
            "sglang_router.launch_router" if word == "vllm_router.launch_router" else word for word in command
        ]
        if "tandem_worker" in words:
            words.insert(words.index("tandem_worker") + 1, "--engine=sglang")
        return super()._start(words, log, **environment)

    def _say_it_serves(self, pod: Manifest, ip: str) -> None:
        super()._say_it_serves(pod, ip)
        # Kubelets say since when, and the operator leaves a new worker to the router's own discovery for a moment.
        since = {"lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        conditions = [{"type": type_, "status": "True", **since} for type_ in ("Ready", "PodScheduled")]
        self.place.set_status(pod, {"conditions": conditions})

    def run_its_router(self, service: str) -> None:
        ip = f"{self._block}.200"
        self.run_router(service, host=ip, port=names.ROUTER_PORT)
        self.place.run_router(service, ip=ip)

    def listed(self) -> dict[str, str]:
        """Address -> role."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        connection.request("GET", "/workers")
        workers = json.loads(connection.getresponse().read())["workers"]
        return {worker["url"].split("/")[2].split(":")[0]: worker["worker_type"] for worker in workers}


@pytest.fixture
def fleet(place: Place, tmp_path: Path) -> Iterator[SGLangFleet]:
    made = SGLangFleet(place, tmp_path)
    yield made
    made.stop()


def addresses(place: Place, *, serving: bool) -> dict[str, str]:
    return {
        pod["status"]["podIP"]: pod["metadata"]["labels"][names.LABEL_ROLE]
        for pod in place.workers("chat", serving=serving)
    }


def test_streams_end_whole_while_a_worker_leaves_and_comes_back(
    place: Place, operator: Operator, fleet: SGLangFleet
) -> None:
    engine = {"type": "sglang", "maxModelLen": 4096}
    place.apply("chat", disaggregated(model=MODEL, engine=engine, drain={"deadline": "120s"}))
    fleet.run_engines("chat", count=2)
    fleet.run_its_router("chat")
    eventually(lambda: fleet.ask()[0] == 200, seconds=60, what="the first answer")
    place.scale("chat-decode", 2)
    fleet.run_engines("chat", count=3)
    eventually(
        lambda: fleet.listed() == addresses(place, serving=True), seconds=60, what="all three are listed"
    )

    streams: list[Any] = []
    threads = [threading.Thread(target=lambda: streams.append(fleet.ask(10 * TOKENS))) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    place.scale("chat-decode", 1)
    (leaving,) = eventually(lambda: addresses(place, serving=False), what="one drains")
    eventually(lambda: leaving not in fleet.listed(), seconds=30, what="the router lists it no more")
    assert {fleet.ask()[0] for _ in range(8)} == {200}, "new requests go to the other"

    place.scale("chat-decode", 2)
    eventually(lambda: fleet.listed().get(leaving) == "decode", seconds=30, what="the router has it back")
    assert leaving in addresses(place, serving=True), "the same worker, not another"

    place.scale("chat-decode", 1)
    for thread in threads:
        thread.join()
    assert [(status, body.count("data: ")) for status, body in streams] == [(200, 10 * TOKENS + 1)] * 8
    assert not [body for _, body in streams if '"error"' in body]
    eventually(lambda: len(place.workers("chat")) == 2, seconds=60, what="the surplus worker is deleted")
    eventually(lambda: fleet.listed() == addresses(place, serving=True), seconds=30)
