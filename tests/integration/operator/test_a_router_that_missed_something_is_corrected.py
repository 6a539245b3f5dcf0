"""The real vllm-router behind a cable that can be cut: what it misses meanwhile the operator makes good."""

import contextlib
import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem_api import names
from tests.integration.operator.conftest import Operator, Place, colocated, eventually
from tests.integration.operator.test_no_stream_is_cut_when_the_fleet_shrinks import MODEL, LiveFleet

pytestmark = pytest.mark.integration


class Cable:
    """A TCP connection to the API server that can be cut."""

    def __init__(self, port: int) -> None:
        self._to, self._whole = port, True
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._whole = False
        for end in self._ends:
            _shut(end)
        self._ends.clear()

    def mend(self) -> None:
        self._whole = True

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if not self._whole:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._to))
            self._ends += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(one: socket.socket, other: socket.socket) -> None:
    try:
        while piece := one.recv(1 << 16):
            other.sendall(piece)
    except OSError:
        pass
    _shut(other)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


class Wired(LiveFleet):
    """Its router's way to the API server goes through a cable, and it has a pod, so that the operator finds it."""

    cable: Cable

    def run_wired_router(self, service: str) -> None:
        config = self.place.cluster.kubeconfig.read_text()
        server = re.search(r"https://127\.0\.0\.1:(\d+)", config)
        assert server is not None
        self.cable = Cable(int(server[1]))
        cut = self.folder / "kubeconfig"
        cut.write_text(config.replace(server[0], f"https://127.0.0.1:{self.cable.port}"))
        self.run_router(service, kubeconfig=cut, host=f"{self._block}.200", port=names.ROUTER_PORT)
        self.place.run_router(service, ip=f"{self._block}.200")

    def listed(self) -> set[str]:
        connection = http.client.HTTPConnection(f"{self._block}.200", names.ROUTER_PORT, timeout=10)
        connection.request("GET", "/list_workers")
        return {
            url.split("/")[2].split(":")[0] for url in json.loads(connection.getresponse().read())["urls"]
        }


@pytest.fixture
def wired(place: Place, tmp_path: Path) -> Iterator[Wired]:
    fleet = Wired(place, tmp_path)
    yield fleet
    fleet.stop()
    fleet.cable.close()


def addresses(place: Place, *, serving: bool) -> set[str]:
    return {pod["status"]["podIP"] for pod in place.workers("chat", serving=serving)}


def test_what_left_while_the_watch_was_cut_gets_nothing_more(
    place: Place, operator: Operator, wired: Wired
) -> None:
    place.apply("chat", colocated(model=MODEL, engine={"maxModelLen": 4096}, drain={"deadline": "60s"}))
    wired.run_engines("chat", count=1)
    wired.run_wired_router("chat")
    place.scale("chat-workers", 3)
    wired.run_engines("chat", count=3)
    eventually(lambda: wired.listed() == addresses(place, serving=True), what="the router lists all three")

    wired.cable.cut()
    place.scale("chat-workers", 2)
    leaving = eventually(lambda: addresses(place, serving=False), what="one drains")
    # It cannot have heard: only the operator can have told it.
    eventually(lambda: not wired.listed() & leaving, seconds=15, what="the router lists it no more")
    eventually(lambda: len(place.workers("chat")) == 2, seconds=60, what="it is let go")
    assert wired.listed() == addresses(place, serving=True)

    # Gone at one stroke, as with a lost node: not even the operator drained it.
    lost = place.workers("chat", serving=True)[0]
    place.cluster.api.delete(place.path("pods", lost["metadata"]["name"]) + "?gracePeriodSeconds=0")
    eventually(
        lambda: lost["status"]["podIP"] not in wired.listed(), seconds=30, what="the lost one is off the list"
    )
    assert {wired.ask()[0] for _ in range(8)} == {200}
