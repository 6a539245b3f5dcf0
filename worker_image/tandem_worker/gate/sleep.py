"""Whether the engine sleeps: it answers /health as if nothing were, and serves nobody (vLLM's --enable-sleep-mode).

Asked of the engine's own app, which has the route only in vLLM's development mode (VLLM_SERVER_DEV_MODE=1). Where it
has none, nobody can send it to sleep over HTTP, so one question is enough.
"""

import json

from tandem_worker.gate.asgi import App, Message, Scope

PATH = "/is_sleeping"


class SleepWatch:
    """Asks `app`; remembers only that there is nothing to ask."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._has_route = True

    async def is_asleep(self, probe: Scope) -> bool:
        """`probe`: the scope of the request on whose behalf it is asked. What cannot be told is left to /health."""
        if not self._has_route:
            return False
        answer = _Answer()
        scope = {
            **probe,
            "method": "GET",
            "path": f"{probe.get('root_path', '')}{PATH}",
            "raw_path": PATH.encode(),
            "query_string": b"",
        }
        await self._app(scope, _nothing_more, answer.hear)
        if answer.status == 404:
            self._has_route = False
        return answer.says_so()


class _Answer:
    def __init__(self) -> None:
        self.status = 0
        self._body = b""

    async def hear(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")

    def says_so(self) -> bool:
        if self.status != 200:
            return False
        try:
            told = json.loads(self._body)
        except ValueError:
            return False
        return isinstance(told, dict) and told.get("is_sleeping") is True


async def _nothing_more() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}
