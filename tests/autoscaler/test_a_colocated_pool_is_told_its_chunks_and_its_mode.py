"""Issue 6, items 3 and 5: from what a colocated pool's engines export to chunks, and to Colocated or Disaggregated."""

from dataclasses import replace

import numpy as np
import pytest

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec
from tandem_api.sizing.spec import worker_specs
from tandem_autoscaler.cli.diagnose.apply import patch
from tandem_autoscaler.diagnose.break_even import Kinds, compare, even_tpot
from tandem_autoscaler.diagnose.chunking import Grid
from tandem_autoscaler.diagnose.diagnosis import diagnose
from tandem_autoscaler.diagnose.facts import Facts, look
from tandem_autoscaler.diagnose.fixes import Kind as FixKind
from tandem_autoscaler.diagnose.mixed import colocated_worker, same_hardware, traffic_of
from tandem_autoscaler.diagnose.plant import plant_of
from tandem_autoscaler.fleet.chunks import chunking_of
from tandem_autoscaler.fleet.service import Targets
from tandem_autoscaler.model.colocated import Promise, Traffic
from tandem_autoscaler.model.decode import DecodeModel
from tandem_autoscaler.model.mixed_step import Chunking
from tandem_autoscaler.model.prefill import PrefillModel, PrefillPrior
from tests.autoscaler.chunk_grid import DEFAULT, KINDS, Kind
from tests.autoscaler.scene import Scene, W

LONG_AMONG_SHORT = KINDS["3 % of 16,000 tokens"]


def facts_of(kind: Kind, rate: float, workers: int, chunking: Chunking = DEFAULT) -> Facts:
    """What the autoscaler would know of a pool at so many requests a second, from simulated workers alone.

    Times of prompts are read off a nearly idle worker, times per token off busier ones: both as users have them, mixed.
    """
    idle, trace = kind.served(0.2, chunking, seed=1), kind.trace(0.2, seed=1)
    _, b, c = kind.hardware.prefill
    curvature = c / b
    slope, base = np.polyfit(trace.prompt + curvature * trace.prompt**2, idle.ttft, 1)
    points = []
    for share in (0.3, 0.6, 1.0):
        each = share * rate / workers
        served, asked = kind.served(each, chunking, seed=2), kind.trace(each, seed=2)
        several = asked.output > 1
        tau = float(np.average(served.tpot[several], weights=asked.output[several] - 1))
        points.append((each * kind.output * tau, tau))
    per_sequence, step = np.polyfit(*zip(*points, strict=True), 1)
    scene = Scene(workers=workers, targets=Targets(kind.promise.ttft_seconds, kind.promise.tpot_seconds))
    for _ in range(15):
        for exported in scene.of(W):
            exported.running = points[-1][0]
            exported.prefill(rate / workers * 5.0, tokens=kind.traffic(1.0).prompt_tokens, seconds=0.9)
            exported.decode(
                rate / workers * 5.0, tokens=kind.output, seconds_per_token=points[-1][1], batch=points[-1][0]
            )
        scene.tick(apply=False)
    service = replace(scene.service, pods=tuple(scene.pods.values()))
    facts = look(scene.state, service, scene.snapshot(), scene.settings, chunking=chunking)
    context = kind.traffic(1.0).prompt_tokens + kind.output / 2
    decode = DecodeModel(
        base_seconds=float(step), seconds_per_sequence=float(per_sequence), seconds_per_context_token=0.0
    )
    running = points[-1][0] * workers
    return replace(
        facts,
        step=None,  # an engine that counts no steps; the others' are learnt in colocated_pool.py
        prefill=PrefillModel(PrefillPrior(curvature=curvature), float(base), float(slope), remembered=True),
        decode=decode.at_context(context), lengths=kind.prompts, output_tokens=kind.output,
        load=replace(facts.load, arrivals=rate, arrival_scv=1.0, decode_running=running, decode_kv=None),
    )  # fmt: skip


@pytest.fixture(scope="module")
def facts() -> Facts:
    return facts_of(LONG_AMONG_SHORT, rate=24.0, workers=8)


def test_a_steps_own_times_are_told_apart_from_what_prompts_and_answers_add_to_each_other(
    facts: Facts,
) -> None:
    plant, traffic = plant_of(facts), traffic_of(facts)
    assert plant is not None and traffic is not None
    worker = colocated_worker(facts, plant, traffic)
    assert worker is not None
    true = LONG_AMONG_SHORT.model.step
    assert worker.step.base == pytest.approx(true.base, rel=0.1)
    own = sum(true.of_prompt(tokens) * share for tokens, share in traffic.prompts)
    assert sum(worker.step.of_prompt(t) * share for t, share in traffic.prompts) == pytest.approx(
        own, rel=0.15
    )
    # Unmixed as it is learnt, a sequence would cost what the prompts cost as well.
    assert worker.step.per_sequence < 0.4 * facts.decode.line_now[1]


def test_from_exported_times_alone_the_tuner_finds_what_serves_most(facts: Facts) -> None:
    tuned = diagnose(facts).tuned
    assert tuned is not None and tuned.worth_a_restart
    pick = tuned.best.chunking
    better, present = (LONG_AMONG_SHORT.simulated_capacity(one, (3,)) for one in (pick, DEFAULT))
    assert better > 3 * present


def test_the_advice_is_a_fix_with_a_prediction_and_a_place_in_the_manifest(facts: Facts) -> None:
    found = diagnose(replace(facts, ttft=replace(facts.ttft, attainment=0.7, attainment_upper=0.7)))
    fix = next(fix for fix in found.fixes if fix.kind is FixKind.CHUNKING)
    assert found.tuned is not None and fix.in_time is not None and found.predicted is not None
    assert fix.in_time > found.predicted
    assert f"maxBatchedTokens: {found.tuned.best.chunking.budget}" in fix.change
    assert f"longPromptThreshold: {found.tuned.best.chunking.threshold}" in fix.change


def test_what_is_written_is_what_the_manifest_calls_it_and_where_it_has_effect() -> None:
    assert patch(Chunking(1024, 128), own=False) == {
        "engine": {"chunkedPrefill": {"enabled": True, "maxBatchedTokens": 1024, "longPromptThreshold": 128}}
    }
    own = patch(Chunking(512), own=True)[names.WORKERS]["engine"]["chunkedPrefill"]
    assert own["maxBatchedTokens"] == 512 and own["longPromptThreshold"] is None


def test_nothing_is_said_of_chunks_or_modes_while_the_times_are_not_known(facts: Facts) -> None:
    for unknown in (
        replace(facts, prefill=None), replace(facts, lengths=None), replace(facts, output_tokens=None),
        replace(facts, decode=DecodeModel()), replace(facts, load=replace(facts.load, arrivals=None)),
    ):  # fmt: skip
        found = diagnose(unknown)
        assert found.tuned is None and found.modes is None


def test_different_gpus_per_role_are_not_compared_with_a_pool_that_is_neither(facts: Facts) -> None:
    apart = Scene()
    assert same_hardware(facts)
    assert not same_hardware(replace(facts, service=apart.service))
    assert same_hardware(replace(facts, service=replace(apart.service, flips=True)))


# --- the manifest -------------------------------------------------------------------------------------------
def spec(workers: dict[str, object], engine: dict[str, object] | None = None) -> InferenceServiceSpec:
    return InferenceServiceSpec.model_validate(
        {
            "model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct"},
            "workers": workers,
            "engine": engine or {},
        }
    )


def on(gpu: str) -> dict[str, object]:
    return {"template": {"spec": {"nodeSelector": {"nvidia.com/gpu.product": gpu}}}}


@pytest.mark.parametrize(
    ("workers", "engine", "expected"),
    [
        ({}, {}, Chunking(2048)),
        (on("NVIDIA-H100-80GB-HBM3"), {}, Chunking(8192)),
        (on("NVIDIA-A100-SXM4-80GB"), {}, Chunking(2048)),
        (on("NVIDIA-B200"), {}, Chunking(16384)),
        ({}, {"chunkedPrefill": {"maxBatchedTokens": 512, "longPromptThreshold": 64}}, Chunking(512, 64)),
        ({"engine": {"chunkedPrefill": {"maxBatchedTokens": 1024}}}, {"chunkedPrefill": {"maxBatchedTokens": 512}},
         Chunking(1024)),
        ({}, {"chunkedPrefill": {"enabled": False}, "maxModelLen": 4096}, Chunking(4096, 0, enabled=False)),
    ],
)  # fmt: skip
def test_the_present_setting_is_the_manifests_or_vllms_default(
    workers: dict[str, object], engine: dict[str, object], expected: Chunking
) -> None:
    found = spec(workers, engine)
    assert chunking_of(found, worker_specs(found)[names.WORKERS]) == expected


# --- the modes ----------------------------------------------------------------------------------------------
def kinds(name: str = "chat") -> Kinds:
    worker = KINDS[name].model
    return Kinds(worker, 1, worker, 1, worker, 1)


def test_a_strict_tpot_with_long_prompts_wants_them_apart_and_a_loose_one_together() -> None:
    traffic = Traffic(20.0, ((4000.0, 1.0),), 100.0)
    strict, loose = Promise(1.0, 0.012, 0.05), Promise(3.0, 0.2, 0.05)
    assert compare(kinds(), traffic, strict).better == "Disaggregated"
    assert compare(kinds(), traffic, loose).better == "Colocated"
    even = even_tpot(kinds(), traffic, strict)
    assert even is not None and 0.012 <= even < 0.2
    assert compare(kinds(), traffic, replace(strict, tpot_seconds=even)).better == "Disaggregated"
    assert compare(kinds(), traffic, replace(strict, tpot_seconds=1.5 * even)).better == "Colocated"


def test_the_colocated_side_is_rated_with_chunks_that_the_pool_can_have() -> None:
    traffic, promise = KINDS["3 % of 16,000 tokens"].traffic(20.0), KINDS["3 % of 16,000 tokens"].promise
    free = compare(kinds(), traffic, promise)
    without = compare(replace(kinds(), chunks=Grid(thresholds=False)), traffic, promise)
    large = compare(replace(kinds(), chunks=Grid(least=8192)), traffic, promise)
    assert free.chunking is not None and free.chunking.threshold and free.chunking.budget < 8192
    assert without.chunking is not None and not without.chunking.threshold
    assert large.chunking is not None and large.chunking.budget >= 8192
    assert free.colocated is not None and without.colocated is not None and large.colocated is not None
    assert free.colocated < without.colocated and free.colocated <= large.colocated


def test_a_little_traffic_is_served_by_one_worker_and_not_by_two() -> None:
    found = compare(kinds(), Traffic(0.2, ((500.0, 1.0),), 50.0), Promise(1.0, 0.05, 0.05))
    assert (found.colocated, found.disaggregated, found.better) == (1, 2, "Colocated")
    assert found.gain == pytest.approx(-0.5)


def test_promises_that_neither_mode_keeps_give_no_advice() -> None:
    found = compare(kinds(), Traffic(1.0, ((500.0, 1.0),), 50.0), Promise(0.001, 0.001, 0.05))
    assert (
        found.colocated is None
        and found.disaggregated is None
        and found.better is None
        and found.gain is None
    )
    assert even_tpot(kinds(), Traffic(1.0, ((500.0, 1.0),), 50.0), Promise(0.001, 0.001, 0.05)) is None


def test_roles_of_more_gpus_are_counted_with_them() -> None:
    one = compare(kinds(), Traffic(20.0, ((2000.0, 1.0),), 200.0), Promise(1.0, 0.03, 0.05))
    worker = KINDS["chat"].model
    four = compare(
        Kinds(worker, 4, worker, 4, worker, 2),
        Traffic(20.0, ((2000.0, 1.0),), 200.0),
        Promise(1.0, 0.03, 0.05),
    )
    assert one.colocated is not None and four.colocated == 4 * one.colocated
    assert one.prefill is not None and one.decode is not None
    assert four.disaggregated == 4 * one.prefill + 2 * one.decode
