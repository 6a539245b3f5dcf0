"""A while of one service, seen as the autoscaler sees it: list, sample, decide; nothing is written."""

import asyncio
import time
from dataclasses import dataclass, replace

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec
from tandem_api.kubernetes.cluster import POD, WORKER_POOL
from tandem_api.sizing.spec import worker_specs
from tandem_autoscaler.cli import cluster as users
from tandem_autoscaler.cli.diagnose.from_status import facts_of_status
from tandem_autoscaler.cli.diagnose.proxy import ProxySource
from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState, fresh_state
from tandem_autoscaler.diagnose.facts import Facts, look
from tandem_autoscaler.diagnose.machine import machines_of
from tandem_autoscaler.fleet.chunks import chunking_of
from tandem_autoscaler.fleet.observe import observe
from tandem_autoscaler.fleet.service import Service, prefill_role

_TICK_SECONDS = 5.0


@dataclass(frozen=True)
class Seen:
    """`note`: where the facts are fewer than they could be. `own_chunks`: the role overrides engine.chunkedPrefill."""

    service: Service
    facts: Facts
    note: str | None = None
    own_chunks: bool = False


async def watch(reached: users.Reached, name: str, seconds: float) -> Seen:
    """Raises Mistake, and ApiError."""
    settings, source = Settings(), ProxySource(reached.cluster)
    state: ServiceState | None = None
    began = time.time() - time.monotonic()
    end = time.monotonic() + seconds
    tick = min(_TICK_SECONDS, seconds / 4.0)
    while True:
        service, spec = await _observed(reached, name)
        now = began + time.monotonic()
        snapshot = (await source.sample([service], now))[service.key]
        if state is None:
            state = fresh_state(service, now, settings)
        state, _ = decide(state, service, snapshot, settings, wall_seconds=now)
        machines = machines_of(spec)
        if source.forbidden is not None or (not snapshot.pods and time.monotonic() >= end):
            why = source.forbidden or next(
                iter(sorted(set(snapshot.silent.values()))), "no worker is running"
            )
            return Seen(
                service, facts_of_status(service, snapshot, settings, machines),
                f"from the status alone, because no worker's metrics can be read: {why}",
            )  # fmt: skip
        if time.monotonic() >= end:
            worker = worker_specs(spec)[prefill_role(service)]
            facts = look(
                state, service, snapshot, settings, machines,
                chunking=chunking_of(spec, worker), longest=worker.max_model_len, thresholds=spec.engine.type == "vllm",
            )  # fmt: skip
            engine = spec.roles[prefill_role(service)].engine
            return Seen(service, facts, own_chunks=engine is not None and engine.chunked_prefill is not None)
        await asyncio.sleep(min(tick, max(0.05, end - time.monotonic())))


async def _observed(reached: users.Reached, name: str) -> tuple[Service, InferenceServiceSpec]:
    """The service as if Tandem sized it, whoever does: then the same things are measured."""
    namespace = reached.one_namespace
    manifest = await users.service_named(reached.cluster, namespace, name)
    selector = names.selector({names.LABEL_SERVICE: name})
    pools, pods = await asyncio.gather(
        reached.cluster.list(WORKER_POOL, namespace=namespace),
        reached.cluster.list(POD, namespace=namespace, selector=selector),
    )
    found, broken = observe([manifest], pools, pods)
    if broken or not found:
        raise Mistake(f"{name}: {next(iter(broken.values()), 'it is being deleted')}")
    service = replace(found[0], mode="Auto", paused=False)
    if service.targets is None:
        raise Mistake(f"{name} makes no promise: set spec.slo.ttft and spec.slo.tpot, and see if it is kept")
    missing = [role for role in _roles(service) if role not in service.pools]
    if missing:
        raise Mistake(
            f"{name} has no pool for {' and '.join(missing)} yet: `kubectl tandem status {name}` says why"
        )
    return service, InferenceServiceSpec.model_validate(manifest["spec"])


def _roles(service: Service) -> tuple[str, ...]:
    return (names.PREFILL, names.DECODE) if service.disaggregated else (names.WORKERS,)
