"""The page and its JSON over HTTP. It answers reads alone, from memory: nothing here asks the cluster or a worker."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.staticfiles import StaticFiles

from tandem_autoscaler.dashboard import document
from tandem_autoscaler.dashboard.trail import Trail

_PAGE: Final = Path(__file__).parent / "page"
# Names and sentences come from the cluster and from engines. The page only ever writes them as text; should it fail to,
# the browser still runs and loads nothing but what this server gives.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# On the loopback interface, where `kubectl port-forward` arrives, a page from elsewhere could reach the dashboard
# under a name of its own that resolves to 127.0.0.1 (DNS rebinding). Such a name is not answered. "[" is what Starlette
# keeps of an address in IPv6, which is no name.
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]", "[")


def app(
    trail: Trail, *, leading: Callable[[], bool], clock: Callable[[], float], tick_seconds: float,
    gpu_budget: int | None = None, local_only: bool = True,
) -> FastAPI:  # fmt: skip
    """`clock`: the loop's own, seconds since the epoch. `local_only`: answer to this machine's own names alone."""
    web = FastAPI(title="Tandem", docs_url=None, redoc_url=None, openapi_url=None)
    web.add_middleware(GZipMiddleware, minimum_size=2000)
    if local_only:
        web.add_middleware(TrustedHostMiddleware, allowed_hosts=list(_LOCAL_HOSTS), www_redirect=False)

    @web.middleware("http")
    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await answer(request)
        response.headers.update(_HEADERS)
        # Files are asked for anew by their ETag, so that a new version shows at once.
        told = request.url.path.startswith("/api/")
        response.headers["Cache-Control"] = "no-store" if told else "no-cache"
        return response

    # Responses are made here: FastAPI's own encoder walks every value, which for 1,000 services takes a second.
    @web.get("/api/fleet")
    async def fleet() -> Response:
        return JSONResponse(
            document.fleet(
                trail,
                leading=leading(),
                now_seconds=clock(),
                tick_seconds=tick_seconds,
                gpu_budget=gpu_budget,
            )
        )

    @web.get("/api/fleet/{namespace}/{name}")
    async def service(namespace: str, name: str) -> Response:
        story = trail.stories.get((namespace, name))
        if story is None:
            return JSONResponse({"message": f"there is no service {namespace}/{name}"}, status_code=404)
        return JSONResponse(document.service(story, clock()))

    web.mount("/", StaticFiles(directory=_PAGE, html=True))
    return web
