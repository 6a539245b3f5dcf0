"""Where a model's files are: a folder, or the Hugging Face cache; what its config.json says."""

import importlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_worker.exits import PreflightRefused

MODEL_NOT_FOUND = "ModelNotFound"  # the word of tandem_api.reasons; a test compares


@dataclass(frozen=True)
class ModelFiles:
    """A model's config, and the bytes of its weight files where they are here (None: not known)."""

    config: Mapping[str, Any]
    weight_files_bytes: int | None


def find_model(model: str, environ: Mapping[str, str]) -> ModelFiles | None:
    """Read a model's config. None when it cannot be known here and now (not yet downloaded, a single file).

    Raises:
        PreflightRefused: ModelNotFound, with what was looked for.
    """
    path = Path(model)
    if path.is_dir():
        return _read(path, model)
    if path.is_file():
        return None  # GGUF and the like: one file without a config
    if path.is_absolute() or model.startswith("."):
        raise PreflightRefused(MODEL_NOT_FOUND, f"there is no {model}")
    if "://" in model:
        return None  # a loader's own scheme (s3://, gs://, runai)
    cached = _snapshot(model, environ)
    if cached is not None:
        return _read(cached, model)
    if model.count("/") > 1:
        raise PreflightRefused(
            MODEL_NOT_FOUND, f"{model} is neither a folder nor a Hugging Face name (owner/name)"
        )
    if environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "on", "yes", "true"):
        raise PreflightRefused(
            MODEL_NOT_FOUND, f"{model} is not in the Hugging Face cache, and HF_HUB_OFFLINE is set"
        )
    return _download_config(model)


def hub_cache(environ: Mapping[str, str]) -> Path:
    """The Hugging Face cache, by the hub's own rules."""
    if environ.get("HF_HUB_CACHE"):
        return Path(environ["HF_HUB_CACHE"])
    home = environ.get("HF_HOME")
    if not home:
        home = str(Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")
    return Path(home) / "hub"


def _snapshot(model: str, environ: Mapping[str, str]) -> Path | None:
    """The newest cached snapshot that has a config, the one that `main` names first."""
    repository = hub_cache(environ) / f"models--{model.replace('/', '--')}"
    snapshots = sorted(repository.glob("snapshots/*/config.json"), key=lambda path: path.stat().st_mtime)
    try:
        revision = (repository / "refs" / "main").read_text().strip()
    except OSError:
        revision = ""
    for config in snapshots:
        if config.parent.name == revision:
            return config.parent
    return snapshots[-1].parent if snapshots else None


def _read(folder: Path, model: str) -> ModelFiles:
    try:
        config = json.loads((folder / "config.json").read_text())
    except FileNotFoundError:
        raise PreflightRefused(MODEL_NOT_FOUND, f"{model} has no config.json") from None
    except (OSError, ValueError) as error:
        raise PreflightRefused(MODEL_NOT_FOUND, f"{model}/config.json cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise PreflightRefused(MODEL_NOT_FOUND, f"{model}/config.json is no JSON object")
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return ModelFiles(config, weights or None)


def _download_config(model: str) -> ModelFiles | None:
    try:
        hub = importlib.import_module("huggingface_hub")  # comes with the engine
        errors = importlib.import_module("huggingface_hub.errors")
    except ImportError:
        return None
    try:
        config = Path(hub.hf_hub_download(model, "config.json"))
    except errors.GatedRepoError:
        raise PreflightRefused(
            MODEL_NOT_FOUND, f"{model} is gated: its token is missing or may not read it"
        ) from None
    except (errors.RepositoryNotFoundError, errors.EntryNotFoundError, errors.HFValidationError):
        raise PreflightRefused(
            MODEL_NOT_FOUND, f"{model} is not on Hugging Face, or its token is missing or may not read it"
        ) from None
    except Exception as error:  # the network: the engine tries again for itself, and longer
        print(f"tandem-worker: cannot fetch the config of {model}: {type(error).__name__}", file=sys.stderr)
        return None
    return _read(config.parent, model)
