"""Field cases H3, H4, B9, B10, B11, B13, B14, B15 and invariants 1, 2, 7, 8, 11, 12, 13, 16, 21."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem_api.reasons import Condition, Reason
from tandem_autoscaler.decide.decision import Why
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import fresh_state
from tandem_autoscaler.signals.source import PodReading
from tests.autoscaler.scene import D, P, Scene, W


def overloaded(scene: Scene) -> None:
    """Twice what the ready workers can do."""
    scene.overload(2.0)
    scene.answers(2.0, tokens=5)


# --- H3: starting workers are counted once ----------------------------------------------------------------
def test_starting_workers_are_counted_once() -> None:
    """Two workers with the load of four; the new ones never become ready: nothing more is ordered."""
    scene = Scene(prefill=2, maximum=50).settle(8, prompts=0.5)
    seen = []
    for _ in range(24):
        scene.prompts(3.4, seconds=2.0)
        scene.answers(3.4, tokens=5)
        scene.tick()
        while sum(pod.role == P for pod in scene.pods.values()) < scene.replicas(P):
            scene.add(P, ready=False)
        seen.append(scene.replicas(P))
    settled = seen[6]
    assert settled > 2
    assert max(seen) == settled, seen


def test_unschedulable_workers_do_not_hold_up_a_scale_down() -> None:
    scene = Scene(prefill=2, confirm_seconds=30.0).settle(prompts=0.5)
    scene.pool(P, replicas=4)
    for _ in range(2):
        scene.add(P, ready=False, stuck=True)
    for _ in range(60):
        scene.tick()
    assert scene.replicas(P) == 1


def test_nothing_shrinks_while_workers_start() -> None:
    scene = Scene(prefill=3).settle(prompts=0.5)
    scene.add(P, ready=False)
    scene.pool(P, replicas=4)
    for _ in range(30):
        scene.prompts(0.5)
        scene.answers(0.5, tokens=5)
        scene.tick()
    assert scene.replicas(P) == 4
    assert scene.decision(P).why is Why.STARTING


# --- H4, B13: what is not known -----------------------------------------------------------------------------
def test_a_silent_worker_counts_as_nothing_when_growing() -> None:
    """The two that answer carry four workers' load each; the third has never been heard."""
    scene = Scene(prefill=3, maximum=30)
    scene.silent = {[uid for uid in scene.pods if uid.startswith(P)][2]}
    alone = Scene(prefill=2, maximum=30)
    for each in (scene, alone):
        for _ in range(24):
            overloaded(each)
            each.tick(apply=False)
    need = scene.decision(P).numbers["need"]
    assert need == alone.decision(P).numbers["need"] > 3
    assert scene.decision(P).target > 3


def test_a_silent_worker_forbids_shrinking() -> None:
    scene = Scene(prefill=3).settle(prompts=0.3)
    scene.silent = {[uid for uid in scene.pods if uid.startswith(P)][2]}
    for _ in range(40):
        scene.tick()
    assert scene.replicas(P) == 3
    assert scene.decision(P).why is Why.PARTIAL_DATA


def test_all_silent_holds_for_ever() -> None:
    scene = Scene(prefill=3, decode=3).settle(prompts=0.5)
    scene.silent = set(scene.pods)
    for _ in range(80):
        scene.tick()
        assert (scene.replicas(P), scene.replicas(D)) == (3, 3)
    assert scene.outcome.conditions["ScalingActive"].reason == "NoMetrics"


@pytest.mark.parametrize("wanted", [2, 3, 9], ids=["fewer", "as many", "more"])
@pytest.mark.parametrize("roles", [{"prefill": 3, "decode": 3}, {"workers": 3}], ids=["apart", "colocated"])
def test_no_decision_is_called_steady_while_no_worker_is_heard(wanted: int, roles: dict[str, int]) -> None:
    """What the last window says may well be what stands: that nobody sees it any more is the news."""
    scene = Scene(**roles).settle(8, prompts=0.5)
    for role in scene.service.pools:
        scene.pool(role, minimum=min(wanted, 3), maximum=3)
    scene.silent = set(scene.pods)
    for _ in range(80):
        for decision in scene.tick().decisions.values():
            assert (decision.target, decision.current) == (3, 3)
            assert decision.why in (Why.STALE_DATA, Why.NO_DATA, Why.WAITING_FOR_DATA), decision.message


def test_no_traffic_with_answering_workers_is_known_and_shrinks() -> None:
    """Invariant 11: unknown, idle and broken are three things."""
    scene = Scene(prefill=3, decode=2)
    for _ in range(90):
        scene.tick()
    assert (scene.replicas(P), scene.replicas(D)) == (1, 1)


def test_workers_without_any_known_series_are_said_to_be_so() -> None:
    """A16: answering and healthy, and yet nothing is read."""
    scene = Scene(prefill=3)
    for exported in scene.exported.values():
        exported.text = lambda: "python_info 1\n"  # type: ignore[method-assign]
    for _ in range(30):
        scene.tick()
    assert scene.outcome.conditions["ScalingActive"].reason == "NoSeriesMatched"
    assert scene.replicas(P) == 3


def test_one_unknown_signal_forbids_shrinking_and_not_growing() -> None:
    """B13 on a colocated pool, which answers for both promises; TPOT is unknown."""
    scene = Scene(workers=3)
    for exported in scene.of(W):
        text = exported.text
        exported.text = lambda text=text: "\n".join(  # type: ignore[method-assign,misc]
            line for line in text().splitlines()
            if "inter_token" not in line and "generation" not in line and "per_output" not in line
        )  # fmt: skip
    for _ in range(60):
        scene.prompts(0.3)
        scene.tick()
    assert scene.replicas(W) == 3
    for _ in range(20):
        scene.overload(2.0)
        scene.tick(apply=False)
    assert scene.decision(W).target > 3


# --- B9, B10: noise and restarts ------------------------------------------------------------------------
def test_noise_across_a_rounding_edge_changes_little() -> None:
    scene = Scene(prefill=5, confirm_seconds=60.0, settings=Settings()).settle(30, prompts=9.0)
    scene.pool(P, replicas=int(scene.decision(P).numbers["need"]))
    changes = 0
    for weight in (0.5, 0.7, 0.6, 0.75, 0.65, 0.8, 0.7):
        for _ in range(3):
            before = scene.replicas(P)
            scene.prompts(13.0 * weight)
            scene.answers(13.0 * weight, tokens=5)
            scene.tick()
            changes += scene.replicas(P) != before
    assert changes <= 2


def test_a_restart_in_a_lull_keeps_what_is_there() -> None:
    scene = Scene(prefill=7, confirm_seconds=60.0).settle(prompts=9.0)
    scene.state = fresh_state(scene.service, scene.now, scene.settings)
    for _ in range(11):
        scene.tick()
        assert scene.replicas(P) == 7
    for _ in range(90):  # one a minute
        scene.tick()
    assert scene.replicas(P) == 1


def test_a_short_confirmation_still_waits_for_one_window_after_a_restart() -> None:
    scene = Scene(prefill=7, confirm_seconds=5.0)
    for _ in range(11):
        scene.tick()
        assert scene.replicas(P) == 7


def test_what_was_learnt_survives_a_restart_by_the_status() -> None:
    scene = Scene().settle(prompts=2.0, seconds=0.35)
    numbers = {
        role: {"numbers": {name: f"{value:.3g}" for name, value in decision.numbers.items()}}
        for role, decision in scene.outcome.decisions.items()
    }
    after = fresh_state(
        replace(scene.service, status={"autoscaling": {"roles": numbers}}), scene.now, scene.settings
    )
    assert after.prefill.known and after.decode.known
    assert after.prefill.seconds(1000) == pytest.approx(scene.state.prefill.seconds(1000), rel=0.02)
    assert after.decode.seconds(3) == pytest.approx(scene.state.decode.seconds(3), rel=0.02)
    assert after.output_tokens == pytest.approx(50, rel=0.02)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["autoscaling", "roles", "prefill", "numbers", "promptBaseSeconds"]), inner),
        max_leaves=12,
    )
)  # fmt: skip
def test_a_status_of_any_shape_is_no_reason_to_fail(status: object) -> None:
    scene = Scene()
    fresh_state(
        replace(scene.service, status=status if isinstance(status, dict) else {}), 0.0, scene.settings
    )


# --- B11, B14, B15: zero and all unready ---------------------------------------------------------------------
def router(**values: float) -> PodReading:
    counters = {"router_unserved_total": values.get("unserved", 0.0), "router_requests_total": 0.0}
    gauges = {"router_running": values["running"]} if "running" in values else {}
    return PodReading("router", 0.0, counters, gauges)


def test_a_request_at_the_router_wakes_both_roles_in_one_tick() -> None:
    scene = Scene(prefill=0, decode=0, minimum=0)
    scene.tick(routers=[router(unserved=0)])
    scene.tick(routers=[router(unserved=0)])
    assert (scene.replicas(P), scene.replicas(D)) == (0, 0)
    scene.tick(routers=[router(unserved=1)])
    assert (scene.replicas(P), scene.replicas(D)) == (1, 1)
    assert scene.decision(P).why is Why.FROM_ZERO


def test_a_minimum_of_zero_is_honoured_after_the_idle_time_and_not_before() -> None:
    scene = Scene(prefill=1, decode=1, minimum=0)
    for _ in range(175):  # 875 s of the 900
        scene.tick()
    assert (scene.replicas(P), scene.replicas(D)) == (1, 1)
    for _ in range(30):
        scene.tick()
    assert (scene.replicas(P), scene.replicas(D)) == (0, 0)
    assert scene.decision(P).target == 0


@pytest.mark.parametrize(
    ("past_the_router", "reason"), [(True, Reason.WAITING_FOR_DATA), (False, Reason.NO_TRAFFIC)]
)
def test_a_router_that_requests_go_past_is_no_witness_that_there_are_none(
    past_the_router: bool, reason: Reason
) -> None:
    """Behind an InferencePool; the workers are silent, and the router has served nothing."""
    scene = Scene(workers=2, past_the_router=past_the_router).settle(3)
    scene.silent = set(scene.pods)
    for _ in range(40):
        scene.tick(routers=[router(unserved=0, running=0)])
    assert ("promptsPerSecond" in scene.decision(W).numbers) is not past_the_router
    assert scene.outcome.conditions[Condition.SLO_MET].reason == reason


def test_a_slow_start_is_not_given_up_as_idle() -> None:
    """Starting takes 30 minutes, the idle time is 15."""
    scene = Scene(prefill=0, decode=0, minimum=0)
    scene.tick(routers=[router(unserved=0)])
    scene.tick(routers=[router(unserved=3)])
    scene.add(P, ready=False), scene.add(D, ready=False)
    for _ in range(360):
        scene.tick(routers=[router(unserved=3)])
        assert (scene.replicas(P), scene.replicas(D)) == (1, 1)


def test_all_workers_unready_under_load_is_no_absence_of_demand() -> None:
    scene = Scene(prefill=4, decode=1).settle(prompts=4.0)
    for uid in [uid for uid in scene.pods if uid.startswith(P)]:
        scene.set(uid, ready=False, ready_since_seconds=None)
    for _ in range(12):
        scene.tick(routers=[router(running=200)])
    assert scene.replicas(P) > 4


# --- invariants over anything ----------------------------------------------------------------------------------
pod_events = st.lists(
    st.tuples(
        st.sampled_from(["ready", "unready", "silent", "heard", "add", "remove", "reset", "drain"]),
        st.integers(0, 7),
    ),
    max_size=4,
)
steps = st.lists(
    st.tuples(st.floats(0, 40), st.floats(0.01, 20), st.floats(0, 3), pod_events, st.booleans()),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.integers(0, 2), st.integers(2, 9), st.one_of(st.none(), st.integers(2, 20)))
def test_whatever_happens_the_limits_hold(
    script: list[tuple[float, float, float, list[tuple[str, int]], bool]],
    minimum: int,
    maximum: int,
    budget: int | None,
) -> None:
    scene = Scene(
        prefill=2, decode=2, minimum=minimum, maximum=maximum, gpu_budget=budget, confirm_seconds=10.0
    )
    lost: dict[str, list[float]] = {P: [], D: []}
    for prompts, seconds, per_token, events, backwards in script:
        for event, index in events:
            _happen(scene, event, index)
        scene.prompts(prompts, seconds=seconds)
        scene.answers(prompts, seconds_per_token=max(per_token, 1e-3))
        if backwards:
            scene.now -= 12.0
        before = {role: scene.replicas(role) for role in (P, D)}
        again = scene.state
        outcome = scene.tick()
        targets = {role: decision.target for role, decision in outcome.decisions.items()}
        assert all(minimum <= n <= maximum for n in targets.values()) or (
            budget is not None and all(targets[r] == before[r] or targets[r] <= maximum for r in targets)
        )
        assert (targets[P] >= 1) == (targets[D] >= 1) or budget is not None
        if budget is not None and all(
            d.why is not Why.GPU_BUDGET or d.changes for d in outcome.decisions.values()
        ):
            assert sum(targets.values()) <= max(budget, 2 * minimum)
        for role in (P, D):
            if targets[role] < before[role]:
                lost[role].append(scene.now)
            assert outcome.decisions[role].message
        assert again is not scene.state


def _happen(scene: Scene, event: str, index: int) -> None:
    uids = list(scene.pods)
    uid = uids[index % len(uids)] if uids else None
    match event:
        case "add":
            scene.add((P, D)[index % 2], ready=bool(index % 3))
        case "remove" if uid:
            scene.pods.pop(uid), scene.exported.pop(uid)
        case "ready" if uid:
            scene.set(uid, ready=True, draining=False, ready_since_seconds=scene.now)
        case "unready" if uid:
            scene.set(uid, ready=False, ready_since_seconds=None)
        case "drain" if uid:
            scene.set(uid, ready=False, draining=True)
        case "silent" if uid:
            scene.silent.add(uid)
        case "heard" if uid:
            scene.silent.discard(uid)
        case "reset" if uid:
            scene.exported[uid].__init__()  # type: ignore[misc]


@settings(max_examples=25, deadline=None)
@given(st.floats(0.1, 12), st.floats(0.05, 3), st.randoms(use_true_random=False))
def test_the_same_measurements_give_the_same_decision_in_any_order(
    rate: float, seconds: float, random: object
) -> None:
    """Invariants 7 and 8."""
    a, b = Scene(prefill=3, decode=2), Scene(prefill=3, decode=2)
    for tick in range(14):
        if tick == 7:
            items = list(b.pods.items())
            random.shuffle(items)  # type: ignore[attr-defined]
            b.pods = dict(items)
        for scene in (a, b):
            scene.prompts(rate, seconds=seconds)
            scene.answers(rate)
            scene.tick(apply=False)
    for role in (P, D):
        one, two = a.decision(role), b.decision(role)
        assert (one.target, one.why) == (two.target, two.why)
    a.now -= 5.0  # no time passes
    before = {role: a.decision(role) for role in (P, D)}
    a.tick(apply=False)
    assert {role: a.decision(role).target for role in (P, D)} == {
        role: d.target for role, d in before.items()
    }


def test_a_pool_set_by_hand_is_left_alone_and_then_corrected() -> None:
    scene = Scene(confirm_seconds=30.0).settle(10, prompts=0.5)
    for _ in range(20):
        scene.tick()
    scene.pool(D, replicas=5)
    for _ in range(4):
        scene.add(D)
    for _ in range(5):
        scene.tick()
        assert scene.replicas(D) == 5
        assert scene.decision(D).why is Why.MANUAL
    for _ in range(60):
        scene.tick()
    assert scene.replicas(D) == 1


def test_a_limit_applies_without_any_measurement() -> None:
    """H11: live 12, maxReplicas 8."""
    scene = Scene(prefill=12, maximum=8)
    scene.silent = set(scene.pods)
    scene.tick()
    assert scene.replicas(P) == 8
