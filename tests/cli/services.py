"""An InferenceService, its pods and events as a cluster would have them."""

from typing import Any

DECISION = {
    "role": "decode", "from": 3, "to": 4, "reason": "TPOTNeed", "at": "2026-11-30T10:00:00Z",
    "message": "decode 3 -> 4: 812 tokens/s at 7.5ms per token alone; 4 keep batches within 41.0",
    "numbers": {"tokensPerSecond": "812", "batchLimit": "41", "secondsPerToken": "0.0312", "need": "4",
                "coldStartSeconds": "95", "stepSecondsPerContextToken": "2.1e-08", "somethingNew": "7"},
}  # fmt: skip


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-30T09:00:00Z",
    }  # fmt: skip


def service(name: str = "chat", namespace: str = "default", **changes: Any) -> dict[str, Any]:
    """`changes` replace keys of the status."""
    status = {
        "observedGeneration": 3,
        "url": f"http://{name}.{namespace}.svc:8080",
        "router": "1/1",
        "roles": {
            "prefill": {"desired": 2, "ready": 2, "starting": 0, "draining": 0, "updated": 2, "summary": "2/2"},
            "decode": {"desired": 4, "ready": 3, "starting": 1, "draining": 0, "updated": 4, "summary": "3/4"},
        },
        "gpus": {"used": 6, "budget": 12},
        "slo": {
            "percentile": 95,
            "ttft": {"target": "1s", "measured": "720ms", "attainment": "98%"},
            "tpot": {"target": "40ms", "measured": "44ms", "attainment": "91%"},
        },
        "autoscaling": {"mode": "Auto", "roles": {"decode": DECISION}, "history": [DECISION]},
        "conditions": [
            condition("Ready", "True", "Scaling", "3 of 4 decode workers serve"),
            condition("ScalingActive", "True", "MetricsOK", "sized from the workers' own metrics"),
            condition("ScalingLimited", "False", "WithinLimits", "the need lies within the limits"),
            condition("SLOMet", "False", "SLOMissed", "TPOT p95 above 40ms"),
        ],
        **changes,
    }  # fmt: skip
    return {
        "apiVersion": "tandem.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 3,
            "creationTimestamp": "2026-11-29T10:00:00Z",
        },
        "spec": {
            "mode": "Disaggregated", "model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct", "name": "llama-8b"},
            "slo": {"ttft": "1s", "tpot": "40ms", "percentile": 95},
            "prefill": {"minReplicas": 1, "maxReplicas": 6},
            "decode": {"minReplicas": 1, "maxReplicas": 8}, "gpuBudget": 12,
        },
        "status": {key: value for key, value in status.items() if value is not None},
    }  # fmt: skip


def pod(name: str, role: str, *, ready: bool = True, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name, "namespace": "default", "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-30T09:30:00Z",
            "labels": {"tandem.dev/service": "chat", "tandem.dev/role": role, "tandem.dev/component": "worker",
                       "tandem.dev/serving": "true"},
        },
        "spec": {"nodeName": "gpu-node-1"},
        "status": {
            "phase": "Running" if ready else "Pending",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False",
                            "lastTransitionTime": "2026-11-30T09:31:00Z"}],
            **status,
        },
    }  # fmt: skip


def event(reason: str, note: str, at: str, *, about: str = "chat", uid: str = "uid-chat") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{about}.{reason}.{at}", "namespace": "default"},
        "type": "Warning" if "Blocked" in reason else "Normal", "reason": reason, "note": note, "eventTime": at,
        "regarding": {"kind": "InferenceService", "name": about, "uid": uid},
    }  # fmt: skip
