"""Readings straight from the pods: all in parallel, each with its own deadline.

A pod that does not answer costs nothing but its own reading (vllm-project/aibrix#1032: one silent pod stopped
the whole loop).
"""

import asyncio
from collections.abc import Callable, Sequence

import httpx

from tandem_api import names
from tandem_autoscaler.fleet.service import Key, Pod, Service
from tandem_autoscaler.signals.exposition import NotExposition, parse
from tandem_autoscaler.signals.source import PodReading, Snapshot

# A worker exports some 100 kB. More than this is not a worker.
_MOST_BYTES = 16 * 1024 * 1024
# Sockets at once: a fleet of a thousand pods must not need a thousand.
_AT_ONCE = 64


def pod_url(pod: Pod) -> str:
    """Where the pod exports its metrics."""
    port = names.ROUTER_METRICS_PORT if pod.role == names.COMPONENT_ROUTER else names.ENGINE_PORT
    host = f"[{pod.ip}]" if pod.ip and ":" in pod.ip else pod.ip
    return f"http://{host}:{port}/metrics"


class ScrapeSource:
    """The adapter. `url_of` and `clock` are arguments so that tests can point them at servers of their own."""

    def __init__(
        self,
        *,
        timeout_seconds: float = 2.0,
        url_of: Callable[[Pod], str] = pod_url,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._url_of = url_of
        self._clock = clock
        # Pod addresses are never behind a proxy, whatever the environment says.
        self._client = httpx.AsyncClient(
            timeout=timeout_seconds, trust_env=False, limits=httpx.Limits(max_connections=_AT_ONCE * 2)
        )
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def sample(self, services: Sequence[Service], now_seconds: float) -> dict[Key, Snapshot]:
        """Read all pods that have an address. Takes at most a little over `timeout_seconds` per 64 pods."""
        pairs = [
            (service, pod) for service in services for pod in (*service.pods, *service.routers) if pod.ip
        ]
        answers = await asyncio.gather(*(self._read(pod, now_seconds) for _, pod in pairs))
        pods: dict[Key, dict[str, PodReading]] = {service.key: {} for service in services}
        silent: dict[Key, dict[str, str]] = {service.key: {} for service in services}
        for service in services:
            for pod in (*service.pods, *service.routers):
                if not pod.ip:
                    silent[service.key][pod.uid] = "has no address yet"
        for (service, pod), answer in zip(pairs, answers, strict=True):
            if isinstance(answer, PodReading):
                pods[service.key][pod.uid] = answer
            else:
                silent[service.key][pod.uid] = answer
        return {s.key: Snapshot(now_seconds, pods[s.key], silent[s.key]) for s in services}

    async def close(self) -> None:
        await self._client.aclose()

    async def _read(self, pod: Pod, now_seconds: float) -> PodReading | str:
        """The reading, or a sentence why there is none."""
        url = self._url_of(pod)
        async with self._gate:
            try:
                # httpx's own timeout is per operation: a server that drips bytes would never exceed it.
                async with asyncio.timeout(self._timeout_seconds):
                    return await self._fetch(pod, url, now_seconds)
            except TimeoutError:
                return f"{url} did not answer within {self._timeout_seconds:g}s"
            except httpx.HTTPError as error:
                return f"{url}: {str(error) or type(error).__name__}"
            except httpx.InvalidURL as error:
                return f"{url}: {error}"
            except NotExposition as error:
                return f"{url}: {error}"

    async def _fetch(self, pod: Pod, url: str, now_seconds: float) -> PodReading | str:
        async with self._client.stream("GET", url) as response:
            if response.status_code != 200:
                return f"{url} answered {response.status_code}"
            chunks, size = [], 0
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                if size > _MOST_BYTES:
                    return f"{url} answered more than {_MOST_BYTES} bytes"
                chunks.append(chunk)
        read_at = self._clock() if self._clock else now_seconds
        return parse(b"".join(chunks).decode(errors="replace"), uid=pod.uid, read_at_seconds=read_at)
