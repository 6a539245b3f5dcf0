"""The answer for programs. Sizes in bytes, times in seconds."""

from typing import Any

from tandem_api.sizing import Ceilings, Placement, kv_bytes_per_token
from tandem_autoscaler.cli import modes
from tandem_autoscaler.cli.size.answer import Answer
from tandem_autoscaler.diagnose.diagnosis import Modes


def document(answers: list[Answer], compared: Modes | None = None) -> list[dict[str, Any]]:
    """One entry per question; what is said of the modes, where it was asked, is in each."""
    told = {} if compared is None else {"modes": modes.document(compared)}
    return [{**_entry(answer), **told} for answer in answers]


def _entry(answer: Answer) -> dict[str, Any]:
    question, shape, demand = answer.question, answer.question.model.architecture, answer.question.demand
    found: dict[str, Any] = {
        "role": question.role,
        "model": question.model.name,
        "parameters": shape.parameters,
        "activeParameters": shape.active_parameters,
        "quantization": demand.quantization,
        "kvCacheDtype": demand.kv_dtype,
        "kvBytesPerToken": kv_bytes_per_token(shape, dtype=demand.kv_dtype, gpus=question.tensor_parallel),
        "concurrency": demand.sequences,
        "context": demand.context,
    }
    if answer.here is not None:
        memory = answer.here.memory
        found["worker"] = {
            **_placed(answer.here),
            "fits": answer.here.fits,
            "weightsBytes": memory.weights_bytes,
            "activationBytes": memory.reserve_bytes,
            "kvBytes": answer.here.kv_bytes,
            "usableBytes": memory.usable_bytes,
        }
        found["remedies"] = [
            {"change": remedy.change, "spareBytes": remedy.placement.spare_bytes}
            for remedy in answer.remedies
        ]
    if answer.ceilings is not None:
        found["ceilings"] = _limits(answer.ceilings)
    if answer.expected is not None:
        found["expected"] = {
            "ttftSeconds": answer.expected.ttft_seconds,
            "tpotAloneSeconds": answer.expected.tpot_alone_seconds,
            "tpotSeconds": answer.expected.tpot_seconds,
        }
    found["smallestWorkers"] = [
        {**_placed(placed), "ceilings": _limits(limits)} for placed, limits in answer.elsewhere
    ]
    found["notes"] = list(question.notes)
    return found


def _limits(ceilings: Ceilings) -> dict[str, float]:
    return {
        "prefillTokensPerSecond": ceilings.prefill_tokens_per_second,
        "stepsPerSecondAlone": ceilings.steps_per_second,
        "stepsPerSecond": ceilings.batch_steps_per_second,
        "decodeTokensPerSecond": ceilings.decode_tokens_per_second,
    }


def _placed(placed: Placement) -> dict[str, Any]:
    return {
        "gpu": placed.gpu.name,
        "gpus": placed.gpus,
        "spareBytes": placed.spare_bytes,
        "mostSequences": placed.memory.sequences,
    }
