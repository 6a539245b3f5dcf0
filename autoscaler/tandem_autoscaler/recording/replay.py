"""A recording -> the decisions of each tick, by the rule as it stands here."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from tandem_autoscaler.decide.arbiter import share_out
from tandem_autoscaler.decide.decision import Outcome
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState, fresh_state
from tandem_autoscaler.fleet.service import Key
from tandem_autoscaler.recording.lines import Start, Tick


@dataclass(frozen=True)
class Replayed:
    """A tick with what followed from it."""

    tick: Tick
    state: ServiceState
    outcome: Outcome
    short: bool = False  # the fleet's GPUs were not enough for all


def replay(ticks: Iterable[Tick], start: Start) -> Iterator[Replayed]:
    """The decisions, tick by tick, from the state that a process starts with.

    Writes that the API server refused are not in the recording; the pool as the next tick lists it is.
    """
    last: dict[Key, Replayed] = {}
    for _, together in groupby(ticks, key=lambda tick: tick.at_seconds):
        decided = [_decided(tick, last.get(tick.service.key), start.settings) for tick in together]
        if start.gpu_budget is not None:
            decided = _shared(decided, start.gpu_budget, last)
        last = {item.tick.service.key: item for item in decided}
        yield from decided


def _decided(tick: Tick, before: Replayed | None, settings: Settings) -> Replayed:
    service = tick.service
    # As in the loop: made again under the same name, or in another mode, it shares nothing with the old one.
    if (
        before is None
        or before.tick.service.uid != service.uid
        or before.tick.service.disaggregated != service.disaggregated
    ):
        state = fresh_state(service, tick.at_seconds, settings)
    else:
        state = before.state
    state, outcome = decide(state, service, tick.snapshot, settings, wall_seconds=tick.at_seconds)
    return Replayed(tick, state, outcome)


def _shared(decided: list[Replayed], budget: int, last: Mapping[Key, Replayed]) -> list[Replayed]:
    """The decisions that the fleet's GPUs afford, remembered as what will be written."""
    wanted = {item.tick.service.key: (item.tick.service, item.outcome) for item in decided}
    was_short = any(item.short for item in last.values())
    outcomes, short = share_out(wanted, budget, reclaim=was_short)
    shared = []
    for item in decided:
        outcome, state = outcomes[item.tick.service.key], item.state
        for role, decision in outcome.decisions.items():
            state = state.with_memory(role, replace(state.memory(role), target=decision.target))
        shared.append(Replayed(item.tick, state, outcome, short))
    return shared
