"""What is remembered of one service between ticks, and what of it survives a restart."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tandem_api import names
from tandem_autoscaler.decide.burstiness import Burstiness
from tandem_autoscaler.decide.demand import MOST_RATIO, Demand
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.fleet.service import Service, decode_role, prefill_role
from tandem_autoscaler.model.decode import DecodeModel
from tandem_autoscaler.model.mixed import MixedModel
from tandem_autoscaler.model.prefill import PrefillModel
from tandem_autoscaler.model.prompt_lengths import Lengths, shortened
from tandem_autoscaler.model.rated import Rated
from tandem_autoscaler.model.samples import Samples
from tandem_autoscaler.signals.window import History, begin

# Keys of DecisionStatus.numbers from which the models are restored.
PROMPT_BASE = "promptBaseSeconds"
PROMPT_PER_TOKEN = "promptSecondsPerToken"
STEP_BASE = "stepBaseSeconds"
STEP_PER_SEQUENCE = "stepSecondsPerSequence"
STEP_PER_CONTEXT = "stepSecondsPerContextToken"
OUTPUT_TOKENS = "outputTokens"
CONTEXT_TOKENS = "contextTokens"
PROMPT_TOKENS = "promptTokens"
COLD_START = "coldStartSeconds"
DEMAND_RATIO = "demandRatio"

Value = TypeVar("Value", "RoleMemory", "ServiceState")


def changed(value: Value, **fields: Any) -> Value:
    """`dataclasses.replace` for values that are made ten times per service and tick, in a fifth of its time.

    Right where a class has no `__post_init__`. Raises TypeError for a field that there is not.
    """
    made = object.__new__(type(value))
    made.__dict__.update(value.__dict__)
    if not fields.keys() <= made.__dict__.keys():
        raise TypeError(f"{type(value).__name__} has no {sorted(fields.keys() - made.__dict__.keys())}")
    made.__dict__.update(fields)
    return made


@dataclass(frozen=True)
class RoleMemory:
    """One role's past decisions."""

    needs: tuple[tuple[float, int], ...] = ()  # (when, need), for the confirmation of a scale-down
    current: int | None = None  # the pool's replicas at the last tick
    target: int | None = None  # what we decided then
    quiet_since_seconds: float = 0.0  # no shrinking before this plus the confirmation time
    manual_until_seconds: float | None = None
    shrunk_at_seconds: float | None = None
    ready: int = 0
    grew_at_seconds: float | None = None  # when the number of ready workers last grew
    fresh_ticks: int = 0
    heard_at_seconds: float | None = None  # the newest complete measurement
    ease: float = 0.0  # how far the role's demand quantile may fall (easing.py)
    spent: float = 0.0  # misses of the last half hour, as a part of the allowance


@dataclass(frozen=True)
class ServiceState:
    """Frozen: a tick returns a new one."""

    history: History
    prefill: PrefillModel
    decode: DecodeModel
    lengths: Lengths | None = None  # of prompts, as they arrive
    hit_share: float = 0.0  # of prompt tokens found in the prefix cache
    prefill_demand: Demand = field(
        default_factory=Demand
    )  # work of the prompts per second (PrefillModel.work)
    decode_demand: Demand = field(default_factory=Demand)  # output tokens per second
    burstiness: Burstiness = field(default_factory=Burstiness)
    output_tokens: float | None = None
    # That a sequence in decode holds in the mean, by its workers' KV caches; None: not told.
    sequence_tokens: float | None = None
    decode_ttft: Samples = field(default_factory=Samples)
    mixed: MixedModel = field(default_factory=MixedModel)  # of a colocated pool
    rated: Rated | None = None  # one worker of it
    cold_starts: Mapping[str, float] = field(default_factory=dict)  # pod uid -> seconds
    remembered_cold_start: float | None = None
    active_at_seconds: float = 0.0  # last sign of traffic or of a worker becoming ready
    unmatched_ticks: int = 0  # ticks in which ready workers answered with none of our series
    roles: Mapping[str, RoleMemory] = field(default_factory=dict)

    @property
    def computed_lengths(self) -> Lengths | None:
        """Lengths of the prompts without what the prefix cache holds of them; None while none was seen."""
        return shortened(self.lengths, 1.0 - self.hit_share) if self.lengths else None

    def memory(self, role: str) -> RoleMemory:
        found = self.roles.get(role)
        return found if found is not None else RoleMemory(quiet_since_seconds=self.history.began_at_seconds)

    def with_memory(self, role: str, memory: RoleMemory) -> "ServiceState":
        return changed(self, roles={**self.roles, role: memory})


def fresh_state(service: Service, now_seconds: float, settings: Settings) -> ServiceState:
    """A new state; what the models had learnt before a restart is taken from the service's own status.

    The status holds the numbers of the last decision per role anyway, so no second store is needed, and a person
    reads with `kubectl get -o yaml` what the autoscaler believes.
    """
    numbers = {role: _numbers(service.status, role) for role in names.ROLES}
    prefill = PrefillModel(prior=settings.prefill_prior)
    decode = DecodeModel(prior=settings.decode_prior)
    of_prefill, of_decode = numbers[prefill_role(service)], numbers[decode_role(service)]
    base, slope = of_prefill.get(PROMPT_BASE), of_prefill.get(PROMPT_PER_TOKEN)
    if base is not None and slope is not None and base >= 0 and slope >= 0 and base + slope > 0:
        prefill = replace(prefill, base_seconds=base, seconds_per_token=slope, remembered=True)
    base, slope = of_decode.get(STEP_BASE), of_decode.get(STEP_PER_SEQUENCE)
    if base is not None and slope is not None and base >= 0 and slope >= 0 and base + slope > 0:
        context = of_decode.get(STEP_PER_CONTEXT)
        decode = replace(
            decode,
            base_seconds=base,
            seconds_per_sequence=slope,
            seconds_per_context_token=context if context is not None and context >= 0 else None,
        )
    tokens = of_prefill.get(PROMPT_TOKENS)
    held = of_decode.get(CONTEXT_TOKENS)
    if held is not None and held <= 0:
        held = None
    decode = decode.at_context(held or (tokens or 0.0) + (of_decode.get(OUTPUT_TOKENS) or 0.0) / 2)
    return ServiceState(
        history=begin(now_seconds),
        prefill=prefill,
        decode=decode,
        lengths=((tokens, 1.0),) if tokens is not None and tokens > 0 else None,
        prefill_demand=_demand(of_prefill),
        decode_demand=_demand(of_decode),
        output_tokens=of_decode.get(OUTPUT_TOKENS) or None,
        sequence_tokens=held if service.disaggregated else None,
        remembered_cold_start=of_prefill.get(COLD_START) or of_decode.get(COLD_START),
        active_at_seconds=now_seconds,
    )


def _demand(numbers: Mapping[str, float]) -> Demand:
    ratio = numbers.get(DEMAND_RATIO)
    return Demand(remembered_ratio=ratio if ratio is not None and 0 < ratio <= MOST_RATIO else None)


def _numbers(status: Mapping[str, Any], role: str) -> dict[str, float]:
    """The numbers of a role's last decision; whatever is no number is left out."""
    scaling = status.get("autoscaling")
    roles = scaling.get("roles") if isinstance(scaling, Mapping) else None
    decision = roles.get(role) if isinstance(roles, Mapping) else None
    texts = decision.get("numbers") if isinstance(decision, Mapping) else None
    found: dict[str, float] = {}
    for name, text in (texts or {}).items() if isinstance(texts, Mapping) else ():
        try:
            value = float(text)
        except (TypeError, ValueError):
            continue
        if value == value and abs(value) != float("inf"):
            found[name] = value
    return found
