"""/healthz, /readyz and /metrics on one port, from a thread of its own: it answers also while the loop is busy."""

import contextlib
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tandem_operator.metrics import Metrics

_STALE_SECONDS = 60.0


class Health:
    """The loop calls `beat()`; silence longer than a minute is death. `ready` is set by the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat_at = clock()
        self.ready = False

    def beat(self) -> None:
        self._beat_at = self._clock()

    @property
    def alive(self) -> bool:
        return self._clock() - self._beat_at < _STALE_SECONDS


def serve_health(health: Health, metrics: Metrics, *, host: str, port: int) -> ThreadingHTTPServer:
    """Start serving; `server_port` of the result tells the port when 0 was asked for.

    Raises OSError when the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            # A probe that gave up is its own affair, on a busy machine an everyday one.
            with contextlib.suppress(ConnectionError):
                super().handle()

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/healthz":
                    self._answer(
                        200 if health.alive else 503, b"ok\n" if health.alive else b"the loop is stuck\n"
                    )
                case "/readyz":
                    self._answer(200 if health.ready else 503, b"ok\n" if health.ready else b"starting\n")
                case "/metrics":
                    self._answer(200, generate_latest(metrics.registry), CONTENT_TYPE_LATEST)
                case _:
                    self._answer(404, b"not found\n")

        def _answer(self, status: int, body: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes every few seconds are no news."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
