"""Archives for containerd, and the keys that say when an image must be made again."""

import json
import tarfile
from pathlib import Path

import pytest

from e2e.cluster.cache import content_key
from e2e.cluster.errors import ClusterError
from e2e.images import archive
from e2e.images.recipes import with_bases


def test_an_archive_may_leave_out_layers_but_not_its_manifest(tmp_path: Path) -> None:
    manifest, config = archive.blob(b'{"layers": []}'), archive.blob(b"{}")
    target = tmp_path / "image.tar"
    archive.write(target, name="tandem.local/worker:dev", manifest=manifest, blobs=[config])
    with tarfile.open(target) as tar:
        names = set(tar.getnames())
        index = json.load(tar.extractfile("index.json"))  # type: ignore[arg-type]
    assert {f"blobs/sha256/{b.digest.removeprefix('sha256:')}" for b in (manifest, config)} <= names
    entry = index["manifests"][0]
    assert entry["digest"] == manifest.digest
    assert entry["annotations"]["io.containerd.image.name"] == "tandem.local/worker:dev"


def test_a_key_changes_with_content_with_a_name_and_with_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    before = content_key(files=[file], text="x")
    assert before == content_key(files=[file], text="x")
    assert before != content_key(files=[file], text="y")
    file.write_text("two")
    assert before != content_key(files=[file], text="x")


def test_bases_come_before_what_stands_on_them() -> None:
    assert [r.name for r in with_bases(["worker"])] == ["python", "vllm-cpu", "worker"]


def test_an_unknown_image_is_refused_with_the_known_names() -> None:
    with pytest.raises(ClusterError, match=r"no such image: wroker \(known: .*worker"):
        with_bases(["wroker"])
