"""The acts of the demo. Each waits until the cluster shows what it claims, and fails with what it saw instead."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from e2e.demo.scene import Scene, look
from e2e.demo.screen import Screen
from e2e.load import Answers, Traffic, send
from tandem_api import names
from tandem_api.kubernetes.cluster import Cluster

# Chosen on two cores: each makes one role the bottleneck and leaves the other idle.
PROMPT_HEAVY = Traffic(prompt_tokens=700, output_tokens=16, requests_per_second=1.2)
OUTPUT_HEAVY = Traffic(prompt_tokens=16, output_tokens=160, requests_per_second=1.5)


class Disappointed(Exception):
    """The cluster did not show what the act claims."""


@dataclass
class Act:
    """What was seen while one kind of load ran."""

    name: str
    answers: Answers = field(default_factory=Answers)
    most: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    # The median of the promise that the act strains: until the new worker served, and a minute later.
    median_before_seconds: float | None = None
    median_after_seconds: float | None = None

    def note(self, scene: Scene) -> None:
        for role, there in scene.roles.items():
            self.most[role] = max(self.most.get(role, 0), there.ready)


@dataclass
class Story:
    """The service under the acts."""

    cluster: Cluster
    namespace: str
    service: str
    endpoint: str
    model: str
    screen: Screen

    async def watch(
        self, act: Act, until: Callable[[Scene], bool], *, most_seconds: float, claim: str
    ) -> Scene:
        """Look every second until `until(scene)`, showing what is seen; raises Disappointed after `most_seconds`."""
        started, since = time.monotonic(), time.time()
        scene: Scene | None = None
        while time.monotonic() - started < most_seconds:
            scene = await look(self.cluster, self.namespace, self.service)
            # The tail over the last half minute, so that the board shows the present and not the average.
            self.screen.show(scene, act.answers, since=max(since, time.time() - 30))
            if scene is not None:
                act.note(scene)
                if until(scene):
                    return scene
            await asyncio.sleep(1)
        seen = (
            "nothing"
            if scene is None
            else f"{scene.roles}; {scene.reason}: {scene.message}; {scene.decisions}"
        )
        raise Disappointed(f"{claim}: not seen within {most_seconds:.0f} s. Seen: {seen}")

    async def under_load(self, act: Act, traffic: Traffic, *, grows: str, stays: str, promise: str) -> Act:
        """Send `traffic` until the role `grows` has another ready worker and its users feel the relief.

        `promise` is the field of an Answer (`ttft_seconds`, `tpot_seconds`) that the role is sized from. The role
        `stays` must not change.
        """
        self.screen.begin(act.name)
        started = time.monotonic()
        over = asyncio.Event()
        load = asyncio.create_task(
            send(self.endpoint, self.model, traffic, until=over.is_set, answers=act.answers, most_seconds=600)
        )
        try:
            await self.watch(
                act,
                lambda scene: scene.roles[grows].ready >= 2,
                most_seconds=420,
                claim=f"{act.name} raises {grows}",
            )
            grown = time.time()
            act.median_before_seconds = act.answers.tail(promise, 50)
            # With the new worker the queue of the waiting time drains; the last quarter minute shows the new pace.
            await self.watch(
                act, lambda _: time.time() - grown > 60, most_seconds=90, claim="the load goes on"
            )
            act.median_after_seconds = act.answers.tail(promise, 50, since=time.time() - 15)
        finally:
            over.set()
        await self.watch(act, lambda _: load.done(), most_seconds=300, claim="open streams end")
        await load
        act.seconds = time.monotonic() - started
        if act.most.get(stays, 0) > 1:
            raise Disappointed(f"{act.name} must leave {stays} alone, but it grew to {act.most[stays]}")
        return act

    async def rest(self, role: str, *, most_seconds: float) -> Act:
        """No load until the role is back at one worker."""
        act = Act(f"Rest: {role} goes back to 1")
        self.screen.begin(act.name)
        started = time.monotonic()
        await self.watch(
            act,
            lambda scene: scene.settled(role, exactly=1),
            most_seconds=most_seconds,
            claim=f"{role} comes back to 1",
        )
        act.seconds = time.monotonic() - started
        return act

    async def tell(self) -> list[Act]:
        """All acts, in order."""
        prompts = Act("Prompt-heavy load: long prompts, short answers")
        outputs = Act("Output-heavy load: short prompts, long answers")
        return [
            await self.under_load(
                prompts, PROMPT_HEAVY, grows=names.PREFILL, stays=names.DECODE, promise="ttft_seconds"
            ),
            await self.rest(names.PREFILL, most_seconds=240),
            await self.under_load(
                outputs, OUTPUT_HEAVY, grows=names.DECODE, stays=names.PREFILL, promise="tpot_seconds"
            ),
            await self.rest(names.DECODE, most_seconds=240),
        ]
