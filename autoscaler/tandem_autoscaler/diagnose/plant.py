"""The fleet at the present load, in the decision's own models: how many requests would be in time if it were otherwise.

Prefill is the queue of ALGORITHM 4.3 (`model/queueing.py`). Decode is the batch of 4.4 (`mean_batch`): a mean and a
deviation, of which the part above the batch at which TPOT is just kept makes late tokens, and the part above what the
KV cache or the engine's limit leaves room for makes late first tokens.
"""

import math
from dataclasses import dataclass, replace

from tandem_autoscaler.decide.need_decode import kv_per_sequence, mean_batch
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.diagnose.facts import Facts
from tandem_autoscaler.diagnose.machine import Change
from tandem_autoscaler.fleet.service import decode_role
from tandem_autoscaler.model.decode import DecodeModel
from tandem_autoscaler.model.queueing import POOLED_POLICIES, Distribution, moments, violation


@dataclass(frozen=True)
class Plant:
    """What a fix changes is replaced. `kv_room`: sequences of the present contexts that one KV cache holds.

    A role of which nothing is learnt yet (`prompts` None, `decode` not known) counts as in time: what is predicted is
    then of the other role alone.
    """

    settings: Settings
    allowance: float
    prefill_workers: int
    prompts: Distribution | None
    arrivals: float
    arrival_scv: float
    pooled: bool
    demotion: bool
    ttft_seconds: float
    decode_workers: int
    tokens_per_second: float
    decode: DecodeModel
    tpot_seconds: float
    slots: float
    kv_room: float  # infinite while too little is in use to tell

    @property
    def prefill_load(self) -> float:
        """Erlang; 0 while unknown."""
        return self.arrivals * moments(self.prompts).mean_seconds if self.prompts else 0.0

    @property
    def unequal(self) -> bool:
        """Do some prompts take so much longer than others that who waits for whom matters?"""
        return self.prompts is not None and moments(self.prompts).scv > 1.0

    @property
    def tpot_batch(self) -> float:
        """Sequences per worker at which the time per token is just the target; infinite while unknown."""
        if not self.decode.known:
            return math.inf
        return self.decode.largest_batch(self.tpot_seconds, math.inf)

    @property
    def room(self) -> float:
        """Sequences that one decode worker takes at once."""
        return min(self.slots, self.kv_room)

    def late_prefill(self) -> float:
        """Share of the prompts whose first token is late because of prefill.

        With late demotion those that cannot be in time step aside: `Settings` knows by how much that makes up for a
        pool that is too small, in pools that have a choice. Where more comes than can be computed for long, those that
        stepped aside grow old, and then nothing is gained.
        """
        if self.prompts is None:
            return 0.0
        if self.prefill_workers < 1:
            return 1.0
        late = violation(
            self.prefill_workers, self.arrivals, self.prompts, self.ttft_seconds,
            arrival_scv=self.arrival_scv, pooled=self.pooled,
        )  # fmt: skip
        choice = self.prefill_workers >= self.settings.fewest_for_boldness
        if self.demotion and choice and self.prefill_load < self.prefill_workers:
            hopeless = sum(share for seconds, share in self.prompts if seconds >= self.ttft_seconds)
            late = hopeless + (late - hopeless) * self.allowance / self.settings.violation_with_demotion
        return min(1.0, late)

    def late_decode(self) -> tuple[float, float]:
        """(share whose first token waits for room in decode, share whose tokens come too slowly)."""
        if not self.decode.known:
            return 0.0, 0.0
        if self.decode_workers < 1:
            return 1.0, 1.0
        mean, deviation = mean_batch(self.tokens_per_second / self.decode_workers, self.decode)
        waiting = _above(self.room, mean, deviation)
        slow = _above(self.tpot_batch, mean, deviation) if self.room > self.tpot_batch else 0.0
        return waiting, slow

    def in_time(self) -> float:
        """Share of the requests that keep both promises."""
        waiting, slow = self.late_decode()
        return (1.0 - self.late_prefill()) * (1.0 - waiting) * (1.0 - slow)

    def loaded(self, factor: float) -> "Plant":
        """With so many times the requests."""
        return replace(
            self, arrivals=self.arrivals * factor, tokens_per_second=self.tokens_per_second * factor
        )

    def changed(self, prefill: Change | None = None, decode: Change | None = None) -> "Plant":
        """On other workers."""
        made = self
        if prefill is not None and made.prompts is not None:
            made = replace(
                made, prompts=[(seconds * prefill.prompt, share) for seconds, share in made.prompts]
            )
        if decode is not None and made.decode.known:
            made = replace(made, decode=_scaled(made.decode, decode), kv_room=made.kv_room * decode.kv_room)
        return made


def plant_of(facts: Facts) -> Plant | None:
    """None while the load or both models are unknown."""
    load, decode = facts.load, facts.decode
    if load.arrivals is None or load.tokens is None or (facts.prompts is None and not decode.known):
        return None
    pool = facts.service.pools.get(decode_role(facts.service))
    slots = float((pool.max_sequences if pool else None) or facts.settings.default_max_sequences)
    share = kv_per_sequence(load, facts.decode_count.ready)
    return Plant(
        settings=facts.settings,
        allowance=facts.targets.allowance,
        prefill_workers=facts.prefill_count.ready,
        prompts=facts.prompts,
        arrivals=load.arrivals,
        arrival_scv=load.arrival_scv,
        pooled=facts.service.router_policy in POOLED_POLICIES,
        demotion=facts.service.late_demotion,
        ttft_seconds=facts.ttft_budget_seconds,
        decode_workers=facts.decode_count.ready,
        tokens_per_second=max(load.tokens, 0.0),
        decode=decode,
        tpot_seconds=facts.targets.tpot_seconds,
        slots=slots,
        kv_room=math.inf if share is None else facts.settings.kv_fill / share,
    )


def _above(limit: float, mean: float, deviation: float) -> float:
    """Share of the time that a normal quantity is above a limit."""
    if not math.isfinite(mean) or mean >= 1e9:
        return 1.0 if math.isfinite(limit) else 0.0
    if not math.isfinite(limit):
        return 0.0
    if deviation <= 0:
        return float(mean > limit)
    return 0.5 * math.erfc((limit - mean) / (deviation * math.sqrt(2.0)))


def _scaled(model: DecodeModel, change: Change) -> DecodeModel:
    assert model.base_seconds is not None and model.seconds_per_sequence is not None, (
        "only a known model is changed"
    )
    per_context = model.seconds_per_context_token
    if per_context is None:
        per_context = model.seconds_per_sequence * model.prior.context_weight
    return replace(
        model,
        base_seconds=model.base_seconds * change.step,
        seconds_per_sequence=model.seconds_per_sequence * change.sequence,
        seconds_per_context_token=per_context * change.context,
    )
