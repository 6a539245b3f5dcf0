"""All that a diagnosis rests on: what `decide` has measured and learnt, nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_autoscaler.decide.attainment import of_users
from tandem_autoscaler.decide.decision import Kept
from tandem_autoscaler.decide.learning import context
from tandem_autoscaler.decide.load import Load, measure
from tandem_autoscaler.decide.need_decode import dealt_evenly, need_decode
from tandem_autoscaler.decide.need_prefill import Need, cold_start_seconds, decode_share, need_prefill
from tandem_autoscaler.decide.quality import RoleCount, count
from tandem_autoscaler.decide.reactive import decode_is_full
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import ServiceState
from tandem_autoscaler.diagnose.machine import Machine
from tandem_autoscaler.fleet.service import Service, Targets, decode_role, prefill_role
from tandem_autoscaler.model.decode import DecodeModel
from tandem_autoscaler.model.mixed_step import Chunking, MixedStep
from tandem_autoscaler.model.prefill import PrefillModel
from tandem_autoscaler.model.prompt_lengths import Lengths
from tandem_autoscaler.model.queueing import Distribution
from tandem_autoscaler.signals.source import Snapshot


@dataclass(frozen=True)
class Facts:
    """None: not known, which is not zero. `prompts` are the prompts' service times in a prefill worker."""

    service: Service
    targets: Targets
    load: Load
    counts: Mapping[str, RoleCount]
    prefill_need: Need | None
    decode_need: Need | None
    ttft: Kept
    tpot: Kept
    decode_full: bool
    cold_start_seconds: float
    prompts: Distribution | None
    prompt_tokens: float | None
    ttft_budget_seconds: float  # of the TTFT target, what a prefill worker may take
    decode: DecodeModel  # asked at the present contexts
    settings: Settings
    decode_even: bool = False  # its workers share what comes by chance
    prefill: PrefillModel | None = None
    step: MixedStep | None = None  # of a colocated worker, where its engine tells how many it takes
    lengths: Lengths | None = None  # of what is computed of each prompt
    output_tokens: float | None = None  # of an answer, in the mean
    chunking: Chunking | None = None  # of the role that computes prompts
    longest: int | None = None  # tokens of a request, by the manifest
    thresholds: bool = True  # the engine can limit what one prompt has of a step
    machines: Mapping[str, Machine] = field(default_factory=dict)  # by role, where known
    silent: Mapping[str, str] = field(default_factory=dict)  # pods that did not answer, and why

    @property
    def prefill_count(self) -> RoleCount:
        return self.counts[prefill_role(self.service)]

    @property
    def decode_count(self) -> RoleCount:
        return self.counts[decode_role(self.service)]

    @property
    def busy(self) -> float | None:
        """Share of the prefill workers' time that the prompts take; above 1 they pile up."""
        if self.prefill_need is None or self.prefill_need.workers is None or not self.prefill_count.ready:
            return None
        return self.prefill_need.load / self.prefill_count.ready


def look(
    state: ServiceState,
    service: Service,
    snapshot: Snapshot,
    settings: Settings,
    machines: Mapping[str, Machine] | None = None,
    *,
    chunking: Chunking | None = None,
    longest: int | None = None,
    thresholds: bool = True,
) -> Facts:
    """The facts after `decide` has seen the snapshot. The service must have targets and its pools."""
    targets = service.targets
    assert targets is not None, "without promises there is nothing to diagnose"
    counts = {role: count(service, role, snapshot, state.history) for role in service.pools}
    cold = cold_start_seconds(state, service, settings)
    state, load = measure(state, service, settings, cold + settings.reaction_seconds, news=False)
    ttft, tpot = of_users(state.history, service, targets, settings.window_seconds)
    prefill, decode = prefill_role(service), decode_role(service)
    prompts = state.computed_lengths
    decode_pool = service.pools.get(decode)
    return Facts(
        service=service,
        targets=targets,
        load=load,
        counts=counts,
        prefill_need=need_prefill(state, service, targets, load, settings) if prefill in service.pools else None,
        decode_need=None if decode_pool is None else need_decode(
            state, service, decode_pool, targets, load, settings, ready=counts[decode].ready
        ),
        ttft=ttft,
        tpot=tpot,
        decode_full=decode_pool is not None and decode_is_full(service, load, counts[decode], settings),
        cold_start_seconds=cold,
        prompts=state.prefill.distribution(prompts) if prompts is not None and state.prefill.known else None,
        prompt_tokens=sum(tokens * share for tokens, share in state.lengths) if state.lengths else None,
        ttft_budget_seconds=settings.safety * targets.ttft_seconds - decode_share(state, service, targets, settings),
        decode=state.decode.at_context(*context(state)),
        settings=settings,
        decode_even=dealt_evenly(state, service),
        prefill=state.prefill if state.prefill.known else None,
        step=state.mixed.step,
        lengths=prompts,
        output_tokens=state.output_tokens,
        chunking=chunking,
        longest=longest,
        thresholds=thresholds,
        machines=machines or {},
        silent=snapshot.silent,
    )  # fmt: skip
