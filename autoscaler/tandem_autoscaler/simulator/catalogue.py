"""The workers and the loads that the benchmark and `kubectl tandem replay` know by name."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from tandem_autoscaler.simulator.data import FOLDER
from tandem_autoscaler.simulator.hardware import Hardware


@dataclass(frozen=True)
class FitError:
    """Relative error of a fit against the points it was made from."""

    median: float
    worst: float
    points: int


@dataclass(frozen=True)
class Entry:
    """A worker, where its times come from, and how well three coefficients describe them."""

    hardware: Hardware
    source: str
    prefill_error: FitError
    decode_error: FitError


@cache
def catalogue() -> dict[str, Entry]:
    """By name. `-grid` marks what is interpolated from kernels where a measured sweep has the plain name."""
    rows: list[dict[str, Any]] = json.loads((FOLDER / "hardware.json").read_text())
    return {row["name"]: _entry(row) for row in rows}


def hardware(name: str) -> Hardware:
    """Raises ValueError, one sentence, when there is none of that name."""
    if name not in catalogue():
        raise ValueError(f"there is no hardware {name!r}; there are {', '.join(catalogue())}")
    return catalogue()[name].hardware


def _entry(row: dict[str, Any]) -> Entry:
    prefill, decode = ((float(a), float(b), float(c)) for a, b, c in (row["prefill"], row["decode"]))
    return Entry(
        hardware=Hardware(
            name=row["name"],
            gpus=row["gpus"],
            prefill=prefill,
            decode=decode,
            kv_tokens=row["kv_tokens"],
            max_sequences=row["max_sequences"],
            transfer_base_seconds=row["transfer_base_seconds"],
            transfer_seconds_per_token=row["transfer_seconds_per_token"],
        ),
        source=row["source"],
        prefill_error=FitError(**row["prefill_error"]),
        decode_error=FitError(**row["decode_error"]),
    )


@dataclass(frozen=True)
class Scenario:
    """A trace of `traces.named` at `scale`, the workers that serve it, the targets, and the replicas at its start."""

    trace: str
    scale: float | None
    hardware: str
    ttft_seconds: float
    tpot_seconds: float
    prefill: int
    decode: int


# Scales such that a well-sized fleet (ALGORITHM 4.3, 4.4 per minute) has 10 to 25 workers at its peak, so that one
# worker is no large share of it; with the replicas at the start the first three minutes are served in time.
SCENARIOS: dict[str, Scenario] = {
    scenario.trace: scenario
    for scenario in (
        Scenario("azure-conv-2023", 12.0, "h100-llama-70b-fp8-tp4", 1.0, 0.040, prefill=6, decode=5),
        # By its minutes the peak needs 8 workers, for the bursts within them 25.
        Scenario("azure-code-2023", 5.0, "h100-llama-70b-fp8-tp4", 1.0, 0.040, prefill=4, decode=1),
        # 1.4 million requests would need four H100 workers at the peak, but eleven of A100.
        Scenario("azure-conv-2024", 0.3, "a100-llama-70b-tp4", 2.0, 0.050, prefill=6, decode=2),
        # 7 % of the prompts take longer than 3 s alone.
        Scenario("mooncake-conv", 2.0, "h100-llama-70b-fp8-tp4", 3.0, 0.050, prefill=12, decode=6),
        # 2.5 % of the prompts take longer than 1 s alone; one window in the evening needs 37 workers.
        Scenario("servegen-deepseek-r1", 0.7, "h100-llama-70b-fp8-tp4", 1.0, 0.040, prefill=3, decode=9),
        Scenario("dynamo-sine", 1.0, "h200-llama-8b-fp8", 0.2, 0.010, prefill=2, decode=2),
        Scenario("step-x4", 1.0, "h100-llama-70b-fp8-tp4", 1.0, 0.040, prefill=3, decode=2),
        Scenario("mix-shift", 1.0, "h100-llama-70b-fp8-tp4", 1.0, 0.040, prefill=8, decode=3),
        Scenario("bursty-diurnal", 1.0, "h100-llama-70b-fp8-tp4", 1.0, 0.040, prefill=2, decode=2),
        Scenario("slow-diurnal", 1.2, "h100-llama-70b-fp8-tp4", 1.0, 0.040, prefill=3, decode=2),
        Scenario("idle-spike", 1.5, "h100-llama-70b-fp8-tp4", 1.0, 0.040, prefill=1, decode=1),
    )
}
