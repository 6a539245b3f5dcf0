"""An API server of a few objects, for commands that read one: real HTTP, a real kubeconfig, no Kubernetes."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

SERVICES = "/apis/tandem.dev/v1alpha1/{}inferenceservices"
Answer = str | dict[str, Any] | Callable[[], str]


class StubCluster:
    """`objects` by path, lists made of them; `patches` are what was written; `refuse`: path prefix -> status."""

    def __init__(self) -> None:
        self.objects: dict[str, Answer] = {}
        self.refuse: dict[str, int] = {}
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.agents: set[str] = set()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.agents.add(self.headers.get("User-Agent", ""))
                self._answer(*stub.get(unquote(urlsplit(self.path).path)))

            def do_PATCH(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = urlsplit(self.path).path
                stub.patches.append((path, body))
                self._answer(*stub.get(path))

            def _answer(self, status: int, body: str, kind: str) -> None:
                data = body.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def get(self, path: str) -> tuple[int, str, str]:
        """(status, body, content type)."""
        for prefix, status in self.refuse.items():
            if path.startswith(prefix):
                return status, json.dumps({"message": f"refused with {status}"}), "application/json"
        found = self.objects.get(path)
        if isinstance(found, dict):
            return 200, json.dumps(found), "application/json"
        if found is not None:
            return 200, found if isinstance(found, str) else found(), "text/plain"
        items = [item for at, item in self.objects.items() if isinstance(item, dict) and _listed(at, path)]
        if items or path.rpartition("/")[2] in ("inferenceservices", "workerpools", "pods", "events"):
            return 200, json.dumps({"metadata": {}, "items": items}), "application/json"
        return 404, json.dumps({"message": f"{path} not found"}), "application/json"

    def add_service(self, manifest: dict[str, Any]) -> None:
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        self.objects[f"{SERVICES.format(f'namespaces/{namespace}/')}/{name}"] = manifest

    def add(self, path: str, manifest: Answer) -> None:
        self.objects[path] = manifest

    def kubeconfig(self, folder: Path, *, namespace: str | None = None) -> Path:
        """With the contexts `here` (current) and `elsewhere`, at which nobody answers."""
        context = {"cluster": "here", "user": "me", **({"namespace": namespace} if namespace else {})}
        text = yaml.safe_dump(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "here",
                "clusters": [
                    {"name": "here", "cluster": {"server": self.url}},
                    {"name": "elsewhere", "cluster": {"server": "http://127.0.0.1:1"}},
                ],
                "users": [{"name": "me", "user": {}}],
                "contexts": [
                    {"name": "here", "context": context},
                    {"name": "elsewhere", "context": {"cluster": "elsewhere", "user": "me"}},
                ],
            }
        )  # fmt: skip
        path = folder / "kubeconfig"
        path.write_text(text)
        return path

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _listed(at: str, path: str) -> bool:
    """Is the object at `at` one of the collection `path`, of one namespace or of all?"""
    collection, _, _ = at.rpartition("/")
    if collection == path:
        return True
    head, _, plural = path.rpartition("/")
    return collection.startswith(f"{head}/namespaces/") and collection.endswith(f"/{plural}")
