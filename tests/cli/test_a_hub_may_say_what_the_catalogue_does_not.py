"""A Hugging Face hub as far as `size` needs one: one GET of config.json, on a server of the test's own."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.size.source import find_model

CONFIG = {
    "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 512,
    "vocab_size": 1024, "quantization_config": {"quant_method": "awq"},
}  # fmt: skip


class Hub:
    """Answers every path with what is set; `asked` are the paths and tokens."""

    def __init__(self) -> None:
        self.status, self.body = 200, json.dumps(CONFIG)
        self.asked: list[tuple[str, str | None]] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.asked.append((self.path, self.headers.get("Authorization")))
                body = hub.body.encode()
                self.send_response(hub.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def environ(self, **more: str) -> dict[str, str]:
        return {"HF_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}/", **more}


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()
    yield made
    made.server.shutdown()
    made.server.server_close()
    made.thread.join()


def test_an_unknown_id_is_read_from_the_hub_with_the_users_token(hub: Hub) -> None:
    found = find_model("my-org/Tiny-AWQ", hub.environ(HF_TOKEN="secret"))
    assert (found.name, found.stored, found.architecture.layers) == ("tiny-awq", "awq", 6)
    assert hub.asked == [("/my-org/Tiny-AWQ/resolve/main/config.json", "Bearer secret")]


def test_a_known_model_asks_nobody(hub: Hub) -> None:
    assert find_model("Qwen/Qwen3-8B", hub.environ()).name == "qwen3-8b"
    assert hub.asked == []


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, "", "HF_TOKEN"),
        (404, "", "answers 404"),
        (200, "<html>", "config.json"),
        (200, "[]", "no object"),
        (200, "{}", "'hidden_size'"),
        (200, json.dumps({**CONFIG, "quantization_config": {"quant_method": "exotic"}}), "exotic"),
    ],
)
def test_what_the_hub_does_not_give_is_one_sentence(hub: Hub, status: int, body: Any, words: str) -> None:
    hub.status, hub.body = status, body
    with pytest.raises(Mistake, match=words):
        find_model("my-org/tiny", hub.environ())


def test_a_hub_that_is_not_there_is_said_with_the_way_round_it() -> None:
    with pytest.raises(
        Mistake, match=r"http://127.0.0.1:1 cannot be reached.*directory with its config.json"
    ):
        find_model("my-org/tiny", {"HF_ENDPOINT": "http://127.0.0.1:1"})
