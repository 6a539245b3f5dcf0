"""The admission queue: a few prompts inside, the others wait, and whoever leaves does so without a trace."""

import asyncio
import random

import pytest

from tandem_worker.gate.admission import Arrival, ClientGone
from tandem_worker.gate.demotion import LateDemotion
from tandem_worker.gate.demotion.prefill_time import FEWEST_SAMPLES, PrefillTime
from tandem_worker.gate.measures import Held
from tandem_worker.gate.prompt import Prompt
from tests.worker.gated_simulation import JumpingLoop

TARGET = 1.0


def taught() -> PrefillTime:
    """1 ms a token."""
    line = PrefillTime()
    for number in range(FEWEST_SAMPLES):
        line.learn(100 * number, 0.1 * number)
    return line


class Queue:
    """A queue that knows prompts' times; requests of `tokens` come by `arrive`."""

    def __init__(self, *, target: float | None = TARGET, line: PrefillTime | None = None) -> None:
        self.held = Held()
        self.admission = LateDemotion(
            target_seconds=lambda: target,
            tokens_of=lambda prompt: prompt.token_ids if prompt is not None else None,
            held=self.held,
            clock=asyncio.get_running_loop().time,
            prefill_time=line or taught(),
        )
        self.gone: dict[Arrival, asyncio.Event] = {}
        self.entered: list[Arrival] = []

    async def arrive(self, tokens: int, *, shows: bool = True, **changed) -> tuple[Arrival, asyncio.Task]:
        gone = asyncio.Event()
        wish = {
            "path": "/v1/completions",
            "at_seconds": asyncio.get_running_loop().time(),
            "headers": [],
            "generates": True,
            "shows_first_token": shows,
            "prompt": Prompt(text_bytes=0, token_ids=tokens, streams=True),
            "until_gone": gone.wait,
        }
        arrival = Arrival(**(wish | changed))
        self.gone[arrival] = gone

        async def enter() -> None:
            assert await self.admission.enter(arrival) is None
            self.entered.append(arrival)

        task = asyncio.create_task(enter())
        await asyncio.sleep(0)
        return arrival, task


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_prompt_computes_and_one_stands_ready_behind_it():
    queue = Queue()
    first, _ = await queue.arrive(400)
    second, _ = await queue.arrive(300)
    third, _ = await queue.arrive(100)
    await settled()
    assert queue.entered == [first, second]
    assert (queue.held.main, queue.held.low) == (1, 0)
    queue.admission.prompt_computed(first)  # it decodes from now on, and holds nobody up
    await settled()
    assert queue.entered == [first, second, third]


async def test_short_prompts_go_in_together():
    queue = Queue()
    for _ in range(10):
        await queue.arrive(10)
    await settled()
    assert len(queue.entered) == 10


async def test_a_request_in_the_low_queue_lets_the_others_pass():
    queue = Queue()
    first, _ = await queue.arrive(500)
    second, _ = await queue.arrive(100)
    long, _ = await queue.arrive(2000)
    short, _ = await queue.arrive(100)
    queue.admission.prompt_computed(first)
    await settled()
    assert queue.entered == [first, second, short]
    assert (queue.held.low, queue.held.demotions) == (1, 1)
    queue.admission.prompt_computed(second)
    await settled()
    assert long not in queue.entered, "whoever came next would wait for both"
    queue.admission.prompt_computed(short)
    await settled()
    assert queue.entered[-1] is long


@pytest.mark.parametrize("ended", ["hangs up", "is cut"])
async def test_who_leaves_while_waiting_leaves_the_queue_at_once(ended):
    queue = Queue()
    first, _ = await queue.arrive(400)
    await queue.arrive(400)
    leaving, task = await queue.arrive(50)
    behind, _ = await queue.arrive(50)
    if ended == "hangs up":
        queue.gone[leaving].set()
    else:
        task.cancel()
    with pytest.raises(ClientGone if ended == "hangs up" else asyncio.CancelledError):
        await task
    assert queue.held.main == 1
    queue.admission.prompt_computed(first)
    await settled()
    assert queue.entered[-1] is behind


@pytest.mark.parametrize("ended", ["hangs up", "is cut"])
async def test_who_leaves_in_the_moment_of_being_let_in_gives_the_place_back(ended):
    queue = Queue()
    first, _ = await queue.arrive(400)
    second, _ = await queue.arrive(400)
    leaving, task = await queue.arrive(100)
    behind, _ = await queue.arrive(100)
    queue.admission.prompt_computed(first)
    if ended == "hangs up":
        queue.gone[leaving].set()
    else:
        task.cancel()
    await settled()
    if leaving in queue.entered:  # it was quicker: the app will find out, and the gate tells
        queue.admission.leave(leaving)
    queue.admission.prompt_computed(second)
    await settled()
    assert behind in queue.entered
    assert queue.held.main == 0


async def test_a_request_that_ends_without_a_token_makes_room():
    queue = Queue()
    first, _ = await queue.arrive(400)
    await queue.arrive(400)
    third, _ = await queue.arrive(400)
    queue.admission.leave(first)
    await settled()
    assert queue.entered[-1] is third


async def test_without_a_target_or_before_the_times_are_known_everyone_enters():
    for queue in (Queue(target=None), Queue(line=PrefillTime())):
        for _ in range(20):
            await queue.arrive(5000)
        await settled()
        assert len(queue.entered) == 20
        assert (queue.held.main, queue.held.low) == (0, 0)


async def test_what_was_computed_elsewhere_or_generates_nothing_is_never_held():
    """The decode leg of a disaggregated request has its KV from the prefill worker."""
    queue = Queue()
    for _ in range(3):
        await queue.arrive(900)
    await queue.arrive(1, prompt=Prompt(text_bytes=4000, kv_elsewhere=True))
    await queue.arrive(1, generates=False, prompt=None)
    await settled()
    assert len(queue.entered) == 2 + 2 - 1


async def test_a_prompt_of_unknown_length_waits_as_one_of_mean_length():
    queue = Queue()
    first, _ = await queue.arrive(300)
    await queue.arrive(300)
    unknown, _ = await queue.arrive(0, prompt=None)
    await settled()
    assert unknown not in queue.entered
    queue.admission.prompt_computed(first)
    await settled()
    assert unknown in queue.entered


def jumping(main) -> None:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:  # cancels what still waits
        runner.run(main())


@pytest.mark.parametrize(("shows", "waits_seconds"), [(True, 0.8 + TARGET), (False, 0.4)])
def test_a_first_token_that_does_not_come_holds_the_others_up_for_a_while_only(shows, waits_seconds):
    async def main() -> None:
        queue = Queue()
        await queue.arrive(400, shows=shows)
        await queue.arrive(400, shows=shows)
        third, _ = await queue.arrive(100)
        while third not in queue.entered:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert asyncio.get_running_loop().time() == pytest.approx(waits_seconds, abs=0.05)

    jumping(main)


def test_times_that_nothing_confirms_are_forgotten():
    """Clients that do not stream show no first token: a wrong line would hold them back for ever."""

    async def main() -> None:
        queue = Queue()
        for _ in range(400):
            await queue.arrive(900, shows=False)
        while len(queue.entered) < 400:  # noqa: ASYNC110
            await asyncio.sleep(1)
        assert asyncio.get_running_loop().time() < 0.9 * 250

    jumping(main)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_everyone_ends_once_and_nothing_stays_behind(seed):
    """An engine that serves one prompt after the other; clients that leave at any moment."""

    async def main() -> None:
        chooser = random.Random(seed)
        queue = Queue(line=None if seed % 2 else PrefillTime())
        engine = asyncio.Lock()
        ends: list[str] = []

        async def one(tokens: int, shows: bool) -> None:
            arrival, task = await queue.arrive(tokens, shows=shows)
            try:
                await task
                try:
                    async with engine:
                        await asyncio.sleep(tokens / 1000 * chooser.uniform(0.5, 2))
                    if chooser.random() < 0.9:
                        queue.admission.prompt_computed(arrival)
                    await asyncio.sleep(chooser.uniform(0, 0.5))
                finally:
                    queue.admission.leave(arrival)
                ends.append("served")
            except ClientGone:
                ends.append("gone")
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                if arrival in queue.entered:
                    queue.admission.leave(arrival)
                ends.append("cut")

        tasks = []
        for _ in range(300):
            await asyncio.sleep(chooser.expovariate(4))
            tokens = chooser.choice([5, 50, 100, 900])
            tasks.append(asyncio.create_task(one(tokens, chooser.random() < 0.8)))
            if chooser.random() < 0.2:
                chooser.choice(tasks).cancel()
            if chooser.random() < 0.1 and queue.gone:
                chooser.choice(list(queue.gone.values())).set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(set(queue.entered)) == len(queue.entered), "nobody is let in twice"
        assert len(ends) >= 295  # a task that was cancelled before it began has no end to tell
        assert ends.count("served") > 150
        assert (queue.held.main, queue.held.low) == (0, 0)
        late, _ = await queue.arrive(900)
        await settled()
        assert late in queue.entered, "no place is lost"

    jumping(main)
