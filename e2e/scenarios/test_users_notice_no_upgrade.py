"""Users notice no upgrade: streams on real engines go on, whole, while the platform goes from the release before to
this one by docs/upgrade.md, is uninstalled by docs/install.md, and is installed again by the README.

The release before is packed in previous_release/: its chart, its CRDs, and its operator and autoscaler as they were.
The rows of the table are written to build/e2e/upgrade.json.
"""

import asyncio
import os
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from e2e.demo.__main__ import MANIFEST
from e2e.demo.stage import CHART, LOCAL_IMAGES, NAMESPACE, RELEASE, ROOT, Stage
from e2e.images.recipes import PREVIOUS_RELEASE
from e2e.scenarios.first_hour import README, commands, nested, three_commands
from e2e.scenarios.lasting import Lasting, is_serving
from e2e.scenarios.terminal import Terminal
from tandem_api import names
from tandem_api.kubernetes.client import connect
from tandem_api.kubernetes.cluster import DEPLOYMENT, INFERENCE_SERVICE, LEASE, POD, WORKER_POOL
from tandem_api.reasons import Condition, Reason

BEFORE = "0.0.1"
NOW: str = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
INSTALL = three_commands(README.read_text())[0]
UPGRADE = commands((ROOT / "docs" / "upgrade.md").read_text(), "# Upgrade")[0]
UNINSTALL = commands((ROOT / "docs" / "install.md").read_text(), "## Uninstall")[0]
FEWEST_REQUESTS = 100


@dataclass
class Platform:
    """What the platform engineer does while the service streams. `kept`: uids of the workers that must stay."""

    terminal: Terminal
    kept: set[str] = field(default_factory=set)
    routers: set[str] = field(default_factory=set)

    async def type(self, command: str) -> None:
        await asyncio.to_thread(self.terminal.run, command, most_seconds=400)

    # --- steps ------------------------------------------------------------------------------------------------
    async def upgrade(self, service: Lasting) -> str:
        await self.type(UPGRADE)
        took = await service.until(lambda: leads(service, NOW), 60, f"operator and autoscaler {NOW} lead")
        await self.check(service)
        return f"the new release leads {took:.0f} s after helm is done"

    async def grow(self, service: Lasting) -> str:
        """The new release makes the next worker, from its own image; those of the old one stay."""
        await service.scale(decode=2)
        await service.settled(300, prefill=1, decode=2)
        await self.check(service)
        new = [pod for pod in await service.workers() if pod["metadata"]["uid"] not in self.kept]
        images = {pod["spec"]["containers"][0]["image"] for pod in new}
        assert images == {f"tandem.local/worker:{NOW}"}
        self.kept |= {pod["metadata"]["uid"] for pod in new}
        return "decode 1 -> 2 by the new release"

    async def uninstall(self, service: Lasting) -> str:
        await self.type(UNINSTALL)
        await service.until(lambda: gone(service), 60, "operator and autoscaler are gone")
        await asyncio.sleep(20)
        await self.check(service)
        assert await service.cluster.get(INFERENCE_SERVICE, service.namespace, service.name)
        assert len(await service.cluster.list(WORKER_POOL, namespace=service.namespace)) == 2
        return "nobody is there for 20 s; the user's objects stay"

    async def install(self, service: Lasting) -> str:
        await self.type(INSTALL)
        await service.until(lambda: leads(service, NOW), 60, f"operator and autoscaler {NOW} lead")
        await self.check(service)
        return ""

    async def shrink(self, service: Lasting) -> str:
        """What was adopted is drained like its own."""
        await service.scale(decode=1)
        await service.settled(180, prefill=1, decode=1)
        return "decode 2 -> 1 by the release that adopted it"

    # --- looking ----------------------------------------------------------------------------------------------
    async def remember(self, service: Lasting) -> None:
        self.kept = {pod["metadata"]["uid"] for pod in await service.workers()}
        self.routers = await routers(service)

    async def check(self, service: Lasting) -> None:
        """Every worker that was there is there, serves, and has never been restarted."""
        pods = await service.pods()
        assert self.kept <= {pod["metadata"]["uid"] for pod in pods if is_serving(pod)}
        assert restarts(pods) == 0


def restarts(pods: list[dict[str, Any]]) -> int:
    return sum(item["restartCount"] for pod in pods for item in pod["status"].get("containerStatuses", []))


async def routers(service: Lasting) -> set[str]:
    """Uids of the router pods that are not being deleted."""
    labels = {names.LABEL_SERVICE: service.name, names.LABEL_COMPONENT: names.COMPONENT_ROUTER}
    found = await service.cluster.list(POD, namespace=service.namespace, selector=names.selector(labels))
    return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}


async def leads(service: Lasting, version: str) -> bool:
    """Operator and autoscaler of this version hold their leases."""
    pods = await service.cluster.list(POD, namespace=NAMESPACE)
    living = [pod["metadata"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    for name in (names.OPERATOR_LEASE, names.AUTOSCALER_LEASE):
        lease = await service.cluster.get(LEASE, NAMESPACE, name)
        holder = lease["spec"].get("holderIdentity") or "" if lease is not None else ""
        versions = [
            pod["labels"]["app.kubernetes.io/version"] for pod in living if holder.startswith(pod["name"])
        ]
        if versions != [version]:
            return False
    return True


async def gone(service: Lasting) -> bool:
    kinds = [await service.cluster.list(kind, namespace=NAMESPACE) for kind in (DEPLOYMENT, POD)]
    return not any(kinds)


@pytest.fixture
def releases(bare: Stage, terminal: Terminal) -> Platform:
    """The release before is installed; the images of both are in the node, each under its own version."""
    bare.load_image("previous-release")
    for image in ("control-plane", "worker", "router"):
        bare.tag_image(f"tandem.local/{image}:dev", f"tandem.local/{image}:{NOW}")
    # Their code is this tree's in both releases: what is upgraded is the control plane.
    for image in ("worker", "router"):
        bare.tag_image(f"tandem.local/{image}:dev", f"tandem.local/{image}:{BEFORE}")
    # Repositories alone, as users have them: each chart then takes the images of its own version.
    repositories = {key: value for key, value in LOCAL_IMAGES.items() if key.endswith(".repository")}
    (terminal.folder / "images.yaml").write_text(yaml.safe_dump(nested(repositories)))
    before = PREVIOUS_RELEASE / f"tandem-{BEFORE}.tgz"
    terminal.run(INSTALL.replace(" helm/tandem ", f" {before} "), most_seconds=400)
    asked = ["python3", "-c", "import tandem_operator; print(tandem_operator.__file__)"]
    where = bare.kubectl("exec", "-n", NAMESPACE, f"deployment/{RELEASE}-operator", "--", *asked)
    assert where.startswith("/opt/previous/"), f"the code of the release before is not what runs: {where}"
    return Platform(terminal)


@pytest.mark.timeout(1500)
async def test_no_stream_fails_and_no_worker_restarts(
    bare: Stage, releases: Platform, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wish = yaml.safe_load(MANIFEST.read_text())
    # Whoever decides writes it down and does nothing; the steps here scale.
    wish["spec"]["autoscaling"] = {"mode": "Recommend"}
    os.environ["KUBECONFIG"] = bare.kubeconfig
    async with connect() as cluster:
        service = Lasting(bare, cluster, namespace, wish["metadata"]["name"], wish["spec"]["model"]["name"])
        assert await leads(service, BEFORE)
        await service.kubectl("apply", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(wish))
        await service.settled(600, prefill=1, decode=1)
        await service.until(lambda: ready(service), 60, "the service is ready")
        await service.find_endpoint()
        await releases.remember(service)
        generation = (await manifest(service))["metadata"]["generation"]
        steps = [
            ("helm upgrade", releases.upgrade),
            ("scale-up under the new release", releases.grow),
            ("helm uninstall", releases.uninstall),
            ("helm install", releases.install),
            ("scale-down under the release that adopted", releases.shrink),
        ]
        try:
            await service.under_load(steps, FEWEST_REQUESTS)
        finally:
            rows, table = service.report("upgrade.json")
            replaced = len(releases.routers - await routers(service))
            with capsys.disabled():
                print(f"\n{table}\nrouters replaced: {replaced} of {len(releases.routers)}")
        afterwards = await manifest(service)
    assert [row for row in rows if row["failed_streams"]] == []
    assert sum(row["whole_streams"] for row in rows) == service.answers.sent >= FEWEST_REQUESTS
    assert afterwards["metadata"]["generation"] == generation, "nobody has touched what the user wrote"
    conditions = {item["type"]: item for item in afterwards["status"]["conditions"]}
    assert Condition.SCHEMA_CURRENT not in conditions, "the CRDs were upgraded with the chart"
    assert conditions[Condition.SCALING_ACTIVE]["reason"] == Reason.RECOMMEND_ONLY


async def manifest(service: Lasting) -> dict[str, Any]:
    found = await service.cluster.get(INFERENCE_SERVICE, service.namespace, service.name)
    assert found is not None
    return found


async def ready(service: Lasting) -> bool:
    conditions = (await manifest(service)).get("status", {}).get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
