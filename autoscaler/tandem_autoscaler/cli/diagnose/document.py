"""The diagnosis for programs. Shares are between 0 and 1; null: not known."""

from typing import Any

from tandem_autoscaler.cli import modes
from tandem_autoscaler.cli.diagnose.watch import Seen
from tandem_autoscaler.diagnose.chunking import Tuned, Tuning
from tandem_autoscaler.diagnose.diagnosis import Diagnosis


def document(seen: Seen, found: Diagnosis) -> dict[str, Any]:
    return {
        "namespace": seen.service.namespace,
        "name": seen.service.name,
        "diagnosis": found.bottleneck.value,
        "sentence": found.sentence,
        "evidence": list(found.evidence),
        "predictedInTime": found.predicted,
        "fixes": [
            {
                "kind": fix.kind.value, "change": fix.change, "predictedInTime": fix.in_time,
                "moreGpus": fix.gpus, "otherGpus": fix.exchanged, "replicas": fix.replicas,
            }
            for fix in found.fixes
        ],
        "chunking": None if found.tuned is None else _chunking(found.tuned),
        "modes": None if found.modes is None else modes.document(found.modes),
        "note": seen.note,
    }  # fmt: skip


def _chunking(tuned: Tuned) -> dict[str, Any]:
    """`workers`: the fewest that keep both promises; null: no number does."""

    def told(one: Tuning) -> dict[str, Any]:
        return {
            "maxBatchedTokens": one.chunking.budget, "longPromptThreshold": one.chunking.threshold,
            "enabled": one.chunking.enabled, "workers": one.workers, "predictedInTime": one.predicted.in_time,
        }  # fmt: skip

    return {"now": told(tuned.now), "best": told(tuned.best), "worthARestart": tuned.worth_a_restart}
