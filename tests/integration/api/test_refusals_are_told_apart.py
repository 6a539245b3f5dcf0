"""The adapter's errors, from a real API server."""

import re
import uuid
from collections.abc import AsyncIterator

import pytest

from e2e.cluster import LightCluster
from tandem_api.kubernetes.client import ApiServer, NoCluster, connect
from tandem_api.kubernetes.cluster import (
    INFERENCE_SERVICE,
    SERVICE_ACCOUNT,
    WORKER_POOL,
    Conflict,
    Manifest,
    Missing,
    NamespaceEnding,
    Rejected,
    Unavailable,
)

pytestmark = pytest.mark.integration


@pytest.fixture
async def server(cluster: LightCluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    async with connect() as api_server:
        yield api_server


def account(namespace: str = "default") -> Manifest:
    return {"metadata": {"name": f"a-{uuid.uuid4().hex[:8]}", "namespace": namespace}}


async def test_a_taken_name_is_a_conflict(server: ApiServer) -> None:
    manifest = account()
    await server.create(SERVICE_ACCOUNT, manifest, manager="test")
    with pytest.raises(Conflict, match="already exists"):
        await server.create(SERVICE_ACCOUNT, manifest, manager="test")


async def test_a_delete_meant_for_another_uid_deletes_nothing(server: ApiServer) -> None:
    manifest = account()
    await server.create(SERVICE_ACCOUNT, manifest, manager="test")
    name = manifest["metadata"]["name"]
    with pytest.raises(Conflict):
        await server.delete(SERVICE_ACCOUNT, "default", name, uid=str(uuid.uuid4()))
    assert await server.get(SERVICE_ACCOUNT, "default", name) is not None


async def test_a_delete_of_what_is_gone_is_quiet_and_a_patch_of_it_is_not(server: ApiServer) -> None:
    await server.delete(SERVICE_ACCOUNT, "default", "nobody", uid=str(uuid.uuid4()))
    with pytest.raises(Missing):
        await server.patch(WORKER_POOL, "default", "nobody", {"spec": {"replicas": 1}}, manager="test")


async def test_an_invalid_object_is_rejected_with_the_servers_sentence(server: ApiServer) -> None:
    manifest = {
        "apiVersion": INFERENCE_SERVICE.api_version, "kind": INFERENCE_SERVICE.kind,
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"model": {"uri": "nonsense"}, "autoscaling": {"mode": "External"}},
    }  # fmt: skip
    with pytest.raises(Rejected, match=r"model\.uri must be hf://"):
        await server.create(INFERENCE_SERVICE, manifest, manager="test")


async def test_a_namespace_that_is_being_deleted_says_so(server: ApiServer, cluster: LightCluster) -> None:
    space = f"ending-{uuid.uuid4().hex[:6]}"
    cluster.api.post("/api/v1/namespaces", {"metadata": {"name": space}})
    # Something that holds the namespace in its deletion.
    held = {"metadata": {"name": "held", "namespace": space, "finalizers": ["tandem.dev/test"]}}
    await server.create(SERVICE_ACCOUNT, held, manager="test")
    cluster.api.delete(f"/api/v1/namespaces/{space}")
    with pytest.raises(NamespaceEnding):
        await server.create(SERVICE_ACCOUNT, account(space), manager="test")
    await server.patch(SERVICE_ACCOUNT, space, "held", {"metadata": {"finalizers": None}}, manager="test")


async def test_lists_span_pages_and_say_what_their_items_are(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem_api.kubernetes.client._PAGE", 2)
    label = f"l{uuid.uuid4().hex[:8]}"
    for _ in range(5):
        manifest = account()
        manifest["metadata"]["labels"] = {"tandem.dev/test": label}
        await server.create(SERVICE_ACCOUNT, manifest, manager="test")
    found = await server.list(SERVICE_ACCOUNT, namespace="default", selector=f"tandem.dev/test={label}")
    assert len(found) == 5
    assert {(item["apiVersion"], item["kind"]) for item in found} == {("v1", "ServiceAccount")}


async def test_no_server_is_unavailable_and_no_kubeconfig_is_a_sentence(
    cluster: LightCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:1", cluster.kubeconfig.read_text())
    path = cluster.kubeconfig.parent / "dead-kubeconfig"
    path.write_text(dead)
    monkeypatch.setenv("KUBECONFIG", str(path))
    async with connect() as server:
        with pytest.raises(Unavailable, match="cannot be reached"):
            await server.list(SERVICE_ACCOUNT, namespace="default")
    monkeypatch.setenv("KUBECONFIG", str(path) + "-not-there")
    with pytest.raises(NoCluster, match=r"no usable Kubernetes configuration in .*not-there"):
        async with connect():
            pass
