"""The status: how many serve, what stands in the way, and under which name it can be read.

Only the operator's own fields; `slo`, `autoscaling` and the scaling conditions belong to the autoscaler.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tandem_api import names
from tandem_api.kubernetes.cluster import DEPLOYMENT
from tandem_api.reasons import Condition, Reason
from tandem_operator.build.router_service import service_url
from tandem_operator.build.template_hash import template_hash
from tandem_operator.build.worker_pool import pool_selector
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.admission import settings_sound
from tandem_operator.plan.budget import gpu_budget
from tandem_operator.plan.conditions import Verdict, wire_conditions
from tandem_operator.plan.draft import Draft, Hindrance
from tandem_operator.plan.faults import Fault, pod_fault, rank, shorten, worst
from tandem_operator.plan.gateway import gateway_verdict
from tandem_operator.plan.kv_fit import kv_fit
from tandem_operator.plan.kv_leak import kv_leak
from tandem_operator.plan.rollout import updated_count
from tandem_operator.plan.schema import schema_current
from tandem_operator.plan.settings import Settings
from tandem_operator.plan.targets import Target

_ROLE_CONDITION = {
    names.PREFILL: Condition.PREFILL_READY,
    names.DECODE: Condition.DECODE_READY,
    names.WORKERS: Condition.WORKERS_READY,
}


@dataclass(frozen=True)
class RoleCount:
    """One role, counted. `starting`: members that do not serve yet."""

    role: str
    target: Target
    ready: int
    starting: int
    draining: int
    updated: int
    outdated: int
    fault: Fault | None
    blocked: Hindrance | None
    # It is promised a worker of another role, and waits for it.
    awaited: Hindrance | None

    @property
    def complete(self) -> bool:
        return self.ready >= self.target.replicas

    def wire(self) -> dict[str, Any]:
        return {
            "desired": self.target.replicas,
            "ready": self.ready,
            "starting": self.starting,
            "draining": self.draining,
            "updated": self.updated,
            "summary": f"{self.ready}/{self.target.replicas}",
        }


def count_role(
    observed: Observed, target: Target, draft: Draft, *, now: float, settings: Settings
) -> RoleCount:
    assert observed.spec is not None
    wanted = template_hash(observed.name, observed.spec, observed.spec.roles[target.role])
    pods = [pod for pod in observed.pods if pod.role == target.role]
    members = [pod for pod in pods if pod.member]
    updated = updated_count(pods, wanted)
    faults = [
        fault for pod in pods if (fault := pod_fault(pod, now=now, stuck_seconds=settings.stuck_seconds))
    ]
    faults += [Fault(Reason.POD_REFUSED, refusal.message, refusal.object) for refusal in observed.refusals
               if refusal.object.startswith(f"{target.role}:")]  # fmt: skip
    ready = sum(1 for pod in members if pod.ready)
    return RoleCount(
        role=target.role,
        target=target,
        ready=ready,
        starting=len(members) - ready,
        # A worker that is being deleted has left the router too.
        draining=sum(1 for pod in pods if pod.draining or (pod.terminating and not pod.finished)),
        updated=updated,
        outdated=len(members) - updated,
        fault=worst(faults),
        blocked=draft.blocked.get(target.role),
        awaited=draft.awaited.get(target.role),
    )


def role_verdict(count: RoleCount) -> Verdict:
    """True while the role has what it must have at least; the reason says what is still missing."""
    condition = _ROLE_CONDITION[count.role]
    desired = count.target.replicas
    if desired == 0:
        return Verdict(condition, "False", Reason.SCALED_TO_ZERO, f"{count.role} has no workers, as asked")
    enough = count.ready >= min(desired, max(1, count.target.minimum))
    status: Literal["True", "False"] = "True" if enough else "False"
    serving = f"{count.ready} of {desired} {count.role} workers serve"
    if count.target.limited:
        serving += f" ({count.target.asked} asked for, {desired} within minReplicas and maxReplicas)"
    if count.complete:
        return Verdict(condition, status, Reason.ALL_READY, serving)
    reason, why = _hindrance(count)
    return Verdict(condition, status, reason, shorten(f"{serving}; {why}") if why else serving)


def _hindrance(count: RoleCount) -> tuple[Reason, str]:
    found = [(each.reason, each.message) for each in (count.fault, count.blocked) if each is not None]
    if found:
        return min(found, key=lambda hindrance: rank(hindrance[0]))
    if count.awaited is not None:
        return count.awaited.reason, count.awaited.message
    if count.ready > 0 and not count.outdated:
        return Reason.SCALING, ""
    if count.outdated:
        return Reason.ROLLING_OUT, ""
    return Reason.STARTING, ""


def router_verdict(observed: Observed, *, now: float, settings: Settings) -> tuple[Verdict, str]:
    """The condition and ``ready/desired``."""
    assert observed.spec is not None
    desired = observed.spec.router.replicas
    deployment = observed.child(DEPLOYMENT, names.router_name(observed.name)) or {}
    status = deployment.get("status") or {}
    ready = int(status.get("readyReplicas") or 0)
    summary = f"{ready}/{desired}"
    if desired == 0:
        return Verdict(
            Condition.ROUTER_READY, "False", Reason.SCALED_TO_ZERO, "the router has no replicas, as asked"
        ), summary
    if ready >= 1:
        return Verdict(
            Condition.ROUTER_READY, "True", Reason.ALL_READY, f"{ready} of {desired} routers serve"
        ), summary
    fault = worst(
        fault
        for pod in observed.router_pods
        if (fault := pod_fault(pod, now=now, stuck_seconds=settings.stuck_seconds))
    )
    if fault is not None:
        return Verdict(Condition.ROUTER_READY, "False", fault.reason, fault.message), summary
    return Verdict(
        Condition.ROUTER_READY, "False", Reason.ROUTER_STARTING, f"0 of {desired} routers serve"
    ), summary


def progress_verdict(counts: list[RoleCount]) -> Verdict:
    """True while something is under way; False when it is done, or when it cannot go on."""
    for count in counts:
        if not count.complete and (count.fault or count.blocked):
            reason, why = _hindrance(count)
            return Verdict(Condition.PROGRESSING, "False", reason, shorten(why))
    for count in counts:
        if count.outdated and count.target.replicas:
            done = f"{count.updated} of {count.target.replicas} {count.role} workers have the new template"
            return Verdict(Condition.PROGRESSING, "True", Reason.ROLLING_OUT, done)
    for count in counts:
        if not count.complete:
            reason = Reason.SCALING if count.ready else Reason.STARTING
            message = f"{count.ready} of {count.target.replicas} {count.role} workers serve"
            if count.awaited is not None:
                reason, message = count.awaited.reason, f"{message}; {count.awaited.message}"
            return Verdict(Condition.PROGRESSING, "True", reason, shorten(message))
    leaving = sum(count.draining for count in counts)
    if leaving:
        return Verdict(
            Condition.PROGRESSING, "True", Reason.DRAINING, f"{leaving} workers finish their requests"
        )
    return Verdict(Condition.PROGRESSING, "False", Reason.UP_TO_DATE, "everything is as asked")


def ready_verdict(verdicts: list[Verdict]) -> Verdict:
    """Serving, end to end: every role and the router. What is not names the reason, the most telling first."""
    verdicts = sorted(verdicts, key=lambda verdict: rank(verdict.reason))
    for verdict in verdicts:
        if not verdict.holds:
            return Verdict(Condition.READY, "False", verdict.reason, verdict.message)
    partly = [verdict for verdict in verdicts if verdict.reason != Reason.ALL_READY]
    if partly:
        return Verdict(Condition.READY, "True", partly[0].reason, partly[0].message)
    return Verdict(Condition.READY, "True", Reason.ALL_READY, "everything that was asked for serves")


def service_status(
    observed: Observed,
    counts: list[RoleCount],
    *,
    service_name: str,
    conflict: str | None,
    now: float,
    settings: Settings,
) -> dict[str, Any]:
    """The status of a service whose spec is valid."""
    verdicts = [role_verdict(count) for count in counts]
    router, router_summary = router_verdict(observed, now=now, settings=settings)
    verdicts.append(router)
    ready = ready_verdict(verdicts)
    refusal = next((refusal for refusal in observed.refusals if "/" in refusal.object), None)
    if refusal is not None:
        message = shorten(f"{refusal.object}: {refusal.message}")
        ready = Verdict(Condition.READY, "False", Reason.POD_REFUSED, message)
    if conflict is not None:
        ready = Verdict(Condition.READY, "False", Reason.NAME_CONFLICT, conflict)
    verdicts += [ready, progress_verdict(counts)]
    misfit = next((count.fault for count in counts
                   if count.fault and count.fault.reason is Reason.INSUFFICIENT_KV_CACHE), None)  # fmt: skip
    if misfit is not None:
        verdicts.append(Verdict(Condition.KV_CACHE_FITS, "False", Reason.DOES_NOT_FIT, misfit.message))
    elif observed.spec is not None and (arithmetic := kv_fit(observed.spec)) is not None:
        verdicts.append(arithmetic)
    if (unsound := settings_sound(observed)) is not None:
        verdicts.append(unsound)
    if (outdated := schema_current(observed)) is not None:
        verdicts.append(outdated)
    if (route := gateway_verdict(observed)) is not None:
        verdicts.append(route)
    if (leak := kv_leak(observed, now=now, settings=settings)) is not None:
        verdicts.append(leak)
    budget = gpu_budget(observed)
    gpus: dict[str, int] = {}
    if budget.used is not None:
        gpus["used"] = budget.used
        if budget.limit is not None:
            gpus["budget"] = budget.limit
    status: dict[str, Any] = {
        "observedGeneration": observed.generation,
        "url": service_url(namespace=observed.namespace, name=service_name),
        "summary": f"{sum(count.ready for count in counts)}/{sum(count.target.replicas for count in counts)}",
        "roles": {count.role: count.wire() for count in counts},
        "router": router_summary,
        "conditions": wire_conditions(
            verdicts, live=observed.status.get("conditions") or [], generation=observed.generation, now=now
        ),
    }
    if gpus:
        status["gpus"] = gpus
    return status


def invalid_status(observed: Observed, *, now: float) -> dict[str, Any]:
    """What runs goes on running; the counts of before are kept, so that nothing seems to vanish."""
    verdict = Verdict(Condition.READY, "False", Reason.INVALID_SPEC, observed.spec_error or "")
    kept = {
        key: observed.status[key]
        for key in ("url", "summary", "roles", "router", "gpus")
        if key in observed.status
    }
    return {
        **kept,
        "observedGeneration": observed.generation,
        "conditions": wire_conditions(
            [verdict], live=observed.status.get("conditions") or [], generation=observed.generation, now=now
        ),
    }


def pool_status(observed: Observed, role: str) -> Mapping[str, Any]:
    """`replicas` are the workers that exist, ready or not (field case D2)."""
    pods = [pod for pod in observed.pods if pod.role == role and not pod.finished and not pod.terminating]
    return {
        "replicas": len(pods),
        "readyReplicas": sum(1 for pod in pods if pod.member and pod.ready),
        "selector": pool_selector(observed.name, role),
    }
