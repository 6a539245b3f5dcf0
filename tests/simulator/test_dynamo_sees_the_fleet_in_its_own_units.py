"""What NVIDIA's planner is told: what its Prometheus client, metric records and connector would have told it."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tandem_autoscaler.simulator.catalogue import hardware
from tandem_autoscaler.simulator.fleet import Fleet, FleetSettings
from tandem_autoscaler.simulator.policies.dynamo import DynamoPolicy
from tandem_autoscaler.simulator.policies.dynamo_process import PlannerProcess
from tandem_autoscaler.simulator.trace import Trace

H200 = hardware("h200-llama-8b-fp8")
WINDOW_SECONDS = 60.0
# Gives every question back, so that it can be looked at, and always wants the traffic of the last minute.
MIRROR = """
import json, sys
for line in sys.stdin:
    wanted = {"at": 0.0, "traffic": "full", "traffic_seconds": 60.0}
    reply = {"next": wanted, "prefill": None, "decode": None, "diagnostics": json.loads(line)}
    print(json.dumps(reply), flush=True)
"""


@pytest.fixture
def mirror() -> Iterator[PlannerProcess]:
    process = PlannerProcess([sys.executable, "-c", MIRROR])
    yield process
    process.close()


def fleet_of(
    arrival: list[float], prompt: float = 3000.0, output: float = 300.0, *, prefill: int = 1, decode: int = 1
) -> Fleet:
    lengths = np.ones(len(arrival))
    trace = Trace("few", np.array(arrival), prompt * lengths, output * lengths, 600.0)
    settings = FleetSettings(ttft_seconds=0.2, tpot_seconds=0.01, cold_start_seconds=40.0)
    return Fleet(trace, H200, settings, prefill, decode)


def told(planner: PlannerProcess, fleet: Fleet, at: float) -> dict[str, Any]:
    """The question at that moment, by a planner asked for the first time."""
    policy = DynamoPolicy(planner, hardware=H200, ttft_seconds=0.2, tpot_seconds=0.01, interval_seconds=60)
    return told_by(policy, fleet, at)


def told_by(policy: DynamoPolicy, fleet: Fleet, at: float) -> dict[str, Any]:
    fleet.advance(at)
    policy.step(fleet)
    return policy.diagnostics


def test_traffic_is_what_began_in_the_window_and_the_output_of_what_ended_in_it(
    mirror: PlannerProcess,
) -> None:
    fleet = fleet_of([1.0, 2.0, 50.0, 61.5, 119.999], output=100.0)
    policy = DynamoPolicy(mirror, hardware=H200, ttft_seconds=0.2, tpot_seconds=0.01, interval_seconds=60)
    told_by(policy, fleet, 60.0)
    traffic = told_by(policy, fleet, 120.0)["traffic"]
    assert traffic["num_req"] == 2  # the last one too, although it has not finished: offered load
    assert traffic["duration_s"] == WINDOW_SECONDS
    assert (traffic["isl"], traffic["osl"]) == (3000.0, 100.0)


def test_an_idle_window_is_zero_and_one_without_a_finished_request_unknown(mirror: PlannerProcess) -> None:
    assert told(mirror, fleet_of([500.0]), 60.0)["traffic"]["num_req"] == 0.0
    assert told(mirror, fleet_of([59.99]), 60.0)["traffic"] is None


def test_every_ready_worker_has_a_record_and_its_times_are_the_fleets_own(mirror: PlannerProcess) -> None:
    """Ten prompts at once on two prefill workers: each has one in hand and four behind it."""
    fleet = fleet_of([1.0] * 10, prefill=2, decode=3)
    fleet.hardware = replace(H200, prefill=tuple(2 * x for x in H200.prefill))  # type: ignore[arg-type]
    question = told(mirror, fleet, 1.001)
    seconds = pytest.approx(2 * H200.prefill_seconds(3000.0))
    assert question["prefill"] == [[1, 3000.0, seconds, 4, 4 * 3000.0]] * 2
    assert question["decode"] == [[0, 0.0, 0.0, 0, 0.0]] * 3


def test_a_decode_record_holds_the_batch_its_kv_tokens_and_one_iterations_time(
    mirror: PlannerProcess,
) -> None:
    fleet = fleet_of([0.01 * k for k in range(5)], output=10_000.0)
    batch, tokens, seconds, queued, _ = told(mirror, fleet, 10.0)["decode"][0]
    assert (batch, queued) == (5, 0)
    assert 5 * 3000 < tokens < 5 * 13_000
    assert seconds == pytest.approx(H200.iteration_seconds(batch, tokens))


def test_starting_workers_are_pending_until_one_is_draining(mirror: PlannerProcess) -> None:
    fleet = fleet_of([1.0] * 200, prefill=2, decode=2)
    at_rest = told(mirror, fleet, 1.0)["workers"]
    assert (at_rest["ready_num_prefill"], at_rest["expected_num_prefill"]) == (2, 2)
    assert not at_rest["prefill_scaling_in_progress"]

    fleet.set_targets(decode=4)
    growing = told(mirror, fleet, 1.1)["workers"]
    assert (growing["ready_num_decode"], growing["expected_num_decode"]) == (2, None)
    assert (growing["pending_num_prefill"], growing["pending_num_decode"]) == (0, 2)
    assert growing["prefill_scaling_in_progress"] and growing["decode_scaling_in_progress"]

    fleet.set_targets(prefill=1)
    draining = told(mirror, fleet, 1.2)["workers"]
    assert (draining["pending_num_prefill"], draining["pending_num_decode"]) == (0, 0)


def test_targets_are_given_in_milliseconds_and_no_limit_of_its_own_is_left(mirror: PlannerProcess) -> None:
    class Listening(PlannerProcess):
        heard: dict[str, Any]

        def begin(self, question: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            self.heard = question
            return super().begin(question)

    planner = Listening([sys.executable, "-c", MIRROR])
    told(planner, fleet_of([1.0]), 5.0)
    planner.close()
    config, prefill, decode = (planner.heard[part] for part in ("config", "prefill", "decode"))
    assert (config["ttft_ms"], config["itl_ms"]) == (200.0, 10.0)
    assert config["optimization_target"] == "sla"
    assert config["max_gpu_budget"] == -1
    assert (prefill["max_num_seqs"], decode["max_num_seqs"]) == (1, H200.max_sequences)
    assert decode["max_kv_tokens"] == H200.kv_tokens
