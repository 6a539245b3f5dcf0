"""The wish as a typed spec, or the reason why it cannot be carried out, as one sentence for its author."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec, Role
from tandem_operator.observe.engine_spec import engine_problem
from tandem_operator.observe.pod import gpus_of, is_gpu
from tandem_operator.observe.quantity import parse_quantity


def read_spec(raw: Mapping[str, Any]) -> tuple[InferenceServiceSpec | None, str | None]:
    """(spec, None) or (None, sentence). What CEL refuses is refused here too: an older CRD may be installed."""
    try:
        spec = InferenceServiceSpec.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in ("spec", *first["loc"]))
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        return None, f"{place}: {first['msg'].removeprefix('Value error, ')}{more}"
    error_text = _cross_check(spec)
    return (None, error_text) if error_text else (spec, None)


def _cross_check(spec: InferenceServiceSpec) -> str | None:
    if spec.mode == "Disaggregated" and (spec.prefill is None or spec.decode is None):
        return "mode Disaggregated needs both spec.prefill and spec.decode"
    if spec.slo is None and spec.autoscaling.mode in ("Auto", "Recommend"):
        return f"autoscaling.mode {spec.autoscaling.mode} sizes from targets: set spec.slo, or choose External or Off"
    if spec.inference_pool is not None and spec.mode != "Colocated":
        return "router.gateway.inferencePool is for mode Colocated: only the router pairs prefill and decode workers"
    if spec.inference_pool is not None and spec.autoscaling.mode == "Auto" and _may_sleep(spec):
        return (
            "requests that come past the router wake no sleeping role: with router.gateway.inferencePool set "
            "workers.minReplicas to 1 or more"
        )
    for name, role in spec.roles.items():
        problem = _role_problem(role)
        if problem:
            return f"spec.{name}: {problem}"
    return engine_problem(spec)


def _may_sleep(spec: InferenceServiceSpec) -> bool:
    return any(role.min_replicas == 0 for role in spec.roles.values())


def _role_problem(role: Role) -> str | None:
    if role.min_replicas > role.max_replicas:
        return f"minReplicas {role.min_replicas} exceeds maxReplicas {role.max_replicas}"
    return _template_problem(role)


def _template_problem(role: Role) -> str | None:
    template = role.template or {}
    if not isinstance(template, Mapping) or set(template) - {"metadata", "spec"}:
        return "template may have only metadata and spec, as a pod template has"
    pod_spec = template.get("spec") or {}
    if not isinstance(pod_spec, Mapping):
        return "template.spec must be a mapping"
    containers = pod_spec.get("containers") or []
    if not isinstance(containers, list) or not all(
        isinstance(entry, Mapping) and entry.get("name") for entry in containers
    ):
        return "template.spec.containers must be a list of named containers; the engine's is `engine`"
    grace = pod_spec.get("terminationGracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or grace < 10):
        return "template.spec.terminationGracePeriodSeconds must be a whole number of at least 10"
    for entry in containers:
        if entry["name"] == names.ENGINE_CONTAINER and "args" in entry:
            return "template may not set args of the container engine; use spec.engine and engine.extraArgs"
    return _gpu_problem(role, pod_spec)


def _gpu_problem(role: Role, pod_spec: Mapping[str, Any]) -> str | None:
    """The budget counts what the scheduler will set aside, so the template may not say something else than `gpus`."""
    asked: dict[str, int] = {}
    for entry in pod_spec.get("containers") or []:
        for amounts in (entry.get("resources") or {}).values():
            if not isinstance(amounts, Mapping):
                continue
            for resource, amount in amounts.items():
                if is_gpu(resource) or resource == role.gpu_resource:
                    try:
                        number = parse_quantity(amount)
                    except ValueError:
                        return f"template asks for {amount!r} of {resource}, which is no number"
                    if number != int(number):
                        return (
                            f"template asks for {amount} of {resource}, and GPUs are whole; set gpus instead"
                        )
                    asked[resource] = int(number)
    for resource, amount in asked.items():
        if resource != role.gpu_resource:
            return f"template asks for {resource}; set gpuResource: {resource} and gpus: {amount} instead"
        if amount != role.gpus:
            return f"template asks for {amount} {resource}, gpus says {role.gpus}; set gpus only"
    return None


def gpus_per_worker(role: Role) -> int | None:
    """GPUs of one worker, over all its pods; None when the template takes them by resource claim, which does not say
    how many."""
    if (
        role.gpus == 0
        and gpus_of((role.template or {}).get("spec") or {}, frozenset({role.gpu_resource})) is None
    ):
        return None
    return role.total_gpus
