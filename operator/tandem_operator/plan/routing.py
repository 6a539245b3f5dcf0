"""Routers whose list is not what the workers are: told so, each by itself.

Two ways to be wrong. A worker that left is still listed: it is taken off the list. A worker that serves is not listed:
its label goes for a moment, for that is what a router that once had it takes as news. A router that heeds no labels
(`is_told`) is told of it instead.
"""

from tandem_api import names
from tandem_operator.build.engines.sglang import BOOTSTRAP_PORT
from tandem_operator.build.router_deployment import is_told
from tandem_operator.observe.address import base_url
from tandem_operator.observe.observed import Observed
from tandem_operator.observe.pod import PodView
from tandem_operator.observe.routing import Routing
from tandem_operator.observe.timestamp import format_time, parse_time
from tandem_operator.plan.actions import Enlist, Mark, Unlist
from tandem_operator.plan.settings import Settings


def unlists(observed: Observed, now: float, settings: Settings) -> tuple[Unlist, ...]:
    """Entries that a router should have dropped by now, had it heard of it."""
    living = [pod for pod in observed.pods if not pod.finished]
    by_address = {pod.ip: pod for pod in living if pod.ip}
    # The router may have heard of a new worker's address before us.
    all_known = len(by_address) == len(living)
    found = []
    for routing in observed.routings:
        for address, url in sorted(routing.workers.items()):
            pod = by_address.get(address)
            if pod is None:
                if not all_known and address not in observed.former_addresses:
                    continue
                why = f"{address} is no worker of this service"
            elif pod.terminating:
                why = f"{pod.name} is being deleted"
            elif pod.draining:
                assert pod.drain_started is not None
                if now - pod.drain_started < settings.router_hears_seconds:
                    continue
                why = f"{pod.name} has left the router"
            else:
                continue
            found.append(Unlist(routing.router, routing.ip, url, why))
    return tuple(found)


def relists(observed: Observed, now: float, settings: Settings) -> tuple[Mark, ...]:
    """Workers that have served for long and that a router still does not list."""
    marks: list[Mark] = []
    if observed.spec is None or is_told(observed.spec):
        return ()
    for pod in _serving(observed):
        assert pod.ready_since is not None
        unknown_to = [routing.router for routing in observed.routings if pod.ip not in routing.workers]
        told = parse_time(pod.annotations.get(names.ANNOTATION_RELISTED_AT))
        since = max(pod.ready_since, told or 0.0, pod.flipped_at or 0.0)
        if unknown_to and now - since >= settings.relist_seconds:
            annotations = {names.ANNOTATION_RELISTED_AT: format_time(now)}
            marks.append(Mark(pod.name, pod.uid, {names.LABEL_SERVING: None}, annotations))
    return tuple(marks)


def enlists(observed: Observed, now: float, settings: Settings) -> tuple[Enlist, ...]:
    """Workers that serve and that a router which must be told does not list: taken back from a drain, mostly.

    New ones it finds by itself, and gets the time for it.
    """
    return tuple(
        Enlist(
            routing.router,
            routing.ip,
            base_url(str(pod.ip), names.ENGINE_PORT),
            pod.role,
            BOOTSTRAP_PORT if pod.role == names.PREFILL else None,
        )
        for pod, routing in _to_be_told(observed)
        if now - (pod.ready_since or now) >= settings.router_finds_seconds
    )


def enlist_wait(observed: Observed, now: float, settings: Settings) -> float | None:
    """Seconds until a router is told of a worker that is still left to its own finding; None: there is no such."""
    waits = [
        settings.router_finds_seconds - (now - (pod.ready_since or now)) for pod, _ in _to_be_told(observed)
    ]
    return min([wait for wait in waits if wait > 0], default=None)


def _to_be_told(observed: Observed) -> list[tuple[PodView, Routing]]:
    """Workers that serve, each with a router that must be told and does not list it."""
    if observed.spec is None or not is_told(observed.spec):
        return []
    return [
        (pod, routing)
        for pod in _serving(observed)
        for routing in observed.routings
        if pod.ip not in routing.workers
    ]


def _serving(observed: Observed) -> list[PodView]:
    return [
        pod
        for pod in observed.pods
        if pod.member and pod.ready and pod.serving and pod.ip and pod.ready_since is not None
    ]
