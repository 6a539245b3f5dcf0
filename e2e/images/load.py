"""Putting built images into the node's containerd: only the blobs that it lacks."""

import json

from e2e.cluster.container_runtime import Runtime
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import say, step
from e2e.images import archive, build
from e2e.images.archive import Blob
from e2e.images.recipes import RECIPES, Recipe


def in_node(runtime: Runtime) -> dict[str, str]:
    """Image name -> manifest digest of what the node has."""
    lines = runtime.ctr("images", "list").splitlines()[1:]
    return {words[0]: words[2] for words in (line.split() for line in lines) if len(words) > 2}


def load(names: list[str], runtime: Runtime) -> None:
    """Build `names` where stale, then import each one that the node has not in this version."""
    made = build.build(names)
    if not runtime.answers():
        raise ClusterError("the cluster is not up: python -m e2e.cluster up")
    present = in_node(runtime)
    for name in names:
        recipe = RECIPES[name]
        digest = made[name]
        if present.get(recipe.reference) == digest:
            say(f"  {recipe.reference}: in the node already")
            continue
        with step(f"loading {recipe.reference}"):
            _import(recipe, digest, runtime)


def _import(recipe: Recipe, digest: str, runtime: Runtime) -> None:
    manifest = json.loads(build.blob_path(digest).read_text())
    wanted = [manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])]
    have = set(runtime.ctr("content", "list", "-q").split())
    blobs = [Blob(d, build.blob_path(d)) for d in wanted if d not in have]
    target = build.images_dir() / f"{recipe.name}.tar"
    try:
        archive.write(
            target, name=recipe.reference, manifest=Blob(digest, build.blob_path(digest)), blobs=blobs
        )
        runtime.ctr("images", "import", str(target))
    finally:
        target.unlink(missing_ok=True)
