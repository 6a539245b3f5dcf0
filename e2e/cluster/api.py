"""A client of the API server in the standard library alone, for the cluster's own needs and for tests."""

import contextlib
import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from e2e.cluster.errors import ClusterError, NotFound


class ApiClient:
    """Requests as one client certificate; each call opens its own connection, so threads may share it."""

    def __init__(self, server: str, *, pki: Path, client: str = "admin") -> None:
        parts = urlsplit(server)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._context.load_cert_chain(pki / f"{client}.crt", pki / f"{client}.key")

    def request(
        self, method: str, path: str, *, body: Any = None, content_type: str = "application/json",
        timeout_seconds: float = 10,
    ) -> tuple[int, str]:  # fmt: skip
        """(HTTP status, text). Raises OSError while nobody listens."""
        connection = http.client.HTTPSConnection(
            self._host, self._port, context=self._context, timeout=timeout_seconds
        )
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, body=payload, headers={"Content-Type": content_type})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except http.client.HTTPException as error:
            raise OSError(f"broken answer: {error}") from None
        finally:
            connection.close()

    def answers(self, path: str) -> bool:
        """True when `path` gives 200 now."""
        try:
            return self.request("GET", path, timeout_seconds=2)[0] == 200
        except OSError:
            return False

    def _checked(self, method: str, path: str, **options: Any) -> Any:
        try:
            status, text = self.request(method, path, **options)
        except OSError as error:
            raise ClusterError(f"the API server does not answer ({error})") from None
        if status >= 300:
            with contextlib.suppress(ValueError):
                text = json.loads(text).get("message", text)
            kind = NotFound if status == 404 else ClusterError
            raise kind(f"{method} {path}: HTTP {status}: {text.strip()}")
        return json.loads(text) if text.startswith(("{", "[")) else text

    def get(self, path: str) -> Any:
        return self._checked("GET", path)

    def post(self, path: str, body: Any) -> Any:
        return self._checked("POST", path, body=body)

    def put(self, path: str, body: Any) -> Any:
        return self._checked("PUT", path, body=body)

    def delete(self, path: str) -> Any:
        return self._checked("DELETE", path)

    def patch(self, path: str, body: Any, *, kind: str = "merge-patch") -> Any:
        """`kind`: merge-patch, strategic-merge-patch, json-patch or apply-patch (path then names a manager)."""
        suffix = "yaml" if kind == "apply-patch" else "json"
        return self._checked("PATCH", path, body=body, content_type=f"application/{kind}+{suffix}")

    def create_missing(self, path: str, body: Any) -> None:
        """POST; an object that is there already is left as it is."""
        try:
            status, text = self.request("POST", path, body=body)
        except OSError as error:
            raise ClusterError(f"the API server does not answer ({error})") from None
        if status >= 300 and status != 409:
            raise ClusterError(f"POST {path}: HTTP {status}: {text.strip()}")


def recorded_api(folder: Path) -> ApiClient:
    """A client of the cluster whose state lies in `folder`. Raises ClusterError when none is up there."""
    try:
        server = json.loads((folder / "cluster.json").read_text())["server"]
    except (OSError, ValueError, KeyError):
        raise ClusterError(f"no cluster {folder.name} is up") from None
    return ApiClient(server, pki=folder / "pki")
