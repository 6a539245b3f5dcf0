"""What ails a worker: the kubelet's and the scheduler's words as one of our reasons, with their own message.

The most telling fault speaks for its role. A fault never asks for more workers.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tandem_api.reasons import Reason
from tandem_operator.observe.pod import PodView, is_gpu

MESSAGE_LIMIT = 400

_PULL = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
)
_PREFLIGHT_EXIT = 78
# The worker's preflight begins its line with the reason; the engine has its own words for the same.
_LAST_WORDS = (
    (
        r"^InsufficientKVCache:|No available memory for the cache blocks"
        r"|larger than the available KV cache memory",
        Reason.INSUFFICIENT_KV_CACHE,
    ),
    (
        r"^ModelNotFound:|is not a local folder and is not a valid model identifier|Repository Not Found",
        Reason.MODEL_NOT_FOUND,
    ),
    (r"CUDA out of memory|OutOfMemoryError", Reason.OUT_OF_MEMORY),
)
_MEMORY_EXIT = 137
_ORDER = list(Reason)
# Not faults: what one sees on any good day. They rank behind every fault.
_CALM = frozenset(_ORDER[: _ORDER.index(Reason.INVALID_SPEC)])


@dataclass(frozen=True)
class Fault:
    reason: Reason
    message: str
    pod: str


def rank(reason: Reason) -> tuple[bool, int]:
    """The most telling reason first: faults in the order of `Reason`, then the calm ones."""
    return reason in _CALM, _ORDER.index(reason)


def worst(faults: Iterable[Fault]) -> Fault | None:
    """The most telling one: `Reason` lists them in that order; then by pod name, so that it does not flutter."""
    return min(faults, key=lambda fault: (rank(fault.reason), fault.pod), default=None)


def pod_fault(pod: PodView, *, now: float, stuck_seconds: float) -> Fault | None:
    """The fault of one worker, of several pods the most telling, or None while all is as it should be, starting
    included."""
    found = (_fault(each, now=now, stuck_seconds=stuck_seconds) for each in pod.pods)
    return worst(fault for fault in found if fault is not None)


def _fault(pod: PodView, *, now: float, stuck_seconds: float) -> Fault | None:
    if pod.gone_by is not None:
        if now > pod.gone_by + stuck_seconds:
            return Fault(
                Reason.STUCK_TERMINATING, f"{pod.name} has not ended after its grace period", pod.name
            )
        return None
    found = _found(pod)
    if found is None:
        return None
    reason, message = found
    return Fault(reason, shorten(f"{pod.name}: {message}"), pod.name)


def _found(pod: PodView) -> tuple[Reason, str] | None:
    if pod.phase == "Failed":
        reason = Reason.NODE_LOST if pod.reason in ("NodeLost", "NodeShutdown") else Reason.POD_REFUSED
        return reason, pod.message or pod.reason or "the pod failed"
    if pod.reason == "NodeLost":
        return Reason.NODE_LOST, pod.message or "its node does not answer"
    if pod.ready:
        return None
    if pod.unschedulable:
        return _scheduling(pod.unschedulable)
    if pod.waiting_reason in _PULL:
        return Reason.IMAGE_PULL_FAILED, pod.waiting_message or pod.waiting_reason
    if pod.waiting_reason in ("CreateContainerConfigError", "CreateContainerError"):
        return _configuration(pod.waiting_message or pod.waiting_reason)
    if pod.terminated is not None and (pod.waiting_reason == "CrashLoopBackOff" or not pod.started):
        return _ended(pod)
    if pod.waiting_reason in ("CrashLoopBackOff", "RunContainerError"):
        return Reason.CRASH_LOOP, pod.waiting_message or pod.waiting_reason
    return None


def _scheduling(message: str) -> tuple[Reason, str]:
    if re.search(r"persistentvolumeclaim \"?[^ ]+\"? not found", message):
        return Reason.VOLUME_CLAIM_NOT_FOUND, message
    lacking = [resource.rstrip(".") for resource in re.findall(r"Insufficient ([^ ,;]+)", message)]
    if any(is_gpu(resource) for resource in lacking):
        return Reason.INSUFFICIENT_GPU, message
    return Reason.UNSCHEDULABLE, message


def _configuration(message: str) -> tuple[Reason, str]:
    # `secret "x" not found` and `couldn't find key token in Secret ns/x` are both the user's Secret.
    if re.search(r"secret \"[^\"]+\" not found|in Secret ", message):
        return Reason.SECRET_NOT_FOUND, message
    if re.search(r"configmap \"[^\"]+\" not found|in ConfigMap ", message):
        return Reason.CONFIG_MAP_NOT_FOUND, message
    return Reason.CONTAINER_CONFIG_ERROR, message


def _ended(pod: PodView) -> tuple[Reason, str]:
    """By its last words first, then by how it ended."""
    end = pod.terminated
    assert end is not None
    for pattern, reason in _LAST_WORDS:
        for line in end.message.splitlines():
            if re.search(pattern, line.strip()):
                return reason, line.strip()
    said = _last_line(end.message)
    if end.reason == "OOMKilled":
        return Reason.OUT_OF_MEMORY, "the container was killed for memory (OOMKilled)"
    if end.exit_code == _PREFLIGHT_EXIT and said:
        return Reason.PREFLIGHT_REFUSED, said
    if end.reason == "ContainerCannotRun" or end.reason == "StartError":
        return Reason.CONTAINER_CONFIG_ERROR, said or end.reason
    if end.exit_code == 0 and not said:
        return Reason.CRASH_LOOP, "the engine ends by itself with exit code 0"
    hint = " (killed)" if end.exit_code == _MEMORY_EXIT else ""
    return Reason.CRASH_LOOP, f"the engine exits with code {end.exit_code}{hint}" + (
        f": {said}" if said else ""
    )


def _last_line(text: str) -> str:
    """The last line that says something: of a traceback, that is the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def shorten(text: str, limit: int = MESSAGE_LIMIT) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
