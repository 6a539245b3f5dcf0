"""Measured latencies -> hardware.json, the table behind simulator/catalogue.py.

`python -m tandem_autoscaler.simulator.data.fit` writes it again from measured-sweeps.csv and latency-grid.npz.

Prefill S(n) = a + b n + c n^2 and decode tau(B, K) = d0 + d1 B + d2 K, coefficients >= 0, by least squares of the
relative error. The errors stated are those of the points that the fit is meant for: prompts up to 32,768 tokens and
batches whose KV cache fits.
"""

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator.data import FOLDER

TABLE = FOLDER / "hardware.json"
MOST_PROMPT_TOKENS = 32_768
# Measured points so far off the line stalled for something else (H100 TP8 at 6,205 tokens: twice its neighbours).
OUTLIER = 0.3
# The engine's default limit (vLLM: 1,024 sequences on H100 and H200, 256 on others); beyond it the sweep measured a
# queue.
MAX_SEQUENCES = {"h100": 1024, "h200": 1024, "a100": 256}
# What the grid needs to meet measured serving (README.md): the engine's own work around the kernels.
GRID_PREFILL_BASE_MS, GRID_PREFILL_FACTOR, GRID_DECODE_FACTOR = 10.0, 1.2, 1.12
# A NIC of 400 (A100: 200) Gbit/s per GPU at 80 %, and the hand-over's own round trips.
TRANSFER_BASE_SECONDS = 0.01
TRANSFER_BYTES_PER_SECOND_AND_GPU = {"h100": 40e9, "h200": 40e9, "a100": 20e9}
KV_BYTES_PER_TOKEN = {"llama-8b": 131_072, "llama-70b": 327_680, "qwen3-8b": 147_456, "qwen3-32b": 262_144}
# The project's first fits of two of the sweeps, kept as they are so that results stay comparable.
PUBLISHED_MS = {
    "h200-llama-8b-fp8": ((16.5, 0.01518, 4.21e-7), (4.67, 0.0349, 2.93e-5)),
    "h100-llama-70b-fp8-tp4": ((21.3, 0.04699, 1.25e-6), (10.4, 0.0467, 1.07e-4)),
}
SWEPT = {
    ("h200_sxm", 1): ("h200-llama-8b-fp8", 945_029),
    ("h100_sxm", 2): ("h100-llama-70b-fp8-tp2", 219_686),
    ("h100_sxm", 4): ("h100-llama-70b-fp8-tp4", 662_912),
    ("h100_sxm", 8): ("h100-llama-70b-fp8-tp8", 1_547_545),
}

Points = tuple[NDArray[np.float64], NDArray[np.float64]]  # terms (one row per point), milliseconds


def main() -> None:
    TABLE.write_text(json.dumps(table(), indent=1) + "\n")
    print(f"{TABLE.name}: {TABLE.stat().st_size / 1000:.0f} kB")


def table() -> list[dict[str, Any]]:
    return sorted([*from_sweeps(), *from_grid()], key=lambda row: str(row["name"]))


def from_sweeps() -> list[dict[str, Any]]:
    with Path(FOLDER / "measured-sweeps.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    made = []
    for (gpu, tp), (name, kv_tokens) in SWEPT.items():
        mine = [row for row in rows if (row["gpu"], int(row["tp"])) == (gpu, tp)]
        prefill, decode = sweep_points(mine, "prefill"), sweep_points(mine, "decode")
        published = PUBLISHED_MS.get(name)
        made.append(
            entry(
                name,
                tp,
                kv_tokens,
                prefill,
                decode,
                source="NVIDIA Dynamo's sweep, vLLM 0.10.1" + ("; fitted by hand" if published else ""),
                coefficients=published or (robust_fit(*prefill), fit(*decode)),
            )
        )
    return made


def sweep_points(rows: list[dict[str, str]], kind: str) -> Points:
    points = [
        (float(row["batch"]), float(row["tokens"]), float(row["milliseconds"]))
        for row in rows
        if row["kind"] == kind and float(row["batch"]) <= MAX_SEQUENCES[row["gpu"].removesuffix("_sxm")]
    ]
    batch, tokens, ms = np.array(points).T
    return (prefill_terms(tokens) if kind == "prefill" else decode_terms(batch, tokens)), ms


def from_grid() -> list[dict[str, Any]]:
    with np.load(FOLDER / "latency-grid.npz") as file:
        grid = {key: file[key] for key in file.files}
    swept = {name for name, _ in SWEPT.values()}
    made = []
    for index, key in enumerate(grid["name"]):
        name = grid_name(str(key))
        prefill, decode = grid_points(grid, index)
        made.append(
            entry(
                f"{name}-grid" if name in swept else name,
                int(str(key).rpartition("/tp")[2]),
                int(grid["kv_tokens"][index]),
                prefill,
                decode,
                source="aiconfigurator-core 0.12.0 latency grid, prefill 10 ms + 1.2 x, decode 1.12 x",
                coefficients=(fit(*prefill), fit(*decode)),
            )
        )
    return made


def grid_points(grid: dict[str, NDArray[Any]], index: int) -> tuple[Points, Points]:
    """Corrected milliseconds."""
    tokens = grid["prompt_tokens"].astype(np.float64)
    short = tokens <= MOST_PROMPT_TOKENS
    prefill_ms = GRID_PREFILL_BASE_MS + GRID_PREFILL_FACTOR * grid["prefill_ms"][index].astype(np.float64)
    context, batch = np.meshgrid(grid["context_tokens"], grid["batch"].astype(np.float64), indexing="ij")
    decode_ms = GRID_DECODE_FACTOR * grid["decode_ms"][index].astype(np.float64)
    fits = (
        (context * batch <= grid["kv_tokens"][index])
        & (context <= MOST_PROMPT_TOKENS)
        & np.isfinite(decode_ms)
    )
    return (
        (prefill_terms(tokens[short]), prefill_ms[short]),
        (decode_terms(batch[fits], (context * batch)[fits]), decode_ms[fits]),
    )


def grid_name(key: str) -> str:
    """`h100_sxm/llama-3.1-70b-bf16/tp4` -> `h100-llama-70b-tp4`; one GPU and bf16 go without saying."""
    gpu, model, tp = key.split("/")
    model = model.replace("llama-3.1", "llama").removesuffix("-bf16")
    return f"{gpu.removesuffix('_sxm')}-{model}" + ("" if tp == "tp1" else f"-{tp}")


def prefill_terms(tokens: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.ones_like(tokens), tokens, tokens * tokens], axis=1)


def decode_terms(batch: NDArray[np.float64], kv_tokens: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.ones_like(batch), batch, kv_tokens], axis=1)


def fit(terms: NDArray[np.float64], ms: NDArray[np.float64]) -> tuple[float, float, float]:
    """Least squares of the relative error with coefficients >= 0: the best of all subsets of the three terms."""
    relative = terms / ms[:, None]
    best, least = np.zeros(3), np.inf
    for count in (1, 2, 3):
        for chosen in itertools.combinations(range(3), count):
            found = np.zeros(3)
            found[list(chosen)] = np.linalg.lstsq(relative[:, chosen], np.ones(len(ms)), rcond=None)[0]
            loss = float(np.sum((relative @ found - 1.0) ** 2))
            if (found >= 0).all() and loss < least:
                best, least = found, loss
    return float(best[0]), float(best[1]), float(best[2])


def robust_fit(terms: NDArray[np.float64], ms: NDArray[np.float64]) -> tuple[float, float, float]:
    """As `fit`, once more without the points that are far off the first."""
    near = np.abs(terms @ fit(terms, ms) / ms - 1.0) <= OUTLIER
    return fit(terms[near], ms[near])


def entry(
    name: str,
    gpus: int,
    kv_tokens: int,
    prefill: Points,
    decode: Points,
    *,
    source: str,
    coefficients: tuple[tuple[float, float, float], tuple[float, float, float]],
) -> dict[str, Any]:
    gpu, _, model = name.partition("-")
    kv_bytes = next(size for prefix, size in KV_BYTES_PER_TOKEN.items() if model.startswith(prefix))
    bandwidth = TRANSFER_BYTES_PER_SECOND_AND_GPU[gpu] * gpus
    return {
        "name": name,
        "gpus": gpus,
        "prefill": seconds(coefficients[0]),
        "decode": seconds(coefficients[1]),
        "kv_tokens": kv_tokens,
        "max_sequences": MAX_SEQUENCES[gpu],
        "transfer_base_seconds": TRANSFER_BASE_SECONDS,
        "transfer_seconds_per_token": float(f"{kv_bytes / bandwidth:.4g}"),
        "source": source,
        "prefill_error": errors(*prefill, coefficients[0]),
        "decode_error": errors(*decode, coefficients[1]),
    }


def seconds(milliseconds: tuple[float, float, float]) -> list[float]:
    return [float(f"{value / 1000:.4g}") for value in milliseconds]


def errors(
    terms: NDArray[np.float64], ms: NDArray[np.float64], coefficients: tuple[float, float, float]
) -> dict[str, float]:
    off = np.abs(terms @ coefficients / ms - 1.0)
    return {"median": round(float(np.median(off)), 3), "worst": round(float(off.max()), 3), "points": len(ms)}


if __name__ == "__main__":
    main()
