"""What the gate counts and times, and how it is written for Prometheus."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from tandem_worker.gate.histogram import (
    PROMPT_TOKEN_EDGES,
    TPOT_EDGES,
    TTFT_EDGES,
    Histogram,
    edges_with_target,
)
from tandem_worker.gate.targets import Targets, TargetsFile


class Outcome(StrEnum):
    """How a request ended."""

    OK = "ok"
    REJECTED = "rejected"  # refused before any work: the gate is closing, the queue is full, or a 4xx
    ABORTED = "aborted"  # begun, then ended by the engine's abort or at the gate's deadline
    ERROR = "error"
    CLIENT_GONE = "client_gone"


@dataclass(slots=True)
class Held:
    """What the admission queue holds, and how many requests it has ever put back."""

    main: int = 0
    low: int = 0
    demotions: int = 0


class BusyTime:
    """Seconds in which at least one of something was under way."""

    def __init__(self) -> None:
        self.under_way = 0
        self._seconds, self._since_seconds = 0.0, 0.0

    def begin(self, now_seconds: float) -> None:
        if not self.under_way:
            self._since_seconds = now_seconds
        self.under_way += 1

    def end(self, now_seconds: float) -> None:
        self.under_way -= 1
        if not self.under_way:
            self._seconds += max(0.0, now_seconds - self._since_seconds)

    def seconds(self, now_seconds: float) -> float:
        """Until now, the one under way included."""
        running = max(0.0, now_seconds - self._since_seconds) if self.under_way else 0.0
        return self._seconds + running


class Measures:
    """The counters and histograms of one process. Not thread-safe: it lives on the event loop."""

    def __init__(self, targets_file: TargetsFile) -> None:
        self._file = targets_file
        self._file.read()
        self.in_flight = 0
        self.outcomes = dict.fromkeys(Outcome, 0)
        # How TPOT's token counts were known: a stream without usage is counted by its events, which holds
        # fewer than the tokens when the engine sends several in one (speculative decoding).
        self.token_counts = {"usage": 0, "events": 0}
        # With a prompt inside the engine that has no first token yet. Over the number of prompts it is the time that
        # each costs, whatever the order in which they are served.
        self.prefill_busy = BusyTime()
        self.held: Held | None = None  # None: there is no queue
        self.prompt_tokens = Histogram(PROMPT_TOKEN_EDGES)
        self.ttft = Histogram(edges_with_target(TTFT_EDGES, self.targets.ttft_seconds))
        self.tpot = Histogram(edges_with_target(TPOT_EDGES, self.targets.tpot_seconds))

    @property
    def targets(self) -> Targets:
        return self._file.targets

    def ttft_target_seconds(self, now_seconds: float) -> float | None:
        """The target of now; None where the service has none."""
        self._look(now_seconds)
        return self.targets.ttft_seconds

    def observe_ttft(self, seconds: float, now_seconds: float) -> None:
        self._look(now_seconds)
        self.ttft.observe(seconds)

    def observe_tpot(self, seconds: float, now_seconds: float, *, counted_by: str) -> None:
        self._look(now_seconds)
        self.tpot.observe(seconds)
        self.token_counts[counted_by] += 1

    def _look(self, now_seconds: float) -> None:
        if self._file.look(now_seconds):
            self._rebuild()

    def _rebuild(self) -> None:
        """Take the new targets' edges. Counts start again; a reader sees a counter reset."""
        for name, edges, target in (
            ("ttft", TTFT_EDGES, self.targets.ttft_seconds),
            ("tpot", TPOT_EDGES, self.targets.tpot_seconds),
        ):
            wanted = edges_with_target(edges, target)
            if wanted != getattr(self, name).edges:
                setattr(self, name, Histogram(wanted))

    def snapshot(self, now_seconds: float, *, gate_open: bool) -> dict[str, Any]:
        """All numbers as plain JSON, for a sibling process to add to its own."""
        if self._file.read():
            self._rebuild()
        return {
            "gate_open": gate_open,
            "in_flight": self.in_flight,
            "prefill_busy_seconds": self.prefill_busy.seconds(now_seconds),
            "outcomes": {str(outcome): count for outcome, count in self.outcomes.items()},
            "token_counts": dict(self.token_counts),
            "targets": {"ttft": self.targets.ttft_seconds, "tpot": self.targets.tpot_seconds},
            "held": asdict(self.held) if self.held is not None else None,
            **{
                name: {"edges": one.edges, "counts": list(one.counts), "total": one.total}
                for name, one in (
                    ("ttft", self.ttft),
                    ("tpot", self.tpot),
                    ("prompt_tokens", self.prompt_tokens),
                )
            },
        }


def merge(own: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two processes' snapshots as one. Histograms of other edges are left out (a reload under way)."""
    merged = dict(own)
    merged["gate_open"] = own["gate_open"] and other["gate_open"]
    for name in ("in_flight", "prefill_busy_seconds"):
        merged[name] = own[name] + other[name]
    for name in ("outcomes", "token_counts"):
        merged[name] = {key: count + other[name].get(key, 0) for key, count in own[name].items()}
    if own["held"] is not None and other["held"] is not None:
        merged["held"] = {key: count + other["held"][key] for key, count in own["held"].items()}
    for name in ("ttft", "tpot", "prompt_tokens"):
        if list(own[name]["edges"]) == list(other[name]["edges"]):
            histogram = Histogram(own[name]["edges"])
            histogram.add(own[name]["counts"], own[name]["total"])
            histogram.add(other[name]["counts"], other[name]["total"])
            merged[name] = {"edges": histogram.edges, "counts": histogram.counts, "total": histogram.total}
    return merged


def exposition(snapshot: Mapping[str, Any]) -> bytes:
    """A snapshot in Prometheus' text format 0.0.4."""
    lines = [
        "# HELP tandem:gate_open 1 while the worker takes new requests, 0 once it is closing.",
        "# TYPE tandem:gate_open gauge",
        f"tandem:gate_open {float(snapshot['gate_open'])}",
        "# HELP tandem:requests_in_flight Requests that have come and not ended.",
        "# TYPE tandem:requests_in_flight gauge",
        f"tandem:requests_in_flight {float(snapshot['in_flight'])}",
        "# HELP tandem:prefill_busy_seconds_total Time with a prompt in the engine that has no first token yet.",
        "# TYPE tandem:prefill_busy_seconds_total counter",
        f"tandem:prefill_busy_seconds_total {snapshot['prefill_busy_seconds']!r}",
        "# HELP tandem:requests_total Requests that have ended, by how.",
        "# TYPE tandem:requests_total counter",
        *(f'tandem:requests_total{{outcome="{o}"}} {float(n)}' for o, n in snapshot["outcomes"].items()),
        "# HELP tandem:tpot_observations_total Observations of tandem:tpot_seconds, by what told the token count.",
        "# TYPE tandem:tpot_observations_total counter",
        *(
            f'tandem:tpot_observations_total{{counted_by="{by}"}} {float(n)}'
            for by, n in snapshot["token_counts"].items()
        ),
    ]
    known = {signal: target for signal, target in snapshot["targets"].items() if target is not None}
    if known:
        lines += [
            "# HELP tandem:slo_target_seconds The target whose exact value is an edge of the signal's histogram.",
            "# TYPE tandem:slo_target_seconds gauge",
            *(
                f'tandem:slo_target_seconds{{signal="{signal}"}} {target!r}'
                for signal, target in known.items()
            ),
        ]
    lines += _histogram_lines(
        "tandem:ttft_seconds", "From request received to first content sent.", snapshot["ttft"]
    )
    lines += _histogram_lines(
        "tandem:tpot_seconds", "Mean time per output token after the first.", snapshot["tpot"]
    )
    lines += _histogram_lines(
        "tandem:prompt_tokens",
        "Prompt lengths, observed with the first token; estimated from the text until usage tells.",
        snapshot["prompt_tokens"],
    )
    held = snapshot["held"]
    if held is not None:
        lines += [
            "# HELP tandem:held_requests Requests that wait at the gate (late demotion).",
            "# TYPE tandem:held_requests gauge",
            *(f'tandem:held_requests{{queue="{queue}"}} {float(held[queue])}' for queue in ("main", "low")),
            "# HELP tandem:demotions_total Requests put into the low queue.",
            "# TYPE tandem:demotions_total counter",
            f"tandem:demotions_total {float(held['demotions'])}",
        ]
    return ("\n".join(lines) + "\n").encode()


def _histogram_lines(name: str, text: str, data: Mapping[str, Any]) -> list[str]:
    histogram = Histogram(data["edges"])
    histogram.add(data["counts"], data["total"])
    lines = [f"# HELP {name} {text}", f"# TYPE {name} histogram"]
    for edge, count in histogram.cumulative():
        lines.append(f'{name}_bucket{{le="{"+Inf" if edge == math.inf else repr(edge)}"}} {float(count)}')
    lines.append(f"{name}_sum {histogram.total!r}")
    lines.append(f"{name}_count {float(sum(histogram.counts))}")
    return lines
