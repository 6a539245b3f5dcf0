"""`kubectl-tandem`, which kubectl finds on the PATH as `kubectl tandem`."""

import argparse
import signal
import sys
from collections.abc import Sequence

from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.replay import command as replay


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand. Exit status 2 for a user's mistake."""
    flags = argparse.ArgumentParser("kubectl tandem", description="LLM inference fleets on Kubernetes.")
    subcommands = flags.add_subparsers(metavar="COMMAND", required=True)
    replay.add(subcommands)
    given = flags.parse_args(arguments)
    try:
        status: int = given.run(given)
        return status
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
