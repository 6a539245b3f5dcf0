"""`ApiServer`: the `Cluster` port over kubernetes.aio's dynamic client.

Paths are built from `Kind`, so no discovery request is made at start.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import aiohttp
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.dynamic import DynamicClient
from yaml import YAMLError

from tandem_api.kubernetes.cluster import (
    POD,
    ApiError,
    Conflict,
    Kind,
    Manifest,
    Missing,
    NamespaceEnding,
    Rejected,
    Unavailable,
)
from tandem_api.kubernetes.lease import WRITE_SECONDS

_PAGE = 500
_READ_SECONDS = 15.0


class NoCluster(Exception):
    """Neither a service account nor a usable kubeconfig; the message says what was tried."""


class ApiServer:
    """The adapter. Make one with `connect()`. `namespace` is the kubeconfig context's own, where it names one."""

    def __init__(self, client: kubernetes_client.ApiClient, *, namespace: str | None = None) -> None:
        self._client = DynamicClient(client)
        self.namespace = namespace

    async def list(
        self, kind: Kind, *, namespace: str | None = None, selector: str | None = None
    ) -> list[Manifest]:
        items: list[Manifest] = []
        token: str | None = None
        while True:
            page = await self._request(
                "get", _path(kind, namespace), label_selector=selector, limit=_PAGE, _continue=token
            )
            # Items of a list do not say what they are; callers would have to know.
            for item in page["items"]:
                items.append({"apiVersion": kind.api_version, "kind": kind.kind, **item})
            token = page["metadata"].get("continue")
            if not token:
                return items

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Manifest | None:
        try:
            return await self._request("get", _path(kind, namespace, name))
        except Missing:
            return None

    async def create(self, kind: Kind, manifest: Manifest, *, manager: str) -> Manifest:
        path = _path(kind, manifest["metadata"].get("namespace"))
        return await self._request("post", path, body=manifest, field_manager=manager)

    async def apply(
        self, kind: Kind, manifest: Manifest, *, manager: str, subresource: Literal["status"] | None = None
    ) -> Manifest:
        metadata = manifest["metadata"]
        return await self._request(
            "patch",
            _path(kind, metadata.get("namespace"), metadata["name"], subresource),
            body={"apiVersion": kind.api_version, "kind": kind.kind, **manifest},
            content_type="application/apply-patch+yaml",
            field_manager=manager,
            force_conflicts="true",
        )

    async def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        merge: Manifest,
        *,
        manager: str,
        subresource: Literal["status", "scale"] | None = None,
    ) -> Manifest:
        return await self._request(
            "patch",
            _path(kind, namespace, name, subresource),
            body=merge,
            content_type="application/merge-patch+json",
            field_manager=manager,
        )

    async def delete(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        preconditions = {"uid": uid}
        if resource_version is not None:
            preconditions["resourceVersion"] = resource_version
        body: dict[str, Any] = {"preconditions": preconditions, "propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            await self._request("delete", _path(kind, namespace, name), body=body)
        except Missing:
            return

    async def openapi(self, group_version: str) -> Manifest:
        """The OpenAPI v3 document of one group and version; every authenticated client may read it. Raises ApiError."""
        document: Manifest = await self._request("get", f"/openapi/v3/apis/{group_version}")
        return document

    async def pod_text(self, namespace: str, pod: str, port: int, path: str) -> str:
        """What a pod answers to GET `path` (without a leading slash), through the API server's proxy.

        Needs the right to get `pods/proxy`. Raises ApiError; a pod that refuses the connection is Unavailable.
        """
        text: str = await self._request(
            "get", f"{_path(POD, namespace, f'{pod}:{port}')}/proxy/{path}", as_text=True
        )
        return text

    async def _request(self, method: str, path: str, *, as_text: bool = False, **parameters: Any) -> Any:
        limit = _READ_SECONDS
        if method != "get":
            # Who has lost the lease must not write any more: the server drops what it has not done by then as well.
            limit = WRITE_SECONDS
            parameters["query_params"] = [("timeout", f"{limit:g}s")]
        try:
            response = await self._client.request(
                method, path, serialize=False, _request_timeout=limit, **parameters
            )
            return await (response.text() if as_text else response.json())
        except ApiException as error:
            raise _translated(error) from None
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"the API server cannot be reached: {error or type(error).__name__}") from error


def _path(kind: Kind, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
    root = f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"
    parts = [root]
    if kind.namespaced and namespace:
        parts += ["namespaces", namespace]
    parts.append(kind.plural)
    if name:
        parts.append(name)
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def _translated(error: ApiException) -> ApiError:
    status = error.status or 0
    try:
        answer = json.loads(error.body or "")
        message = answer["message"]
    except (ValueError, KeyError, TypeError):
        answer, message = {}, f"{status} {error.reason}"
    causes = (answer.get("details") or {}).get("causes") or []
    if any(cause.get("reason") == "NamespaceTerminating" for cause in causes):
        return NamespaceEnding(message, status=status)
    match status:
        case 404:
            return Missing(message, status=status)
        case 409:
            return Conflict(message, status=status)
        case 400 | 401 | 403 | 405 | 415 | 422:
            return Rejected(message, status=status)
    headers = error.headers or {}
    after = headers.get("Retry-After")
    return Unavailable(
        message, status=status, after_seconds=float(after) if after and after.isdigit() else None
    )


def _kubeconfig() -> str:
    return os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")


@asynccontextmanager
async def connect(*, context: str | None = None, user_agent: str | None = None) -> AsyncIterator[ApiServer]:
    """An `ApiServer` from the pod's service account, or else from the user's kubeconfig.

    `user_agent` is how the API server's audit log names this process.

    Raises NoCluster with a sentence when neither is usable.
    """
    configuration = kubernetes_client.Configuration()
    where, namespace = _kubeconfig(), None
    try:
        # A kubeconfig that was named on purpose wins over the service account.
        if "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ:
            kubernetes_config.load_incluster_config(client_configuration=configuration)
        else:
            # The library reads KUBECONFIG once, when it is imported; we read it when we are asked.
            loaded = await kubernetes_config.load_kube_config(
                config_file=where, context=context, client_configuration=configuration
            )
            namespace = loaded.current_context["context"].get("namespace")
    except (ConfigException, YAMLError, OSError, ValueError, TypeError) as error:
        sentence = " ".join(str(error).split())
        raise NoCluster(f"no usable Kubernetes configuration in {where}: {sentence}") from error
    async with kubernetes_client.ApiClient(configuration) as client:
        if user_agent is not None:
            client.user_agent = user_agent
        yield ApiServer(client, namespace=namespace)
