"""A model's shape: from the built-in catalogue, from a config.json on disk, or from a Hugging Face hub."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from tandem_api.sizing import Architecture, Model, UnknownArchitecture, model_named
from tandem_api.sizing.memory import BYTES_PER_WEIGHT
from tandem_api.sizing.models import nearest
from tandem_autoscaler.cli.mistake import Mistake

_HUB: Final = "https://huggingface.co"
_TIMEOUT_SECONDS: Final = 5.0


def find_model(text: str, environ: Mapping[str, str] = os.environ) -> Model:
    """The model of a path, a catalogue's name or a Hugging Face id. Raises Mistake.

    A path wins over the catalogue, and the catalogue over the hub: what is known needs no network.
    """
    path = Path(text)
    if path.is_dir() or path.suffix == ".json":
        return _from_file(path / "config.json" if path.is_dir() else path)
    known = model_named(text)
    if known is not None:
        return known
    if text.count("/") == 1 and not text.startswith(("/", ".")):
        return _from_hub(text, environ)
    raise Mistake(
        f"--model {text}: there is neither such a directory nor such a model in the built-in list{_meant(text)}"
    )


def _meant(text: str) -> str:
    near = nearest(text)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _from_file(path: Path) -> Model:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Mistake(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise Mistake(f"{path}: this is no JSON") from None
    return _model(config, path.resolve().parent.name if path.name == "config.json" else path.stem, str(path))


def _from_hub(name: str, environ: Mapping[str, str]) -> Model:
    hub = environ.get("HF_ENDPOINT", _HUB).rstrip("/")
    token = environ.get("HF_TOKEN")
    where = f"--model {name} is not in the built-in list{_meant(name)}, and {hub}"
    instead = "give a directory with its config.json"
    try:
        answer = httpx.get(
            f"{hub}/{name}/resolve/main/config.json",
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=_TIMEOUT_SECONDS,
            follow_redirects=True,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Mistake(f"{where} cannot be reached ({type(error).__name__}); {instead}") from None
    if answer.status_code in (401, 403):
        raise Mistake(f"{where} wants a token that may read it (HF_TOKEN); or {instead}")
    if answer.status_code != 200:
        raise Mistake(f"{where} answers {answer.status_code}; {instead}")
    try:
        config = answer.json()
    except ValueError:
        raise Mistake(f"{where} does not answer with a config.json; {instead}") from None
    return _model(config, name.rpartition("/")[2].lower(), f"{hub}/{name}")


def _model(config: Any, name: str, where: str) -> Model:
    if not isinstance(config, dict):
        raise Mistake(f"{where}: config.json holds no object")
    try:
        return Model(name, Architecture.from_config(config), _stored(config, where))
    except UnknownArchitecture as error:
        raise Mistake(f"{where}: {error}") from None


def _stored(config: dict[str, Any], where: str) -> str:
    """The format of the weights by `quantization_config`."""
    said = config.get("quantization_config")
    if not isinstance(said, dict):
        return "none"
    method = str(said.get("quant_method", "")).lower()
    if method in BYTES_PER_WEIGHT:
        return method
    if method == "compressed-tensors":
        groups = said.get("config_groups")
        bits = {
            weights.get("num_bits")
            for group in (groups.values() if isinstance(groups, dict) else ())
            if isinstance(group, dict) and isinstance(weights := group.get("weights"), dict)
        }
        if bits in ({4}, {8}):
            return "gptq" if bits == {4} else "fp8"
    raise Mistake(f"{where}: weights stored as {method or 'something unnamed'} are not sized")
