"""The command line of the images; what it does is told in the package's docstring."""

import argparse
import json
import sys

from e2e.cluster.__main__ import DEFAULT_NAMES
from e2e.cluster.errors import ClusterError
from e2e.cluster.full import FullCluster
from e2e.cluster.progress import say
from e2e.images import build, load
from e2e.images.recipes import DEFAULT, RECIPES, Recipe


def _size_bytes(recipe: Recipe) -> int | None:
    digest = build.manifest_digest(recipe)
    if digest is None:
        return None
    return sum(layer["size"] for layer in json.loads(build.blob_path(digest).read_text())["layers"])


def _list(cluster: FullCluster) -> None:
    present = load.in_node(cluster.runtime) if cluster.runtime.answers() else {}
    for recipe in RECIPES.values():
        size = _size_bytes(recipe)
        built = "-" if size is None else f"{size / 1e6:.0f} MB"
        digest = build.manifest_digest(recipe)
        where = "in the node" if digest and present.get(recipe.reference) == digest else "not in the node"
        print(f"{recipe.name:14} {recipe.reference:34} {recipe.key()}  {built:>9}  {where}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.images", description="The container images.")
    parser.add_argument("command", choices=["build", "load", "list"])
    parser.add_argument("images", nargs="*", metavar="NAME", default=list(DEFAULT))
    parser.add_argument("--cluster", default=DEFAULT_NAMES["full"], help="name of the full cluster")
    options = parser.parse_args()
    names = options.images or list(DEFAULT)
    try:
        cluster = FullCluster(options.cluster)
        if options.command == "build":
            build.build(names)
            say("built: " + ", ".join(RECIPES[name].reference for name in names))
        elif options.command == "load":
            load.load(names, cluster.runtime)
        else:
            _list(cluster)
    except ClusterError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
