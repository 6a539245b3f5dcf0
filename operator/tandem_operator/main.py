"""The process: become the leader, then watch, plan and carry out until that is lost or a signal comes.

Exit status: 0 after a signal, 1 when leadership is lost or a part ended by itself (Kubernetes starts it anew),
2 for a user's mistake.
"""

import asyncio
import contextlib
import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence

import httpx

from tandem_api import names
from tandem_api.kubernetes.client import ApiServer, NoCluster, connect
from tandem_api.kubernetes.cluster import POD, ApiError, Cluster, Unavailable
from tandem_api.kubernetes.lease import Leadership
from tandem_operator.arguments import Arguments, read_arguments
from tandem_operator.carry_out.carry_out import CarryOut
from tandem_operator.carry_out.event_writer import EventWriter
from tandem_operator.carry_out.leader_only import LeaderOnly, NotLeading
from tandem_operator.health import Health, serve_health
from tandem_operator.metrics import Metrics
from tandem_operator.plan.settings import Settings
from tandem_operator.queue.work_queue import WorkQueue
from tandem_operator.reconcile import Reconciler
from tandem_operator.watch.informer import inform
from tandem_operator.watch.resync import keep_in_step, list_everything, wait_for_kinds
from tandem_operator.watch.schema import SchemaWatch
from tandem_operator.watch.world import ServiceKey, World

_log = logging.getLogger("tandem_operator")
# Events come in bursts (a pod's start makes five); one look for a burst.
_GATHER_SECONDS = 0.05


def main(argv: Sequence[str] | None = None) -> int:
    """Console script `tandem-operator`."""
    arguments = read_arguments(argv)
    logging.basicConfig(
        level=arguments.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    metrics, health = Metrics(), Health()
    try:
        server = serve_health(health, metrics, host=arguments.host, port=arguments.port)
    except OSError as error:
        print(
            f"tandem-operator: port {arguments.port} cannot be served: {error.strerror or error}",
            file=sys.stderr,
        )
        return 2
    try:
        return asyncio.run(_run(arguments, metrics, health))
    except NoCluster as error:
        print(f"tandem-operator: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    finally:
        server.shutdown()


async def _run(arguments: Arguments, metrics: Metrics, health: Health) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def catch_signals() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)

    catch_signals()
    async with connect(user_agent=f"tandem-operator/{arguments.identity}") as server:
        beating = asyncio.create_task(_beat(health))
        life = asyncio.create_task(_lead(server, arguments, metrics, health, catch_signals))
        stop = asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait({life, stop}, return_when=asyncio.FIRST_COMPLETED)
            if stop.done() and not life.done():
                _log.info("stopping")
                life.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await life
                return 0
            return await life
        finally:
            for task in (beating, stop):
                task.cancel()


async def _beat(health: Health) -> None:
    while True:
        health.beat()
        await asyncio.sleep(1)


async def _lead(
    server: ApiServer,
    arguments: Arguments,
    metrics: Metrics,
    health: Health,
    catch_signals: Callable[[], None],
) -> int:
    """Wait for the lease, work while it is held, give it back at the end."""
    leadership = Leadership(
        server, namespace=arguments.lease_namespace, name=names.OPERATOR_LEASE, identity=arguments.identity
    )
    await wait_for_kinds(server, namespace=arguments.namespace)
    # A standby is ready too: it would take over at once.
    health.ready = True
    await leadership.acquire()
    metrics.leader.set(1)
    holding = asyncio.create_task(leadership.hold(), name="lease")
    working = asyncio.create_task(_work(server, leadership, arguments, metrics, catch_signals), name="work")
    try:
        done, _ = await asyncio.wait({holding, working}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            error = task.exception()
            if error is not None and not isinstance(error, NotLeading):
                raise error
        _log.error("leadership is lost or a part has ended; this process ends so that a new one may start")
        return 1
    finally:
        metrics.leader.set(0)
        for task in (working, holding):
            task.cancel()
        await asyncio.gather(working, holding, return_exceptions=True)
        await leadership.release()


async def _work(
    server: ApiServer,
    leadership: Leadership,
    arguments: Arguments,
    metrics: Metrics,
    catch_signals: Callable[[], None],
) -> None:
    """All parts side by side; the first that ends ends all."""
    cluster = LeaderOnly(server, lambda: leadership.leading, metrics.wrote)
    world = World()
    queue: WorkQueue[ServiceKey] = WorkQueue(time.monotonic)

    def changed(key: ServiceKey) -> None:
        queue.add_after(key, _GATHER_SECONDS)

    schema = SchemaWatch(server)
    await schema.look()
    await _list_at_first(server, world, arguments)
    for key in world.services():
        queue.add(key)
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=32)
    # Pods are reached directly: a proxy of the environment has no business between.
    async with httpx.AsyncClient(limits=limits, trust_env=False) as http:
        events = EventWriter(cluster, instance=arguments.identity, clock=time.time)
        carry_out = CarryOut(cluster, world, events, clock=time.time)
        reconciler = Reconciler(
            cluster,
            world,
            carry_out,
            http,
            settings=Settings(images=arguments.images),
            clock=time.time,
            missing_fields=lambda: schema.missing,
        )
        parts = [
            asyncio.create_task(
                inform(world, changed, namespace=arguments.namespace, started=catch_signals),
                name="informers",
            ),
            asyncio.create_task(
                keep_in_step(
                    server,
                    world,
                    changed,
                    namespace=arguments.namespace,
                    interval_seconds=arguments.resync_seconds,
                    first=schema.look,
                ),
                name="resync",
            ),
            asyncio.create_task(_measure(world, queue, metrics), name="metrics"),
        ]
        parts += [
            asyncio.create_task(_drain_queue(queue, reconciler, metrics), name=f"worker-{number}")
            for number in range(arguments.workers)
        ]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                _log.error("%s ended: %s", part.get_name(), part.exception())
                part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)


async def _list_at_first(server: Cluster, world: World, arguments: Arguments) -> None:
    while True:
        try:
            await list_everything(server, world, namespace=arguments.namespace)
            return
        except ApiError as error:
            _log.warning("the first list failed: %s; trying again", error)
            await asyncio.sleep(2)


async def _measure(world: World, queue: WorkQueue[ServiceKey], metrics: Metrics) -> None:
    while True:
        services = [service for key in world.services() if (service := world.service(key)) is not None]
        metrics.services.replace(services)
        metrics.known_services.set(len(services))
        metrics.pods.set(world.count(POD))
        metrics.queue_depth.set(len(queue))
        await asyncio.sleep(2)


async def _drain_queue(queue: WorkQueue[ServiceKey], reconciler: Reconciler, metrics: Metrics) -> None:
    """One of several takers. One service's failure never stops the others; only the lost lease ends it."""
    while True:
        key = await queue.get()
        began = time.monotonic()
        try:
            again = await reconciler(key)
        except NotLeading:
            raise
        except Unavailable as error:
            wait = queue.failed(key, after_seconds=error.after_seconds)
            metrics.reconciles.labels("unavailable").inc()
            _log.warning("%s/%s: %s; again in %.1f s", *key, error, wait)
        except ApiError as error:
            wait = queue.failed(key)
            metrics.reconciles.labels("refused").inc()
            _log.warning("%s/%s: %s; again in %.1f s", *key, error, wait)
        except Exception:
            wait = queue.failed(key)
            metrics.reconciles.labels("failed").inc()
            _log.exception("%s/%s: this is a fault of the operator; again in %.1f s", *key, wait)
        else:
            metrics.reconciles.labels("done").inc()
            queue.done(key)
            if again is not None:
                queue.add_after(key, max(again, _GATHER_SECONDS))
        metrics.reconcile_seconds.observe(time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
