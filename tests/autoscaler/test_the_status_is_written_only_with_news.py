"""Field case D13 for the autoscaler's part of the status, and the writers' manifests."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandem_api.inference_service import InferenceServiceStatus
from tandem_api.reasons import EventReason, Reason
from tandem_autoscaler.decide.decision import Decision, Kept, Outcome, Verdict, Why
from tandem_autoscaler.fleet.service import Pool, Service, Targets
from tandem_autoscaler.write.events import event
from tandem_autoscaler.write.status import news, status_of

AT = datetime(2026, 1, 1, tzinfo=UTC)
SERVICE = Service(
    "n", "chat", "u", 2, "Auto", False, True, Targets(1.0, 0.04), {"prefill": Pool("prefill", 1, 1, 4)}, ()
)  # fmt: skip
ACTIVE = {"ScalingActive": Verdict("True", Reason.METRICS_OK, "sized from the workers' own metrics")}


def outcome(
    current: int = 1, target: int = 1, rate: float = 3.1, ttft: float = 0.7, share: float = 0.97
) -> Outcome:
    message = f"prefill {current} -> {target}: {rate:.2g} prompts/s"
    decision = Decision("prefill", current, target, Why.TTFT_NEED, message, {"promptsPerSecond": rate})
    return Outcome({"prefill": decision}, Kept(1.0, ttft, share, share), Kept(0.04, 0.03, 1.0, 1.0))


def written(found: Outcome, live: dict[str, Any] | None = None, at: datetime = AT) -> dict[str, Any]:
    return status_of(replace(SERVICE, status=live or {}), found, ACTIVE, at=at)


def test_what_is_written_is_the_apis_own_status() -> None:
    status = InferenceServiceStatus.model_validate(written(outcome(1, 2)))
    assert (
        status.slo is not None and status.slo.ttft.measured == "700ms" and status.slo.ttft.attainment == "97%"
    )
    assert status.autoscaling is not None
    decision = status.autoscaling.roles["prefill"]
    assert (decision.from_replicas, decision.to, decision.reason) == (1, 2, "TTFTNeed")
    assert decision.numbers == {"promptsPerSecond": "3.1"}
    assert status.autoscaling.history == [decision]


@pytest.mark.parametrize(
    "change",
    [{"rate": 3.4}, {"ttft": 0.8}, {"share": 0.95}, {}],
    ids=["arrivals", "tail", "attainment", "nothing"],
)
def test_noise_is_no_news(change: dict[str, float]) -> None:
    live = written(outcome())
    assert not news(live, written(outcome(**change), live, AT + timedelta(minutes=5)))


@pytest.mark.parametrize(
    "change",
    [{"rate": 6.0}, {"ttft": 1.4}, {"share": 0.80}, {"target": 2}, {"current": 2, "target": 2}],
    ids=["arrivals double", "tail doubles", "attainment falls", "a decision", "another size"],
)
def test_what_a_reader_wants_to_know_is_news(change: dict[str, Any]) -> None:
    live = written(outcome())
    assert news(live, written(outcome(**change), live))


def test_the_operators_part_is_no_news() -> None:
    live = written(outcome())
    others = {
        **live,
        "summary": "3/3",
        "conditions": [*live["conditions"], {"type": "Ready", "status": "True"}],
    }
    assert not news(others, written(outcome(), others))


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    live = written(outcome())
    later = AT + timedelta(hours=1)
    assert written(outcome(), live, later)["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    blind = {"ScalingActive": Verdict("False", Reason.NO_METRICS, "x")}
    changed = status_of(replace(SERVICE, status=live), outcome(), blind, at=later)
    assert changed["conditions"][0]["lastTransitionTime"] == "2026-01-01T01:00:00Z"
    assert news(live, changed)


def test_the_history_holds_the_last_five_changes_newest_first() -> None:
    live: dict[str, Any] = {}
    for size in range(1, 9):
        live = written(outcome(size, size + 1), live, AT + timedelta(minutes=size))
        live = written(outcome(size + 1, size + 1), live, AT + timedelta(minutes=size, seconds=30))
    history = [(item["from"], item["to"]) for item in live["autoscaling"]["history"]]
    assert history == [(8, 9), (7, 8), (6, 7), (5, 6), (4, 5)]


@pytest.mark.parametrize(
    "foreign", [{"role": "prefill"}, {"role": 3, "when": "then"}, "prefill 1 -> 2", None]
)
def test_an_entry_of_another_version_is_left_out_and_holds_up_nothing(foreign: object) -> None:
    live = written(outcome(1, 2))
    live["autoscaling"]["history"].append(foreign)
    history = written(outcome(2, 3), live, AT + timedelta(minutes=1))["autoscaling"]["history"]
    assert [(item["from"], item["to"]) for item in history] == [(2, 3), (1, 2)]


def test_a_standing_recommendation_is_one_entry() -> None:
    live: dict[str, Any] = {}
    for minute in range(5):
        live = written(outcome(1, 3), live, AT + timedelta(minutes=minute))
    assert len(live["autoscaling"]["history"]) == 1


def test_what_is_unknown_is_absent_and_not_zero() -> None:
    nothing = replace(outcome(), ttft=Kept(1.0), tpot=Kept(0.04))
    assert written(nothing)["slo"]["ttft"] == {"target": "1s"}


def test_an_event_fits_what_the_api_server_takes() -> None:
    made = event(SERVICE, EventReason.SCALED_UP, "x" * 5000, at=AT, reporter="me" * 200)
    assert len(made["note"]) == 1024 and len(made["reportingInstance"]) == 128
    assert made["type"] == "Normal"
    assert event(SERVICE, EventReason.SCALE_BLOCKED, "x", at=AT, reporter="me")["type"] == "Warning"
