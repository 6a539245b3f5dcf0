"""The planner is another program: it can be missing, die, or talk nonsense, and it must never outlive its user."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tandem_autoscaler.simulator.policies.dynamo_process import PlannerFailed, PlannerProcess

# Answers every line with its own process id; like the real one it leaves Ctrl-C to whoever started it.
OBEDIENT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
for line in sys.stdin:
    print('{"pid": %d}' % os.getpid(), flush=True)
"""
STUBBORN = "import time\nwhile True: time.sleep(60)"
WAIT_SECONDS = 20.0


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def gone(pid: int) -> bool:
    """Within a while; a zombie counts, its parent has only not looked yet."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        try:
            if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("import sys; sys.exit('no licence')", r"ended before it answered \(exit code 1\): no licence"),
        ("input(); import os; os._exit(9)", r"ended before it answered \(exit code 9\)$"),
        ("input(); print('Traceback', flush=True); input()", "answered what is not JSON: Traceback"),
        ("""input(); print('{"error": "KeyError: 1"}', flush=True); input()""", "gave up: KeyError: 1"),
    ],
)
def test_whatever_happens_to_it_is_said_in_one_sentence(program: str, sentence: str) -> None:
    planner = PlannerProcess(python(program))
    with pytest.raises(PlannerFailed, match=sentence) as said:
        planner.begin({})
    assert "\n" not in str(said.value)
    with pytest.raises(PlannerFailed, match="ended before it answered"):  # and it stays gone
        planner.ask(1, {})


def test_one_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(PlannerFailed, match=r"does not start: .*no-such-planner"):
        PlannerProcess(["no-such-planner"])


def test_it_ends_when_it_is_closed_and_when_nobody_needs_it_any_more() -> None:
    closed, forgotten = PlannerProcess(python(OBEDIENT)), PlannerProcess(python(OBEDIENT))
    pids = [planner.begin({})[1]["pid"] for planner in (closed, forgotten)]
    closed.close()
    closed.close()
    del forgotten
    assert all(gone(pid) for pid in pids)


def test_one_that_does_not_go_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem_autoscaler.simulator.policies.dynamo_process._END_SECONDS", 0.2)
    planner = PlannerProcess(python(STUBBORN))
    pid = planner._process.pid
    planner.close()
    assert gone(pid)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_it_does_not_outlive_the_program_that_started_it(how: signal.Signals) -> None:
    """Ctrl-C goes to the whole process group, as a terminal sends it; a kill goes to the program alone."""
    program = (
        "import signal, sys, time\n"
        # Programs that a shell has put in its background ignore Ctrl-C, and so does what they start: these tests, too.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from tandem_autoscaler.simulator.policies.dynamo_process import PlannerProcess\n"
        f"planner = PlannerProcess([sys.executable, '-c', {OBEDIENT!r}])\n"
        "print(planner.begin({})[1]['pid'], flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        python(program), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    if how is signal.SIGINT:
        os.killpg(parent.pid, how)
    else:
        parent.kill()
    parent.wait(WAIT_SECONDS)
    parent.stdout.close()
    assert gone(pid)
