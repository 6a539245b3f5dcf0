"""`Fleet`: prefill and decode workers under the requests of a trace, advanced from event to event."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator import core, exported
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.state import State, empty_state, with_slots
from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.view import FleetView, RoleView

ROLES = {"prefill": core.PREFILL, "decode": core.DECODE}
ROUTERS = {
    "least_work": core.LEAST_WORK,  # least prefill seconds outstanding, least KV tokens held
    "power_of_two": core.POWER_OF_TWO,  # two at random, fewer requests in flight (vllm-router's)
    "round_robin": core.ROUND_ROBIN,
    "random": core.RANDOM,
}
# How many workers the first ones have served before the trace begins: they are no young pods any more.
_SETTLED_SECONDS = 600.0
# From the end of the KV transfer to the first token a request waits for the iteration under way and for its own. Late
# demotion counts on so many times the TPOT target for it.
_ITERATIONS_TO_FIRST_TOKEN = 1.5
_REVERSAL_SECONDS = 600.0


@dataclass(frozen=True)
class FleetSettings:
    """How the fleet is run. Times in seconds.

    `cold_start_cv`: spread of the log-normal cold start. `late_demotion`: the prefill workers' gates hold a request
    back that would be late, and the longest before it (ALGORITHM 7c); such a request is served when nothing else
    waits or after `late_age_cap_seconds`. `prefill_model_error` e: it predicts (1 + e) S. `flips`: when one role grows
    and the other shrinks in the same call, workers change over: they drain and are ready `flip_seconds` later.
    `undrain`: a draining worker is taken back before a new one is started.
    """

    ttft_seconds: float
    tpot_seconds: float
    cold_start_seconds: float = 40.0
    cold_start_cv: float = 0.2
    router: str = "least_work"
    late_demotion: bool = False
    late_age_cap_seconds: float = 30.0
    flips: bool = False
    flip_seconds: float = 2.0
    undrain: bool = False
    seed: int = 1
    prefill_model_error: float = 0.0
    max_workers: int = 1000  # per role

    def __post_init__(self) -> None:
        if self.router not in ROUTERS:
            raise ValueError(f"router {self.router!r} is none of {', '.join(ROUTERS)}")


@dataclass
class Counts:
    """What was done to the fleet."""

    actions: int = 0  # changes of a target
    reversals: int = 0  # of those, against the same role's previous one within ten minutes
    starts: int = 0
    flips: int = 0
    undrains: int = 0


class Fleet:
    """`prefill` and `decode` workers are ready when the trace begins."""

    def __init__(
        self, trace: Trace, hardware: Hardware, settings: FleetSettings, prefill: int, decode: int
    ) -> None:
        self.trace, self.hardware, self.settings = trace, hardware, settings
        self.counts = Counts()
        empty = empty_state(
            trace, hardware, exported.edges(settings.ttft_seconds, settings.tpot_seconds),
            ttft_seconds=settings.ttft_seconds,
            after_prefill_seconds=_ITERATIONS_TO_FIRST_TOKEN * settings.tpot_seconds,
            prefill_model_error=settings.prefill_model_error,
            seed=settings.seed,
        )  # fmt: skip
        self.state: State = with_slots(empty, max(16, 2 * (prefill + decode)))
        fleet = self.state.fleet
        fleet["router"], fleet["late_demotion"] = ROUTERS[settings.router], settings.late_demotion
        fleet["late_age_cap"], fleet["flip_seconds"] = settings.late_age_cap_seconds, settings.flip_seconds
        self.silent = False  # measurements do not come through
        self._random = np.random.default_rng(settings.seed)
        self._targets = [prefill, decode]
        self._changed: list[tuple[float, int]] = [(-math.inf, 0), (-math.inf, 0)]  # when, direction
        self._told_first = self._told_finished = 0
        for role, count in ((core.PREFILL, prefill), (core.DECODE, decode)):
            for _ in range(count):
                created = -_SETTLED_SECONDS - settings.cold_start_seconds
                self._start_at(role, created, -_SETTLED_SECONDS)
        self._settle()

    # --- time -------------------------------------------------------------------------------------------------
    @property
    def now_seconds(self) -> float:
        return float(self.state.fleet["now"][0])

    @property
    def exporting(self) -> bool:
        """Do workers fill the histograms that they export? Unless told otherwise; nothing else depends on it."""
        return bool(self.state.fleet["exporting"][0])

    @exporting.setter
    def exporting(self, on: bool) -> None:
        self.state.fleet["exporting"] = on

    @property
    def done(self) -> bool:
        """The trace is over, and every request has ended."""
        fleet = self.state.fleet[0]
        ended = int(fleet["finished"]) + int(fleet["failed"]) == len(self.trace)
        return ended and self.now_seconds >= self.trace.duration_seconds

    def advance(self, until_seconds: float) -> None:
        """Let time pass. Time that does not advance changes nothing."""
        core.advance(self.state, float(until_seconds))

    # --- targets ----------------------------------------------------------------------------------------------
    @property
    def targets(self) -> tuple[int, int]:
        """(prefill, decode) as asked for."""
        return self._targets[0], self._targets[1]

    def set_targets(self, prefill: int | None = None, decode: int | None = None) -> None:
        """Ask for so many workers; None leaves a role as it is.

        A role grows by taking back draining workers (the fullest first), by flips out of the other role's surplus,
        and by new ones. It shrinks by those that are not ready yet (the newest first; they vanish), then by the
        least loaded ready ones, which take nothing new and go when they are empty.
        """
        before = list(self._targets)
        for role, wanted in ((core.PREFILL, prefill), (core.DECODE, decode)):
            if wanted is not None:
                self._targets[role] = max(0, min(int(wanted), self.settings.max_workers))
                self._note(role, self._targets[role] - before[role])
        if self._targets == before:
            return
        for role in (core.PREFILL, core.DECODE):
            self._grow(role)
        for role in (core.PREFILL, core.DECODE):
            self._shrink(role)
        self._settle()

    def _settle(self) -> None:
        """Draw the consequences of what was done to single workers."""
        core.advance(self.state, self.now_seconds)

    def _note(self, role: int, change: int) -> None:
        if change == 0:
            return
        direction = 1 if change > 0 else -1
        at, previous = self._changed[role]
        self.counts.actions += 1
        self.counts.reversals += previous == -direction and self.now_seconds - at <= _REVERSAL_SECONDS
        self._changed[role] = (self.now_seconds, direction)

    def _members(self, role: int) -> NDArray[np.int64]:
        """Slots of those that count for the target: ready, starting, or on their way here by a flip."""
        workers = self.state.workers
        phase = workers["phase"]
        here = (workers["role"] == role) & ((phase == core.READY) | (phase == core.STARTING))
        return np.flatnonzero(here | self._flipping_to(role))

    def _flipping_to(self, role: int) -> NDArray[np.bool_]:
        workers = self.state.workers
        return np.asarray((workers["phase"] == core.DRAINING) & (workers["flip_to"] == role))

    def _in_phase(self, role: int, phase: int) -> NDArray[np.int64]:
        workers = self.state.workers
        return np.flatnonzero((workers["role"] == role) & (workers["phase"] == phase))

    def _in_flight(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Requests at each of these workers."""
        return np.asarray(self.state.workers["running"][slots] + self._queued(slots))

    def _queued(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        lengths = self.state.queues[:, 2]
        low = np.where(self.state.workers["role"][slots] == core.PREFILL, lengths[3 + 2 * slots], 0)
        return np.asarray(lengths[2 + 2 * slots] + low)

    def _grow(self, role: int) -> None:
        lacking = self._targets[role] - len(self._members(role))
        if lacking > 0 and self.settings.undrain:
            workers = self.state.workers
            slots = self._in_phase(role, core.DRAINING)
            slots = slots[workers["flip_to"][slots] < 0]
            fullest = np.lexsort((workers["uid"][slots], -self._in_flight(slots)))[:lacking]
            for slot in slots[fullest]:
                core.undrain(self.state, slot)
            self.counts.undrains += len(fullest)
            lacking -= len(fullest)
        if lacking > 0 and self.settings.flips:
            other = 1 - role
            surplus = len(self._members(other)) - self._targets[other]
            # The last ready one stays: a role without any serves nobody.
            movable = min(lacking, surplus, len(self._in_phase(other, core.READY)) - 1)
            for _ in range(movable):
                core.release(self.state, self._least_loaded(other), role)
                self.counts.flips += 1
                lacking -= 1
        for _ in range(lacking):
            self._start(role)

    def _shrink(self, role: int) -> None:
        workers = self.state.workers
        for _ in range(len(self._members(role)) - self._targets[role]):
            members = self._members(role)
            coming = members[(workers["phase"][members] != core.READY)]
            if not len(coming):
                core.release(self.state, self._least_loaded(role), -1)
                continue
            newest = coming[np.argmax(workers["uid"][coming])]
            if workers["phase"][newest] == core.STARTING:
                core.release(self.state, newest, -1)
            else:
                workers["flip_to"][newest] = -1  # it drains already; then it goes

    def _least_loaded(self, role: int) -> int:
        """The ready worker with the fewest requests; of equals, the newest."""
        slots = self._in_phase(role, core.READY)
        return int(slots[np.lexsort((-self.state.workers["uid"][slots], self._in_flight(slots)))[0]])

    def _start(self, role: int) -> None:
        self._start_at(role, self.now_seconds, self.now_seconds + self._cold_start())
        self.counts.starts += 1

    def _start_at(self, role: int, created: float, ready_at: float) -> None:
        slot = self._free_slot()  # may replace the state
        core.start(self.state, slot, role, created, ready_at)

    def _cold_start(self) -> float:
        """Seconds, log-normal with the mean and the coefficient of variation of the settings."""
        mean, cv = self.settings.cold_start_seconds, self.settings.cold_start_cv
        if mean <= 0.0:
            return 0.0
        variance = math.log(1.0 + cv * cv)
        return float(self._random.lognormal(math.log(mean) - variance / 2.0, math.sqrt(variance)))

    def _free_slot(self) -> int:
        free = np.flatnonzero(self.state.workers["phase"] == core.ABSENT)
        if not len(free):
            slots = len(self.state.workers)
            self.state = with_slots(self.state, slots)
            return slots
        return int(free[0])

    # --- faults -----------------------------------------------------------------------------------------------
    def crash(self, role: str, index: int) -> None:
        """The `index`-th ready worker of "prefill" or "decode" is lost with all its requests, and replaced.

        Raises IndexError when there is none.
        """
        self._crash(int(self._in_phase(ROLES[role], core.READY)[index]))
        self._settle()

    def lose_node(self, share: float) -> None:
        """So large a share of all workers, chosen at random and one at least, crashes at once."""
        present = np.flatnonzero(self.state.workers["phase"] != core.ABSENT)
        lost = min(len(present), max(1, round(share * len(present))))
        for slot in self._random.choice(present, lost, replace=False):
            self._crash(int(slot))
        self._settle()

    def _crash(self, slot: int) -> None:
        worker = self.state.workers[slot]
        phase, role, flip_to = int(worker["phase"]), int(worker["role"]), int(worker["flip_to"])
        core.crash(self.state, slot)
        if phase in (core.READY, core.STARTING):
            self._start(role)
        elif flip_to >= 0:
            self._start(flip_to)

    # --- looking ----------------------------------------------------------------------------------------------
    def view(self) -> FleetView:
        """The fleet now; tails and finished requests are those since the last view."""
        state, fleet = self.state, self.state.fleet[0]
        firsts = state.log[0, self._told_first : int(fleet["first_tokens"])]
        ended = state.log[1, self._told_finished : int(fleet["finished"])]
        self._told_first, self._told_finished = int(fleet["first_tokens"]), int(fleet["finished"])
        requests = state.requests
        output = requests["output"][ended]
        spans = requests["finished"][ended] - requests["first"][ended]
        arrived = int(fleet["arrived"])
        at_decode = np.flatnonzero(
            (state.workers["role"] == core.DECODE) & (state.workers["phase"] != core.ABSENT)
        )
        return FleetView(
            now_seconds=float(fleet["now"]),
            prefill=self._role_view(core.PREFILL),
            decode=self._role_view(core.DECODE),
            arrived=arrived,
            prefilled=int(fleet["prefilled"]),
            finished=int(fleet["finished"]),
            prompt_tokens_arrived=float(fleet["prompt_tokens_arrived"]),
            prompt_tokens_prefilled=float(fleet["prompt_tokens_prefilled"]),
            output_tokens_made=float(fleet["output_tokens"]),
            preemptions=int(fleet["preemptions"]),
            router_waiting=int(state.queues[core.PREFILL, 2]),
            decode_waiting=int(state.queues[core.DECODE, 2] + self._queued(at_decode).sum()),
            new_ttft_seconds=requests["first"][firsts] - requests["arrival"][firsts],
            new_tpot_seconds=np.where(output > 1, spans / np.maximum(output - 1, 1), 0.0),
            arrival=self.trace.arrival[:arrived],
            prompt=self.trace.prompt[:arrived],
            new_finished_prompt=requests["prompt"][ended],
            new_finished_output=output,
        )

    def _role_view(self, role: int) -> RoleView:
        workers = self.state.workers
        slots = self._in_phase(role, core.READY)
        return RoleView(
            target=self._targets[role],
            ready=len(slots),
            starting=len(self._in_phase(role, core.STARTING)),
            draining=len(self._in_phase(role, core.DRAINING)),
            running=workers["running"][slots].astype(float),
            waiting=self._queued(slots).astype(float),
            waiting_tokens=workers["waiting_tokens"][slots],
            kv_usage=np.minimum(1.0, workers["kv"][slots] / self.hardware.kv_tokens),
        )

    def census(self) -> tuple[int, ...]:
        """(target, ready, starting, draining) of prefill, then of decode."""
        workers = self.state.workers
        table = np.bincount(4 * workers["role"] + workers["phase"], minlength=8)
        return tuple(
            int(number)
            for role in (core.PREFILL, core.DECODE)
            for number in (
                self._targets[role],
                *(table[4 * role + phase] for phase in (core.READY, core.STARTING, core.DRAINING)),
            )
        )

    def gpu_seconds(self) -> tuple[float, float]:
        """(prefill, decode) so far: starting, ready and draining, between the warm-up and the trace's end."""
        workers, fleet = self.state.workers, self.state.fleet[0]
        begin = np.maximum(workers["role_since"], fleet["count_from"])
        lived = np.maximum(0.0, min(float(fleet["now"]), float(fleet["count_to"])) - begin)
        present = workers["phase"] != core.ABSENT
        totals = [
            float(fleet["worker_seconds"][role] + lived[present & (workers["role"] == role)].sum())
            for role in (core.PREFILL, core.DECODE)
        ]
        return totals[0] * self.hardware.gpus, totals[1] * self.hardware.gpus
