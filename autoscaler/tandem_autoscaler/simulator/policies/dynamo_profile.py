"""The performance sweep that NVIDIA's planner starts from, of our `Hardware` instead of a machine.

Their file format and their grids (`profiler/utils/profile_prefill.py` and `profile_decode.py` of ai-dynamo 1.6.1, at
their default granularities 16 and 6), so that the planner knows of the simulated engine what a real sweep would have
told it, and exactly so: a sweep without measurement error.
"""

from pathlib import Path

import numpy as np

from tandem_autoscaler.simulator.hardware import Hardware

_SHORTEST_PROMPT_TOKENS = 100
_PREFILL_POINTS = 16
_DECODE_POINTS = 6
_DECODE_OUTPUT_TOKENS = 500


def write_sweep(folder: Path, hardware: Hardware, context_tokens: int) -> None:
    """`folder/selected_{prefill,decode}_interpolation/raw_data.npz` for prompts and contexts up to `context_tokens`."""
    for role, arrays in (
        ("prefill", prefill_sweep(hardware, context_tokens)),
        ("decode", decode_sweep(hardware, context_tokens)),
    ):
        place = folder / f"selected_{role}_interpolation"
        place.mkdir(parents=True)
        np.savez(place / "raw_data.npz", **arrays)  # type: ignore[arg-type]


def prefill_sweep(hardware: Hardware, context_tokens: int) -> dict[str, np.ndarray]:
    """Prompt tokens and their prefill time in ms, one prompt at a time."""
    step = (context_tokens - _SHORTEST_PROMPT_TOKENS) // _PREFILL_POINTS
    prompts = np.arange(_SHORTEST_PROMPT_TOKENS, context_tokens, step)
    milliseconds = 1e3 * np.array([hardware.prefill_seconds(n) for n in prompts.tolist()])
    return {"prefill_isl": prompts, "prefill_ttft": milliseconds}


def decode_sweep(hardware: Hardware, context_tokens: int) -> dict[str, np.ndarray]:
    """Iteration time in ms against the KV share in use and the mean context, from one sequence to a full engine."""
    usage, contexts, milliseconds = [], [], []
    longest = context_tokens - _DECODE_OUTPUT_TOKENS
    for prompt in range(_SHORTEST_PROMPT_TOKENS, longest, longest // _DECODE_POINTS):
        context = prompt + _DECODE_OUTPUT_TOKENS / 2
        fit = min(hardware.kv_tokens // (prompt + _DECODE_OUTPUT_TOKENS), hardware.max_sequences)
        for batch in sorted(set(np.linspace(1, fit, _DECODE_POINTS).astype(int))) if fit else []:
            usage.append(batch * context / hardware.kv_tokens)
            contexts.append(context)
            milliseconds.append(1e3 * hardware.iteration_seconds(batch, batch * context))
    return {
        "x_kv_usage": np.array(usage),
        "y_context_length": np.array(contexts),
        "z_itl": np.array(milliseconds),
        "max_kv_tokens": np.array([hardware.kv_tokens]),
    }
