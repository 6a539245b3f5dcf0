"""A recorded stream of snapshots, read back, gives the same decisions and the same states, to the last bit."""

import io
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_api import names
from tandem_autoscaler.decide.decision import Outcome
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState
from tandem_autoscaler.fleet.service import Key, Pod, Pool, Service, Targets
from tandem_autoscaler.recording.lines import BrokenRecording, Start, Tick, header, line, read
from tandem_autoscaler.recording.replay import replay
from tandem_autoscaler.recording.source import RecordingSource
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.source import PodReading, Snapshot
from tests.autoscaler.simulated_fleet import Fleet, Traffic
from tests.autoscaler.strategies import identical


class Watched(Fleet):
    """A fleet in the loop that keeps what its autoscaler was given and what came of it."""

    def __init__(self, **more: Any) -> None:
        super().__init__(lambda at: Traffic(2.5, 900, 12) if 20 <= at < 110 else Traffic(0.3, 200, 8), **more)
        self.given: list[Tick] = []
        self.then: list[tuple[ServiceState, Outcome]] = []

    def tick(self) -> Outcome:
        self.given.append(Tick(self.now, self.service(), self.snapshot()))
        outcome = super().tick()
        self.then.append((self.state, outcome))
        return outcome


def recorded(settings: Settings, ticks: Sequence[Tick]) -> list[str]:
    return [f"{text}\n" for text in (header(Start(settings)), *map(line, ticks))]


@pytest.fixture(scope="module")
def run() -> Watched:
    fleet = Watched(seed=4, confirm_seconds=20, settings=Settings(young_seconds=40))
    fleet.run(180)
    return fleet


def test_a_closed_loop_is_replayed_to_the_last_bit(run: Watched) -> None:
    assert {names.PREFILL} <= {role for _, role, *_ in run.log}, "the run holds decisions"
    start, ticks = read(recorded(run.settings, run.given))
    assert start == Start(run.settings)
    found = list(replay(ticks, start))
    assert len(found) == len(run.given)
    for replayed, (state, outcome) in zip(found, run.then, strict=True):
        assert replayed.outcome == outcome
        assert identical(replayed.outcome, outcome)
        assert identical(replayed.state, state)


def test_an_old_state_is_a_value_that_later_ticks_leave_as_it_was(run: Watched) -> None:
    """From any state in the middle the rest follows again."""
    for start in (3, 11, 20):
        state = run.then[start - 1][0]
        for tick, (after, outcome) in zip(run.given[start:], run.then[start:], strict=True):
            state, again = decide(state, tick.service, tick.snapshot, run.settings)
            assert identical(again, outcome) and identical(state, after)


def test_what_the_fleets_budget_cuts_is_remembered_as_decided(run: Watched) -> None:
    """Two services that want the same share nine GPUs; nothing they get is taken for someone else's doing."""
    ticks = [
        replace(t, service=replace(t.service, name=name, pools=pools))
        for t in run.given
        for name in ("first", "second")
        for pools in [{role: replace(pool, replicas=2) for role, pool in t.service.pools.items()}]
    ]
    found = list(replay(ticks, Start(run.settings, gpu_budget=9)))
    wanted = list(replay(ticks, Start(run.settings)))
    assert any(a.outcome != b.outcome for a, b in zip(found, wanted, strict=True)), "the budget was felt"
    for one, other in zip(found[::2], found[1::2], strict=True):
        decisions = [*one.outcome.decisions.values(), *other.outcome.decisions.values()]
        assert sum(decision.target for decision in decisions) <= 9
        for item in (one, other):
            for role, decision in item.outcome.decisions.items():
                assert item.state.memory(role).target == decision.target


def test_another_rule_is_told_from_the_recorded_one(run: Watched) -> None:
    """The comparison of this file can fail: a longer confirmation gives other decisions."""
    slower = [replace(t, service=replace(t.service, confirm_seconds=120.0)) for t in run.given]
    found = [item.outcome for item in replay(slower, Start(run.settings))]
    assert not all(identical(a, b) for a, (_, b) in zip(found, run.then, strict=True))


# --- what is written is what was there ---------------------------------------------------------------------
times = st.floats(-1e12, 1e12)
counts = st.floats(0, allow_infinity=True)
texts = st.text(max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)


@st.composite
def histograms(draw: st.DrawFn) -> Histogram:
    edges = sorted(draw(st.sets(st.floats(0, 1e6), max_size=3)))
    held = draw(st.lists(counts, min_size=len(edges) + 1, max_size=len(edges) + 1))
    return Histogram((*edges, math.inf), tuple(held), draw(counts))


def anything(kind: type, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Every field of the dataclass, also those that have a default and those that are still to come."""
    return st.builds(kind, **{f.name: given.get(f.name, ...) for f in fields(kind)})


numbers = st.dictionaries(texts, st.floats(allow_nan=False), max_size=2)
pods = anything(Pod, created_at_seconds=times)
services = anything(
    Service, pools=st.dictionaries(texts, anything(Pool), max_size=2), pods=st.lists(pods, max_size=2).map(tuple),
    routers=st.lists(pods, max_size=1).map(tuple), targets=st.none() | anything(Targets),
    status=st.dictionaries(texts, json_values, max_size=2),
)  # fmt: skip
readings = st.builds(
    PodReading, texts, times, numbers, numbers, st.dictionaries(texts, histograms(), max_size=2)
)
snapshots = st.builds(
    Snapshot, times, st.lists(readings, max_size=2).map(lambda found: {r.uid: r for r in found}),
    st.dictionaries(texts, texts, max_size=2), st.none() | texts,
)  # fmt: skip


@given(st.builds(Tick, times, services, snapshots))
def test_any_tick_comes_back_as_it_was(tick: Tick) -> None:
    written = line(tick)
    assert "\n" not in written
    _, (found,) = read(recorded(Settings(), [tick]))
    assert identical(found, tick)


@given(anything(Start, settings=anything(Settings)))
def test_any_settings_come_back_as_they_were(start: Start) -> None:
    found, ticks = read([f"{header(start)}\n"])
    assert identical(found, start) and list(ticks) == []


# --- the running autoscaler --------------------------------------------------------------------------------
class Canned:
    """A source that answers what it is told to."""

    def __init__(self) -> None:
        self.answers: dict[Key, Snapshot] = {}
        self.closed = False

    async def sample(self, services: Sequence[Service], now_seconds: float) -> dict[Key, Snapshot]:
        return self.answers

    async def close(self) -> None:
        self.closed = True


async def test_the_source_passes_on_what_it_writes_down(run: Watched, tmp_path: Path) -> None:
    path, inner = tmp_path / "seen.jsonl", Canned()
    source = RecordingSource(inner, path, Start(run.settings))
    for tick in run.given:
        inner.answers = {tick.service.key: tick.snapshot}
        assert await source.sample([tick.service], tick.at_seconds) is inner.answers
        with path.open() as lines:
            assert sum(1 for _ in lines) == 1 + run.given.index(tick) + 1, "on disk before the decision"
    await source.close()
    assert inner.closed
    with path.open() as lines:
        start, ticks = read(lines)
        found = list(replay(ticks, start))
    assert all(identical(r.outcome, outcome) for r, (_, outcome) in zip(found, run.then, strict=True))


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="NOT TESTED: this system has no /dev/full")
async def test_a_full_disk_ends_the_recording_and_nothing_else(
    run: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    inner = Canned()
    source = RecordingSource(inner, FULL, Start(run.settings))
    tick = run.given[0]
    inner.answers = {tick.service.key: tick.snapshot}
    for _ in range(3):
        assert await source.sample([tick.service], tick.at_seconds) is inner.answers
    await source.close()
    assert caplog.text.count("the recording ends here: /dev/full: No space left on device") == 1


def test_a_service_made_again_under_its_name_begins_anew(run: Watched) -> None:
    again = [replace(t, service=replace(t.service, uid="second")) for t in run.given[12:14]]
    found = list(replay([*run.given[:12], *again], Start(run.settings)))
    alone = list(replay(again, Start(run.settings)))
    assert identical(found[-1].state, alone[-1].state)
    assert found[-1].state.history.began_at_seconds == again[0].at_seconds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1 is no line of a recording"),
        ("hello\n", "line 1 is no line of a recording"),
        ('{"recording": 99}\n', "format 99"),
        ("[]\n", "line 1 is no line of a recording"),
        (header(Start(Settings())) + '\n{"at": 1}\n', "line 2 is no line of a recording"),
        (header(Start(Settings())) + '\n{"at": 1, "service": [], "snapshot": 5}\n', "line 2 is no line"),
    ],
)
def test_a_file_that_is_no_recording_is_told_in_a_sentence(text: str, said: str) -> None:
    def through() -> None:
        start, ticks = read(io.StringIO(text))
        list(replay(ticks, start))

    with pytest.raises(BrokenRecording, match=said):
        through()


def test_a_line_cut_short_by_the_end_of_the_process_is_left_out(run: Watched) -> None:
    lines = recorded(run.settings, run.given[:3])
    lines[-1] = lines[-1][:200]
    _, ticks = read(lines)
    assert len(list(ticks)) == 2


def show(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tandem_autoscaler.recording", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_decisions_of_a_recording_can_be_read(run: Watched, tmp_path: Path) -> None:
    path = tmp_path / "seen.jsonl"
    path.write_text("".join(recorded(run.settings, run.given)))
    told = show(str(path)).stdout.splitlines()
    changes = [text for _, role, before, after, text in run.log]
    assert changes and all(any(change in shown for shown in told) for change in changes)
    assert len(told) < len(run.given), "only what is another decision than the last"


def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "other.txt"
    path.write_bytes(b"\xff\xfe\n")
    for arguments in ([str(path)], [str(tmp_path / "none")]):
        done = show(*arguments)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_place_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    nowhere = tmp_path / "none" / "seen.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "tandem_autoscaler", "--listen", "127.0.0.1:0", "--record", str(nowhere)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == f"tandem-autoscaler: --record {nowhere}: No such file or directory"
