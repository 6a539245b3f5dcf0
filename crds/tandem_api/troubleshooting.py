"""Generates docs/troubleshooting.md: the table of condition reasons, from `tandem_api.reasons`.

`python -m tandem_api.troubleshooting FILE` writes it; `--check` compares instead.
"""

import argparse
import sys
from pathlib import Path

from tandem_api.reasons import MEANING, Reason


def rendered() -> str:
    """The page as Markdown. Raises KeyError when a reason has no meaning written down."""
    rows = [f"| `{reason}` | {MEANING[reason][0]} | {MEANING[reason][1]} |" for reason in Reason]
    return "\n".join(
        [
            "<!-- Generated from crds/tandem_api/reasons.py by `make generate`. Do not edit. -->",
            "# Troubleshooting, by condition reason",
            "",
            "`kubectl get infsvc NAME -o yaml` shows `status.conditions`; each has one of these reasons and a "
            "message with the details. A condition that does not apply is absent.",
            "",
            "| reason | what it means | what to do |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tandem_api.troubleshooting", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    options = parser.parse_args(arguments)
    if not options.check:
        options.file.write_text(rendered())
    elif not options.file.exists() or options.file.read_text() != rendered():
        print(f"{options.file} is not what the reasons say: run `make generate`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
