"""Where things that outlive a run are kept, and keys that say whether they still fit."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.errors import ClusterError


def cache_dir() -> Path:
    """``${TANDEM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}``, made if absent."""
    explicit = os.environ.get("TANDEM_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(explicit) if explicit else Path(home) / "tandem"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClusterError(f"cannot use the cache folder {path}: {error.strerror}") from None
    return path.resolve()


def content_key(*, files: list[Path], text: str = "") -> str:
    """16 hex digits that change when a file's bytes, a file's name or `text` change."""
    digest = hashlib.sha256(text.encode())
    for file in sorted(files):
        digest.update(b"\0" + file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Hold the machine-wide lock `name`: two shells that build the same thing build it once."""
    with (cache_dir() / f".{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
