"""Which worker of the catalogue a manifest means: by its model, precision, GPUs per worker and node selector."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec
from tandem_api.sizing.gpus import gpu_named
from tandem_api.sizing.spec import node_labels
from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.replay.manifest import Wish
from tandem_autoscaler.simulator.catalogue import catalogue
from tandem_autoscaler.simulator.hardware import Hardware

# Models of the catalogue by what stands in their usual names.
_MODELS = {
    "llama-70b": re.compile(r"llama.*\b70b"),
    "llama-8b": re.compile(r"llama.*\b8b"),
    "qwen3-32b": re.compile(r"qwen-?3.*\b32b"),
    "qwen3-8b": re.compile(r"qwen-?3.*\b8b"),
}
_INTERPOLATED = "-grid"


@dataclass(frozen=True)
class Worker:
    hardware: Hardware
    source: str
    notes: tuple[str, ...] = ()


def of(wish: Wish, name: str | None) -> Worker:
    """The worker of that name, else the one that the manifest means. Raises Mistake with those to choose from."""
    spec = wish.spec
    chosen = name or _guessed(spec)
    entry = catalogue().get(chosen)
    if entry is None:
        raise Mistake(f"there is no hardware {chosen!r}; choose --hardware of {_listed(catalogue())}")
    notes = [
        f"spec.{role}.gpus is {pool.gpus}, but {chosen} has {entry.hardware.gpus}: GPU-hours are of those"
        for role, pool in spec.roles.items()
        if pool.gpus != entry.hardware.gpus
    ]
    sequences = wish.service.pools[names.DECODE].max_sequences
    hardware = entry.hardware if sequences is None else replace(entry.hardware, max_sequences=sequences)
    return Worker(hardware, entry.source, tuple(notes))


def _guessed(spec: InferenceServiceSpec) -> str:
    model = _model(spec)
    if model is None:
        raise Mistake(
            f"no worker is known for model {spec.model.uri}; choose the nearest one with --hardware, "
            f"of {_listed(catalogue())}"
        )
    gpus = {pool.total_gpus for pool in spec.roles.values()}
    known = [name for name in catalogue() if model in name and not name.endswith(_INTERPOLATED)]
    if len(gpus) > 1:
        raise Mistake(
            f"spec.prefill.gpus and spec.decode.gpus differ, and replay simulates one kind of worker; choose it with "
            f"--hardware, of {_listed(known)}"
        )
    labels = [text for role in spec.roles.values() for text in node_labels(role)]
    products = {gpu.name for text in labels if (gpu := gpu_named(text)) is not None}
    if len(products) != 1:
        what = (
            "does not say which GPU its workers have"
            if not products
            else f"names {_listed(sorted(products))}"
        )
        raise Mistake(
            f"the manifest {what} (nodeSelector nvidia.com/gpu.product); choose --hardware of {_listed(known)}"
        )
    (product,), (count,) = products, gpus
    precision = "-fp8" if _is_fp8(spec) else ""
    guess = f"{product.lower()}-{model}{precision}{f'-tp{count}' if count > 1 else ''}"
    if guess not in catalogue():
        raise Mistake(
            f"no worker {guess} is known; choose the nearest one with --hardware, of {_listed(known)}"
        )
    return guess


def _model(spec: InferenceServiceSpec) -> str | None:
    text = re.sub(r"[_./]", "-", f"{spec.model.uri} {spec.model.name or ''}".lower())
    return next((name for name, pattern in _MODELS.items() if pattern.search(text)), None)


def _is_fp8(spec: InferenceServiceSpec) -> bool:
    asked = [
        spec.engine.quantization,
        *(r.engine.quantization for r in spec.roles.values() if r.engine is not None),
    ]
    return "fp8" in asked or "fp8" in spec.model.uri.lower()


def _listed(some: Iterable[str]) -> str:
    return ", ".join(some)
