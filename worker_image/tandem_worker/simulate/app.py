"""The routes of the simulated engine: those of vLLM that clients, routers and scrapers use."""

import asyncio
import json
import random
import re
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, make_asgi_app
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Mount

from tandem_worker.launch import SGLANG, VLLM
from tandem_worker.sglang_flags import DEFAULT_BOOTSTRAP_PORT
from tandem_worker.simulate import answers
from tandem_worker.simulate.engine import Engine, QueueFull, Ticket
from tandem_worker.simulate.protocol import Ask, ChatAsk, CompletionAsk, prompt_length_tokens
from tandem_worker.simulate.scheduler import Sequence
from tandem_worker.simulate.stream import TokenStream, until_disconnect
from tandem_worker.simulate.transfer import Remote

VERSION = "0.32.0"  # the vLLM whose API and series these are
# How long SGLang's decoder waits for its prefiller (SGLANG_DISAGGREGATION_WAITING_TIMEOUT).
BOOTSTRAP_PATIENCE_SECONDS = 300.0


@dataclass(frozen=True)
class Identity:
    """What the engine says of itself. `side_channel` is (host, port to listen on), None without KV transfer."""

    model: str
    served_names: tuple[str, ...]
    max_model_len: int
    side_channel: tuple[str, int] | None = None
    engine: str = VLLM
    phase: str | None = None  # SGLang: "prefill" or "decode" where it does one of them


def room_id(ask: Ask) -> str:
    """Under which the KV of SGLang's request is held."""
    return f"room-{ask.bootstrap_room}"


class Refused(Exception):
    """A request that is answered with an error; nothing of it reaches the engine."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = answers.error(status, message, kind, param)


def build_app(engine: Engine, identity: Identity) -> FastAPI:
    """The ASGI app; the engine steps while the app is up (lifespan)."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if identity.side_channel is not None:
            await engine.holdings.serve(*identity.side_channel)
        stepping = asyncio.get_running_loop().create_task(engine.run())
        try:
            yield
        finally:
            engine.abort_all()
            stepping.cancel()
            await engine.holdings.stop()

    app = FastAPI(lifespan=lifespan, openapi_url=None)
    desk = Desk(engine, identity)

    @app.post("/v1/completions")
    async def completions(ask: CompletionAsk, request: Request) -> Response:
        return await desk.serve(ask, request)

    @app.post("/v1/chat/completions")
    async def chat(ask: ChatAsk, request: Request) -> Response:
        return await desk.serve(ask, request)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [desk.card(name) for name in identity.served_names]}

    @app.get("/health")
    @app.get("/ping")
    async def health() -> Response:
        return Response(status_code=200)

    if identity.engine == SGLANG:
        _add_sglang_routes(app, engine, identity)

    @app.get("/version")
    async def version() -> dict[str, str]:
        return {"version": VERSION}

    @app.exception_handler(Refused)
    async def refused(_: Request, refusal: Refused) -> JSONResponse:
        return JSONResponse(refusal.body, refusal.status)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, failure: RequestValidationError) -> JSONResponse:
        first = failure.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return JSONResponse(answers.error(400, f"{where}: {first['msg']}", "Bad Request", where), 400)

    registry = CollectorRegistry()
    registry.register(engine.metrics)
    metrics = Mount("/metrics", make_asgi_app(registry=registry))
    metrics.path_regex = re.compile("^/metrics(?P<path>.*)$")  # no redirect to /metrics/, as in vLLM
    app.routes.append(metrics)
    return app


def _add_sglang_routes(app: FastAPI, engine: Engine, identity: Identity) -> None:
    """What routers and probes ask of SGLang beside the OpenAI API."""

    @app.get("/ready")
    @app.get("/health_generate")
    async def ready() -> Response:
        return Response(status_code=503 if engine.stopping else 200)

    @app.get("/model_info")
    @app.get("/get_model_info")
    async def model_info() -> dict[str, Any]:
        return {"model_path": identity.model, "tokenizer_path": identity.model, "is_generation": True}

    @app.get("/server_info")
    @app.get("/get_server_info")
    async def server_info() -> dict[str, Any]:
        return {
            "model_path": identity.model,
            "served_model_name": identity.served_names[0],
            "disaggregation_mode": identity.phase or "null",
        }


class Desk:
    """Turns a client's ask into a request of the engine, and its tokens into an answer."""

    def __init__(self, engine: Engine, identity: Identity) -> None:
        self._engine = engine
        self._identity = identity

    def card(self, name: str) -> dict[str, Any]:
        """An entry of /v1/models."""
        return {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": self._identity.engine,
            "root": self._identity.model,
            "parent": None,
            "max_model_len": self._identity.max_model_len,
        }

    async def serve(self, ask: CompletionAsk | ChatAsk, request: Request) -> Response:
        ticket = self._ticket(ask)
        # HTTP, tokenizer and scheduling of the real engine, beyond what our own takes.
        await asyncio.sleep(self._engine.profile.request_seconds)
        try:
            self._engine.submit(ticket)
        except QueueFull:
            raise Refused(503, "The request queue is full.", "ServiceUnavailableError") from None
        voice = answers.Voice(
            chat=isinstance(ask, ChatAsk),
            request_id=ticket.request_id,
            created=int(time.time()),
            model=self._identity.served_names[0],
        )
        if ask.stream:
            return TokenStream(self._engine, ticket, voice, ask.stream_options)
        return await self._whole(ticket, voice, request)

    def _ticket(self, ask: CompletionAsk | ChatAsk) -> Ticket:
        identity, profile = self._identity, self._engine.profile
        names = identity.served_names
        if ask.model is not None and ask.model not in names:
            known = ", ".join(names)
            message = f"The model `{ask.model}` does not exist. Valid aliases: {known}."
            raise Refused(404, message, "NotFoundError", "model")
        try:
            prompt_tokens = prompt_length_tokens(ask, profile.characters_per_token)
            remote = self._remote(ask) if identity.phase is None else self._bootstrap(ask)
        except ValueError as error:
            raise Refused(400, str(error), "BadRequestError") from None
        if remote is not None and remote.tokens:
            prompt_tokens = remote.tokens  # the prefiller counted it
        room = identity.max_model_len - prompt_tokens
        if room < 1:
            raise Refused(
                400,
                f"This model's maximum context length is {identity.max_model_len} tokens. However, your request has "
                f"{prompt_tokens} input tokens. Please reduce the length of the input messages.",
                "BadRequestError",
                "input_tokens",
            )
        limit = ask.limit()
        if limit is not None and limit > room:
            raise Refused(
                400,
                f"max_tokens={limit} and {prompt_tokens} input tokens exceed max_model_len={identity.max_model_len}. "
                "Please request fewer output tokens.",
                "BadRequestError",
                "max_tokens",
            )
        output_tokens, natural_end = self._output_length(ask, limit, room)
        kind = "chatcmpl" if isinstance(ask, ChatAsk) else "cmpl"
        request_id = f"{kind}-{uuid.uuid4().hex[:16]}"
        if identity.phase == "prefill":
            # The rest is the decoder's, which asks for it by the number of the room.
            output_tokens, natural_end, request_id = 1, False, room_id(ask)
        return Ticket(
            request_id=request_id,
            sequence=Sequence(prompt_tokens, output_tokens, time.monotonic()),
            max_tokens=limit or room,
            natural_end=natural_end,
            remote=remote,
            hold_kv=identity.phase == "prefill"
            or (
                bool((ask.kv_transfer_params or {}).get("do_remote_decode"))
                and identity.side_channel is not None
            ),
        )

    def _output_length(self, ask: Ask, limit: int | None, room: int) -> tuple[int, bool]:
        """How long the answer will be, and whether it ends by itself.

        A limit is used up (load generators mean it so); without one the length is drawn, with the
        profile's mean.
        """
        if limit is not None:
            return limit, False
        if ask.ignore_eos:
            return room, False
        drawn = round(random.Random(ask.seed).expovariate(1 / self._engine.profile.mean_output_tokens))
        length = max(1, ask.min_tokens, drawn)
        return (length, True) if length < room else (room, False)

    def _remote(self, ask: Ask) -> Remote | None:
        params = ask.kv_transfer_params
        if not params or not params.get("do_remote_prefill"):
            return None
        if self._identity.side_channel is None:
            raise ValueError("kv_transfer_params: this engine has no KV connector (--kv-transfer-config)")
        return Remote.parse(params)

    def _bootstrap(self, ask: Ask) -> Remote | None:
        """Where the two legs of SGLang meet; None for the prefiller, which is that place."""
        if ask.bootstrap_room is None or not ask.bootstrap_host:
            raise ValueError("Disaggregated request received without bootstrap room id.")
        if self._identity.phase == "prefill":
            return None
        port = ask.bootstrap_port or DEFAULT_BOOTSTRAP_PORT
        return Remote(ask.bootstrap_host, port, room_id(ask), 0, BOOTSTRAP_PATIENCE_SECONDS)

    def _hand_over(self, ticket: Ticket) -> dict[str, Any] | None:
        """What the router carries to the decode leg (NIXL's pull scheduler, `request_finished`)."""
        if not ticket.hold_kv or self._identity.side_channel is None or self._identity.engine == SGLANG:
            return None
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [list(range(ticket.sequence.blocks))],
            "remote_engine_id": self._identity.model,
            "remote_request_id": ticket.request_id,
            "remote_host": self._identity.side_channel[0],
            "remote_port": self._engine.holdings.port,
            "tp_size": 1,
            "remote_num_tokens": ticket.sequence.prompt_tokens,
        }

    async def _whole(self, ticket: Ticket, voice: answers.Voice, request: Request) -> Response:
        engine = self._engine
        async with until_disconnect(request.receive, lambda: engine.abort(ticket)):
            while await ticket.tokens():
                pass
        if ticket.error is not None:
            raise Refused(500, ticket.error, "InternalServerError")
        if ticket.finish_reason == "abort" and await request.is_disconnected():
            raise ClientDisconnect
        tokens = answers.usage(ticket.sequence.prompt_tokens, ticket.sequence.generated_tokens)
        assert ticket.finish_reason is not None
        body = voice.whole(
            ticket.sequence.generated_tokens, ticket.finish_reason, tokens, self._hand_over(ticket)
        )
        return Response(json.dumps(body, separators=(",", ":")), media_type="application/json")
