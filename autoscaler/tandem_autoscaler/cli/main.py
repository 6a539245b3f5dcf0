"""`kubectl-tandem`, which kubectl finds on the PATH as `kubectl tandem`."""

import argparse
import signal
import sys
from collections.abc import Sequence

from tandem_autoscaler.cli import pause
from tandem_autoscaler.cli.diagnose import command as diagnose
from tandem_autoscaler.cli.explain import command as explain
from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.replay import command as replay
from tandem_autoscaler.cli.size import command as size
from tandem_autoscaler.cli.status import command as status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand. Exit status 2 for a user's mistake."""
    flags = argparse.ArgumentParser("kubectl tandem", description="LLM inference fleets on Kubernetes.")
    subcommands = flags.add_subparsers(metavar="COMMAND", required=True)
    status.add(subcommands)
    explain.add(subcommands)
    diagnose.add(subcommands)
    pause.add(subcommands)
    size.add(subcommands)
    replay.add(subcommands)
    given = flags.parse_args(arguments)
    try:
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
