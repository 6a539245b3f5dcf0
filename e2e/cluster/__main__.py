"""The command line of the embedded cluster; what it does is told in the package's docstring."""

import argparse
import json
import shlex
import sys

from e2e.cluster import binaries, processes
from e2e.cluster.control_plane import check_name
from e2e.cluster.errors import ClusterError
from e2e.cluster.full import DEFAULT_GPUS, FullCluster
from e2e.cluster.light import LightCluster, clusters_dir
from e2e.cluster.progress import say, step

DEFAULT_NAMES = {"full": "tandem", "light": "light"}


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of zero or more")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description="The embedded cluster.")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, help_text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help_text)
        added.add_argument("--form", choices=["full", "light"], default=None)
        added.add_argument("--name", default=None)
        return added

    up = command("up", "bring the cluster up; keep one that is up")
    up.add_argument("--gpus", type=_count, default=DEFAULT_GPUS, help="GPUs of the node (full form)")
    up.add_argument("--kwok", type=_count, default=0, metavar="NODES", help="fake nodes (light form)")
    down = command("down", "remove it and all it left")
    down.add_argument("--purge", action="store_true", help="the node's image store too")
    command("status", "each component; exit status 1 unless all are well")
    command("kubeconfig", "print the path of the kubeconfig")
    command("env", "print export lines for a shell")
    logs = command("logs", "print the path of a component's log")
    logs.add_argument("component")
    build = commands.add_parser("binaries", help="build the programs and print their folder")
    build.add_argument("programs", nargs="*", metavar="NAME")
    return parser


def _form_and_name(options: argparse.Namespace) -> tuple[str, str]:
    """What --form and --name leave open is taken from the cluster of that name, then from the defaults."""
    if options.name is not None:
        check_name(options.name)
        try:
            found = json.loads((clusters_dir() / options.name / "cluster.json").read_text())["form"]
        except (OSError, ValueError, KeyError):
            found = "full"
        return options.form or found, options.name
    form = options.form or "full"
    return form, DEFAULT_NAMES[form]


def _status(cluster: FullCluster | LightCluster) -> int:
    if isinstance(cluster, FullCluster):
        rows = cluster.components()
    else:
        rows = [
            (p.name, p.alive, f"pid {p.pid}" if p.alive else f"ended; log {p.log}")
            for p in processes.recorded(cluster.folder)
        ]
    if not cluster.folder.exists():
        print(f"cluster {cluster.name} is down")
        left = cluster.left_behind() if isinstance(cluster, FullCluster) else []
        for what in left:
            print(f"  left behind: {what}")
        return 1
    for name, well, words in rows:
        print(f"{'ok  ' if well else 'DOWN'} {name:24} {words}")
    return 0 if rows and cluster.running() else 1


def _require_up(cluster: FullCluster | LightCluster) -> None:
    if not cluster.kubeconfig.exists():
        raise ClusterError(f"no cluster {cluster.name} is up: python -m e2e.cluster up --name {cluster.name}")


def _run(options: argparse.Namespace) -> int:
    if options.command == "binaries":
        binaries.ensure(options.programs or binaries.ALL)
        print(binaries.on_path())
        return 0
    form, name = _form_and_name(options)
    kwok_nodes = getattr(options, "kwok", 0)
    cluster: FullCluster | LightCluster
    cluster = (
        FullCluster(name) if form == "full" else LightCluster(name=name, kwok_nodes=kwok_nodes, quiet=False)
    )
    match options.command:
        case "up":
            if isinstance(cluster, FullCluster):
                if kwok_nodes:
                    raise ClusterError("--kwok belongs to the light form: add --form light")
                cluster.up(gpus=options.gpus)
            elif cluster.running():
                say(f"cluster {name} is up already")
            else:
                cluster.start()
            print(cluster.kubeconfig)
        case "down":
            with step(f"removing cluster {name}"):
                if isinstance(cluster, FullCluster):
                    cluster.down(purge=options.purge)
                else:
                    cluster.stop()
        case "status":
            return _status(cluster)
        case "kubeconfig":
            _require_up(cluster)
            print(cluster.kubeconfig)
        case "env":
            _require_up(cluster)
            print(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
            print(f'export PATH={shlex.quote(str(binaries.on_path()))}:"$PATH"')
        case "logs":
            log = cluster.folder / "logs" / f"{options.component}.log"
            if not log.exists():
                known = sorted(f.stem for f in log.parent.glob("*.log"))
                raise ClusterError(f"no log of {options.component} (there are: {', '.join(known) or 'none'})")
            print(log)
    return 0


def main() -> int:
    try:
        return _run(_parser().parse_args())
    except ClusterError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; `python -m e2e.cluster down` removes what was started")
        return 130


if __name__ == "__main__":
    sys.exit(main())
