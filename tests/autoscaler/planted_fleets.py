"""Simulated fleets with one planted bottleneck each, what the autoscaler sees of them, and what a fix does to them.

The workers' times are those of the catalogue (measured sweeps and the latency grid), also for the workers that a fix
asks for: what fp8, another GPU or more of them do is not taken from the formulas that predict it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from functools import cache
from typing import Any

import numpy as np

from tandem_api.sizing import GPUS, MODELS
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState, fresh_state
from tandem_autoscaler.diagnose.bottleneck import Bottleneck
from tandem_autoscaler.diagnose.diagnosis import Diagnosis, diagnose
from tandem_autoscaler.diagnose.facts import Facts, look
from tandem_autoscaler.diagnose.fixes import Fix, Kind
from tandem_autoscaler.diagnose.machine import Machine
from tandem_autoscaler.simulator.catalogue import catalogue, hardware
from tandem_autoscaler.simulator.fleet import Fleet, FleetSettings
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.readings import Readings, service_of
from tandem_autoscaler.simulator.run import simulate
from tandem_autoscaler.simulator.trace import Trace

SECONDS, WARM_UP = 300.0, 60.0
TICK = 5.0
Lengths = Callable[[np.random.Generator, int], np.ndarray]


def lengths(mean: float, cv: float = 0.5) -> Lengths:
    """Log-normal."""
    variance = np.log(1 + cv * cv)
    return lambda random, n: np.maximum(
        1, np.rint(random.lognormal(np.log(mean) - variance / 2, np.sqrt(variance), n))
    )


def mixed(short: float, long: float, share: float) -> Lengths:
    """Mostly short ones."""
    return lambda random, n: np.where(random.random(n) < share, long, short).astype(float)


@dataclass(frozen=True)
class Planted:
    """`grows`: (seconds, prefill, decode), targets that are ordered then. `rate` may step at some moment."""

    truth: Bottleneck
    worker: str
    prefill: int
    decode: int
    rate: float
    prompt: Lengths
    output: Lengths
    ttft: float = 1.0
    tpot: float = 0.04
    router: str = "power_of_two"
    late_demotion: bool = False
    max_sequences: int = 256
    step: tuple[float, float] | None = None  # (seconds, rate from then on)
    grows: tuple[float, int, int] | None = None
    cold_start: float = 40.0
    look_at: float = 200.0
    kv_dtype: str = "auto"
    seed: int = 7

    def trace(self) -> Trace:
        random = np.random.default_rng(self.seed)
        parts = [(0.0, SECONDS, self.rate)]
        if self.step is not None:
            parts = [(0.0, self.step[0], self.rate), (self.step[0], SECONDS, self.step[1])]
        arrival = np.concatenate(
            [np.sort(random.uniform(a, b, random.poisson((b - a) * rate))) for a, b, rate in parts]
        )
        return Trace(
            "planted", arrival, self.prompt(random, len(arrival)), self.output(random, len(arrival)), SECONDS, WARM_UP
        )  # fmt: skip

    def hardware(self) -> Hardware:
        found = replace(hardware(self.worker), max_sequences=self.max_sequences)
        return small_kv(found) if self.kv_dtype == "fp8" else found

    def settings(self) -> FleetSettings:
        return FleetSettings(
            self.ttft, self.tpot, cold_start_seconds=self.cold_start, cold_start_cv=0.0, router=self.router,
            late_demotion=self.late_demotion, seed=3,
        )  # fmt: skip

    @property
    def machine(self) -> Machine:
        gpu, model, precision, tp = parsed(self.worker)
        shape = {"llama-70b": "llama-3.1-70b", "llama-8b": "llama-3.1-8b"}.get(model, model)
        return Machine(
            MODELS[shape].architecture, GPUS[gpu.upper()], tp, "fp8" if precision else "none", self.kv_dtype
        )


def parsed(worker: str) -> tuple[str, str, str, int]:
    """(gpu, model, "-fp8" or nothing, GPUs) of a name of the catalogue."""
    found = re.fullmatch(r"([a-z0-9]+)-(.+?)(-fp8)?(?:-tp(\d))?(-grid)?", worker)
    assert found is not None
    return found[1], found[2], found[3] or "", int(found[4] or 1)


def small_kv(found: Hardware) -> Hardware:
    """With a KV cache of one byte per number: twice the tokens, half to read."""
    d0, d1, d2 = found.decode
    return replace(found, kv_tokens=2 * found.kv_tokens, decode=(d0, d1, d2 / 2))


class Watching:
    """The autoscaler's eyes on a fleet that is not sized by it."""

    name, tick_seconds = "watching", TICK

    def __init__(self, planted: Planted) -> None:
        self.planted = planted
        self.facts: Facts | None = None
        self._settings = Settings(reaction_seconds=2 * TICK)
        self._readings: Readings | None = None
        self._state: ServiceState | None = None

    def step(self, fleet: Fleet) -> Targets:
        if self._readings is None:
            service = replace(service_of(fleet), cold_start_seconds=self.planted.cold_start)
            self._readings = Readings(fleet, service)
        service, snapshot = self._readings.read()
        if self._state is None:
            self._state = fresh_state(service, snapshot.taken_at_seconds, self._settings)
        self._state, _ = decide(self._state, service, snapshot, self._settings)
        if fleet.now_seconds >= self.planted.look_at and self.facts is None:
            machines = dict.fromkeys(service.pools, self.planted.machine)
            self.facts = look(self._state, service, snapshot, self._settings, machines)
        grows = self.planted.grows
        if grows is not None and fleet.now_seconds >= grows[0]:
            return Targets(grows[1], grows[2])
        return Targets()


@dataclass(frozen=True)
class Seen:
    """`in_time`: share of the requests that kept both promises, of all that came after the warm-up."""

    in_time: float
    facts: Facts


@cache
def run(planted: Planted) -> Seen:
    watching = Watching(planted)
    result = simulate(
        planted.trace(), planted.hardware(), planted.settings(), watching, planted.prefill, planted.decode
    )
    assert watching.facts is not None
    return Seen(result.attainment.all_joint, watching.facts)


def diagnosis(planted: Planted) -> Diagnosis:
    return diagnose(run(planted).facts)


@dataclass(frozen=True)
class Changed(Planted):
    """With workers of its own for each role."""

    prefill_hardware: Hardware | None = None
    decode_hardware: Hardware | None = None

    def hardware(self) -> Hardware:
        base = super().hardware()
        if self.prefill_hardware is not None:
            base = replace(base, prefill=self.prefill_hardware.prefill)
        if self.decode_hardware is not None:
            base = replace(base, decode=self.decode_hardware.decode, kv_tokens=self.decode_hardware.kv_tokens)
        return base


def fixed(planted: Planted, fix: Fix) -> Planted | None:
    """The fleet after the fix; None where the simulator cannot tell."""
    match fix.kind:
        case Kind.MORE_PREFILL:
            return replace(planted, prefill=fix.replicas or planted.prefill, grows=None)
        case Kind.MORE_DECODE:
            return replace(planted, decode=fix.replicas or planted.decode, grows=None)
        case Kind.READY_BEFOREHAND:
            assert planted.grows is not None
            return replace(planted, prefill=planted.grows[1], decode=planted.grows[2], grows=None)
        case Kind.LATE_DEMOTION:
            return replace(planted, late_demotion=True)
        case Kind.ROUTING:
            return replace(planted, router="power_of_two")
        case Kind.MAX_SEQUENCES:
            return replace(planted, max_sequences=int(fix.change.rpartition(" ")[2]))
        case Kind.FP8_KV:
            return replace(planted, kv_dtype="fp8")
    if fix.in_time is None:
        return None
    gpu, model, precision, tp = parsed(planted.worker)
    match fix.kind:
        case Kind.FP8_WEIGHTS:
            precision = "-fp8"
        case Kind.FASTER_GPU | Kind.MORE_BANDWIDTH:
            gpu = fix.change.partition(": ")[2].split()[0].lower()
        case Kind.MORE_GPUS_PER_WORKER:
            tp = 2 * tp
        case _:
            return None
    name = f"{gpu}-{model}{precision}{f'-tp{tp}' if tp > 1 else ''}"
    try:
        # The grid's, where it has both: a sweep of another engine would compare engines, not precisions.
        other = hardware(f"{name}-grid") if f"{name}-grid" in _grid() else hardware(name)
    except ValueError:
        return None
    if planted.kv_dtype == "fp8":
        other = small_kv(other)
    fields: dict[str, Any] = {each.name: getattr(planted, each.name) for each in dataclass_fields(planted)}
    if fix.change.startswith("prefill"):
        return Changed(**fields, prefill_hardware=other)
    return Changed(**fields, decode_hardware=other)


def _grid() -> set[str]:
    return {name for name in catalogue() if name.endswith("-grid")}


LONG_MIX = mixed(400, 14_000, 0.1)
FLEETS: dict[str, Planted] = {
    "more prompts than the prefill workers can compute": Planted(
        Bottleneck.PREFILL, "h100-llama-70b-tp4", 3, 4, 22.0, lengths(2000), lengths(200),
    ),
    "long prompts that keep prefill busy nearly all the time": Planted(
        Bottleneck.PREFILL, "h100-llama-8b", 2, 3, 7.0, lengths(8000, 0.3), lengths(150), ttft=0.6,
    ),
    "prompts that take longer than the target by themselves": Planted(
        Bottleneck.PREFILL, "a100-llama-70b-tp4", 6, 4, 1.5, lengths(9000, 0.1), lengths(150), ttft=1.5,
        tpot=0.06,
    ),
    "more tokens than the decode workers can make in time": Planted(
        Bottleneck.DECODE, "h100-llama-70b-tp4", 5, 2, 16.5, lengths(2000), lengths(400), tpot=0.025,
    ),
    "long answers on a GPU with little bandwidth": Planted(
        Bottleneck.DECODE, "a100-llama-8b", 3, 2, 5.0, lengths(1000), lengths(1000), tpot=0.02,
    ),
    "a decode so full that first tokens wait for it": Planted(
        Bottleneck.DECODE, "h100-llama-70b-tp4", 6, 2, 30.0, lengths(1000), lengths(500), tpot=0.03,
    ),
    "long contexts in a small KV cache": Planted(
        Bottleneck.KV, "h100-llama-70b-fp8-tp2-grid", 8, 2, 4.4, lengths(8000, 0.3), lengths(400), ttft=3.0,
        tpot=0.06,
    ),
    "very long contexts of a small model": Planted(
        Bottleneck.KV, "h100-llama-8b", 7, 2, 7.0, lengths(16000, 0.2), lengths(300), ttft=3.0, tpot=0.05,
    ),
    "a router that deals without looking": Planted(
        Bottleneck.QUEUE, "h100-llama-70b-tp4", 6, 4, 21.5, lengths(2000), lengths(200), ttft=0.6, router="random",
    ),
    "short prompts behind long ones": Planted(
        Bottleneck.QUEUE, "h100-llama-70b-tp4", 4, 3, 19.5, LONG_MIX, lengths(150), ttft=1.6,
    ),
    "an engine that takes fewer sequences than it could": Planted(
        Bottleneck.QUEUE, "h100-llama-8b", 2, 2, 16.0, lengths(1000), lengths(300), max_sequences=16,
    ),
    "a step in the load while prefill workers start": Planted(
        Bottleneck.COLD_START, "h100-llama-70b-tp4", 3, 5, 10.0, lengths(2000), lengths(200),
        step=(100.0, 24.0), grows=(110.0, 7, 5), cold_start=150.0,
    ),
    "a step in the load while decode workers start": Planted(
        Bottleneck.COLD_START, "h100-llama-70b-tp4", 6, 2, 10.0, lengths(1500), lengths(400), tpot=0.025,
        step=(100.0, 20.0), grows=(110.0, 6, 4), cold_start=150.0,
    ),
    "a fleet with room": Planted(
        Bottleneck.HEALTHY, "h100-llama-8b", 3, 2, 8.0, lengths(1500), lengths(200),
    ),
    "a fleet that is just large enough": Planted(
        Bottleneck.HEALTHY, "h100-llama-70b-tp4", 5, 2, 15.0, lengths(2000), lengths(300),
    ),
    "a fleet that nobody asks": Planted(
        Bottleneck.HEALTHY, "h100-llama-8b", 1, 1, 0.0, lengths(1000), lengths(100),
    ),
}  # fmt: skip
