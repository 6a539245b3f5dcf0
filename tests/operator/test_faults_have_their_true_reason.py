"""The kubelet's and the scheduler's words as reasons (field cases D14, E10, E11)."""

from typing import Any

import pytest

from tandem_api.reasons import Reason
from tandem_operator.observe.pod import PodView, Terminated
from tandem_operator.plan.faults import MESSAGE_LIMIT, Fault, pod_fault, worst


def fault(**facts: Any) -> Fault | None:
    return pod_fault(PodView(name="chat-0", uid="u", role="decode", **facts), now=1000.0, stuck_seconds=30)


def crash(message: str = "", *, code: int = 1, reason: str = "Error") -> dict[str, Any]:
    return {
        "waiting_reason": "CrashLoopBackOff",
        "terminated": Terminated(reason, code, message),
        "restarts": 3,
    }


@pytest.mark.parametrize(
    ("facts", "reason", "words"),
    [
        ({"waiting_reason": "ErrImagePull", "waiting_message": "not found"}, Reason.IMAGE_PULL_FAILED, "not found"),
        ({"waiting_reason": "ImagePullBackOff"}, Reason.IMAGE_PULL_FAILED, "ImagePullBackOff"),
        ({"waiting_reason": "InvalidImageName", "waiting_message": "bad"}, Reason.IMAGE_PULL_FAILED, "bad"),
        (
            {"waiting_reason": "CreateContainerConfigError", "waiting_message": 'secret "hf" not found'},
            Reason.SECRET_NOT_FOUND, "hf",
        ),
        (
            {"waiting_reason": "CreateContainerConfigError",
             "waiting_message": "couldn't find key token in Secret team/hf"},
            Reason.SECRET_NOT_FOUND, "key token",
        ),
        (
            {"waiting_reason": "CreateContainerConfigError", "waiting_message": 'configmap "c" not found'},
            Reason.CONFIG_MAP_NOT_FOUND, "c",
        ),
        (
            {"waiting_reason": "CreateContainerConfigError", "waiting_message": "image will run as root"},
            Reason.CONTAINER_CONFIG_ERROR, "root",
        ),
        ({"unschedulable": "0/3 nodes: 3 Insufficient nvidia.com/gpu."}, Reason.INSUFFICIENT_GPU, "3 Insufficient"),
        ({"unschedulable": "1 Insufficient nvidia.com/mig-3g.40gb."}, Reason.INSUFFICIENT_GPU, "mig"),
        ({"unschedulable": "3 node(s) didn't match Pod's node affinity"}, Reason.UNSCHEDULABLE, "affinity"),
        ({"unschedulable": "3 Insufficient memory"}, Reason.UNSCHEDULABLE, "memory"),
        ({"unschedulable": 'persistentvolumeclaim "w" not found'}, Reason.VOLUME_CLAIM_NOT_FOUND, "w"),
        (crash("ModelNotFound: /models/x does not exist", code=78), Reason.MODEL_NOT_FOUND, "/models/x"),
        (crash("InsufficientKVCache: 16 GB > 12 GB", code=78), Reason.INSUFFICIENT_KV_CACHE, "16 GB > 12 GB"),
        (crash("UnknownDevice: no CUDA", code=78), Reason.PREFLIGHT_REFUSED, "no CUDA"),
        (
            crash("INFO x\nValueError: To serve at least one request, 2.45 GiB KV cache is needed, "
                  "which is larger than the available KV cache memory (1.9 GiB)."),
            Reason.INSUFFICIENT_KV_CACHE, "1.9 GiB",
        ),
        (crash("ValueError: No available memory for the cache blocks."), Reason.INSUFFICIENT_KV_CACHE, "cache blocks"),
        (crash("torch.OutOfMemoryError: CUDA out of memory. Tried"), Reason.OUT_OF_MEMORY, "CUDA"),
        (crash(reason="OOMKilled", code=137), Reason.OUT_OF_MEMORY, "OOMKilled"),
        (crash("Traceback\n  File x\nRuntimeError: boom\n"), Reason.CRASH_LOOP, "RuntimeError: boom"),
        (crash(code=139), Reason.CRASH_LOOP, "139"),
        (crash(code=0), Reason.CRASH_LOOP, "ends by itself"),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, Reason.POD_REFUSED, "low on memory"),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, Reason.POD_REFUSED, "Unexpected"),
        ({"reason": "NodeLost"}, Reason.NODE_LOST, "node"),
        ({"gone_by": 900.0}, Reason.STUCK_TERMINATING, "grace period"),
    ],
)  # fmt: skip
def test_what_ails_a_worker(facts: dict[str, Any], reason: Reason, words: str) -> None:
    found = fault(**facts)
    assert found is not None
    assert found.reason is reason
    assert words in found.message
    assert "chat-0" in found.message


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"waiting_reason": "ContainerCreating"},
        {"waiting_reason": "PodInitializing"},
        {"phase": "Running", "ready": True, "started": True},
        {"gone_by": 990.0},
        # It crashed once, long ago, and serves.
        {
            "phase": "Running",
            "ready": True,
            "started": True,
            "terminated": Terminated("Error", 1, "boom"),
            "restarts": 1,
        },
    ],
)
def test_starting_and_ending_are_no_faults(facts: dict[str, Any]) -> None:
    assert fault(**facts) is None


def test_the_message_is_one_line_and_not_endless() -> None:
    found = fault(**crash("x" * 5000 + "\nlast \n words"))
    assert found is not None
    assert len(found.message) <= MESSAGE_LIMIT
    assert "\n" not in found.message


def test_the_most_telling_fault_speaks() -> None:
    crash_loop = Fault(Reason.CRASH_LOOP, "", "a")
    image = Fault(Reason.IMAGE_PULL_FAILED, "", "b")
    assert worst([crash_loop, image]) == worst([image, crash_loop]) == image
    assert worst([]) is None
