"""The simulations: each policy on the same workers, requests and limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tandem_api import names
from tandem_autoscaler.benchmark.case import MOST_WORKERS
from tandem_autoscaler.benchmark.contenders import OURS, contenders, unavailable
from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.replay.manifest import Wish
from tandem_autoscaler.cli.replay.policy import Limited, limited
from tandem_autoscaler.cli.replay.worker import Worker
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.simulator.fleet import ROUTERS, FleetSettings
from tandem_autoscaler.simulator.policies.oracle_model import true_needs
from tandem_autoscaler.simulator.policies.policy import Policy
from tandem_autoscaler.simulator.policies.profile import Profile
from tandem_autoscaler.simulator.policies.schedule import SLOT_SECONDS
from tandem_autoscaler.simulator.policies.tandem import AutoscalerPolicy
from tandem_autoscaler.simulator.run import Result, simulate
from tandem_autoscaler.simulator.trace import Trace

__all__ = ["OURS", "Stage", "check", "play", "play_without_limits"]

# Until they are measured, as the benchmark has it.
_COLD_START_SECONDS = 40.0
# Every policy begins with what the first minutes need.
_BEGIN_SECONDS = 180.0
# vllm-router's others: it prefers a cached prefix until loads differ, and keeps a client at its worker.
_LIKE = {"cache_aware": "power_of_two", "consistent_hash": "random"}


@dataclass(frozen=True)
class Stage:
    """What all simulations share."""

    wish: Wish
    worker: Worker
    trace: Trace
    profile: Profile
    settings: FleetSettings  # max_workers: more than anybody sensible orders
    start: dict[str, int]  # replicas by role
    notes: tuple[str, ...]

    @property
    def service(self) -> Service:
        return self.wish.service

    @classmethod
    def of(
        cls, wish: Wish, worker: Worker, trace: Trace, *, cold_start_seconds: float | None, seed: int
    ) -> "Stage":
        """Raises Mistake when the targets ask for what an idle worker cannot do."""
        router = wish.service.router_policy
        notes = [*wish.notes, *worker.notes, "prompts share no prefix: the simulator has no prefix cache"]
        if router not in ROUTERS:
            notes.append(f"router.policy {router} is replayed as {_LIKE[router]}")
        cold = cold_start_seconds or wish.service.cold_start_seconds or _COLD_START_SECONDS
        wish = replace(wish, service=replace(wish.service, cold_start_seconds=cold))
        targets = wish.targets
        settings = FleetSettings(
            ttft_seconds=targets.ttft_seconds,
            tpot_seconds=targets.tpot_seconds,
            cold_start_seconds=cold,
            router=_LIKE.get(router, router),
            late_demotion=wish.service.late_demotion,
            undrain=True,  # the operator's doing, whoever sizes the pools
            seed=seed,
        )
        profile = Profile.of(
            trace,
            worker.hardware,
            ttft_seconds=targets.ttft_seconds,
            tpot_seconds=targets.tpot_seconds,
            cold_start_seconds=cold,
            router=settings.router,
        )
        _possible(profile, trace)
        prefill, decode = true_needs(trace, profile, allowance=targets.allowance)
        begin = slice(0, int(_BEGIN_SECONDS / SLOT_SECONDS))
        start = {names.PREFILL: int(prefill[begin].max()), names.DECODE: int(decode[begin].max())}
        most = max(MOST_WORKERS, 2 * int(max(prefill.max(), decode.max())))
        return cls(wish, worker, trace, profile, replace(settings, max_workers=most), start, tuple(notes))


def _possible(profile: Profile, trace: Trace) -> None:
    hardware, usual = profile.hardware, profile.prompt_tokens
    alone = hardware.iteration_seconds(1.0, usual + profile.output_tokens / 2.0)
    if alone >= profile.tpot_seconds:
        raise Mistake(
            f"spec.slo.tpot of {1000 * profile.tpot_seconds:g} ms cannot be met: {hardware.name} takes "
            f"{1000 * alone:.1f} ms per token for a single request"
        )
    first = hardware.prefill_seconds(trace.prompt) + hardware.transfer_seconds(trace.prompt) + alone
    if not (first < profile.ttft_seconds).any():
        raise Mistake(
            f"spec.slo.ttft of {1000 * profile.ttft_seconds:g} ms cannot be met: idle workers of {hardware.name} take "
            f"{1000 * float(np.min(first)):.0f} ms for the shortest prompt"
        )


def check(policies: Sequence[str]) -> None:
    """Raises Mistake for a policy that there is not. What is only good for ablations is no policy for a user."""
    known = [name for name in contenders() if "+" not in name and not name.startswith(f"{OURS}-")]
    if not policies:
        raise Mistake(f"--policies names none; there are {', '.join(known)}")
    for name in policies:
        if name not in known:
            raise Mistake(f"there is no policy {name!r}; there are {', '.join(known)}")
        if why := unavailable(name):
            raise Mistake(f"{name} cannot run here: {why}")


def play(stage: Stage, policy: str) -> Result:
    """One policy with its defaults. Late demotion is the manifest's for all: it is the workers', not the policy's."""
    if policy == OURS:
        return _simulate(stage, stage.service, AutoscalerPolicy(lambda _: stage.service))
    contender = contenders()[policy]
    made = contender.make(stage.trace, stage.profile, **contender.default)
    return _simulate(stage, stage.service, Limited(made, stage.service))


def play_without_limits(stage: Stage, minimum: Mapping[str, int]) -> Result:
    """Ours with these replicas by role at least (one, if not said), and neither a maximum nor a budget."""
    pools = {
        role: replace(pool, minimum=minimum.get(role, 1), maximum=stage.settings.max_workers)
        for role, pool in stage.service.pools.items()
    }
    service = replace(stage.service, pools=pools, gpu_budget=None)
    return _simulate(stage, service, AutoscalerPolicy(lambda _: service))


def _simulate(stage: Stage, service: Service, policy: Policy) -> Result:
    start = limited(service, stage.start)
    return simulate(
        stage.trace, stage.worker.hardware, stage.settings, policy, start[names.PREFILL], start[names.DECODE]
    )
