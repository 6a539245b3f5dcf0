"""Hand-over of a prompt's KV from the engine that prefilled it to the one that decodes.

As with NIXL, the two talk over a side channel of their own (VLLM_NIXL_SIDE_CHANNEL_HOST and _PORT), never
over the serving port: the decoder asks for a request's KV, takes it (here: waits as long as the bytes would
take) and tells that it is done, whereupon the prefiller frees the blocks. What nobody fetches is freed when
its lease ends. One question per connection, a line of JSON each way.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tandem_worker.simulate.scheduler import Sequence

logger = logging.getLogger("tandem.simulate")

LEASE_SECONDS = 30.0  # of vLLM's NIXL connector
ASK_TIMEOUT_SECONDS = 5.0
POLL_SECONDS = 0.005


class TransferFailed(Exception):
    """The KV cannot be had: the prefiller is gone, or has freed it."""


@dataclass(frozen=True)
class Remote:
    """Where a prompt's KV lies, out of the `kv_transfer_params` that the router carries from leg to leg.

    Or will lie: with SGLang both legs begin at once, and the decoder waits for `patience_seconds`.
    """

    host: str
    port: int
    request_id: str
    tokens: int
    patience_seconds: float = 0.0

    @classmethod
    def parse(cls, params: dict[str, Any]) -> "Remote":
        """Raises ValueError with the name of what is missing or wrong."""
        for key in ("remote_host", "remote_port", "remote_request_id"):
            if params.get(key) in (None, ""):
                raise ValueError(f"kv_transfer_params has no {key}")
        try:
            return cls(
                host=str(params["remote_host"]),
                port=int(params["remote_port"]),
                request_id=str(params["remote_request_id"]),
                tokens=int(params.get("remote_num_tokens") or 0),
            )
        except (TypeError, ValueError):
            raise ValueError(
                "kv_transfer_params: remote_port and remote_num_tokens must be numbers"
            ) from None


class NotHeld(TransferFailed):
    """The prefiller answers, and has not, or no longer, what was asked for."""


async def fetch(remote: Remote) -> int:
    """The tokens held, as soon as they are. Raises TransferFailed, also when they do not come in time."""
    clock = asyncio.get_running_loop().time
    until = clock() + remote.patience_seconds
    while True:
        try:
            return await ask(remote, "fetch")
        except NotHeld:
            if clock() >= until:
                raise
        await asyncio.sleep(POLL_SECONDS)


async def ask(remote: Remote, what: str) -> int:
    """Say "fetch" or "done" of a request; returns the tokens held for it.

    Raises:
        TransferFailed: nobody answers, or the request is not held there.
    """
    try:
        async with asyncio.timeout(ASK_TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(remote.host, remote.port)
            try:
                writer.write(json.dumps({"do": what, "request_id": remote.request_id}).encode() + b"\n")
                answer = json.loads(await reader.readline())
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError) as error:
        raise TransferFailed(f"{remote.host}:{remote.port}: {error or type(error).__name__}") from error
    if "tokens" not in answer:
        raise NotHeld(f"{remote.request_id} is not held at {remote.host}:{remote.port}")
    return int(answer["tokens"])


class Holdings:
    """Prompts whose KV waits here to be fetched. `release` gives a sequence's blocks back."""

    def __init__(self, release: Callable[[Sequence], None], lease_seconds: float = LEASE_SECONDS) -> None:
        self._release = release
        self._lease_seconds = lease_seconds
        self._held: dict[str, tuple[Sequence, asyncio.TimerHandle]] = {}
        self._server: asyncio.Server | None = None
        self.expired = 0
        self.host = ""
        self.port = 0

    async def serve(self, host: str, port: int) -> None:
        """Listen on the side channel. Raises OSError when the port is taken."""
        self._server = await asyncio.start_server(self._answer, host, port)
        self.host = host
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        for _, timer in self._held.values():
            timer.cancel()
        if self._server is not None:
            self._server.close()

    def hold(self, request_id: str, sequence: Sequence) -> None:
        timer = asyncio.get_running_loop().call_later(self._lease_seconds, self._expire, request_id)
        self._held[request_id] = (sequence, timer)

    def __len__(self) -> int:
        return len(self._held)

    def _expire(self, request_id: str) -> None:
        self.expired += 1
        logger.warning("the KV of %s was never fetched; freed after %.0f s", request_id, self._lease_seconds)
        self._free(request_id)

    def _free(self, request_id: str) -> None:
        sequence, timer = self._held.pop(request_id)
        timer.cancel()
        self._release(sequence)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ASK_TIMEOUT_SECONDS):
                question = json.loads(await reader.readline())
            request_id = question["request_id"]
            answer: dict[str, Any] = {}
            if request_id in self._held:
                answer = {"tokens": self._held[request_id][0].prompt_tokens}
                if question["do"] == "done":
                    self._free(request_id)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (TimeoutError, ValueError, KeyError, TypeError, OSError) as error:
            logger.debug("side channel: %s", error)
        finally:
            writer.close()


class Link:
    """The network card: transfers share its bandwidth by taking turns."""

    def __init__(self, bytes_per_second: float, latency_seconds: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._latency_seconds = latency_seconds
        self._free_at_seconds = 0.0

    def take_seconds(self, size_bytes: int, now_seconds: float) -> float:
        """How long a transfer that begins now takes, its wait for those before it included."""
        begin = max(now_seconds, self._free_at_seconds)
        self._free_at_seconds = begin + size_bytes / self._bytes_per_second
        return self._free_at_seconds + self._latency_seconds - now_seconds
