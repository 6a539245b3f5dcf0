"""The real vllm-router with a worker that takes connections and never answers (field case F2).

Its discovery waits for each new worker's first answer and hears of nobody meanwhile (0.1.17). So it is given a short
time for that, and who leaves meanwhile is taken off its list by the operator.
"""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem_api import names
from tests.integration.operator.conftest import Operator, Place, colocated, eventually
from tests.integration.operator.test_a_router_that_missed_something_is_corrected import Wired
from tests.integration.operator.test_no_stream_is_cut_when_the_fleet_shrinks import MODEL

pytestmark = pytest.mark.integration


class Silent:
    """Takes every connection at the engine's port and says nothing."""

    def __init__(self, ip: str) -> None:
        self.ip, self.asked = ip, 0
        self._held: list[socket.socket] = []
        self._listener = socket.create_server((ip, names.ENGINE_PORT))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self._held.append(self._listener.accept()[0])
            except OSError:
                return
            self.asked += 1

    def close(self) -> None:
        self._listener.close()
        for end in self._held:
            end.close()


@pytest.fixture
def wired(place: Place, tmp_path: Path) -> Iterator[Wired]:
    fleet = Wired(place, tmp_path)
    yield fleet
    fleet.stop()
    fleet.cable.close()


def test_a_worker_leaves_and_another_comes_while_one_does_not_answer(
    place: Place, operator: Operator, wired: Wired
) -> None:
    place.apply("chat", colocated(model=MODEL, engine={"maxModelLen": 4096}))
    wired.run_engines("chat", count=1)
    wired.run_wired_router("chat")
    place.scale("chat-workers", 3)
    wired.run_engines("chat", count=3)
    eventually(lambda: len(wired.listed()) == 3, what="the router lists all three")

    silent = Silent(f"{wired._block}.250")
    try:
        wired._say_it_serves(place.workers("chat")[0], silent.ip)
        eventually(lambda: silent.asked > 0, seconds=30, what="the router has met the silent one")
        place.scale("chat-workers", 2)
        (leaving,) = eventually(lambda: place.workers("chat", serving=False), what="one drains")
        began = time.monotonic()
        left = leaving["status"]["podIP"]
        assert left != silent.ip, "an unknown load is not an idle one"
        eventually(lambda: left not in wired.listed(), seconds=10, what="it is off the list")
        gone_after = time.monotonic() - began
        place.scale("chat-workers", 3)
        wired.run_engines("chat", count=3)
        eventually(
            lambda: len(wired.listed() - {silent.ip}) == 2, seconds=60, what="who comes is on the list"
        )
        back_after = time.monotonic() - began
        assert gone_after < 5, f"gone after {gone_after:.1f} s"
        assert back_after < 45, f"the next one is there after {back_after:.1f} s"
        print(f"gone after {gone_after:.1f} s, the next one there after {back_after:.1f} s")
    finally:
        silent.close()
