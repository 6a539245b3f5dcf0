"""The manifest, read with the API's own models and seen with the autoscaler's own eyes."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec
from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.fleet.observe import observe
from tandem_autoscaler.fleet.service import Service, Targets

_ROLES = (names.PREFILL, names.DECODE)


@dataclass(frozen=True)
class Wish:
    """`service` has both pools, with one replica each, and no pods."""

    spec: InferenceServiceSpec
    service: Service
    targets: Targets
    notes: tuple[str, ...] = ()  # where the replay departs from the manifest


def read(filename: str) -> Wish:
    """The one InferenceService in the file (`-`: stdin). Raises Mistake."""
    manifest = _only(filename, _documents(filename))
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        raise Mistake(f"{filename}: metadata is missing")
    name = _text(filename, "name", metadata.get("name"))
    namespace = _text(filename, "namespace", metadata.get("namespace", "default"))
    try:
        spec = InferenceServiceSpec.model_validate(manifest.get("spec") or {})
    except ValidationError as error:
        raise Mistake(f"{filename}: {_paths(error)}") from None
    _check(filename, name, spec)
    plain = {"metadata": {"namespace": namespace, "name": name}, "spec": manifest["spec"]}
    pools = [
        {
            "metadata": {"namespace": namespace, "name": names.pool_name(name, role)},
            "spec": {"service": name, "role": role, "replicas": 1},
        }
        for role in _ROLES
    ]
    found, broken = observe([plain], pools, [])
    if broken:
        raise Mistake(f"{filename}: {next(iter(broken.values()))}")
    service = replace(found[0], mode="Auto")
    assert service.targets is not None, "checked above"
    return _replayable(Wish(spec, service, service.targets))


def _text(filename: str, field: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Mistake(f"{filename}: metadata.{field} must be a text")
    return value


def _documents(filename: str) -> list[Any]:
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text(encoding="utf-8")
        return list(yaml.safe_load_all(text))
    except OSError as error:
        raise Mistake(f"{filename}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise Mistake(f"{filename}: this is no text in UTF-8") from None
    except yaml.MarkedYAMLError as error:
        at = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise Mistake(f"{filename}{at}: this is no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise Mistake(f"{filename}: this is no YAML: {' '.join(str(error).split())}") from None


def _only(filename: str, documents: list[Any]) -> dict[str, Any]:
    found = [one for one in documents if isinstance(one, dict) and one.get("kind") == names.INFERENCE_SERVICE]
    if len(found) != 1:
        what = "no InferenceService" if not found else f"{len(found)} InferenceServices; replay takes one"
        raise Mistake(f"{filename}: the file holds {what}")
    if found[0].get("apiVersion") != names.API_VERSION:
        raise Mistake(f"{filename}: apiVersion is {found[0].get('apiVersion')}, and not {names.API_VERSION}")
    return found[0]


def _paths(error: ValidationError) -> str:
    """Each fault with the path of its field."""
    return "; ".join(
        f"{'.'.join(('spec', *(str(part) for part in fault['loc'])))}: {fault['msg'].removeprefix('Value error, ')}"
        for fault in error.errors()
    )


def _check(filename: str, name: str, spec: InferenceServiceSpec) -> None:
    """What the API server would refuse by the schema's rules, and what replay cannot simulate."""
    if spec.mode == "Colocated":
        raise Mistake(f"{filename}: {name} is Colocated; replay simulates mode: Disaggregated only")
    for role in _ROLES:
        wish = spec.roles.get(role)
        if wish is None:
            raise Mistake(
                f"{filename}: spec.{role} is missing; mode Disaggregated needs both prefill and decode"
            )
        if wish.min_replicas > wish.max_replicas:
            raise Mistake(
                f"{filename}: spec.{role}: minReplicas {wish.min_replicas} exceeds maxReplicas {wish.max_replicas}"
            )
        if wish.max_replicas == 0:
            raise Mistake(f"{filename}: spec.{role}.maxReplicas is 0: nobody would serve")
    if spec.slo is None:
        raise Mistake(f"{filename}: spec.slo is missing: replay sizes from spec.slo.ttft and spec.slo.tpot")


def _replayable(wish: Wish) -> Wish:
    """Without what the simulator does not know."""
    notes = []
    pools = dict(wish.service.pools)
    for role, pool in pools.items():
        if pool.minimum == 0:
            pools[role] = replace(pool, minimum=1)
            notes.append(f"{role}: minReplicas 0 is replayed as 1, without scaling to zero")
    if wish.spec.autoscaling.mode in ("External", "Off"):
        notes.append(f"autoscaling.mode {wish.spec.autoscaling.mode} is replayed as Auto")
    if wish.service.gpu_budget is not None:
        least = sum(pool.minimum * pool.gpus for pool in pools.values())
        if least > wish.service.gpu_budget:
            raise Mistake(
                f"spec.gpuBudget is {wish.service.gpu_budget}, but the minimum of both roles needs {least}"
            )
    return replace(wish, service=replace(wish.service, pools=pools), notes=tuple(notes))
