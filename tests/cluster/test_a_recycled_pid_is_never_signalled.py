"""A record names a process by pid and start time; a pid that another process got since is left alone."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.cluster import processes
from e2e.cluster.errors import ClusterError
from e2e.cluster.processes import Process


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    process = processes.spawn("sleeper", ["sleep", "60"], folder=tmp_path)
    yield process
    processes.stop([process], grace_seconds=0)


def test_a_recorded_process_is_found_again_and_stopped(sleeper: Process, tmp_path: Path) -> None:
    assert processes.recorded(tmp_path) == [sleeper]
    assert sleeper.alive
    processes.stop(processes.recorded(tmp_path), grace_seconds=5)
    assert not sleeper.alive


def test_the_same_pid_with_another_start_time_is_not_signalled(sleeper: Process) -> None:
    stranger = replace(sleeper, started_ticks=sleeper.started_ticks - 1)
    assert not stranger.alive
    stranger.signal(signal.SIGKILL)
    processes.stop([stranger], grace_seconds=0)
    assert sleeper.alive


def test_a_half_written_record_is_passed_over(sleeper: Process, tmp_path: Path) -> None:
    (tmp_path / "processes" / "broken.json").write_text('{"name": "bro')
    assert processes.recorded(tmp_path) == [sleeper]


def test_a_zombie_counts_as_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet reaped
    assert processes.start_ticks(child.pid) is None
    child.wait()


def test_a_component_that_ends_early_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no such flag: --frobnicate'); raise SystemExit(3)"]
    process = processes.spawn("kubelet", command, folder=tmp_path)
    with pytest.raises(ClusterError, match="kubelet ended") as refused:
        processes.wait_for("the node", lambda: False, processes=[process], within_seconds=30)
    assert "no such flag: --frobnicate" in str(refused.value)
    assert process.log in str(refused.value)
