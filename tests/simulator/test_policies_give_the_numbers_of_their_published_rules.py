"""Each baseline on hand-made views: the worked examples of the rule that its docstring cites."""

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.model.queueing import violation
from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.policies.aibrix_apa import AibrixApa, Apa
from tandem_autoscaler.simulator.policies.baselines import BASELINES, GRID
from tandem_autoscaler.simulator.policies.constant_headroom import ConstantHeadroom
from tandem_autoscaler.simulator.policies.heteroscale import HeteroScale
from tandem_autoscaler.simulator.policies.hpa import Controller, Hpa
from tandem_autoscaler.simulator.policies.keda import Keda
from tandem_autoscaler.simulator.policies.kpa import Autoscaler
from tandem_autoscaler.simulator.policies.need import decode_need, prefill_need, service_distribution
from tandem_autoscaler.simulator.policies.oracle_model import oracle_model, true_needs
from tandem_autoscaler.simulator.policies.policy import Policy, Targets
from tandem_autoscaler.simulator.policies.profile import Profile, batch_seconds, largest_batch
from tandem_autoscaler.simulator.policies.schedule import Schedule
from tandem_autoscaler.simulator.policies.static import best
from tandem_autoscaler.simulator.policies.tokenscale import TokenScale
from tandem_autoscaler.simulator.policies.traffic import Traffic, dispersion
from tandem_autoscaler.simulator.policies.wva_queueing import decode_rate, mean_batch, prefill_rate
from tandem_autoscaler.simulator.policies.wva_saturation import TokenAnalyzer, spare_replicas
from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.view import FleetView, RoleView

# Times that make the arithmetic plain: 1,000 tokens take 0.1 s; a batch of B takes 10 ms + B x 0.1 ms.
HARDWARE = Hardware(
    "plain", 1, (0.0, 1e-4, 0.0), (0.01, 1e-4, 0.0), kv_tokens=1_000_000, transfer_base_seconds=0.0
)
PROFILE = Profile(HARDWARE, ttft_seconds=1.0, tpot_seconds=0.02, prompt_tokens=1000.0, output_tokens=100.0,
                  arrivals_per_second=20.0)  # fmt: skip


def role(
    ready: int, *, target: int | None = None, starting: int = 0, running: float = 0.0, waiting: float = 0.0,
    kv_usage: float = 0.0,
) -> RoleView:  # fmt: skip
    """`running`, `waiting` and `kv_usage` of each ready worker."""
    return RoleView(
        target=ready + starting if target is None else target,
        ready=ready,
        starting=starting,
        draining=0,
        running=np.full(ready, running),
        waiting=np.full(ready, waiting),
        waiting_tokens=np.full(ready, waiting * 1000.0),
        kv_usage=np.full(ready, kv_usage),
    )


NOTHING = np.empty(0)


def view(now: float = 600.0, *, rate: float = 20.0, prompt: float = 1000.0, output: float = 100.0,
         **changes: object) -> FleetView:  # fmt: skip
    """After `now` seconds of even arrivals, all of which are finished."""
    arrival = np.arange(0.0, now, 1.0 / rate)
    seen = FleetView(
        now_seconds=now, prefill=role(4), decode=role(4), arrived=len(arrival), prefilled=len(arrival),
        finished=len(arrival), prompt_tokens_arrived=prompt * len(arrival),
        prompt_tokens_prefilled=prompt * len(arrival), output_tokens_made=output * len(arrival), preemptions=0,
        router_waiting=0, decode_waiting=0, new_ttft_seconds=NOTHING, new_tpot_seconds=NOTHING, arrival=arrival,
        prompt=np.full(len(arrival), prompt), new_finished_prompt=NOTHING, new_finished_output=NOTHING,
    )  # fmt: skip
    return replace(seen, **changes)  # type: ignore[arg-type]


@dataclass
class Shown:
    """A fleet that is only looked at."""

    seen: FleetView

    @property
    def now_seconds(self) -> float:
        return self.seen.now_seconds

    def view(self) -> FleetView:
        return self.seen


def step(policy: Policy, seen: FleetView) -> Targets:
    return policy.step(cast(Fleet, Shown(seen)))


def test_the_batch_is_the_largest_within_time_memory_and_the_engine() -> None:
    """(0.95 x 20 ms - 10 ms) / 0.1 ms = 90; 0.92 x 20,000 tokens at contexts of 1,050 leave 12.3."""
    assert largest_batch(HARDWARE, 0.02, 1000.0, 100.0) == 90
    small = replace(HARDWARE, kv_tokens=20_000)
    limited = largest_batch(small, 0.02, 1000.0, 100.0)
    assert limited * 1050 + 2 * 1050 * math.sqrt(limited) <= 0.92 * 20_000
    assert (limited + 1) * 1050 + 2 * 1050 * math.sqrt(limited + 1) > 0.92 * 20_000
    assert largest_batch(replace(HARDWARE, max_sequences=64), 0.02, 1000.0, 100.0) == 64
    assert largest_batch(HARDWARE, 0.005, 1000.0, 100.0) == 1


@given(st.floats(0.1, 200.0), st.floats(100.0, 5000.0))
def test_prefill_need_is_the_smallest_pool_that_keeps_the_target(arrivals: float, tokens: float) -> None:
    prompts = np.array([0.5 * tokens, tokens, 1.5 * tokens])
    workers = prefill_need(PROFILE, arrivals, prompts)
    left = 0.95 * 1.0 - 1.5 * batch_seconds(HARDWARE, 90, 1000.0, 100.0)
    served = service_distribution(HARDWARE, prompts)
    assert violation(workers, arrivals, served, left) <= 0.04
    assert workers == 1 or violation(workers - 1, arrivals, served, left) > 0.04


def test_decode_need_staffs_by_the_square_root() -> None:
    """20 requests/s x 100 tokens x tau(90) = 19 ms make 38 sequences. 90 = x + 1.5 sqrt(x) at x = 76.9; 200/s need
    380 / 76.9 = 5 workers, one more than their mean batches alone would."""
    assert decode_need(PROFILE, 20.0, 1000.0, 100.0) == 1
    assert decode_need(PROFILE, 200.0, 1000.0, 100.0) == 5
    assert decode_need(PROFILE, 0.0, 1000.0, 100.0) == 1


def test_hpa_scales_by_the_ratio_outside_its_tolerance() -> None:
    """4 pods with 3 requests each over a target of 2: 6. At 2.2 each (10 %): nothing. At most max(2 N, N + 4)."""
    controller = Controller()
    assert controller.pods(0.0, role(4), 12.0, 2.0) == 6
    assert Controller().pods(0.0, role(4), 8.8, 2.0) == 4
    assert Controller().pods(0.0, role(4), 800.0, 2.0) == 8
    assert Controller().pods(0.0, role(1), 800.0, 2.0) == 5


def test_hpa_counts_starting_pods_as_idle_and_does_not_turn_round() -> None:
    """12 requests on 4 ready pods of 8 are 1.5 each over a target of 2: the ready ones are over it, all are not."""
    assert Controller().pods(0.0, role(4, starting=4), 12.0, 2.0) == 8
    assert Controller().pods(0.0, role(4, starting=1), 12.0, 2.0) == 6


def test_hpa_shrinks_to_the_largest_recommendation_of_five_minutes() -> None:
    controller, current, told = Controller(), 6, []
    for now in range(0, 615, 15):
        load = 12.0 if now == 0 else 8.0 if now <= 150 else 2.0
        current = controller.pods(float(now), role(current), load, 2.0)
        told.append((now, current))
    by_time = dict(told)
    assert by_time[300] == 6 and by_time[315] == 4
    assert by_time[450] == 4 and by_time[465] == 1


def test_hpa_policy_uses_concurrency_of_both_roles() -> None:
    """Prefill 2 per pod; decode 0.7 x 90 = 63."""
    seen = view(prefill=role(4, running=1.0, waiting=3.0), decode=role(4, running=94.5))
    assert step(Hpa(PROFILE), seen) == Targets(8, 6)


def kpa_run(autoscaler: Autoscaler, ready: int, loads: list[float], start: float = 0.0) -> list[int]:
    return [autoscaler.replicas(start + 2.0 * i, ready, load) for i, load in enumerate(loads)]


def test_kpa_divides_the_stable_mean_and_never_drops_below_half() -> None:
    """Mean concurrency 14 over a target of 1.4: 10 pods. Idle: half of the ready ones."""
    assert kpa_run(Autoscaler(1.4, scale_down_delay_seconds=0.0), 8, [14.0] * 90)[-1] == 10
    assert kpa_run(Autoscaler(1.4, scale_down_delay_seconds=0.0), 8, [0.0] * 90)[-1] == 4


def test_kpa_panics_at_twice_the_pods_and_holds_for_a_minute() -> None:
    """5 pods see 14 / 1.4 = 10 pods' worth for 6 s: panic. It holds 10 until 60 s after it was last over."""
    autoscaler = Autoscaler(1.4, scale_down_delay_seconds=0.0)
    told = kpa_run(autoscaler, 5, [4.0] * 60 + [14.0] * 4 + [4.0] * 60)
    assert told[59] == 3
    assert told[63] == 10
    held = [i for i, pods in enumerate(told) if pods == 10]
    assert held[0] == 62 or held[0] == 63
    assert 58.0 <= 2.0 * (held[-1] - 63) <= 66.0
    assert told[-1] == 3


def test_kpa_shrinks_only_after_its_delay() -> None:
    told = kpa_run(Autoscaler(1.0, scale_down_delay_seconds=300.0), 4, [8.0] * 40 + [2.0] * 250)
    last_high = max(i for i, pods in enumerate(told) if pods == 8)
    assert 2.0 * (last_high - 40) >= 300.0
    assert told[-1] == 2


def test_keda_divides_the_waiting_requests_by_five_every_half_minute() -> None:
    """4 pods with 10 waiting each: 40 / 5 = 8. KV usage 0.9 each: 3.6 / 0.8 = 4.5, so 5."""
    policy = Keda(PROFILE)
    seen = view(prefill=role(4, waiting=10.0), decode=role(4, kv_usage=0.9))
    assert step(policy, seen) == Targets(8, 5)
    later = view(615.0, prefill=role(8, waiting=0.0), decode=role(5, kv_usage=0.0))
    assert step(policy, later).prefill == 8, "the metric is fetched every 30 s"


def test_aibrix_scales_by_the_ratio_of_its_windowed_mean() -> None:
    """r = 1.5: ceil(4 x 1.5) = 6; r = 3: at most 8; r = 0.3: at least 2; within 10 %: 4."""
    apa = Apa(0.5)
    assert [apa.recommend(4, use) for use in (0.75, 1.5, 0.15, 0.54, 0.46)] == [6, 8, 2, 4, 4]


def test_aibrix_averages_three_minutes_and_shrinks_after_five() -> None:
    apa, current = Apa(1.0), 4
    told = {}
    for now in range(0, 1200, 15):
        current = apa.replicas(float(now), current, 1.0 if now < 300 else 0.5)
        told[now] = current
    assert told[300] == 4
    assert min(now for now, pods in told.items() if pods < 4) >= 600
    assert told[1185] < 4


def test_aibrix_knows_nothing_without_ready_workers() -> None:
    seen = view(prefill=role(0, starting=3), decode=role(4, kv_usage=0.5))
    assert step(AibrixApa(PROFILE), seen) == Targets(None, 4)


def test_wva_adds_one_when_spare_capacity_is_short() -> None:
    """Mean spare KV 0.8 - 0.75 < 0.1; mean spare queue 5 - 3 < 3; all saturated: one more each, but none while one
    is pending."""
    assert spare_replicas(role(4, kv_usage=0.75)) == 5
    assert spare_replicas(role(4, waiting=3.0)) == 5
    assert spare_replicas(role(4, kv_usage=0.9)) == 5
    assert spare_replicas(role(4, starting=1, kv_usage=0.9)) == 5
    assert spare_replicas(role(4, kv_usage=0.55)) == 4, "3 workers would have 0.73 each"
    assert spare_replicas(role(4, kv_usage=0.5)) == 3


def test_wva_tokens_divides_demand_by_capacity() -> None:
    """k1 = 0.8 x 1M; k2: 256 sequences x 1,050 = 268,800 tokens. 5 workers at 0.3 of their KV hold 1.5M tokens:
    1.5M / 0.85 - 5 x 268,800 = 420,706, so two more."""
    analyzer = TokenAnalyzer(1_000_000, max_sequences=256)
    assert analyzer.wish(role(5, kv_usage=0.3), 0, 1000.0, 100.0) == 7
    assert analyzer.wish(role(5, starting=2, target=7, kv_usage=0.3), 0, 1000.0, 100.0) == 7
    assert analyzer.wish(role(5, kv_usage=0.05), 0, 1000.0, 100.0) == 5 - math.floor(
        5 - 250_000 / 0.7 / 268_800
    )


def test_wva_tokens_believes_what_it_saw_under_a_queue() -> None:
    """A worker with 5 waiting holds 100,000 tokens: that is its capacity from then on."""
    analyzer = TokenAnalyzer(1_000_000, max_sequences=256)
    analyzer.wish(role(1, kv_usage=0.1, waiting=5.0), 0, 1000.0, 100.0)
    assert analyzer.wish(role(1, kv_usage=0.2), 0, 1000.0, 100.0) == 1 + math.ceil(
        (200_000 / 0.85 - 100_000) / 100_000
    )


def test_wva_queueing_finds_the_rate_that_just_keeps_the_means() -> None:
    """S = 0.1 s, W = S / (1 - lambda S) = 1 s at 9 per second. A decode worker there has a mean TPOT of 20 ms."""
    assert prefill_rate(PROFILE) == pytest.approx(9.0)
    rate = decode_rate(PROFILE)
    rates = np.arange(1, 257) / np.array([100.0 * (0.01 + 1e-4 * n) for n in range(1, 257)])
    in_service, completed = mean_batch(rate, rates)
    assert in_service / completed / 100.0 == pytest.approx(0.02, rel=1e-3)


def test_mean_batch_is_that_of_an_m_m_1_queue() -> None:
    """One server at 2 per second, 1 arrives: half busy."""
    in_service, completed = mean_batch(1.0, np.array([2.0]))
    assert in_service == pytest.approx(0.5, abs=1e-3)
    assert completed == pytest.approx(1.0, abs=1e-3)


def test_tokenscale_divides_token_rates_by_velocities() -> None:
    """V_P = 10,000 tokens/s, 20,000 arrive: 2. V_D = 90 / (100 x 19 ms) x 1,100 = 52,105; 22,000 arrive: 1."""
    policy = TokenScale(PROFILE)
    prefill, decode = policy.velocities(1000.0, 100.0)
    assert prefill == pytest.approx(10_000.0)
    assert decode == pytest.approx(90 / (100 * 0.019) * 1100)
    assert step(policy, view()) == Targets(2, 1)
    assert step(TokenScale(PROFILE, utilisation=0.25), view()) == Targets(8, 2)


def test_heteroscale_follows_decode_tokens_and_keeps_the_ratio() -> None:
    """A worker makes 90 / 19 ms = 4,737 tokens/s at B*, of which 0.8 are the target."""
    policy = HeteroScale(PROFILE, ratio=1.5)
    assert policy.target == pytest.approx(0.8 * 90 / 0.019)
    assert policy.decode_replicas(4, 4, 4.2 * policy.target) == 4
    assert policy.decode_replicas(4, 4, 5.5 * policy.target) == 6
    step(policy, view(600.0, output_tokens_made=0.0))
    assert step(policy, view(615.0, output_tokens_made=15.0 * 5.5 * policy.target)) == Targets(9, 6)


def test_heteroscale_adds_a_fifth_when_latency_is_broken_once_a_minute() -> None:
    late = view(600.0, new_ttft_seconds=np.array([3.0, 3.0]))
    policy = HeteroScale(PROFILE, ratio=1.0)
    policy.decode_replicas = lambda current, ready, tokens: current  # type: ignore[method-assign]
    assert step(policy, late) == Targets(5, 5)
    assert step(policy, replace(late, now_seconds=615.0)) == Targets(4, 4)


def test_constant_headroom_sizes_for_h_times_the_arrivals_and_holds_five_minutes() -> None:
    policy = ConstantHeadroom(PROFILE, headroom=1.5)
    prompts = np.full(10, 1000.0)
    busy = step(policy, view(600.0, rate=60.0))
    assert busy == Targets(prefill_need(PROFILE, 90.0, prompts), decode_need(PROFILE, 90.0, 1000.0, 100.0))
    assert step(policy, view(900.0, rate=10.0)) == busy
    assert step(policy, view(915.0, rate=10.0)) == Targets(prefill_need(PROFILE, 15.0, prompts), 1)


def test_output_length_is_not_short_biased_after_a_shift() -> None:
    """For ten minutes answers had 100 tokens; now 3 per second finish while 900 tokens per second are made."""
    traffic, finished, made = Traffic(100.0), 0, 0.0
    for now in np.arange(0.0, 600.0, 15.0):
        finished, made = finished + 45, made + 4500.0
        traffic.update(view(now + 15.0, rate=3.0, finished=finished, output_tokens_made=made,
                            new_finished_output=np.full(45, 100.0)))  # fmt: skip
    assert traffic.output_tokens == pytest.approx(100.0)
    for now in np.arange(600.0, 660.0, 15.0):
        finished, made = finished + 45, made + 13_500.0
        traffic.update(view(now + 15.0, rate=3.0, finished=finished, output_tokens_made=made,
                            new_finished_output=np.full(45, 100.0)))  # fmt: skip
    assert traffic.output_tokens == pytest.approx(300.0)


def test_dispersion_is_one_for_poisson_more_for_bursts_and_ignores_a_ramp() -> None:
    random = np.random.default_rng(1)
    found = []
    for _ in range(40):
        arrival = np.sort(random.uniform(0.0, 300.0, random.poisson(3000)))
        found.append(dispersion(arrival, 300.0))
    assert np.mean(found) == pytest.approx(1.05, abs=0.08)
    bursts = np.repeat(np.sort(random.uniform(0.0, 300.0, 750)), 4)
    assert 2.5 < dispersion(bursts, 300.0) < 6.0
    ramp = 300.0 * np.sqrt(np.linspace(0.0, 1.0, 3000))
    assert dispersion(ramp, 300.0) == 1.0


TRACE = Trace("even", np.arange(0.0, 300.0, 0.05), np.full(6000, 1000.0), np.full(6000, 100.0), 300.0)


def test_schedule_orders_one_cold_start_ahead_and_keeps_what_is_needed_again() -> None:
    """Slots of 15 s; the fourth (45 s) wants 5. With a cold start of 20 s it is ordered at 15 s, since at 30 s it
    would come too late, and given back at 60 s; the gap of one slot before the next rise is bridged."""
    schedule = Schedule([1, 1, 1, 5, 1, 4, 1, 1, 1, 1], [1] * 10, 20.0)
    assert [schedule.at(now)[0] for now in range(0, 120, 15)] == [1, 5, 5, 5, 4, 4, 1, 1]


def test_the_model_oracle_has_the_need_of_the_true_arrivals() -> None:
    prefill, decode = true_needs(TRACE, PROFILE, 0.05)
    assert set(prefill) == {prefill_need(PROFILE, 20.0, np.array([1000.0]))}
    assert set(decode) == {decode_need(PROFILE, 20.0, 1000.0, 100.0)}
    assert oracle_model(TRACE, PROFILE).at(100.0) == (int(prefill[0]), int(decode[0]))


@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_the_best_fixed_fleet_is_found(prefill: int, decode: int, trade: bool) -> None:
    """Attainment grows with both; with `trade` a spare prefill worker makes up for a lacking decode worker."""

    def attainment(p: int, d: int) -> float:
        return 1.0 if p >= prefill and d >= decode - (1 if trade and p > prefill else 0) else 0.5

    found = best(attainment, 12, 0.99)
    assert attainment(*found) == 1.0
    assert sum(found) == min(p + d for p in range(1, 13) for d in range(1, 13) if attainment(p, d) == 1.0)


def test_a_fixed_fleet_that_cannot_keep_the_promise_is_the_largest() -> None:
    assert best(lambda prefill, decode: 0.5, 12, 0.99) == (12, 12)


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_answers_with_at_least_one_worker_per_role_at_every_constant_of_its_grid(
    name: str,
) -> None:
    contender = BASELINES[name]
    assert not GRID[name] or contender.default in GRID[name]
    for constants in (contender.default, *GRID[name]):
        policy = contender.make(TRACE, PROFILE, **constants)
        targets = step(
            policy, view(150.0, prefill=role(2, running=1.0), decode=role(2, running=10.0, kv_usage=0.1))
        )
        assert targets.prefill is not None and targets.prefill >= 1
        assert targets.decode is not None and targets.decode >= 1


@pytest.mark.parametrize("name", sorted(set(BASELINES) - {"static", "oracle_model"}))
def test_more_generous_constants_never_ask_for_less(name: str) -> None:
    """The grids run from frugal to generous, so a sweep is a line."""
    asked = []
    for constants in GRID[name]:
        policy = BASELINES[name].make(TRACE, PROFILE, **constants)
        seen = view(
            300.0, prefill=role(4, running=1.0, waiting=1.0), decode=role(4, running=60.0, kv_usage=0.4)
        )
        targets = [
            step(policy, replace(seen, now_seconds=300.0 + policy.tick_seconds * i)) for i in range(3)
        ][-1]
        asked.append((targets.prefill or 0) + (targets.decode or 0))
    assert asked == sorted(asked)
