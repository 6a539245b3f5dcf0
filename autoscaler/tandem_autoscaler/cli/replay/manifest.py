"""The manifest as the autoscaler sees it, with what replay asks of it."""

from dataclasses import dataclass, replace

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec
from tandem_autoscaler.cli import manifest
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
    found_one = manifest.read(filename)
    name, namespace, spec = found_one.name, found_one.namespace, found_one.spec
    _check(filename, name, spec)
    plain = {"metadata": {"namespace": namespace, "name": name}, "spec": found_one.raw_spec}
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
