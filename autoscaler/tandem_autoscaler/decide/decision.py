"""A decision and its reason. "Do nothing" is one too. It feeds status, event, log line and metric alike."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tandem_api.reasons import Reason


class Why(StrEnum):
    """Why a role's target is what it is."""

    TTFT_NEED = "TTFTNeed"  # the prompts' work needs so many
    TPOT_NEED = "TPOTNeed"  # the tokens' work needs so many
    BACKLOG = "Backlog"  # requests wait
    SLO_BURN = "SLOBurn"  # the promise is being broken although the model sees no need
    WORKERS_UNREADY = "WorkersUnready"  # all workers have become unready while requests are in flight
    FROM_ZERO = "FromZero"
    TO_ZERO = "ToZero"
    LESS_NEEDED = "LessNeeded"
    STEADY = "Steady"
    CONFIRMING = "Confirming"  # less is needed, not yet for long enough
    STARTING = "Starting"  # less is needed, but workers are starting
    MANUAL = "ManualChange"  # someone else has set the pool
    WAITING_FOR_DATA = "WaitingForData"
    PARTIAL_DATA = "PartialData"
    STALE_DATA = "StaleData"
    NO_DATA = "NoData"
    BELOW_MINIMUM = "BelowMinimum"
    ABOVE_MAXIMUM = "AboveMaximum"
    DECODE_BOUND = "DecodeBound"  # the first token is late because decode is full: prefill would not help
    ROLE_FLIP = "RoleFlip"  # decode needs one at once, and prefill can spare one
    GPU_BUDGET = "GPUBudget"


class Quality(StrEnum):
    """How far the measurements of a role can be trusted (ALGORITHM 4.11)."""

    FRESH = "fresh"
    PARTIAL = "partial"  # some ready workers are silent: may grow, never shrinks
    STALE = "stale"
    BLIND = "blind"
    EMPTY = "empty"  # no worker is ready, so there is nothing to hear from


@dataclass(frozen=True)
class Decision:
    """One role's target. `target == current` means: leave it."""

    role: str
    current: int
    target: int
    why: Why
    message: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        return self.target != self.current


@dataclass(frozen=True)
class Kept:
    """How one promise was kept over the last minute. None: not measured."""

    target_seconds: float
    tail_seconds: float | None = None
    attainment: float | None = None  # lower bound
    attainment_upper: float | None = None
    how: str = ""


@dataclass(frozen=True)
class Verdict:
    """A condition as the decision sees it; the writer adds the times."""

    status: str  # True, False, Unknown
    reason: Reason
    message: str


@dataclass(frozen=True)
class Outcome:
    """All that one tick says about one service."""

    decisions: Mapping[str, Decision] = field(default_factory=dict)
    ttft: Kept | None = None
    tpot: Kept | None = None
    conditions: Mapping[str, Verdict] = field(default_factory=dict)
