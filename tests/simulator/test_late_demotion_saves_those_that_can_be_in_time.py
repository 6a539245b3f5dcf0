"""The low queue takes what would be late, and no more than it must (ALGORITHM 7c)."""

import numpy as np
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.run import Result
from tandem_autoscaler.simulator.trace import Trace
from tests.simulator.fleets import poisson, run_out, trace_of

# 1 ms per token, decode next to free: TTFT is what the prefill queue makes of it.
SIMPLE = Hardware("simple", 1, (0.0, 1e-3, 0.0), (1e-6, 0.0, 0.0), 10**9, 4096, 0.0)


def _served(trace: Trace, **changes: object) -> Result:
    return run_out(trace, 1, 1, SIMPLE, tpot_seconds=1e-3, **changes)


def _in_time(trace: Trace, **changes: object) -> list[bool]:
    return [bool(t <= 1.0) for t in _served(trace, **changes).ttft]


def test_the_longest_before_a_late_one_yields() -> None:
    """0.1 s is being computed; 0.8 + 0.3 + 0.3 s more cannot all be there within 1 s, without the longest they can."""
    trace = trace_of([0.0, 0.01, 0.02, 0.03], [100, 800, 300, 300], 1.0)
    assert _in_time(trace) == [True, True, False, False]
    assert _in_time(trace, late_demotion=True) == [True, False, True, True]
    assert _served(trace, late_demotion=True).demotions == 1


def test_of_equals_the_last_one_yields() -> None:
    trace = trace_of([0.0] * 5, [400] * 5, 1.0)
    assert _in_time(trace, late_demotion=True) == _in_time(trace) == [True, True, False, False, False]


def test_what_cannot_be_in_time_holds_up_nobody() -> None:
    """Two seconds of prompt never make one second: it is served when the others are through."""
    trace = trace_of([0.0, 0.1, 0.2, 0.3], [300, 2000, 300, 300], 1.0)
    assert _in_time(trace) == [True, False, False, False]
    served = _served(trace, late_demotion=True)
    assert [bool(t <= 1.0) for t in served.ttft] == [True, False, True, True]
    assert np.isclose(served.ttft[1], 0.9 + 2.0 - 0.1, atol=0.01)


@given_settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), load=st.floats(0.3, 1.6), spread=st.sampled_from([0.3, 1.0, 3.0]))
def test_it_never_costs_a_request_of_the_same_queue(seed: int, load: float, spread: float) -> None:
    random = np.random.default_rng(seed)
    prompt = np.ceil(random.gamma(1 / spread, 200 * spread, 150))
    trace = trace_of(np.cumsum(random.exponential(0.2 / load, 150)), prompt, 1.0)
    plain, smart = _served(trace), _served(trace, late_demotion=True, late_age_cap_seconds=1e9)
    feasible = plain.feasible
    assert (smart.ttft[feasible] <= 1.0).sum() >= (plain.ttft[feasible] <= 1.0).sum()
    assert np.isfinite(smart.ttft).all(), "the late ones are served too"


def test_it_carries_a_fleet_through_a_load_that_first_come_first_served_does_not() -> None:
    trace = poisson(5.5, 900, 3, prompt=160, output=1)  # 88 % of one worker
    plain, smart = _served(trace).attainment, _served(trace, late_demotion=True).attainment
    assert plain.ttft < 0.8
    assert smart.ttft > plain.ttft + 0.1


def test_a_demoted_request_waits_for_the_age_cap_at_most() -> None:
    """The main queue is never empty, so only the cap brings the long one on."""
    busy = np.arange(0.0, 60.0, 0.099)
    trace = trace_of(np.sort([*busy, 5.0]), [3000 if at == 5.0 else 100 for at in np.sort([*busy, 5.0])], 1.0)
    long = int(np.argmax(trace.prompt))
    waited = _served(trace, late_demotion=True, late_age_cap_seconds=20.0).ttft[long] - 3.0
    assert 20.0 < waited <= 20.0 + 0.1
    without = _served(trace, late_demotion=True, late_age_cap_seconds=1e9).ttft[long] - 3.0
    assert without > 50.0


def test_a_wrong_model_demotes_the_wrong_ones() -> None:
    """Believing prompts half as long, it sees lateness too late; believing them longer, it gives up too soon."""
    trace = poisson(5.5, 900, 3, prompt=160, output=1)
    right, short, long = (
        _served(trace, late_demotion=True, prefill_model_error=error) for error in (0.0, -0.5, 0.5)
    )
    assert right.attainment.ttft > max(short.attainment.ttft, long.attainment.ttft)
    assert long.demotions > right.demotions
