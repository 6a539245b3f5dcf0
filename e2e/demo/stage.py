"""Everything that must stand before the first request: cluster, images, chart, manifest, endpoint.

`Stage` serves the demo and the e2e scenarios alike. With `current=True` it uses the user's kubeconfig and images
that the cluster can pull, and makes neither cluster nor images. A file of chart values, in TANDEM_VALUES (`make demo
VALUES=...`), says where those images are, and whatever else that cluster needs.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster import ClusterError, FullCluster, binaries
from e2e.images.load import load
from e2e.images.recipes import DEFAULT, RECIPES

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "tandem"
NAMESPACE = "tandem-system"
RELEASE = "tandem"
LOCAL_IMAGES = {
    "image.repository": "tandem.local/control-plane",
    "image.tag": "dev",
    "worker.image.repository": "tandem.local/worker",
    "worker.image.tag": "dev",
    "router.image.repository": "tandem.local/router",
    "router.image.tag": "dev",
}


class StageError(Exception):
    """A step failed; the message is for the person who ran the command."""


@dataclass
class Stage:
    """A cluster with Tandem in it."""

    current: bool = False
    name: str = "tandem"

    @property
    def _full(self) -> FullCluster:
        return FullCluster(self.name)

    @property
    def kubeconfig(self) -> str:
        """What KUBECONFIG should be."""
        if self.current:
            return os.environ.get("KUBECONFIG", str(Path.home() / ".kube" / "config"))
        return str(self._full.kubeconfig)

    def up(self) -> None:
        """Cluster, images and chart; each step does nothing when it is done already."""
        if not self.current:
            self._full.up()
            load(list(DEFAULT), self._full.runtime)
        self.install_chart()

    def down(self) -> None:
        """Remove the chart from the user's cluster, or end the embedded one."""
        if self.current:
            self.run("helm", "uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found")
        else:
            self._full.down()

    def install_chart(self, **values: str | bool) -> None:
        """`helm upgrade --install` with these values and the web page, until operator and autoscaler are ready."""
        settings: dict[str, str | bool] = {"autoscaler.dashboard.enabled": True}
        if not self.current:
            settings |= {**LOCAL_IMAGES, **self._built()}
        settings |= values
        # As JSON, so that "true" and "1e5" stay strings where they are.
        arguments = [
            part for key, value in settings.items() for part in ("--set-json", f"{key}={json.dumps(value)}")
        ]
        if values_file := os.environ.get("TANDEM_VALUES"):
            arguments += ["--values", values_file]
        self.run(
            "helm", "upgrade", "--install", RELEASE, str(CHART),
            "--namespace", NAMESPACE, "--create-namespace", "--wait", "--timeout", "180s", *arguments,
        )  # fmt: skip

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Standard output of kubectl; raises StageError with its error output when `check`."""
        return self.run("kubectl", *arguments, stdin=stdin, check=check)

    def read(self, *arguments: str) -> Any:
        """`kubectl ... -o json`, parsed."""
        return json.loads(self.kubectl(*arguments, "-o", "json"))

    def run(self, program: str, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl or helm against this cluster."""
        try:
            done = subprocess.run(
                [self._path(program), *arguments], input=stdin, capture_output=True, text=True,
                env={**os.environ, "KUBECONFIG": self.kubeconfig}, timeout=600,
            )  # fmt: skip
        except FileNotFoundError:
            raise StageError(f"{program} is not installed") from None
        if check and done.returncode != 0:
            raise StageError(
                f"{program} {' '.join(arguments[:3])}: {done.stderr.strip() or done.stdout.strip()}"
            )
        return done.stdout

    def start(self, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """One that goes on, such as `kubectl port-forward`; it outlives this process, unless it is ended."""
        try:
            return subprocess.Popen(
                [self._path(program), *arguments], env={**os.environ, "KUBECONFIG": self.kubeconfig},
                stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise StageError(f"{program} is not installed") from None

    def load_image(self, name: str) -> None:
        """Build an image that is not among the usual ones, and give it to the embedded cluster's node."""
        load([name], self._full.runtime)

    def tag_image(self, reference: str, name: str) -> None:
        """Another name for an image that the embedded cluster's node has."""
        self._full.runtime.ctr("images", "tag", "--force", reference, name)

    def metrics_of(self, namespace: str, pod: str, port: int = 8000) -> str:
        """A pod's /metrics, through the API server, so that it works on any cluster."""
        return self.kubectl("get", "--raw", f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/metrics")

    def _path(self, program: str) -> str:
        return program if self.current else str(binaries.ensure([program])[program])

    def _built(self) -> dict[str, str]:
        # The tag stays `dev`; the annotation makes a changed image a changed Deployment.
        return {"podAnnotations.tandem\\.dev/image-key": RECIPES["control-plane"].key()}


__all__ = ["ClusterError", "Stage", "StageError"]
