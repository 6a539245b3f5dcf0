"""Writing what the chunk tuner advises into the InferenceService, when the user asks for it."""

from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE
from tandem_autoscaler.cli import cluster
from tandem_autoscaler.cli.diagnose.watch import Seen
from tandem_autoscaler.diagnose.diagnosis import Diagnosis
from tandem_autoscaler.diagnose.fixes import written
from tandem_autoscaler.model.mixed_step import Chunking

_MANAGER = "kubectl-tandem"


async def apply_chunks(reached: cluster.Reached, seen: Seen, found: Diagnosis) -> str:
    """What was done, in one sentence. Nothing where nothing is advised. Raises ApiError."""
    name = seen.service.name
    if found.tuned is None:
        return f"{name} is left as it is: chunks are only tuned for a Colocated service whose times are known"
    if not found.tuned.worth_a_restart:
        return f"{name} is left as it is: other chunks are not worth a restart of its workers"
    chunking = found.tuned.best.chunking
    spec = patch(chunking, own=seen.own_chunks)
    await reached.cluster.patch(
        INFERENCE_SERVICE, seen.service.namespace, name, {"spec": spec}, manager=_MANAGER
    )
    return f"{name} has engine.chunkedPrefill {written(chunking)} now; its workers are replaced one by one"


def patch(chunking: Chunking, *, own: bool) -> dict[str, Any]:
    """Of the spec. `own`: the role overrides spec.engine, so that a change there would have no effect."""
    engine = {
        "engine": {
            "chunkedPrefill": {
                "enabled": chunking.enabled,
                "maxBatchedTokens": chunking.budget,
                # None takes a former threshold away.
                "longPromptThreshold": chunking.threshold or None,
            }
        }
    }
    return {names.WORKERS: engine} if own else engine
