"""What an engine has to do right now, read from its own /metrics; and how long it has been quiet.

A pod that does not answer has an unknown load, which is not zero.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import httpx

from tandem_api import names
from tandem_operator.observe.address import base_url
from tandem_operator.observe.observed import Quiet
from tandem_operator.observe.pod import PodView

_TIMEOUT_SECONDS = 2.0
# The first name that is there counts; they are never added up (field case A8).
_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
_KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")
# Requests that an SGLang worker of one role holds outside those two; they are added.
_HELD = (
    "sglang:num_prefill_bootstrap_queue_reqs", "sglang:num_prefill_inflight_queue_reqs",
    "sglang:num_decode_prealloc_queue_reqs", "sglang:num_decode_transfer_queue_reqs",
)  # fmt: skip
# Streams that our gate holds open, the last bytes on their way out included.
_GATE = ("tandem:requests_in_flight",)


# A share of the KV cache that is too much to be left over where nothing runs: blocks that are only kept for their
# prefix count as free in vLLM's figure.
STRANDED_KV = 0.2


@dataclass(frozen=True)
class Load:
    """One reading. `in_flight` are requests that run or wait, at least; None: not known. `kv_usage`: 0 to 1."""

    in_flight: float | None = None
    kv_usage: float | None = None
    running: float | None = None


def parse_load(text: str) -> Load:
    """From the Prometheus text format.

    Series of one name, one per engine, are summed; of cache ratios the largest counts.
    """
    values = _samples(
        text, {name for group in (_RUNNING, _WAITING, _KV_USAGE, _HELD, _GATE) for name in group}
    )
    running, waiting, gate = _first(values, _RUNNING), _first(values, _WAITING), _first(values, _GATE)
    usage = _first(values, _KV_USAGE)
    in_flight = None
    if running is not None and waiting is not None:
        held = sum(sum(values.get(name, ())) for name in _HELD)
        in_flight = max(sum(running) + sum(waiting) + held, sum(gate or ()))
    return Load(
        in_flight=in_flight,
        running=sum(running) if running is not None else None,
        kv_usage=max(usage) if usage else None,
    )


def _samples(text: str, wanted: set[str]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for line in text.splitlines():
        if not line or line[0] == "#":
            continue
        name = line.split("{", 1)[0].split(" ", 1)[0]
        if name not in wanted:
            continue
        try:
            value = float(line.rpartition("}")[2].split()[0] if "}" in line else line.split()[1])
        except (ValueError, IndexError):
            continue
        # NaN would pass for anything in a comparison.
        if value == value:
            values.setdefault(name, []).append(value)
    return values


def _first(values: Mapping[str, list[float]], aliases: tuple[str, ...]) -> list[float] | None:
    return next((values[name] for name in aliases if name in values), None)


async def read_loads(http: httpx.AsyncClient, pods: Iterable[PodView]) -> dict[str, Load]:
    """Pod name -> load, all at once; one silent pod costs no more than the time limit."""
    asked = [pod for pod in pods if pod.ip]
    loads = await asyncio.gather(*(_read(http, str(pod.ip)) for pod in asked))
    return {pod.name: load for pod, load in zip(asked, loads, strict=True)}


async def _read(http: httpx.AsyncClient, ip: str) -> Load:
    try:
        answer = await http.get(f"{base_url(ip, names.ENGINE_PORT)}/metrics", timeout=_TIMEOUT_SECONDS)
    except (httpx.HTTPError, OSError):
        return Load()
    return parse_load(answer.text) if answer.status_code == 200 else Load()


class LoadBook:
    """Readings over time, per pod; the only memory of the observation. Lost on a restart, which only makes a drain
    wait for two new readings."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, float | None], Quiet] = {}

    def note(self, pod: PodView, load: Load | None, *, now: float, settle_seconds: float) -> Quiet:
        """Write down a reading (None: none was made); returns what is known of the pod now."""
        page = (pod.uid, pod.drain_started)
        quiet = self._pages.get(page, Quiet())
        if load is not None:
            quiet = _next(quiet, load, now=now, counts=_settled(pod, now, settle_seconds))
            self._pages[page] = quiet
        return quiet

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget pods that are gone."""
        living = set(uids)
        self._pages = {page: quiet for page, quiet in self._pages.items() if page[0] in living}


def _settled(pod: PodView, now: float, settle_seconds: float) -> bool:
    return pod.drain_started is None or now >= pod.drain_started + settle_seconds


def _next(quiet: Quiet, load: Load, *, now: float, counts: bool) -> Quiet:
    idle = load.in_flight == 0 and counts
    busy = load.in_flight is not None and load.in_flight > 0
    since = quiet.idle_since if quiet.idle_since is not None else now
    return Quiet(
        read_at=now,
        in_flight=load.in_flight,
        kv_usage=load.kv_usage,
        idle_since=since if idle else None,
        last_busy=now if busy else quiet.last_busy,
        stranded_since=_stranded_since(quiet, load, now),
    )


def _stranded_since(quiet: Quiet, load: Load, now: float) -> float | None:
    """A reading that failed tells of no request, and ends nothing."""
    if load.running is None or load.kv_usage is None:
        return quiet.stranded_since
    if load.running > 0 or load.kv_usage < STRANDED_KV:
        return None
    return now if quiet.stranded_since is None else quiet.stranded_since
