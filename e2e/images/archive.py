"""OCI archives written by hand: what containerd imports, with only the blobs that it lacks."""

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True)
class Blob:
    """Bytes named by their digest, in memory or in a file."""

    digest: str
    data: bytes | Path


def blob(data: bytes) -> Blob:
    return Blob("sha256:" + hashlib.sha256(data).hexdigest(), data)


def _descriptor(media_type: str, item: Blob) -> dict[str, Any]:
    size = item.data.stat().st_size if isinstance(item.data, Path) else len(item.data)
    return {"mediaType": media_type, "digest": item.digest, "size": size}


def write(target: Path, *, name: str, manifest: Blob, blobs: list[Blob]) -> None:
    """An OCI archive with one image `name`; `blobs` may lack what the importer has already."""
    index = {
        "schemaVersion": 2,
        "manifests": [
            {**_descriptor(MANIFEST, manifest), "annotations": {"io.containerd.image.name": name}},
        ],
    }
    with tarfile.open(target, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", json.dumps(index).encode())
        for item in {b.digest: b for b in [manifest, *blobs]}.values():
            _add(tar, f"blobs/sha256/{item.digest.removeprefix('sha256:')}", item.data)


def _add(tar: tarfile.TarFile, name: str, data: bytes | Path, *, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.mode = mode
    if isinstance(data, Path):
        info.size = data.stat().st_size
        with data.open("rb") as handle:
            tar.addfile(info, handle)
    else:
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))


def single_binary_image(program: Path, *, name: str, target: Path) -> None:
    """An archive of an image that holds one static program and runs it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add(tar, program.name, program.read_bytes(), mode=0o755)
    layer = blob(buffer.getvalue())
    config = blob(
        json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Entrypoint": [f"/{program.name}"]},
                "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
            }
        ).encode()
    )
    manifest = blob(
        json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": _descriptor(CONFIG, config),
                "layers": [_descriptor(LAYER, layer)],
            }
        ).encode()
    )
    write(target, name=name, manifest=manifest, blobs=[config, layer])
