"""`kubectl-tandem`, which kubectl finds on the PATH as `kubectl tandem`."""

import signal
import sys
from collections.abc import Sequence

from tandem_autoscaler.cli import cluster, pause
from tandem_autoscaler.cli.diagnose import command as diagnose
from tandem_autoscaler.cli.explain import command as explain
from tandem_autoscaler.cli.flags import Parser
from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.replay import command as replay
from tandem_autoscaler.cli.size import command as size
from tandem_autoscaler.cli.status import command as status


def parser() -> Parser:
    """The program with its subcommands."""
    flags = Parser("kubectl tandem", description="LLM inference fleets on Kubernetes.")
    # Before the command as well as behind it, as kubectl takes them.
    cluster.add_flags(flags)
    commands = flags.add_subparsers(metavar="COMMAND", required=True)
    for one in (status, explain, diagnose, pause, size, replay):
        one.add(commands)
    flags.commands = dict(commands.choices)
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; without any, tell which there are. Exit status 2 for a user's mistake."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    flags = parser()
    if not words:
        flags.print_help()
        return 0
    given = flags.parse(words)
    try:
        if not given.asks_cluster:
            cluster.refuse_flags(given)
        exit_status: int = given.run(given)
        return exit_status
    except Mistake as mistake:
        print(f"kubectl tandem: {mistake}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def script() -> None:
    """The console script: `... | head` ends it quietly."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())


if __name__ == "__main__":
    script()
