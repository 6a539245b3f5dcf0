"""What the operator's own configuration adds to a plan."""

from dataclasses import dataclass, field

from tandem_operator.build.images import Images


@dataclass(frozen=True)
class Settings:
    """Seconds throughout; the drain's come from ENGINE.md and FIELD.md."""

    images: Images = field(default_factory=Images)
    # The router drops a relabelled pod in the same second; requests in its hands still arrive for a moment.
    drain_settle_seconds: float = 3.0
    # Two zero readings at least this far apart make a worker idle.
    drain_quiet_seconds: float = 2.0
    drain_poll_seconds: float = 1.0
    # Prefill keeps the KV cache of a finished prompt for its decode peer under a lease (NIXL: 30 s).
    kv_lease_seconds: float = 30.0
    # A worker that failed for good is replaced no faster than this, so that a failing node is no fork bomb.
    replace_failed_seconds: float = 10.0
    # A terminating pod is called stuck this long after the API server expected it gone.
    stuck_seconds: float = 30.0
    # How soon to look again at a name that somebody else has, or a write that was refused.
    look_again_seconds: float = 30.0
