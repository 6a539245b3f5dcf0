"""The pods' metrics through the API server's pod proxy: where a user's kubectl reaches, this does."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from tandem_api import names
from tandem_api.kubernetes.cluster import ApiError, Rejected
from tandem_autoscaler.fleet.service import Key, Pod, Service
from tandem_autoscaler.signals.exposition import NotExposition, parse
from tandem_autoscaler.signals.source import PodReading, Snapshot

_TIMEOUT_SECONDS: Final = 5.0
_AT_ONCE: Final = 16  # the API server is not ours alone


class PodTexts(Protocol):
    """What is asked of the cluster."""

    async def pod_text(self, namespace: str, pod: str, port: int, path: str) -> str: ...


class ProxySource:
    """A `SignalSource`. `forbidden` is the API server's sentence once it refuses the proxy itself."""

    def __init__(self, cluster: PodTexts) -> None:
        self._cluster = cluster
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self.forbidden: str | None = None

    async def sample(self, services: Sequence[Service], now_seconds: float) -> dict[Key, Snapshot]:
        return {service.key: await self._snapshot(service, now_seconds) for service in services}

    async def close(self) -> None:
        """Nothing is held open."""

    async def _snapshot(self, service: Service, now_seconds: float) -> Snapshot:
        pods = [pod for pod in (*service.pods, *service.routers) if pod.ip]
        answers = await asyncio.gather(*(self._read(pod, now_seconds) for pod in pods))
        read = {pod.uid: one for pod, one in zip(pods, answers, strict=True) if isinstance(one, PodReading)}
        silent = {pod.uid: one for pod, one in zip(pods, answers, strict=True) if isinstance(one, str)}
        return Snapshot(now_seconds, read, silent)

    async def _read(self, pod: Pod, now_seconds: float) -> PodReading | str:
        """The reading, or a sentence why there is none."""
        port = names.ROUTER_METRICS_PORT if pod.role == names.COMPONENT_ROUTER else names.ENGINE_PORT
        async with self._gate:
            try:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    text = await self._cluster.pod_text(pod.namespace, pod.name, port, "metrics")
                return parse(text, uid=pod.uid, read_at_seconds=now_seconds)
            except TimeoutError:
                return f"{pod.name} did not answer within {_TIMEOUT_SECONDS:g}s"
            except Rejected as error:
                self.forbidden = " ".join(str(error).split())
                return self.forbidden
            except (ApiError, NotExposition) as error:
                return f"{pod.name}: {' '.join(str(error).split())}"
