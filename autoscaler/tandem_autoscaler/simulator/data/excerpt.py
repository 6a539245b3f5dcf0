"""The public downloads -> the small files of this folder: `python -m tandem_autoscaler.simulator.data.excerpt FOLDER`.

FOLDER holds azure2023/, azure2024/, mooncake/, servegen/ and perf/ as README.md names their origins. Arrivals become
whole milliseconds after the first request, as gaps, which compress well. Nothing here draws random numbers.
"""

import argparse
import ast
import csv
import json
import re
import tarfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator.data import FOLDER

WINDOW_SECONDS = 600
WINDOWS = 144
PERIOD_SECONDS = 21_600
PERIODS = 4
# Upper ends of the strata that stand for a length histogram: even below 0.9, finer in the tail, which decides
# the squared lengths.
STRATA = np.concatenate([np.arange(0.025, 0.9001, 0.025), np.arange(0.91, 0.9901, 0.01), [0.995, 0.998, 1.0]])


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the simulator's data files from the public downloads.")
    parser.add_argument(
        "folder", type=Path, help="where azure2023/, azure2024/, mooncake/, servegen/, perf/ lie"
    )
    source: Path = parser.parse_args().folder
    for kind in ("conv", "code"):
        rows = read_csv(source / "azure2023" / f"AzureLLMInferenceTrace_{kind}.csv")
        save(f"azure-{kind}-2023", azure_2023(rows))
    save("azure-conv-2024", azure_2024(source / "azure2024"))
    save("mooncake-conv", mooncake(source / "mooncake" / "conversation_trace.jsonl"))
    save("servegen-deepseek-r1", servegen(source / "servegen" / "servegen_deepseek-r1_mmimage_full.tar.gz"))
    save("latency-grid", latency_grid(source / "perf" / "aic_dense_grid_vllm.json"))
    write_csv("measured-sweeps", measured_sweeps(source / "perf"))
    write_csv("measured-serving", measured_serving(source / "perf"))
    write_csv("measured-decode", measured_decode(source / "perf"))


def save(name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    path = FOLDER / f"{name}.npz"
    np.savez_compressed(path, allow_pickle=False, **arrays)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_csv(name: str, rows: list[dict[str, object]]) -> None:
    path = FOLDER / f"{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def requests(
    milliseconds: NDArray[np.float64], prompt: list[int], output: list[int]
) -> dict[str, NDArray[Any]]:
    whole = np.rint(milliseconds - milliseconds[0]).astype(np.int64)
    return {
        "gap_ms": np.diff(whole, prepend=0).astype(np.uint32),
        "prompt": np.array(prompt, dtype=np.uint32),
        "output": np.array(output, dtype=np.uint16),
    }


def azure_2023(rows: list[dict[str, str]]) -> dict[str, NDArray[Any]]:
    # Seven digits of a second are one too many for fromisoformat.
    at = [datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() * 1000 for row in rows]
    prompt, output = ([int(row[key]) for row in rows] for key in ("ContextTokens", "GeneratedTokens"))
    return requests(np.array(at), prompt, output)


def azure_2024(folder: Path) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    rates = read_csv(folder / "azure2024_conv_rps_5min.csv")
    arrays["rate_per_second"] = np.array([float(row["rps"]) for row in rates], dtype=np.float32)
    for name, kind in (("prompt", "input"), ("output", "output")):
        cdf = read_csv(folder / f"azure2024_conv_{kind}_cdf.csv")
        arrays[f"{name}_tokens"] = np.array([float(row["mid"]) for row in cdf], dtype=np.float32)
        arrays[f"{name}_share"] = np.array([float(row["cdf"]) / 100 for row in cdf], dtype=np.float32)
    return arrays


def mooncake(path: Path) -> dict[str, NDArray[Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    at = np.array([row["timestamp"] for row in rows], dtype=np.float64)
    return requests(at, [row["input_length"] for row in rows], [row["output_length"] for row in rows])


def servegen(path: Path) -> dict[str, NDArray[Any]]:
    """Per client and 10 minutes: requests, family (1 gamma, 2 Weibull) and shape of the gaps between them. Per client
    and 6 hours: the mean length of each of the STRATA, which keeps the mean of the histogram exactly.

    Lost: where in its stratum a length lies, and `reason_ratio`.
    """
    files: dict[str, str] = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            if file is not None and member.name.startswith("reason/deepseek-r1/"):
                files[Path(member.name).name] = file.read().decode()
    clients = sorted(
        int(found[1]) for name in files if (found := re.fullmatch(r"chunk-(\d+)-trace\.csv", name))
    )
    count = np.zeros((len(clients), WINDOWS), dtype=np.uint16)
    family = np.zeros_like(count, dtype=np.uint8)
    shape = np.ones(count.shape, dtype=np.float32)
    prompt = np.zeros((len(clients), PERIODS, len(STRATA)), dtype=np.uint16)
    output = np.zeros_like(prompt)
    for index, client in enumerate(clients):
        for row in csv.reader(files[f"chunk-{client}-trace.csv"].splitlines()):
            window = int(row[0]) // WINDOW_SECONDS
            count[index, window] = round(float(row[1]) * WINDOW_SECONDS)
            if row[3]:
                family[index, window] = {"Gamma": 1, "Weibull": 2}[row[3]]
                shape[index, window] = float(row[4])
        for start, histograms in json.loads(files[f"chunk-{client}-dataset.json"]).items():
            period = int(start) // PERIOD_SECONDS
            prompt[index, period] = strata_means(ast.literal_eval(histograms["input_tokens"]))
            output[index, period] = strata_means(ast.literal_eval(histograms["output_tokens"]))
    return {
        "count": count, "family": family, "shape": shape, "prompt": prompt, "output": output,
        "stratum_end": STRATA.astype(np.float32),
    }  # fmt: skip


def strata_means(histogram: dict[int, float]) -> NDArray[np.uint16]:
    """Zeros for an empty histogram."""
    if not histogram:
        return np.zeros(len(STRATA), dtype=np.uint16)
    tokens = np.array(sorted(histogram), dtype=np.float64)
    share = np.array([histogram[int(value)] for value in tokens])
    # The integral of the quantile function, at every step of the histogram.
    reach = np.concatenate([[0.0], np.cumsum(share / share.sum())])
    integral = np.concatenate([[0.0], np.cumsum(tokens * share / share.sum())])
    ends = np.concatenate([[0.0], STRATA])
    return np.rint(np.diff(np.interp(ends, reach, integral)) / np.diff(ends)).astype(np.uint16)


def latency_grid(path: Path) -> dict[str, NDArray[Any]]:
    """Milliseconds as interpolated, not corrected; NaN where the grid has no point."""
    entries = json.loads(path.read_text())
    lengths = sorted({int(n) for entry in entries for n in entry["prefill_ms"]})
    contexts = sorted({int(n) for entry in entries for n in entry["decode_ms"]})
    batches = sorted({int(b) for entry in entries for row in entry["decode_ms"].values() for b in row})
    nan = float("nan")
    return {
        "name": np.array([f"{entry['system']}/{entry['model']}/tp{entry['tp']}" for entry in entries]),
        "kv_tokens": np.array([entry["kv_tokens_capacity"] for entry in entries]),
        "prompt_tokens": np.array(lengths),
        "prefill_ms": np.array(
            [[entry["prefill_ms"].get(str(n), nan) for n in lengths] for entry in entries], dtype=np.float32
        ),
        "context_tokens": np.array(contexts),
        "batch": np.array(batches),
        "decode_ms": np.array(
            [
                [[entry["decode_ms"].get(str(n), {}).get(str(b), nan) for b in batches] for n in contexts]
                for entry in entries
            ],
            dtype=np.float32,
        ),
    }


def measured_sweeps(folder: Path) -> list[dict[str, object]]:
    """One row per point of NVIDIA Dynamo's pre-swept results.

    kind prefill: `tokens` of one prompt; kind decode: `batch` sequences that hold `tokens` in all.
    """
    rows: list[dict[str, object]] = []
    sweeps = folder / "dynamo_preswept"
    for gpu, model in (("h200_sxm", "Llama-3.1-8B-Instruct-FP8"), ("h100_sxm", "Llama-3.3-70B-Instruct-FP8")):
        place = sweeps / gpu / "vllm" / "nvidia" / model
        prefill, decode = np.load(place / "prefill.npz"), np.load(place / "decode.npz")
        for index, tp in enumerate(prefill["tp"][:, 0]):
            for tokens, ms in zip(prefill["prefill_isl"][index], prefill["prefill_ttft"][index], strict=True):
                row = {
                    "kind": "prefill",
                    "batch": 1,
                    "tokens": int(tokens),
                    "milliseconds": round(float(ms), 3),
                }
                rows.append({"gpu": gpu, "model": model, "tp": int(tp), **row})
        for index, tp in enumerate(decode["tp"][:, 0]):
            held = decode["x_kv_usage"][index] * decode["max_kv_tokens"][index]
            for tokens, each, ms in zip(
                held, decode["y_context_length"][index], decode["z_itl"][index], strict=True
            ):
                row = {"kind": "decode", "batch": round(float(tokens / each)), "tokens": round(float(tokens))}
                rows.append(
                    {"gpu": gpu, "model": model, "tp": int(tp), **row, "milliseconds": round(float(ms), 3)}
                )
    return rows


def measured_serving(folder: Path) -> list[dict[str, object]]:
    """Dense models of the catalogue on Hopper, served whole (prefill and decode on one worker)."""
    names = {
        "meta-llama/Llama-3.1-70B": "llama-70b-fp8",
        "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-8b-fp8",
        "Qwen/Qwen3-32B": "qwen3-32b",
    }
    rows: list[dict[str, object]] = []
    for row in read_csv(folder / "silicon_sample_vllm_h100_h200_b200.csv"):
        model, gpu = names.get(row["model_path"]), row["system"]
        if model is None or gpu not in ("h100_sxm", "h200_sxm") or row["mode"] != "agg":
            continue
        # Qwen3-32B in fp8 has three points in all, and no grid to be compared with.
        if model == "qwen3-32b" and row["precision"]:
            continue
        rows.append(
            {
                "gpu": gpu,
                "model": model + ("-bf16" if model == "qwen3-32b" else ""),
                "tp": int(float(row["tp_size"])),
                "prompt": int(row["isl"]),
                "output": int(row["osl"]),
                "concurrency": int(float(row["batch_size"])),
                "ttft_ms": round(float(row["silicon_ttft_ms"]), 3),
                "tpot_ms": round(float(row["silicon_tpot_ms"]), 3),
            }
        )
    return sorted(rows, key=lambda row: [str(row[key]).zfill(6) for key in row])


def measured_decode(folder: Path) -> list[dict[str, object]]:
    """TPOT of Llama-70B fp8 on H100 with what prompts between the tokens cost taken out of the serving points."""
    return [
        {
            "tp": int(row["tp"]),
            "prompt": int(row["isl"]),
            "output": int(row["osl"]),
            "concurrency": int(row["conc"]),
            "tpot_ms": float(row["decode_only_est"]),
        }
        for row in read_csv(folder / "h100_70b_decode_only_vs_aic.csv")
    ]


if __name__ == "__main__":
    main()
