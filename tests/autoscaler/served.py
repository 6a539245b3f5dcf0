"""What answers in place of a worker or a Prometheus, however badly."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Serve = Callable[[Answer], Awaitable[str]]


@asynccontextmanager
async def serving() -> AsyncIterator[Serve]:
    """Begins to serve, one address for each `Answer`. At the end nothing is left open: what is collected later is told
    as the fault of whichever test runs then."""
    servers: list[asyncio.Server] = []
    handled: list[tuple[asyncio.Task[None], asyncio.StreamWriter]] = []

    async def begin(answer: Answer) -> str:
        async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, asyncio.IncompleteReadError):
                await answer(reader, writer)
            writer.close()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            handled.append((asyncio.create_task(answered(reader, writer)), writer))

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    try:
        yield begin
    finally:
        for server in servers:
            server.close()
        for task, _ in handled:
            task.cancel()
        await asyncio.gather(*[task for task, _ in handled], return_exceptions=True)
        for _, writer in handled:
            # Not `close`: what its peer never reads would keep it open.
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
