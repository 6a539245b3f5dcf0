"""What a platform engineer types, in a folder that has what a clone of the repository has."""

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import binaries
from e2e.demo.stage import ROOT, Stage


@dataclass
class Terminal:
    """bash with kubectl, helm and the cluster at hand. `transcript` is all that was typed and said."""

    folder: Path
    environment: dict[str, str]
    transcript: str = ""

    @classmethod
    def at(cls, stage: Stage, folder: Path) -> "Terminal":
        """In an empty folder, which gets the chart and the examples."""
        for part in ("helm", "examples"):
            (folder / part).symlink_to(ROOT / part)
        binaries.ensure(["kubectl", "helm"])
        environment = {
            **os.environ,
            "KUBECONFIG": stage.kubeconfig,
            "PATH": f"{binaries.on_path()}{os.pathsep}{os.environ['PATH']}",
            "no_proxy": "127.0.0.1",
        }
        return cls(folder, environment)

    def run(self, command: str, *, most_seconds: float) -> str:
        """What one line said; what it left in the background ends with it. AssertionError where it fails."""
        log = self.folder / "output"
        with log.open("w") as sink:
            process = subprocess.Popen(
                ["bash", "-c", command],
                cwd=self.folder, env=self.environment, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                status = process.wait(most_seconds)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                said = log.read_text()
                self.transcript += f"$ {command}\n{said}\n"
        assert status == 0, self.transcript
        return said
