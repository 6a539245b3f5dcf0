"""`python -m tandem_autoscaler.recording FILE`: each change of the decisions in a recording, with its reason."""

import argparse
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tandem_autoscaler.recording.lines import BrokenRecording, read
from tandem_autoscaler.recording.replay import replay


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the decisions. Exit status 2 for a file that cannot be read."""
    flags = argparse.ArgumentParser("python -m tandem_autoscaler.recording", description=__doc__)
    flags.add_argument("file", type=Path, help="written by tandem-autoscaler --record FILE")
    flags.add_argument(
        "--all", action="store_true", help="every tick, not only those whose decision is another one"
    )
    flagged = flags.parse_args(arguments)
    told: dict[tuple[str, str, str], tuple[int, int, str]] = {}
    try:
        with flagged.file.open(encoding="utf-8") as lines:
            start, ticks = read(lines)
            for replayed in replay(ticks, start):
                at = datetime.fromtimestamp(replayed.tick.at_seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
                for role, decision in replayed.outcome.decisions.items():
                    key = (*replayed.tick.service.key, role)
                    news = (decision.current, decision.target, decision.why.value)
                    if flagged.all or told.get(key) != news:
                        namespace, name = replayed.tick.service.key
                        print(f"{at} {namespace}/{name} {decision.why.value}: {decision.message}")
                    told[key] = news
    except OSError as error:
        print(f"{flagged.file}: {error.strerror or error}", file=sys.stderr)
        return 2
    except (BrokenRecording, UnicodeDecodeError) as error:
        print(f"{flagged.file}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `... | head` ends it quietly
    sys.exit(main())
