"""What each role should have before limits: the model's need, raised where the model was wrong."""

from dataclasses import dataclass, replace

from tandem_autoscaler.decide.decision import Why
from tandem_autoscaler.decide.load import Load
from tandem_autoscaler.decide.need_colocated import need_colocated
from tandem_autoscaler.decide.need_decode import need_decode
from tandem_autoscaler.decide.need_prefill import Need, need_prefill
from tandem_autoscaler.decide.quality import RoleCount
from tandem_autoscaler.decide.reactive import Raise, raise_decode, raise_prefill
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import ServiceState
from tandem_autoscaler.fleet.service import Pool, Service, Targets, decode_role, prefill_role


@dataclass(frozen=True)
class Wish:
    """One role's. `workers` None: unknown; `known` False: a signal of it is."""

    workers: int | None
    known: bool
    why: Why
    because: str
    numbers: dict[str, float]
    keep: int = 0  # a pool shrinks to no fewer than these


def wishes(
    state: ServiceState, service: Service, targets: Targets, load: Load, counts: dict[str, RoleCount], full: bool,
    cold: float, settings: Settings,
) -> tuple[dict[str, Wish], dict[str, Need | None]]:  # fmt: skip
    prefill, decode = prefill_role(service), decode_role(service)
    needs: dict[str, Need | None] = {"ttft": None, "tpot": None}
    by_role: dict[str, list[Wish]] = {role: [] for role in service.pools}
    raises: list[Wish] = []
    if prefill in service.pools:
        need = needs["ttft"] = need_prefill(state, service, targets, load, settings)
        raised = raise_prefill(
            need, state, service, targets, load, counts[prefill], state.memory(prefill), settings, cold
        )
        wish = _wish(need, raised, Why.TTFT_NEED)
        if service.disaggregated and full and need.load < 0.7 * max(counts[prefill].ready, 1):
            wish = _not_for_decode(wish, service.pools[prefill], need, counts[prefill])
        by_role[prefill].append(wish)
        if raised is not None:
            raises.append(wish)
    if decode in service.pools:
        need = needs["tpot"] = need_decode(
            state, service, service.pools[decode], targets, load, settings, ready=counts[decode].ready
        )
        raised = raise_decode(
            need, state, service, service.pools[decode], targets, load, counts[decode], state.memory(decode), settings,
            cold, full=full,
        )  # fmt: skip
        wish = _wish(need, raised, Why.TPOT_NEED)
        by_role[decode].append(wish)
        if raised is not None:
            raises.append(wish)
    joined = {role: _joined(found) for role, found in by_role.items()}
    both = need_colocated(state, service, load, ready=counts[decode].ready) if decode in counts else None
    if both is not None and state.rated is not None:
        # A worker seen as a whole says more than either phase by itself; where it was wrong is told as for those.
        why = Why.TTFT_NEED if state.rated.first_is_late else Why.TPOT_NEED
        whole = _joined([_wish(both, None, why), *raises])
        numbers = {**joined[decode].numbers, **both.numbers, "need": float(whole.workers or 0)}
        joined[decode] = replace(whole, known=joined[decode].known, numbers=numbers)
    for role, counted in counts.items():
        joined[role] = _for_unready(joined[role], counted, load)
    return joined, needs


def _wish(need: Need, raised: Raise | None, why: Why) -> Wish:
    known = need.workers is not None
    if raised is not None:
        return Wish(raised.workers, known, raised.why, raised.because, need.numbers, raised.workers)
    return Wish(
        need.workers, known, why if known else Why.WAITING_FOR_DATA, need.because, need.numbers, need.keep
    )


def _not_for_decode(wish: Wish, pool: Pool, need: Need, counts: RoleCount) -> Wish:
    """Prefill has room and decode has none: more prefill would not bring the first token sooner (llm-d#1325)."""
    if wish.workers is None or wish.workers <= pool.replicas:
        return wish
    busy = need.load / max(counts.ready, 1)
    because = f"decode is full while prefill is {busy:.0%} busy; more prefill would not bring the first token sooner"
    return replace(wish, workers=pool.replicas, why=Why.DECODE_BOUND, because=because)


def _joined(found: list[Wish]) -> Wish:
    """Of several signals for one pool the larger one; an unknown one forbids only shrinking."""
    if len(found) == 1:
        return found[0]
    first = max(found, key=lambda wish: -1 if wish.workers is None else wish.workers)
    numbers = {name: value for wish in found for name, value in wish.numbers.items()}
    if first.workers is not None:
        numbers["need"] = first.workers
    keep = max(wish.keep for wish in found)
    return replace(first, known=all(wish.known for wish in found), numbers=numbers, keep=keep)


def _for_unready(wish: Wish, counts: RoleCount, load: Load) -> Wish:
    """All workers have become unready under load: they are not "no demand" (kubernetes#130130)."""
    if counts.ready or not counts.failed or not load.router_running:
        return wish
    workers = -(-5 * counts.failed // 4)
    if wish.workers is not None and wish.workers >= workers:
        return wish
    because = (
        f"all {counts.failed} workers are unready and {load.router_running:.0f} requests are at the router"
    )
    return replace(wish, workers=workers, keep=workers, why=Why.WORKERS_UNREADY, because=because)


def scaled_up_for_silent(wish: Wish, pool: Pool, counts: RoleCount) -> Wish:
    """Silent workers count as nothing when growing and as busy as the others when shrinking."""
    if wish.workers is None or wish.workers >= pool.replicas or not 0 < counts.heard < counts.ready:
        return wish
    grossed = -(-wish.workers * counts.ready // counts.heard)
    return replace(wish, workers=min(pool.replicas, grossed))
