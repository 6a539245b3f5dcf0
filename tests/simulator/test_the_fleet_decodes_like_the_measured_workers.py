"""The whole simulator against measured time per token: 42 points of Llama-70B fp8 on 2, 4 and 8 H100.

The measured clients kept a constant number of requests in the engine. Here requests arrive evenly, as many per second
as keep that number in the engine if its hardware is as the table says (Little), with InferenceMAX's lengths, U(0.8, 1)
of the full ones.
"""

import csv

import numpy as np

from tandem_autoscaler.simulator.catalogue import hardware
from tandem_autoscaler.simulator.data import FOLDER
from tandem_autoscaler.simulator.fleet import Fleet, FleetSettings
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.run import simulate
from tandem_autoscaler.simulator.trace import Trace

PER_CLIENT = 12


class Untouched:
    name = "untouched"
    tick_seconds = 600.0

    def step(self, fleet: Fleet) -> Targets:
        return Targets()


def simulated_tpot_seconds(gpus: int, concurrency: int, prompt: int, output: int) -> float:
    worker = hardware(f"h100-llama-70b-fp8-tp{gpus}-grid")
    context = 0.9 * (prompt + output / 2)
    stay = 0.9 * output * worker.iteration_seconds(concurrency, concurrency * context)
    count = PER_CLIENT * concurrency
    random = np.random.default_rng(1)
    trace = Trace(
        "even",
        arrival=np.arange(count) * stay / concurrency,
        prompt=np.rint(random.uniform(0.8, 1.0, count) * prompt),
        output=np.rint(random.uniform(0.8, 1.0, count) * output),
        duration_seconds=count * stay / concurrency,
        warm_up_seconds=3 * stay,
    )
    settings = FleetSettings(ttft_seconds=10.0, tpot_seconds=1.0)
    result = simulate(trace, worker, settings, Untouched(), prefill=16, decode=1)
    steady = (trace.arrival >= 3 * stay) & (trace.arrival < (PER_CLIENT - 2) * stay)
    return float(result.tpot[steady].mean())


def test_time_per_token_is_five_percent_off_in_the_median() -> None:
    off = []
    with (FOLDER / "measured-decode.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            gpus, concurrency, prompt, output = (
                int(row[key]) for key in ("tp", "concurrency", "prompt", "output")
            )
            ours = simulated_tpot_seconds(gpus, concurrency, prompt, output)
            off.append(ours * 1000 / float(row["tpot_ms"]) - 1)
    assert len(off) == 42
    assert np.median(np.abs(off)) <= 0.06
    assert np.quantile(np.abs(off), 0.9) <= 0.12
    assert abs(np.median(off)) <= 0.05  # neither fast nor slow on the whole
