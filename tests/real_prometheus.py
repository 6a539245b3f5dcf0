"""A real Prometheus beside a test, where one is installed."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.cluster.control_plane import free_ports

PROGRAM = shutil.which("prometheus")
MISSING = "NOT TESTED: no Prometheus here; `apt-get install prometheus` brings it"
needs_prometheus = pytest.mark.skipif(PROGRAM is None, reason=MISSING)


@dataclass(frozen=True)
class Running:
    """`url` answers once it has started, which the caller waits for."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def assert_alive(self) -> None:
        """Fails with its log when it has ended."""
        assert self.process.poll() is None, self.log.read_text()


@contextmanager
def started(
    folder: Path,
    settings: str,
    *,
    address: str = "127.0.0.1",
    port: int | None = None,
    flags: tuple[str, ...] = (),
) -> Iterator[Running]:
    """With these settings (YAML), and its data below `folder`, which may hold some already. Default: a free port."""
    (folder / "prometheus.yml").write_text(settings)
    if port is None:
        (port,) = free_ports(1)
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                PROGRAM or "", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                f"--web.listen-address={address}:{port}", *flags,
            ],
            stdout=output, stderr=output, cwd=folder,
        )  # fmt: skip
    try:
        yield Running(f"http://{address}:{port}", process, log)
    finally:
        process.terminate()
        process.wait(20)
