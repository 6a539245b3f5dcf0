"""Lives of a service for the invariants: loads, pods that come and go, and measurements that are none.

A story is a list of `Scripted` ticks; `played` lets a scene live through it and tells what was decided at each tick.
The number of examples is 200, and 10,000 with TANDEM_DEEP=1 in the environment (hours; give pytest `--timeout 0`).
"""

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tandem_autoscaler.decide.decision import Decision, Outcome
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState
from tandem_autoscaler.fleet.service import Pod, Service
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.source import PodReading, Snapshot
from tests.autoscaler.exported import EDGES, GAPS, OUTPUTS, PROMPTS, STEPS, TPOT, TTFT, Exported
from tests.autoscaler.scene import TICK_SECONDS, D, P, Scene

settings.register_profile(
    "specification",
    max_examples=10_000 if os.environ.get("TANDEM_DEEP") else 200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def examples(share: float = 1.0) -> settings:
    """The profile, with a share of its examples where one takes long."""
    profile = settings.get_profile("specification")
    return settings(profile, max_examples=max(10, round(profile.max_examples * share)))


# --- what a tick brings ---------------------------------------------------------------------------------------
ODD = (math.nan, math.inf, -math.inf, -1.0, 0.0)
BEYOND_REASON = (-1e12, 1e300)
COUNTERS = (
    "finished_total", "prompt_tokens_total", "prompt_tokens_computed_total", "output_tokens_total", "preemptions_total",
    "gate_requests_total", "router_requests_total", "router_unserved_total",
)  # fmt: skip
GAUGES = ("running", "waiting", "kv_usage", "gate_in_flight", "waiting_for_room", "router_running")
SIGNALS = {TTFT: "ttft", TPOT: "tpot", GAPS: "inter_token", PROMPTS: "prompt_tokens", OUTPUTS: "output_tokens",
           STEPS: "step_tokens"}  # fmt: skip


@dataclass(frozen=True)
class Happening:
    """One thing that happens to the pod number `pod` (modulo their number), before a tick."""

    kind: str
    pod: int = 0
    signal: str = "finished_total"
    value: float = math.nan


@dataclass(frozen=True)
class Scripted:
    """Five seconds of load, and what else happens in them."""

    prompts: float = 1.0  # per second
    seconds: float = 0.2  # from a prompt's arrival to its first token
    seconds_per_token: float = 0.02
    tokens: float = 20.0
    happenings: tuple[Happening, ...] = ()


PODS_CHANGE = ("ready", "unready", "young", "add", "remove", "drain", "stuck", "future")
SIGHT_CHANGES = ("silent", "heard", "empty", "stale", "failed")
LIES = ("drop", "edges")  # a signal that goes, a histogram with other buckets
GARBAGE = ("counter", "gauge", "histogram")  # values that are none
TIME = ("back", "ahead", "still")
OTHERS = ("reset", "full", "duplicate", "hand")


def happenings(*kinds: str) -> st.SearchStrategy[Happening]:
    return st.builds(
        Happening, st.sampled_from(kinds), st.integers(0, 7), st.sampled_from((*COUNTERS, *GAUGES, *SIGNALS.values())),
        st.sampled_from(ODD),
    )  # fmt: skip


def stories(*kinds: str, most_ticks: int = 14, most_happenings: int = 3) -> st.SearchStrategy[list[Scripted]]:
    """Lives in which things of these kinds happen; by default all but garbage."""
    kinds = kinds or (*PODS_CHANGE, *SIGHT_CHANGES, *LIES, *TIME, *OTHERS)
    tick = st.builds(
        Scripted, st.floats(0, 40), st.floats(0.01, 20), st.floats(1e-3, 3), st.floats(1, 500),
        st.lists(happenings(*kinds), max_size=most_happenings).map(tuple),
    )  # fmt: skip
    return st.lists(tick, min_size=1, max_size=most_ticks)


# --- a scene that lives through it ----------------------------------------------------------------------------
@dataclass
class Lived:
    """What one tick was given and what it decided."""

    service: Service
    snapshot: Snapshot
    wall_seconds: float
    before: ServiceState
    state: ServiceState
    outcome: Outcome
    decisions: Mapping[str, Decision] = field(init=False)

    def __post_init__(self) -> None:
        self.decisions = self.outcome.decisions

    def ready(self, role: str) -> list[Pod]:
        return [pod for pod in self.service.workers(role) if pod.ready]


def reading_of(exported: Exported, uid: str, at: float) -> PodReading:
    """As `parse(exported.text())` gives it, without the way through the text."""
    counters = {
        "finished_total": exported.finished, "prompt_tokens_total": exported.prompt_tokens,
        "prompt_tokens_computed_total": exported.prompt_tokens, "output_tokens_total": exported.output_tokens,
        "preemptions_total": 0.0,
    }  # fmt: skip
    gauges = {"running": exported.running, "waiting": exported.waiting, "kv_usage": exported.kv}
    histograms = {
        SIGNALS[name]: Histogram((*EDGES[name], math.inf), tuple(counts), exported.sums[name])
        for name, counts in exported.counts.items()
    }
    return PodReading(uid, at, counters, gauges, histograms)


class Troubled(Scene):
    """A scene to which a story happens."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.lies: list[Happening] = []
        self.kept: dict[str, PodReading] = {}  # of pods whose readings no longer change
        self.failed = False
        self.still = False
        self.duplicated: list[Pod] = []
        self.wall = 0.0  # how far the API server's clock is ahead of ours

    def snapshot(self) -> Snapshot:
        if self.failed:
            return Snapshot(self.now, error="Prometheus at http://prometheus:9090 cannot be reached: refused")
        found = {}
        for uid in self.pods:
            if uid not in self.silent:
                found[uid] = self.kept.get(uid) or reading_of(self.exported[uid], uid, self.now)
        for lie in self.lies:
            if found:
                uid = list(found)[lie.pod % len(found)]
                found[uid] = told_wrongly(found[uid], lie)
        return Snapshot(self.now, found, {uid: "timeout" for uid in self.silent if uid in self.pods})

    def listed(self) -> Service:
        return replace(self.service, pods=(*self.pods.values(), *self.duplicated))

    def live(self, script: Scripted, *, apply: bool = True) -> Lived:
        """One tick of the story."""
        self.lies, self.duplicated, self.still = [], [], False
        for happening in script.happenings:
            self.happen(happening)
        if any(pod.ready and uid not in self.silent for uid, pod in self.pods.items() if pod.role == P):
            self.prompts(script.prompts, seconds=script.seconds)
        if any(pod.ready and uid not in self.silent for uid, pod in self.pods.items() if pod.role == D):
            self.answers(script.prompts, tokens=script.tokens, seconds_per_token=script.seconds_per_token)
        service, snapshot, before = self.listed(), self.snapshot(), self.state
        wall = self.now + self.wall
        self.state, self.outcome = decide(before, service, snapshot, self.settings, wall_seconds=wall)
        lived = Lived(service, snapshot, wall, before, self.state, self.outcome)
        if apply:
            for role, decision in self.outcome.decisions.items():
                self.pool(role, replicas=decision.target)
                self.reconcile(role, decision.target)
        self.now += 0.0 if self.still else TICK_SECONDS
        return lived

    def reconcile(self, role: str, target: int) -> None:
        """As the operator does: what is missing is started, what is too much goes, starting ones first."""
        for _ in range(target - sum(pod.role == role and not pod.draining for pod in self.pods.values())):
            self.add(role, ready=False)
        self._remove_beyond(role, target)

    def happen(self, event: Happening) -> None:
        if event.kind in (*LIES, *GARBAGE):
            self.lies.append(event)
            return
        match event.kind:
            case "back":
                self.now -= 12.0
            case "ahead":
                self.now += 100.0
            case "still":
                self.still = True
            case "failed":
                self.failed = not self.failed
            case "add":
                self.add((P, D)[event.pod % 2], ready=bool(event.pod % 3))
            case "hand":
                self.pool((P, D)[event.pod % 2], replicas=event.pod)
        uids = list(self.pods)
        if uids:
            self._happen_to(uids[event.pod % len(uids)], event.kind)

    def _happen_to(self, uid: str, kind: str) -> None:
        match kind:
            case "ready":
                self.set(uid, ready=True, draining=False, stuck=False, ready_since_seconds=self.now - 500)
            case "young":
                self.set(uid, ready=True, draining=False, stuck=False, ready_since_seconds=self.now)
            case "future":
                self.set(uid, created_at_seconds=self.now + 9000, ready_since_seconds=self.now + 8000)
            case "unready":
                self.set(uid, ready=False, ready_since_seconds=None)
            case "drain":
                self.set(uid, ready=False, draining=True)
            case "stuck":
                self.set(uid, ready=False, stuck=True, ready_since_seconds=None)
            case "remove":
                self.pods.pop(uid), self.exported.pop(uid), self.kept.pop(uid, None)
            case "silent":
                self.silent.add(uid)
            case "heard":
                self.silent.discard(uid)
                self.kept.pop(uid, None)
            case "stale":
                self.kept[uid] = reading_of(self.exported[uid], uid, self.now)
            case "empty":
                self.kept[uid] = PodReading(uid, self.now)
            case "reset":
                self.exported[uid] = Exported()
            case "full":
                self.exported[uid].kv, self.exported[uid].waiting = 0.99, 40.0
            case "duplicate":
                self.duplicated.append(self.pods[uid])


def told_wrongly(reading: PodReading, lie: Happening) -> PodReading:
    """The reading with one value that is none, one signal gone, or a histogram of other edges."""
    counters, gauges, histograms = dict(reading.counters), dict(reading.gauges), dict(reading.histograms)
    match lie.kind:
        case "counter":
            counters[lie.signal if lie.signal in COUNTERS else "finished_total"] = lie.value
        case "gauge":
            gauges[lie.signal if lie.signal in GAUGES else "running"] = lie.value
        case "drop":
            for table in (counters, gauges, histograms):
                table.pop(lie.signal, None)
        case "histogram" | "edges":
            name = lie.signal if lie.signal in histograms else "ttft"
            before = histograms.get(name)
            if before is not None and lie.kind == "histogram":
                counts = (lie.value, *before.counts[1:])
                histograms[name] = Histogram(before.edges, counts, lie.value if lie.pod % 2 else before.total)
            elif before is not None:
                histograms[name] = Histogram((0.33, math.inf), (before.count, 0.0), before.total)
    return PodReading(reading.uid, reading.read_at_seconds, counters, gauges, histograms)


def played(story: list[Scripted], *, apply: bool = True, **scene: Any) -> Iterator[Lived]:
    """A disaggregated service of two workers each, through the story."""
    troubled = Troubled(**{"prefill": 2, "decode": 2, **scene})
    for script in story:
        yield troubled.live(script, apply=apply)


def identical(a: object, b: object) -> bool:
    """Equal to the last bit, NaN and arrays included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        assert isinstance(b, float)
        return a.hex() == b.hex()
    if is_dataclass(a):
        return all(identical(getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.compare)
    if isinstance(a, dict):
        assert isinstance(b, dict)
        return list(a) == list(b) and all(identical(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        assert isinstance(b, tuple | list)
        return len(a) == len(b) and all(map(identical, a, b))
    if hasattr(a, "tobytes"):
        return bool(a.tobytes() == b.tobytes())  # type: ignore[attr-defined]
    return a == b
