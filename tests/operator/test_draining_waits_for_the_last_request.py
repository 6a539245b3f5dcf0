"""When a worker that left the router may go, to the second."""

import pytest

from tandem_api import names
from tandem_operator.observe.load import Load, LoadBook, parse_load
from tandem_operator.observe.observed import Quiet
from tandem_operator.observe.pod import PodView
from tandem_operator.plan.drain import Gone, Wait, drain_step
from tandem_operator.plan.settings import Settings

SETTINGS = Settings(drain_settle_seconds=3, drain_quiet_seconds=2, kv_lease_seconds=30)


def worker(role: str = "decode", *, started: bool = True) -> PodView:
    return PodView(
        name="chat-0",
        uid="u",
        role=role,
        phase="Running",
        ready=started,
        started=started,
        drain_started=100.0,
    )


def readings(*given: tuple[float, float | None], pod: PodView | None = None) -> Quiet:
    """(time, in flight) in order, as the book keeps them."""
    book = LoadBook()
    quiet = Quiet()
    for at, in_flight in given:
        quiet = book.note(pod or worker(), Load(in_flight=in_flight), now=at, settle_seconds=3)
    return quiet


def step(quiet: Quiet, now: float, *, pod: PodView | None = None) -> Gone | Wait:
    return drain_step(
        pod or worker(),
        quiet,
        now=now,
        deadline_seconds=300,
        settle_seconds=SETTINGS.drain_settle_seconds,
        settings=SETTINGS,
        hands_over_kv=True,
    )


@pytest.mark.parametrize(
    ("given", "now", "goes"),
    [
        ([], 101, False),
        ([(103.5, 0)], 103.5, False),  # one zero is not two
        ([(103.5, 0), (104.5, 0)], 104.5, False),  # too close
        ([(103.5, 0), (105.5, 0)], 105.5, True),
        ([(100.5, 0), (102.9, 0)], 102.9, False),  # the router has not let go yet
        ([(100.5, 0), (103.1, 0)], 103.1, False),
        ([(103.5, 0), (104.5, 1), (105.5, 0)], 105.5, False),  # a request came in between
        ([(103.5, 0), (104.5, None), (105.6, 0)], 105.6, False),  # unknown is not zero
        ([(103.5, None), (110, None), (200, None)], 200, False),
        ([(103.5, 2), (399.9, 2)], 399.9, False),
        ([(103.5, 2), (399.9, 2)], 400.0, True),  # the deadline
        ([(103.5, None)], 400.0, True),
    ],
)
def test_two_zero_readings_apart_after_the_router_let_go(
    given: list[tuple[float, float | None]], now: float, goes: bool
) -> None:
    assert isinstance(step(readings(*given), now), Gone) is goes


def test_the_deadline_says_what_was_cut() -> None:
    assert "2 requests open" in step(readings((399, 2)), 400).reason  # type: ignore[union-attr]
    assert "unknown load" in step(readings((399, None)), 400).reason  # type: ignore[union-attr]


def test_prefill_keeps_its_cache_for_the_lease_of_its_last_work() -> None:
    pod = worker("prefill")
    quiet = readings((103.5, 1), (110, 1), (111, 0), (113, 0), pod=pod)
    waits = step(quiet, 113, pod=pod)
    assert isinstance(waits, Wait)
    assert waits.seconds == pytest.approx(27)
    assert isinstance(step(quiet, 139.9, pod=pod), Wait)
    assert isinstance(step(quiet, 140, pod=pod), Gone)


def test_prefill_that_was_idle_all_along_still_waits_one_lease() -> None:
    pod = worker("prefill")
    quiet = readings((103.5, 0), (106, 0), pod=pod)
    assert isinstance(step(quiet, 132.9, pod=pod), Wait)
    assert isinstance(step(quiet, 133, pod=pod), Gone)


def test_the_lease_never_outlasts_the_deadline() -> None:
    pod = worker("prefill")
    quiet = readings((395, 1), (396, 0), (399, 0), pod=pod)
    waits = step(quiet, 399, pod=pod)
    assert isinstance(waits, Wait)
    assert waits.seconds <= 1
    assert isinstance(step(quiet, 400, pod=pod), Gone)


def test_a_worker_that_never_served_need_not_wait() -> None:
    assert step(Quiet(), 100, pod=worker(started=False)) == Gone("it never served")


def test_readings_from_before_the_drain_do_not_count() -> None:
    book = LoadBook()
    before = PodView(name="chat-0", uid="u", role="decode", ready=True, started=True)
    for at in (90, 95, 99):
        book.note(before, Load(in_flight=0), now=at, settle_seconds=3)
    quiet = book.note(worker(), Load(in_flight=0), now=103.5, settle_seconds=3)
    assert isinstance(step(quiet, 103.5), Wait)


@pytest.mark.parametrize(
    ("text", "load"),
    [
        (
            "vllm:num_requests_running 2\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0.5\n",
            Load(3, 0.5, running=2),
        ),
        # One series per engine: summed; the cache's fullest counts (A10).
        (
            'vllm:num_requests_running{engine="0"} 7.0\nvllm:num_requests_running{engine="1"} 5.0\n'
            'vllm:num_requests_waiting{engine="0"} 0.0\nvllm:kv_cache_usage_perc{engine="0"} 0.1\n'
            'vllm:kv_cache_usage_perc{engine="1"} 0.9\n',
            Load(12, 0.9, running=12),
        ),
        # Streams that the gate still holds open count, though the engine is done.
        (
            "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\ntandem:requests_in_flight 1\n",
            Load(1, None, running=0),
        ),
        # An old name serves where the new one is missing, and is never added to it (A8).
        (
            "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 0.2\n"
            "vllm:kv_cache_usage_perc 0.3\n",
            Load(0, 0.3, running=0),
        ),
        ("vllm:num_requests_waiting 0\n", Load(None, None)),
        ("vllm:num_requests_running NaN\nvllm:num_requests_waiting 0\n", Load(None, None)),
        ("", Load(None, None)),
        ("<html>not metrics</html>", Load(None, None)),
        ("vllm:num_requests_running_total 5\nvllm:num_requests_waiting_by_reason 5\n", Load(None, None)),
    ],
)
def test_the_load_of_an_engine(text: str, load: Load) -> None:
    assert parse_load(text) == load


def test_the_label_that_the_drain_takes_off_is_the_one_the_router_selects() -> None:
    from tandem_api.inference_service import InferenceServiceSpec
    from tandem_operator.build.router_deployment import router_args
    from tests.operator.fleet import colocated, spec

    for wish in (spec(), colocated()):
        words = router_args(namespace="team", service="chat", spec=InferenceServiceSpec.model_validate(wish))
        selectors = [word for word in words if "=" in word and word.startswith(names.LABEL_SERVING)]
        assert selectors == [f"{names.LABEL_SERVING}=true"] * len(
            InferenceServiceSpec.model_validate(wish).roles
        )
