"""The replay for programs."""

import json
from collections.abc import Mapping
from typing import Any, Literal

import yaml

from tandem_autoscaler.benchmark.case import Case
from tandem_autoscaler.benchmark.row import KEYS, row
from tandem_autoscaler.cli.replay.play import Stage
from tandem_autoscaler.cli.replay.recommendation import Advice
from tandem_autoscaler.simulator.run import Result

# A row of the benchmark without what says nothing here: one trace, one seed, no tuning, no hindsight.
_KEYS = tuple(
    key for key in KEYS if key not in ("trace", "tuned", "cold_start_seconds", "seed", "oracle_ratio")
)


def text(stage: Stage, results: Mapping[str, Result], advice: Advice, form: Literal["json", "yaml"]) -> str:
    """Attainments are shares of the feasible requests, `infeasibleShare` of all."""
    document = _document(stage, results, advice)
    if form == "json":
        return json.dumps(document, indent=2) + "\n"
    return yaml.safe_dump(document, sort_keys=False, width=100)


def _document(stage: Stage, results: Mapping[str, Result], advice: Advice) -> dict[str, Any]:
    trace, targets = stage.trace, stage.wish.targets
    return {
        "service": {"namespace": stage.service.namespace, "name": stage.service.name},
        "trace": {
            "name": trace.name, "requests": len(trace), "durationSeconds": trace.duration_seconds,
            "warmUpSeconds": trace.warm_up_seconds, "note": trace.note,
        },
        "hardware": {"name": stage.worker.hardware.name, "gpus": stage.worker.hardware.gpus},
        "targets": {
            "ttftSeconds": targets.ttft_seconds, "tpotSeconds": targets.tpot_seconds, "quantile": targets.quantile,
        },
        "coldStartSeconds": stage.settings.cold_start_seconds,
        "seed": stage.settings.seed,
        "policies": [_row(stage, name, result) for name, result in results.items()],
        "recommendation": {
            **{
                found.role: {"minReplicas": found.minimum, "maxReplicas": found.maximum, "why": found.why}
                for found in advice.ranges
            },
            "keepsPromise": advice.kept,
            "jointAttainment": advice.joint_attainment,
            "gpuHours": advice.gpu_hours,
            "limitsHeldBack": advice.held_back,
        },
        "infeasibleShare": advice.infeasible_share,
        "notes": list(stage.notes),
    }  # fmt: skip


def _row(stage: Stage, policy: str, result: Result) -> dict[str, Any]:
    case = Case(stage.trace.name, policy)
    found = row("replay", case, result, late_demotion=stage.settings.late_demotion)
    return {_camel(key): found[key] for key in _KEYS}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
