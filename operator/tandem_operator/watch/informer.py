"""kopf as informer, and only that: `on.event` handlers feed the World and the queue.

No other kind of handler is registered, because those leave annotations and finalizers on users' objects. Standalone,
without peering and without posting events; resources and namespaces are not scanned for, so no cluster-wide right
beyond the watched kinds is needed.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import kopf
from kopf._cogs.structs.references import Insights
from kopf._core.engines.peering import Identity

from tandem_api.kubernetes.cluster import Kind
from tandem_operator.watch.kinds import WATCHED
from tandem_operator.watch.world import ServiceKey, World

_log = logging.getLogger(__name__)
# A watch that says nothing for this long is asked again (field case D11); the server ends each at `SERVER`.
_SERVER_SECONDS = 300
_CLIENT_SECONDS = 330
_CONNECT_SECONDS = 20
# How long the end waits for kopf's first look at the server's kinds, and for kopf to end.
_SCAN_SECONDS = 10
_STOP_SECONDS = 3


def _group_version(kind: Kind) -> tuple[str, str]:
    group, _, version = kind.api_version.rpartition("/")
    return group, version


def registry(world: World, changed: Callable[[ServiceKey], None]) -> kopf.OperatorRegistry:
    """The handlers, one per watched kind."""
    handlers = kopf.OperatorRegistry()
    for kind in WATCHED:
        _register(handlers, kind, world, changed)

    @kopf.on.login(registry=handlers)  # type: ignore[arg-type, untyped-decorator, unused-ignore]
    def login(**kwargs: Any) -> Any:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    return handlers


def _register(
    handlers: kopf.OperatorRegistry, kind: Kind, world: World, changed: Callable[[ServiceKey], None]
) -> None:
    group, version = _group_version(kind)

    async def heard(event: Any, **_: Any) -> None:
        manifest = dict(event["object"])
        # Listed items do not say what they are.
        manifest.setdefault("apiVersion", kind.api_version)
        manifest.setdefault("kind", kind.kind)
        manifest["metadata"] = dict(manifest["metadata"])
        key = world.remove(kind, manifest) if event["type"] == "DELETED" else world.put(kind, manifest)
        if key is not None:
            changed(key)

    kopf.on.event(
        group=group, version=version, plural=kind.plural, id=f"heard-of-{kind.plural}", registry=handlers
    )(heard)


def settings() -> kopf.OperatorSettings:
    """kopf's settings for an informer."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.scanning.disabled = True
    chosen.watching.server_timeout = _SERVER_SECONDS
    chosen.watching.client_timeout = _CLIENT_SECONDS
    chosen.watching.connect_timeout = _CONNECT_SECONDS
    chosen.process.ultimate_exiting_timeout = None
    for kind, selector in WATCHED.items():
        if selector is not None:
            chosen.watching.label_selectors[(*_group_version(kind), kind.plural)] = selector
    return chosen


async def inform(
    world: World,
    changed: Callable[[ServiceKey], None],
    *,
    namespace: str | None,
    started: Callable[[], None],
) -> None:
    """Feed the World until cancelled. Returns only when kopf ends by itself, which is a fault.

    `started` is called once kopf runs: it has taken the process's signal handlers by then, and the caller may take
    them back.
    """
    # kopf tells of each event that it handled; our own log has the decisions.
    logging.getLogger("kopf").setLevel(logging.ERROR)
    scope: dict[str, Any] = {"namespaces": [namespace]} if namespace else {"clusterwide": True}
    others = asyncio.all_tasks()
    stop, insights = asyncio.Event(), Insights()
    tasks = await kopf.spawn_tasks(
        registry=registry(world, changed),
        settings=settings(),
        # By itself kopf asks for the user's name, and a container's user has none.
        identity=Identity("tandem-operator"),
        standalone=True,
        stop_flag=stop,
        insights=insights,
        **scope,
    )
    started()
    running = asyncio.create_task(kopf.run_tasks(tasks, ignored=others), name="kopf")
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        # Stopped while it first asks which kinds the server has, kopf leaves those requests behind: they fail on the
        # closed connection, each with its error, its retries and a traceback.
        await _at_most(_SCAN_SECONDS, asyncio.create_task(insights.ready_resources.wait()))
        # A watch that is cancelled between two events fails when its generator is closed, and says so with a traceback.
        asyncio.get_running_loop().set_exception_handler(_left_behind)
        stop.set()
        await _at_most(_STOP_SECONDS, running)
        raise


def _left_behind(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What fails unheard while the process ends is no news to its user."""
    _log.debug("left behind at the end: %s", context.get("message"))


async def _at_most(seconds: float, task: asyncio.Task[Any]) -> None:
    """Wait for the task, and end it when it takes longer."""
    await asyncio.wait({task}, timeout=seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
