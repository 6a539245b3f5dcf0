"""The constants of the rule. ALGORITHM 4.14 gives the source of each; what differs is said here."""

from dataclasses import dataclass, field

from tandem_autoscaler.model.decode import DecodePrior
from tandem_autoscaler.model.prefill import PrefillPrior


@dataclass(frozen=True)
class Settings:
    """Seconds and shares. One value serves all services; what differs per service stands in its spec."""

    window_seconds: float = 60.0
    short_window_seconds: float = 20.0
    long_window_seconds: float = 300.0
    fresh_seconds: float = 45.0
    blind_seconds: float = 180.0
    coverage: float = 0.7
    safety: float = 0.95  # of each target
    # Highest predicted share of late prompts, as a part of the allowance, and, where the workers' queues let prompts
    # that would be late yield (late demotion), absolutely: such a queue makes up for a much smaller pool.
    violation_share: float = 0.8
    violation_with_demotion: float = 0.25
    fewest_for_boldness: int = 4  # workers; below, the pool is sized as if nobody yielded
    prior_ratio: float = 1.3  # of the demand to come over the present one, until the service's own is known
    most_arrival_scv: float = 8.0
    chance_sigmas: float = 1.5  # of the minute's arrivals, by which a pool is kept larger than needed
    reaction_seconds: float = 10.0  # from a change to the decision: two ticks
    negligible_requests: float = 0.5  # fewer expected than these within the horizon are none
    fluctuation: float = 1.5  # z of square-root staffing
    kv_fill: float = 0.92
    young_seconds: float = 120.0
    cold_start_seconds: float = 120.0  # until measured
    step_share: float = 0.25
    step_seconds: float = 60.0
    idle_seconds: float = 900.0  # before a pool goes to zero, at least three cold starts
    drain_target_seconds: float = 60.0
    default_max_sequences: int = 256  # vLLM's
    # The decode worker's own part of the user's TTFT is taken off the prefill's target, up to this share: more
    # cannot be its usual part, and prefill workers could not make up for it.
    most_decode_share: float = 0.3
    prefill_prior: PrefillPrior = field(default_factory=PrefillPrior)
    decode_prior: DecodePrior = field(default_factory=DecodePrior)
