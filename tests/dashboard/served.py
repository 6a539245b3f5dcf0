"""The dashboard as the autoscaler's process serves it: uvicorn on a port, the loop in the same event loop."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn

from tandem_autoscaler.dashboard.server import app
from tests.dashboard.simulated_world import World


class Served:
    """`url` answers; `run` lets simulated time pass. `leading` is what the lease says."""

    def __init__(self, world: World, *, poll_seconds: float, gpu_budget: int | None) -> None:
        self.world, self.leading = world, True
        web = app(
            world.trail, leading=lambda: self.leading, clock=world.clock, tick_seconds=poll_seconds,
            gpu_budget=gpu_budget,
        )  # fmt: skip
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        config = uvicorn.Config(
            web, log_config=None, lifespan="off", access_log=False, timeout_graceful_shutdown=5
        )
        self._server = uvicorn.Server(config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._loop.run_until_complete(self._server.serve(sockets=[self._listener]))
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        self._loop.run_until_complete(asyncio.sleep(0))  # the transports close their sockets in the next turn
        self._loop.close()

    def run(self, seconds: float) -> None:
        asyncio.run_coroutine_threadsafe(self.world.run(seconds), self._loop).result(timeout=240)

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.should_exit = True
            self._thread.join(timeout=20)
        self._listener.close()


@contextlib.contextmanager
def served(world: World, *, poll_seconds: float = 1.0, gpu_budget: int | None = None) -> Iterator[Served]:
    """`poll_seconds`: the page asks as often, so that a test need not wait."""
    made = Served(world, poll_seconds=poll_seconds, gpu_budget=gpu_budget)
    try:
        yield made
    finally:
        made.close()
