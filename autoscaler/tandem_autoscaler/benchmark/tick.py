"""How long one tick takes for 1,000 services of two pools with two workers each.

    python -m tandem_autoscaler.benchmark.tick [--services 1000] [--workers 2] [--ticks 6]

Timed is what the loop does once the readings are there: `decide` for every service with five minutes of history, full
models and two hours of demand, in seconds of one core's time; and of it, per worker, remembering a reading and making
the rates of three windows. What workers export has vLLM's and the gate's signals and buckets, and each worker a load of
its own. Every second tick has a new point of demand, and costs more: `tick_seconds_best_of_two` is the least mean of
two successive ones.
"""

import argparse
import cProfile
import json
import math
import platform
import pstats
import random
import statistics
import time
from bisect import bisect_left
from dataclasses import replace
from itertools import cycle, pairwise
from pathlib import Path

from tandem_api import names
from tandem_autoscaler.decide.demand import KEEP_SECONDS, STEP_SECONDS, Demand
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState, fresh_state
from tandem_autoscaler.fleet.service import Pod, Pool, Service, Targets
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.source import PodReading, Snapshot

TICK_SECONDS = 5.0
# After so many the history and the models hold as much as they keep: a tick of a young service is cheaper.
WARM_TICKS = 120
ROLES = (names.PREFILL, names.DECODE)
# Services whose past demand is made; the others have the same.
_EXAMPLES = 10
# A cold start and the reaction to it.
_HORIZON_SECONDS = Settings().cold_start_seconds + Settings().reaction_seconds

# Upper edges without +Inf, as vLLM and the gate have them (the gate's for targets of 1 s and 40 ms).
_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
         160.0, 640.0, 2560.0)  # fmt: skip
_TPOT = (
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
)
_REQUEST = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
            960.0, 1920.0, 7680.0)  # fmt: skip
_TOKENS = tuple(float(m * 10**p) for p in range(6) for m in (1, 2, 5) if m * 10**p <= 131072)
_GATE_TTFT = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5,
              10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0)  # fmt: skip
_GATE_TPOT = (0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.032, 0.04, 0.05, 0.06, 0.075, 0.08, 0.1, 0.15,
              0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0)  # fmt: skip
_GATE_PROMPTS = tuple(2.0 ** (k / 2) for k in range(10, 35))
_STEPS = (1.0, 8.0, *(float(2**n) for n in range(4, 15)))
EDGES = {
    "gate_ttft": _GATE_TTFT, "gate_tpot": _GATE_TPOT, "ttft": _TTFT, "tpot": _TPOT, "inter_token": _TPOT,
    "queue": _REQUEST, "prefill": _REQUEST, "prompt_tokens": _TOKENS, "output_tokens": _TOKENS, "step_tokens": _STEPS,
    "gate_prompt_tokens": _GATE_PROMPTS,
}  # fmt: skip


class Worker:
    """What one worker has counted so far."""

    def __init__(self, pod: Pod, random_: random.Random) -> None:
        self.pod = pod
        self._random = random_
        self._per_second = random_.uniform(1.0, 6.0)
        self._counts = {name: [0.0] * (len(edges) + 1) for name, edges in EDGES.items()}
        self._sums = dict.fromkeys(EDGES, 0.0)
        self._edges = {name: (*edges, math.inf) for name, edges in EDGES.items()}
        self._finished = self._prompts = self._outputs = self._busy = 0.0

    def work(self, seconds: float) -> None:
        """A load of its own, with a little chance in it."""
        requests = float(max(1, round(self._per_second * seconds * self._random.uniform(0.7, 1.3))))
        prompt, output = self._random.lognormvariate(7.0, 0.4), self._random.lognormvariate(5.0, 0.4)
        decodes = self.pod.role == names.DECODE
        first = 0.05 if decodes else self._random.lognormvariate(-1.2, 0.5)
        gap = self._random.lognormvariate(-3.6, 0.15)
        for name, value, times in (
            ("gate_ttft", first, requests), ("ttft", first, requests), ("queue", first / 4, requests),
            ("prefill", first / 2, requests), ("prompt_tokens", prompt, requests),
            ("gate_prompt_tokens", prompt, requests), ("step_tokens", 12.0, 100.0),
            *((("gate_tpot", gap, requests), ("tpot", gap, requests), ("inter_token", gap, requests * output),
               ("output_tokens", output, requests)) if decodes else ()),
        ):  # fmt: skip
            # Half of it a little later: a window shows more than one bucket.
            for value_, times_ in ((value, math.ceil(times / 2)), (value * 1.6, math.floor(times / 2))):
                self._counts[name][bisect_left(EDGES[name], value_)] += times_
                self._sums[name] += value_ * times_
        self._finished += requests
        self._busy += 0.0 if decodes else min(seconds, 0.8 * first * requests)
        self._prompts += requests * prompt
        self._outputs += requests * (output if decodes else 1.0)

    def reading(self, now_seconds: float) -> PodReading:
        counters = {
            "prompt_tokens_total": self._prompts, "output_tokens_total": self._outputs,
            "finished_total": self._finished, "preemptions_total": 0.0, "gate_requests_total": self._finished,
            "prompt_tokens_computed_total": self._prompts, "prompt_tokens_received_total": 0.0,
            "gate_prefill_busy_seconds_total": self._busy,
        }  # fmt: skip
        gauges = {
            "running": 6.0,
            "waiting": 0.0,
            "gate_in_flight": 6.0,
            "waiting_for_room": 0.0,
            "kv_usage": 0.3,
        }
        histograms = {
            name: Histogram(self._edges[name], tuple(counts), self._sums[name])
            for name, counts in self._counts.items()
        }
        return PodReading(self.pod.uid, now_seconds, counters, gauges, histograms)


class Fleet:
    """Many services, each with its workers and what the autoscaler remembers of it."""

    def __init__(self, services: int, workers: int, settings: Settings, *, seed: int = 1) -> None:
        self.now = 1_000_000.0
        self.settings = settings
        random_ = random.Random(seed)
        self.services: list[Service] = []
        self.workers: list[list[Worker]] = []
        for number in range(services):
            pods = tuple(
                Pod("default", f"s{number}-{role}-{i}", f"s{number}-{role}-{i}", "10.0.0.1", role, True,
                    self.now - 1000.0, self.now - 900.0)
                for role in ROLES for i in range(workers)
            )  # fmt: skip
            pools = {role: Pool(role, workers, 1, 4 * workers) for role in ROLES}
            self.services.append(
                Service("default", f"s{number}", f"u{number}", 1, "Auto", False, True, Targets(1.0, 0.04), pools, pods)
            )  # fmt: skip
            self.workers.append([Worker(pod, random_) for pod in pods])
        self.states: list[ServiceState] = [fresh_state(s, self.now, settings) for s in self.services]

    def snapshots(self) -> list[Snapshot]:
        """The next tick's."""
        self.now += TICK_SECONDS
        found = []
        for workers in self.workers:
            for worker in workers:
                worker.work(TICK_SECONDS)
            found.append(Snapshot(self.now, {w.pod.uid: w.reading(self.now) for w in workers}))
        return found

    def warm_up(self) -> None:
        """Fill the history and the models by deciding, and make up a past of demand."""
        for _ in range(WARM_TICKS):
            self.tick(self.snapshots())
        examples = [
            tuple(_two_hours(demand, self.now) for demand in (state.prefill_demand, state.decode_demand))
            for state in self.states[:_EXAMPLES]
        ]
        self.states = [
            replace(state, prefill_demand=prompts, decode_demand=tokens)
            for state, (prompts, tokens) in zip(self.states, cycle(examples), strict=False)
        ]

    def tick(self, snapshots: list[Snapshot]) -> None:
        """What the loop does with them."""
        for index, (service, snapshot) in enumerate(zip(self.services, snapshots, strict=True)):
            self.states[index], _ = decide(self.states[index], service, snapshot, self.settings)


def _two_hours(demand: Demand, now_seconds: float) -> Demand:
    """As if it had gone on like this for as long as is remembered."""
    made, rates = Demand(), demand.rate.tolist()
    for number in range(int(KEEP_SECONDS / STEP_SECONDS)):
        at = now_seconds - KEEP_SECONDS + (number + 1) * STEP_SECONDS
        made = made.observed(at, rates[number % len(rates)], _HORIZON_SECONDS)
    return made


def measure(services: int, workers: int, ticks: int) -> dict[str, float | int | str]:
    """Seconds of a tick, and microseconds per worker of the parts in `signals`."""
    settings = Settings()
    fleet = Fleet(services, workers, settings)
    fleet.warm_up()
    took, advance, rates = [], [], []
    windows = (settings.short_window_seconds, settings.window_seconds, settings.long_window_seconds)
    for _ in range(ticks):
        snapshots = fleet.snapshots()
        states = fleet.states
        started = time.process_time()
        histories = [
            state.history.advance(service, snapshot)
            for state, service, snapshot in zip(states, fleet.services, snapshots, strict=True)
        ]
        advanced = time.process_time()
        for history in histories:
            for role in ROLES:
                for window in windows:
                    history.rates(role, window)
        rated = time.process_time()
        fleet.tick(snapshots)
        took.append(time.process_time() - rated)
        advance.append(advanced - started)
        rates.append(rated - advanced)
    pods = services * workers * len(ROLES)
    return {
        "services": services, "pools": services * len(ROLES), "workers": pods,
        "tick_seconds_best": min(took), "tick_seconds_median": statistics.median(took), "tick_seconds_worst": max(took),
        "tick_seconds_best_of_two": min([statistics.mean(two) for two in pairwise(took)], default=took[0]),
        "advance_microseconds_per_worker": min(advance) / pods * 1e6,
        "rates_microseconds_per_worker": min(rates) / pods * 1e6,
        "python": platform.python_version(),
    }  # fmt: skip


def main() -> None:
    """Measure, print and write build/bench/tick.json."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2, help="of each pool")
    parser.add_argument("--ticks", type=int, default=6)
    parser.add_argument(
        "--profile", action="store_true", help="print what the tick spends its time on instead"
    )
    parser.add_argument("--out", type=Path, default=Path("build/bench/tick.json"))
    arguments = parser.parse_args()
    if arguments.profile:
        fleet = Fleet(arguments.services, arguments.workers, Settings())
        fleet.warm_up()
        snapshots = fleet.snapshots()
        profile = cProfile.Profile()
        profile.runcall(fleet.tick, snapshots)
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return
    found = measure(arguments.services, arguments.workers, arguments.ticks)
    for name, value in found.items():
        print(f"{name:34} {value:.3f}" if isinstance(value, float) else f"{name:34} {value}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
