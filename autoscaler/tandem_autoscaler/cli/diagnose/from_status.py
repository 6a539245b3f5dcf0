"""Facts from the numbers of the last decisions: fewer, and as old as these, but readable by everybody."""

from collections.abc import Mapping
from typing import Any

from tandem_api.durations import parse_seconds
from tandem_autoscaler.decide.decision import Kept
from tandem_autoscaler.decide.learning import context
from tandem_autoscaler.decide.load import Load
from tandem_autoscaler.decide.need_prefill import Need
from tandem_autoscaler.decide.quality import count
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import COLD_START, PROMPT_TOKENS, fresh_state
from tandem_autoscaler.diagnose.facts import Facts
from tandem_autoscaler.diagnose.machine import Machine
from tandem_autoscaler.fleet.service import Service, decode_role, prefill_role
from tandem_autoscaler.signals.source import Snapshot


def facts_of_status(
    service: Service, snapshot: Snapshot, settings: Settings, machines: Mapping[str, Machine]
) -> Facts:
    """What the status does not say is None. The service must have targets."""
    targets = service.targets
    assert targets is not None, "checked before"
    state = fresh_state(service, snapshot.taken_at_seconds, settings)
    prefill, decode = (
        _numbers(service.status, role) for role in (prefill_role(service), decode_role(service))
    )
    arrivals, tokens = prefill.get("promptsPerSecond"), decode.get("tokensPerSecond")
    each = prefill.get("secondsPerPrompt")
    ttft, tpot = (
        _kept(service.status, key, seconds)
        for key, seconds in (("ttft", targets.ttft_seconds), ("tpot", targets.tpot_seconds))
    )
    return Facts(
        service=service,
        targets=targets,
        load=Load(arrivals=arrivals, tokens=tokens, arrival_scv=prefill.get("arrivalScv", 1.0)),
        counts={role: count(service, role, snapshot, state.history) for role in service.pools},
        prefill_need=_need(prefill, load=(arrivals or 0.0) * (each or 0.0)),
        decode_need=_need(decode, load=0.0),
        ttft=ttft,
        tpot=tpot,
        decode_full=False,
        cold_start_seconds=prefill.get(COLD_START) or decode.get(COLD_START) or settings.cold_start_seconds,
        prompts=[(each, 1.0)] if each else None,
        prompt_tokens=prefill.get(PROMPT_TOKENS),
        ttft_budget_seconds=settings.safety * targets.ttft_seconds,
        decode=state.decode.at_context(*context(state)),
        settings=settings,
        machines=machines,
        silent=snapshot.silent,
    )


def _need(numbers: Mapping[str, float], *, load: float) -> Need:
    need = numbers.get("need")
    return Need(None if need is None else int(need), "", dict(numbers), load=load)


def _numbers(status: Mapping[str, Any], role: str) -> dict[str, float]:
    """The numbers of a role's last decision; whatever is no number is left out."""
    found: dict[str, float] = {}
    for name, text in _map(
        _map(_map(_map(status.get("autoscaling")).get("roles")).get(role)).get("numbers")
    ).items():
        try:
            found[name] = float(text)
        except (TypeError, ValueError):
            continue
    return found


def _kept(status: Mapping[str, Any], promise: str, target_seconds: float) -> Kept:
    told = _map(_map(status.get("slo")).get(promise))
    share, tail = told.get("attainment"), told.get("measured")
    try:
        kept = float(str(share).removesuffix("%")) / 100.0 if share is not None else None
        return Kept(target_seconds, None if tail is None else parse_seconds(str(tail)), kept, kept)
    except ValueError:
        return Kept(target_seconds)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
