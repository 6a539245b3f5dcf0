"""The admission seam: a queue may hold a request back or refuse it."""

import asyncio

from tandem_worker.gate.admission import Arrival
from tandem_worker.gate.refusal import Refusal
from tests.worker.loopback import DONE, chat_piece


class OneByOne:
    """Holds every request until it is released; refuses the path /v1/embeddings."""

    reads_prompts = False

    def __init__(self) -> None:
        self.may_enter = asyncio.Event()
        self.arrivals: list[Arrival] = []
        self.computed = 0
        self.left = 0

    async def enter(self, arrival: Arrival) -> Refusal | None:
        self.arrivals.append(arrival)
        if arrival.path == "/v1/embeddings":
            return Refusal(429, "too late", "queue_full", retry_after_seconds=7)
        await self.may_enter.wait()
        return None

    def prompt_computed(self, arrival: Arrival) -> None:
        self.computed += 1

    def leave(self, arrival: Arrival) -> None:
        self.left += 1


async def test_a_request_waits_until_it_is_let_in(gated):
    admission = OneByOne()
    server = await gated(admission)
    server.engine.say(chat_piece("a", "stop"), DONE, None)
    asking = asyncio.create_task(server.client.post("/v1/chat/completions", json={}))
    await server.until_in_flight(1)
    assert not server.engine.started.is_set()
    admission.may_enter.set()
    assert (await asking).status_code == 200
    assert (admission.computed, admission.left) == (1, 1)
    assert admission.arrivals[0].path == "/v1/chat/completions"


async def test_a_refusal_reaches_the_client_and_is_counted(gated):
    server = await gated(OneByOne())
    response = await server.client.post("/v1/embeddings", json={})
    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
    assert not server.engine.started.is_set()
    assert (await server.series())['tandem:requests_total{outcome="rejected"}'] == 1


async def test_a_request_that_still_waits_at_the_deadline_gets_503(gated):
    server = await gated(OneByOne())
    asking = asyncio.create_task(server.client.post("/v1/chat/completions", json={}))
    await server.until_in_flight(1)
    server.gate.door.close(0.05)
    assert (await asking).status_code == 503
    assert not server.engine.started.is_set()
