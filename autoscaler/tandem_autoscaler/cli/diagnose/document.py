"""The diagnosis for programs. Shares are between 0 and 1; null: not known."""

from typing import Any

from tandem_autoscaler.cli.diagnose.watch import Seen
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
        "note": seen.note,
    }  # fmt: skip
