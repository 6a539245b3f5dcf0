"""Field cases of FIELD_CASES A and B that `decide` answers and no other file holds.

Elsewhere in this folder:
A6              test_one_pod_never_holds_up_the_scrape
A8-A10, H6, H7  test_engine_metrics_are_read_by_meaning_not_by_name
A14, B17        test_rates_survive_restarts_and_silence
A15 (buckets)   test_a_tail_is_only_what_the_buckets_can_tell
A16, A17, A19-A21   test_prometheus_is_asked_once_for_all_services
B1, B2, B9-B11, B13-B15, H3, H4   test_workers_are_counted_once_and_never_dropped_blindly
B3, H1          test_the_gpu_budget_only_takes_away; "hold and say so": test_invariants_hold_whatever_is_read
B7, B8          test_each_role_answers_for_its_own_promise
B2 (a refused write is never told as done), B6 (what is written):
                tests/integration/autoscaler/test_the_autoscaler_writes_scale_status_and_events
B5, B14, H11    tests/operator/test_the_plan_keeps_its_promises, test_targets_have_one_owner
A11             a replica is one pod here (docs/limits.md)
"""

from dataclasses import replace

import pytest

from tandem_api import names
from tandem_autoscaler.decide.decision import Why
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.fleet.observe import observe, observe_pod
from tandem_autoscaler.fleet.service import Targets
from tandem_autoscaler.signals.exposition import parse
from tandem_autoscaler.signals.source import PodReading, Snapshot
from tandem_autoscaler.signals.window import FRESH_SECONDS
from tests.autoscaler.exported import GAPS, TPOT, TTFT
from tests.autoscaler.scene import D, P, Scene
from tests.autoscaler.test_manifests_become_services import pod, pool, service


# --- A: what is read ------------------------------------------------------------------------------------------
def test_two_idle_workers_and_a_silent_one_are_not_scaled_to_zero() -> None:
    """H4, second row: the one that is not heard counts as busy when shrinking."""
    scene = Scene(prefill=3, decode=1, minimum=0)
    scene.silent = {"prefill-3"}
    for _ in range(250):  # past the idle time
        scene.tick()
        assert scene.replicas(P) >= 1 and scene.replicas(D) >= 1


def test_a_worker_that_is_not_ready_is_no_missing_measurement() -> None:
    """H4, third row: one has the load of two, the other is not ready; two are not enough."""
    scene = Scene(prefill=2, maximum=30).settle(prompts=1.0)
    scene.set("prefill-2", ready=False, ready_since_seconds=None)
    for _ in range(12):
        scene.overload(2.5)
        scene.answers(2.0, tokens=5)
        scene.tick(apply=False)
    assert scene.decision(P).target > 2, scene.decision(P).message


def test_speculative_decoding_does_not_make_tokens_look_slow() -> None:
    """A9, H7 row 5: 80 ms between events of three tokens each are 27 ms per token; the target is 50 ms."""
    scene = Scene(decode=2, targets=Targets(1.0, 0.05))
    for _ in range(40):
        scene.prompts(1.0, seconds=0.1)
        for exported in scene.of(D):
            requests, tokens = 2.5, 60.0
            exported.observe(TTFT, 0.05, requests)
            exported.observe(TPOT, 0.027, requests)
            exported.observe(GAPS, 0.080, requests * tokens / 3)
            exported.finished += requests
            exported.output_tokens += requests * tokens
        scene.tick(apply=False)
        assert scene.decision(D).target <= 2, scene.decision(D).message
    assert scene.outcome.conditions["SLOMet"].status == "True"


@pytest.mark.parametrize("target", [0.02, 0.06, 0.09])
def test_a_target_inside_the_first_bucket_is_not_taken_for_missed(target: float) -> None:
    """A15: all 0.015 s long, the lowest edge is 0.1 s; nothing is scaled by what the buckets cannot tell."""
    scene = Scene(maximum=20, targets=Targets(target + 0.05, 0.1))
    for _ in range(80):
        scene.prompts(1.0, seconds=0.015, tokens=100)
        scene.answers(1.0, tokens=5)
        scene.tick()
        assert scene.replicas(P) == 1, scene.decision(P).message
    assert scene.outcome.conditions["SLOMet"].status != "False"


def test_a_tail_beyond_the_last_edge_is_a_miss() -> None:
    """A15: everything in +Inf is at least the top edge."""
    scene = Scene().settle(4, prompts=1.0)
    for _ in range(14):
        scene.prompts(1.0, seconds=300.0)
        scene.answers(1.0, tokens=5)
        scene.tick(apply=False)
    assert scene.outcome.conditions["SLOMet"].status == "False"


@pytest.mark.parametrize("label", ["meta-llama/Llama-3.1-8B", "prod", "an adapter", 'quoted \\"name\\"'])
def test_the_models_name_in_a_label_is_not_looked_at(label: str) -> None:
    """A16, A18: a pod is known by what the API server says of it, so no served name can fail to match."""
    text = Scene().exported["prefill-1"].text()
    named = text.replace('model_name="m"', f'model_name="{label}"')
    assert named != text
    assert parse(named, uid="a", read_at_seconds=1.0) == parse(text, uid="a", read_at_seconds=1.0)


def test_a_promise_per_adapter_is_refused_by_its_name() -> None:
    """A18: engines do not tell adapters apart, so it could not be kept."""
    found, broken = observe([service(slo={"ttft": "1s", "tpot": "40ms", "adapters": {"a": "2s"}})], [], [])
    assert found == [] and "slo.adapters" in broken[("n", "chat")]


def test_the_load_of_a_namesake_in_another_namespace_is_not_counted() -> None:
    """A17: same service, same pod names; ten prompts a second there and none here."""
    busy, calm = Scene(prefill=2, decode=2, maximum=50), Scene(prefill=1, decode=1, namespace="b")
    state = calm.state
    for _ in range(30):
        busy.prompts(10.0, seconds=0.3)
        busy.answers(10.0)
        theirs = busy.snapshot().pods
        ours = {f"b/{uid}": replace(r, uid=f"b/{uid}") for uid, r in calm.snapshot().pods.items()}
        here = replace(
            calm.service,
            pods=tuple(replace(p, namespace="b", uid=f"b/{p.uid}") for p in calm.pods.values()),
        )
        state, outcome = decide(state, here, Snapshot(busy.now, {**theirs, **ours}), calm.settings)
        busy.tick(apply=False)
        calm.now = busy.now
        assert {d.target for d in outcome.decisions.values()} == {1}


def test_an_unreachable_source_holds_and_names_its_address() -> None:
    """A19."""
    scene = Scene(prefill=3, decode=2).settle(prompts=1.0)
    error = "Prometheus at http://nobody:9090 cannot be reached: Name or service not known"
    for _ in range(120):
        scene.now += 5.0
        here = replace(scene.service, pods=tuple(scene.pods.values()))
        scene.state, outcome = decide(scene.state, here, Snapshot(scene.now, error=error), scene.settings)
        assert (outcome.decisions[P].target, outcome.decisions[D].target) == (3, 2)
    active = outcome.conditions["ScalingActive"]
    assert active.status == "False" and "http://nobody:9090" in active.message


def test_a_reading_stays_fresh_for_more_than_two_usual_scrapes() -> None:
    """A22: one late scrape of the usual 15 s is no outage."""
    assert Settings().fresh_seconds > 2 * 15 and FRESH_SECONDS > 2 * 15
    scene = Scene(prefill=1, decode=1).settle(prompts=1.0)
    kept = scene.snapshot().pods["prefill-1"]
    for _ in range(6):  # 30 s with the same old reading
        here = replace(scene.service, pods=tuple(scene.pods.values()))
        late = replace(scene.snapshot(), pods={**scene.snapshot().pods, "prefill-1": kept})
        scene.state, outcome = decide(scene.state, here, late, scene.settings)
        scene.now += 5.0
    assert outcome.conditions["ScalingActive"].status == "True"


def test_a_stale_worker_beside_a_fresh_one_is_neither_idle_nor_full() -> None:
    """A22: the fresh one's load is what counts; the stale one forbids shrinking only."""
    scene = Scene(prefill=2, decode=1).settle(prompts=1.0)
    scene.silent = {"prefill-2"}
    for _ in range(40):
        scene.prompts(0.5)
        scene.answers(0.5, tokens=10)
        scene.tick()
        assert scene.replicas(P) == 2


@pytest.mark.parametrize("labels", [{}, {"leaderworkerset.sigs.k8s.io/worker-index": "3"}, {"rank": "0"}])
def test_a_pod_is_one_worker_whatever_rank_its_labels_tell(labels: dict[str, str]) -> None:
    """A11, H6 row 4: no filter by rank that would find no pod at all."""
    manifest = pod()
    manifest["metadata"]["labels"] |= labels
    found = observe_pod(manifest)
    assert found is not None and found.ready and found.role == names.PREFILL


# --- B: the arithmetic ------------------------------------------------------------------------------------------
def test_the_replicas_that_are_read_are_those_of_the_pool_that_is_written() -> None:
    """B6: another pool of the same service and role, under a name of its own, is not ours to read."""
    stray = pool("prefill", 30)
    stray["metadata"]["name"] = "somebody-elses"
    for pools in ([pool("prefill", 2), stray], [stray, pool("prefill", 2)]):
        (found,), _ = observe([service()], pools, [])
        assert found.pools["prefill"].replicas == 2


@pytest.mark.parametrize("extra", [1, 2])
def test_surge_pods_of_a_rollout_are_no_replicas(extra: int) -> None:
    """B12: four wanted, five or six there for a while, the load is right for four."""
    scene = Scene(prefill=4, decode=1, maximum=20)
    for _ in range(24):
        scene.prompts(12.0)
        scene.answers(12.0, tokens=2)
        scene.tick(apply=False)
    need = int(scene.decision(P).numbers["need"])
    scene.pool(P, replicas=need)
    while sum(p.role == P for p in scene.pods.values()) < need + extra:
        scene.add(P)
    for _ in range(24):
        scene.prompts(12.0)
        scene.answers(12.0, tokens=2)
        scene.tick(apply=False)
        assert scene.decision(P).current == need
        assert scene.decision(P).target <= need, scene.decision(P).message


def test_a_leaked_count_of_open_requests_at_the_router_pins_no_workers() -> None:
    """B16: a hundred requests that ended long ago are still counted there; the workers have nothing to do."""
    scene = Scene(prefill=4, decode=3, confirm_seconds=30.0).settle(10, prompts=2.0)
    leaked = PodReading("router", 0.0, {"router_requests_total": 1000.0}, {"router_running": 100.0})
    for _ in range(120):
        scene.tick(routers=[leaked])
    assert (scene.replicas(P), scene.replicas(D)) == (1, 1)


def test_a_leaked_count_of_open_requests_at_the_gate_is_no_demand() -> None:
    """B16: what does not change has not arrived."""
    scene = Scene(prefill=2, decode=1)
    snapshot = scene.snapshot
    for _ in range(60):
        here = replace(scene.service, pods=tuple(scene.pods.values()))
        pods = {
            uid: replace(
                reading, counters={**reading.counters, "gate_requests_total": 500.0},
                gauges={**reading.gauges, "gate_in_flight": 7.0},
            )
            for uid, reading in snapshot().pods.items()
        }  # fmt: skip
        scene.state, outcome = decide(scene.state, here, Snapshot(scene.now, pods), scene.settings)
        scene.pool(P, replicas=outcome.decisions[P].target)
        scene.now += 5.0
    assert outcome.decisions[P].numbers["promptsPerSecond"] == 0
    assert scene.replicas(P) == 1


def test_a_recommendation_stands_until_the_need_is_another() -> None:
    """B9 where nobody carries it out: the status and its events must not swing between two answers."""
    scene = Scene(prefill=4, decode=3, confirm_seconds=30.0, mode="Recommend")
    for _ in range(30):
        scene.tick(apply=False)
    said = {(scene.decision(P).target, scene.decision(D).target)}
    for _ in range(60):
        scene.tick(apply=False)
        said.add((scene.decision(P).target, scene.decision(D).target))
    assert len(said) == 1 and said != {(4, 3)}, said


def test_a_pool_that_is_limited_to_zero_is_zero() -> None:
    """B14: an explicit zero is not "unset"."""
    scene = Scene(prefill=1, decode=1, minimum=0)
    scene.pool(P, maximum=0)
    scene.pool(D, maximum=0)
    scene.tick()
    assert (scene.replicas(P), scene.replicas(D)) == (0, 0)
    assert scene.decision(P).why in (Why.ABOVE_MAXIMUM, Why.TO_ZERO)
