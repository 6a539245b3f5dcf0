"""What the operator's own configuration adds to a plan."""

from dataclasses import dataclass, field

from tandem_operator.build.images import Images


@dataclass(frozen=True)
class Settings:
    """Seconds throughout; the drain's come from ENGINE.md and FIELD.md."""

    images: Images = field(default_factory=Images)
    # The router drops a relabelled pod in the same second; requests in its hands still arrive for a moment.
    drain_settle_seconds: float = 3.0
    # An endpoint picker and its gateway cannot be asked whom they list, and hear of a label by a watch. Measured three
    # times: the Inference Extension's picker 1.3.0 picked no worker later than 0.1 s after its drain began.
    past_router_settle_seconds: float = 10.0
    # Two zero readings at least this far apart make a worker idle.
    drain_quiet_seconds: float = 2.0
    drain_poll_seconds: float = 1.0
    # A router whose watch stands hears of a label within a second; after this it is told.
    router_hears_seconds: float = 2.0
    # A worker that has served so long and is on no list yet is shown to the routers anew, no more often than this.
    relist_seconds: float = 90.0
    # How long a router that finds new workers by itself, but must be told of others, may take to find one.
    router_finds_seconds: float = 5.0
    # How often the routers' lists are looked at when nothing happens.
    router_check_seconds: float = 60.0
    # How often an endpoint picker is looked for that is not there yet.
    picker_check_seconds: float = 5.0
    # A worker that changes its role goes on serving what is still open, so one zero reading after this is enough.
    flip_settle_seconds: float = 1.0
    # A role that lacks a worker waits so long for another role's to be free; after that a new one is started.
    flip_wait_seconds: float = 20.0
    # Prefill keeps the KV cache of a finished prompt for its decode peer under a lease (NIXL: 30 s).
    kv_lease_seconds: float = 30.0
    # KV cache that is held so long with nothing running is not waiting for anybody any more: far longer than any lease.
    kv_leak_seconds: float = 600.0
    # How often workers that hand KV over are asked for that.
    kv_check_seconds: float = 60.0
    # A worker that failed for good is replaced no faster than this, and twice as late each time that its successor
    # fails too, so that a failing node is no fork bomb.
    replace_failed_seconds: float = 10.0
    most_rest_seconds: float = 300.0
    # The scheduler tries a pod that found no room again within so long of room being made (its backoff ends at 10 s);
    # until then its word of no room may be an old one.
    room_settle_seconds: float = 15.0
    # A terminating pod is called stuck this long after the API server expected it gone.
    stuck_seconds: float = 30.0
    # How soon to look again at a name that somebody else has, or a write that was refused.
    look_again_seconds: float = 30.0
