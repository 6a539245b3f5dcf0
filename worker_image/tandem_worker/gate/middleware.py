"""The ASGI middleware itself: who may go in, and what becomes of whom when the worker stops."""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tandem_worker.gate import control
from tandem_worker.gate.admission import Admission, Arrival, ClientGone, EveryoneMayEnter
from tandem_worker.gate.asgi import App, Receive, Scope, Send
from tandem_worker.gate.body import RequestBody
from tandem_worker.gate.demotion import LateDemotion
from tandem_worker.gate.door import Door
from tandem_worker.gate.exchange import Exchange, PathKind
from tandem_worker.gate.measures import Held, Measures, Outcome, exposition, merge
from tandem_worker.gate.metrics_route import append_measures
from tandem_worker.gate.prompt_lengths import PromptLengths
from tandem_worker.gate.prompt_watch import PromptWatch
from tandem_worker.gate.refusal import ASLEEP, CLOSING, Refusal
from tandem_worker.gate.sigterm import SigtermWatch
from tandem_worker.gate.sleep import SleepWatch
from tandem_worker.gate.targets import DEFAULT_PATH, TargetsFile

logger = logging.getLogger("tandem.gate")

# /ready and /health_generate are SGLang's.
HEALTH_PATHS = frozenset({"/health", "/ping", "/ready", "/health_generate"})
# The readiness probe asks in this way (the operator's `build/worker_pod.py`): may the worker be sent requests? Without
# it a health path says whether the engine lives, and a sleeping one does: its container must not be restarted.
READINESS_QUERY = b"ready"
METRICS_PATHS = frozenset({"/metrics", "/metrics/"})
PATH_KINDS = {
    "/v1/completions": PathKind.ANSWER,
    "/v1/chat/completions": PathKind.ANSWER,
    "/v1/responses": PathKind.TIMED,
    "/v1/messages": PathKind.TIMED,
}
DEFAULT_SIGTERM_DEADLINE_SECONDS = 270.0
SIBLING_TIMEOUT_SECONDS = 0.5


class Gate:
    """`app` with a gate in front. vLLM makes it from `--middleware tandem_worker.gate.Gate`; for SGLang
    `tandem_worker.sglang_server` adds it.

    Environment: `TANDEM_PODINFO` (file of the pod's annotations), `TANDEM_GATE_DIRECTORY`,
    `TANDEM_SIGTERM_DEADLINE_SECONDS` (how long open requests may go on after SIGTERM), `TANDEM_LATE_DEMOTION`
    (1: hold requests in the order of late demotion, unless `admission` is given), `TANDEM_PROMPTS_ELSEWHERE` (1: a
    decode worker whose requests do not say that their prompts are computed by another).
    """

    def __init__(
        self, app: App, *, admission: Admission | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.app = app
        self.door = Door(clock)
        self.measures = Measures(TargetsFile(Path(os.environ.get("TANDEM_PODINFO", DEFAULT_PATH))))
        self._clock = clock
        self._sleep = SleepWatch(app)
        self._prompt_lengths = PromptLengths()
        self._prompts_elsewhere = os.environ.get("TANDEM_PROMPTS_ELSEWHERE") == "1"
        self._admission: Admission = admission or self._admission_wanted()
        self._control: control.Control | None = None
        self._sigterm: SigtermWatch | None = None
        self._running = False

    def _admission_wanted(self) -> Admission:
        if os.environ.get("TANDEM_LATE_DEMOTION") != "1":
            return EveryoneMayEnter()
        self.measures.held = Held()
        return LateDemotion(
            target_seconds=lambda: self.measures.ttft_target_seconds(self._clock()),
            tokens_of=self._prompt_lengths.tokens_of,
            held=self.measures.held,
            clock=self._clock,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._running:
            self._running = True
            await self._start()
        elif self._sigterm is not None:
            self._sigterm.arm()
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        else:  # lifespan: over when the server stops
            try:
                await self.app(scope, receive, send)
            finally:
                await self._stop()

    # --- requests -----------------------------------------------------------------------------------------
    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in METRICS_PATHS:
            await append_measures(self.app, scope, receive, send, self._exposition)
            return
        if path in HEALTH_PATHS:
            # A router or probe must see at once that no new request is wanted here.
            if not self.door.is_open:
                await _refuse(send, CLOSING)
            elif scope.get("query_string") == READINESS_QUERY and await self._sleep.is_asleep(scope):
                await _refuse(send, ASLEEP)
            else:
                await self.app(scope, receive, send)
            return
        # What does work is under /v1 or is a POST elsewhere (tokenize, score, invocations and the like).
        if not path.startswith("/v1/") and scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        if not self.door.is_open:
            self.measures.outcomes[Outcome.REJECTED] += 1
            await _refuse(send, CLOSING)
            return
        await self._through(scope, receive, send, PATH_KINDS.get(path, PathKind.OTHER))

    async def _through(self, scope: Scope, receive: Receive, send: Send, path: PathKind) -> None:
        at_seconds = self._clock()
        watch = PromptWatch(
            self.measures, self._prompt_lengths, self._clock, elsewhere=self._prompts_elsewhere
        )
        exchange = Exchange(receive, send, self.measures, self._clock, path, watch.computed)
        self._enter(exchange)
        inside = False
        failure: BaseException | None = None
        try:
            body: RequestBody | None = None
            if path is not PathKind.OTHER:
                body = watch.body = RequestBody(exchange.receive)
                if self._admission.reads_prompts:
                    await body.read_ahead()
                    if body.client_gone:
                        return
            arrival = _arrival(scope, at_seconds, path, body if self._admission.reads_prompts else None)
            refusal = await self._admission.enter(arrival)
            if refusal is not None:
                await exchange.refuse(refusal)
                return
            inside = True
            watch.entered()
            watch.on_computed = lambda: self._admission.prompt_computed(arrival)
            await self.app(scope, exchange.receive if body is None else body.receive, exchange.send)
        except ClientGone:
            return
        except asyncio.CancelledError as cancelled:
            failure = cancelled
            task = asyncio.current_task()
            if not exchange.was_cut or task is None:
                raise
            while task.cancelling():
                task.uncancel()
        except BaseException as error:
            failure = error
            if not exchange.was_cut or not isinstance(error, Exception):
                raise
        finally:
            try:
                await exchange.finish(failure)
            finally:
                if inside:
                    watch.ended(exchange.prompt_tokens, served=exchange.outcome is Outcome.OK)
                    self._admission.leave(arrival)
                self.measures.outcomes[exchange.outcome or Outcome.ERROR] += 1
                self._leave(exchange)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.door.is_open:
            self.measures.outcomes[Outcome.REJECTED] += 1
            await send({"type": "websocket.close", "code": 1013})  # "try again later"
            return
        session = _Session()
        self._enter(session)
        outcome = Outcome.ERROR
        try:
            await self.app(scope, receive, send)
            outcome = Outcome.OK
        except asyncio.CancelledError:
            outcome = Outcome.ABORTED
            if not session.was_cut or session.task is None:
                raise
            session.task.uncancel()
            await send({"type": "websocket.close", "code": 1012})  # "service restart"
        finally:
            self.measures.outcomes[outcome] += 1
            self._leave(session)

    def _enter(self, guest: "Exchange | _Session") -> None:
        self.door.guests.add(guest)
        self.measures.in_flight = len(self.door.guests)

    def _leave(self, guest: "Exchange | _Session") -> None:
        self.door.guests.discard(guest)
        self.measures.in_flight = len(self.door.guests)

    # --- from inside the pod ------------------------------------------------------------------------------
    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = _sigterm_deadline_seconds()

        def told_to_stop() -> None:
            self.door.shut()
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.door.close, deadline)

        self._sigterm = SigtermWatch(told_to_stop)
        if not self._sigterm.arm():
            self._sigterm = None
            logger.info(
                "not in the main thread: SIGTERM is not seen, only `tandem-worker close` closes the gate"
            )
        self._control = control.Control(self._answer, control.directory())
        try:
            await self._control.start()
        except OSError as error:
            # The engine is worth more than the gate's control: SIGTERM still closes it.
            logger.error("no control socket, `tandem-worker close` will not work: %s", error)
            self._control = None

    async def _stop(self) -> None:
        if self._control is not None:
            await self._control.stop()

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if question["do"] == "close":
            self.door.close(float(question["within_seconds"]))
        elif question["do"] == "measures":
            return self.measures.snapshot(self._clock(), gate_open=self.door.is_open)
        elif question["do"] != "status":
            raise ValueError(f"unknown request {question['do']!r}")
        return {
            "state": self.door.state,
            "in_flight": len(self.door.guests),
            "deadline_in_seconds": self.door.remaining_seconds(),
            "pid": os.getpid(),
        }

    async def _exposition(self, engine_metrics: bytes) -> bytes:
        """This process's measures and those of the engine's other API processes, as one."""
        snapshot = self.measures.snapshot(self._clock(), gate_open=self.door.is_open)
        own = self._control.path if self._control is not None else None
        siblings = [path for path in control.sockets(control.directory()) if path != own] if own else []
        if not siblings:  # the engine's counters are those of all processes, our bytes only our own
            self._prompt_lengths.scraped(engine_metrics)
        for path in siblings:
            try:
                other = await control.ask_sibling(
                    path, {"do": "measures"}, timeout_seconds=SIBLING_TIMEOUT_SECONDS
                )
                snapshot = merge(snapshot, other)
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)  # left behind by a process that was killed
            except (OSError, KeyError):
                continue
        return exposition(snapshot)


class _Session:
    """A websocket inside."""

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        self.was_cut = False

    def cut(self) -> None:
        self.was_cut = True
        if self.task is not None:
            self.task.cancel()


def _arrival(scope: Scope, at_seconds: float, path: PathKind, body: RequestBody | None) -> Arrival:
    prompt = body.prompt() if body is not None else None
    return Arrival(
        scope["path"],
        at_seconds,
        scope["headers"],
        generates=path is not PathKind.OTHER,
        # What counts as content on the other paths is not known for sure.
        shows_first_token=path is PathKind.ANSWER
        and prompt is not None
        and (prompt.streams or prompt.one_token),
        prompt=prompt,
        until_gone=body.until_gone if body is not None else None,
    )


async def _refuse(send: Send, refusal: Refusal) -> None:
    for message in refusal.messages():
        await send(message)


def _sigterm_deadline_seconds() -> float:
    value = os.environ.get("TANDEM_SIGTERM_DEADLINE_SECONDS", "")
    try:
        return float(value) if value else DEFAULT_SIGTERM_DEADLINE_SECONDS
    except ValueError:
        logger.error("TANDEM_SIGTERM_DEADLINE_SECONDS=%r is not a number", value)
        return DEFAULT_SIGTERM_DEADLINE_SECONDS
