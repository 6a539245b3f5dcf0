"""The way to the gate from inside the pod: a Unix socket per process in a directory only its owner can enter.

Never a route on the serving port: routers proxy paths they do not know. One request and one answer per
connection, each one line of JSON: {"do": "status" | "close" | "measures", "within_seconds": number}.
"""

import asyncio
import json
import logging
import os
import socket
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

logger = logging.getLogger("tandem.gate")

ASK_TIMEOUT_SECONDS = 2.0
MAX_LINE_BYTES = 1 << 20

Answer = Callable[[dict[str, Any]], dict[str, Any]]


def directory() -> Path:
    """Where the sockets are: a folder of this user's below `TANDEM_GATE_DIRECTORY` or the temporary directory.

    Never that directory itself: a volume of Kubernetes is open to everyone in the pod.
    """
    given = os.environ.get("TANDEM_GATE_DIRECTORY") or tempfile.gettempdir()
    return Path(given) / f"tandem-gate-{os.getuid()}"


def sockets(place: Path) -> list[Path]:
    """The sockets of all gates here, those of dead processes included."""
    try:
        return sorted(place.glob("*.sock"))
    except OSError:
        return []


def ask(
    path: Path, question: dict[str, Any], *, timeout_seconds: float = ASK_TIMEOUT_SECONDS
) -> dict[str, Any]:
    """Ask one gate and return its answer (blocking).

    Raises:
        OSError: nobody answers there (also a timeout, or an answer that is none).
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_seconds)
        connection.connect(str(path))
        connection.sendall(json.dumps(question).encode() + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            piece = connection.recv(1 << 16)
            if not piece:
                break
            data += piece
    return _decoded(data)


async def ask_sibling(path: Path, question: dict[str, Any], *, timeout_seconds: float) -> dict[str, Any]:
    """As `ask`, without blocking the event loop."""
    try:
        async with asyncio.timeout(timeout_seconds):
            reader, writer = await asyncio.open_unix_connection(str(path), limit=MAX_LINE_BYTES)
            try:
                writer.write(json.dumps(question).encode() + b"\n")
                return _decoded(await reader.readline())
            finally:
                writer.close()
    except (TimeoutError, ValueError) as error:
        raise OSError(str(error)) from error


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError as error:
        raise OSError("no answer") from error
    if not isinstance(answer, dict):
        raise OSError("no answer")
    return answer


class Control:
    """Serves one gate's socket on the running event loop."""

    def __init__(self, answer: Answer, place: Path) -> None:
        self._answer = answer
        self._place = place
        self._server: asyncio.Server | None = None
        self.path = place / f"{os.getpid()}-{id(self):x}.sock"

    async def start(self) -> None:
        """Raises OSError when the directory is someone else's or the socket cannot be made."""
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._place.stat()
        # In a shared temporary directory someone else could have made it first.
        if status.st_uid != os.getuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(f"{self._place} is open to others")
        self._server = await asyncio.start_unix_server(self._serve, path=str(self.path), limit=MAX_LINE_BYTES)
        os.chmod(self.path, 0o600)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ASK_TIMEOUT_SECONDS):
                line = await reader.readline()
            try:
                answer = self._answer(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                answer = {"error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (TimeoutError, ValueError, OSError) as error:
            logger.debug("control connection: %s", error)
        finally:
            writer.close()
