"""The hash by which a worker is known to be out of date.

It is taken over what the *user* wishes for the role, not over what this version of the operator renders from
it: a new operator, chart or default image must not restart a GPU fleet (field cases D4, H10). Not in it:
replicas, targets, the role's name, the drain deadline and the start-up timeout, none of which the running engine
would do anything else for. Both roles have the same hash when flags, hardware and template are the same, so that a
worker may change its role; not where the engine is started for one.
"""

from dataclasses import fields
from typing import Any

from tandem_api.inference_service import InferenceServiceSpec, Role
from tandem_operator.build.canonical import digest
from tandem_operator.build.engine_settings import engine_settings
from tandem_operator.build.engines import engine_of


def template_hash(service: str, spec: InferenceServiceSpec, role: Role) -> str:
    """16 hexadecimal digits."""
    engine = engine_settings(spec, role)
    settings = {field.name: getattr(engine, field.name) for field in fields(engine)}
    chunked = settings.pop("chunked_prefill")
    speculative = settings.pop("speculative")
    wish: dict[str, Any] = {
        "engine": spec.engine.type,
        "model": spec.model.to_wire() | {"name": spec.model.name or service},
        "settings": settings,
        "chunkedPrefill": chunked.to_wire() if chunked is not None else None,
        "speculative": speculative.to_wire() if speculative is not None else None,
        "disaggregated": spec.mode == "Disaggregated",
        "phase": engine_of(spec).phase(spec, role),
        "gpus": role.gpus,
        "nodes": role.nodes if role.nodes > 1 else None,
        "pipelineParallel": role.pipeline_size if role.pipeline_size > 1 or role.nodes > 1 else None,
        "dataParallel": role.data_parallel if role.data_parallel > 1 else None,
        "shmSize": role.shm_size,
        "gpuResource": role.gpu_resource if role.gpus else None,
        "template": role.template,
    }
    return digest(_without_nothing(wish))


def _without_nothing(value: Any) -> Any:
    """Fields that say nothing are left out, so that a later version may add fields without a restart."""
    if isinstance(value, dict):
        kept = {key: _without_nothing(child) for key, child in value.items()}
        return {key: child for key, child in kept.items() if child not in (None, {}, [], ())}
    return value
