"""The commands of the README and of docs/, as they stand there."""

import re
from pathlib import Path

HEADING = "## Three commands"
README = Path(__file__).parents[2] / "README.md"


def three_commands(text: str) -> tuple[str, str, str]:
    """The lines of the first shell block below the heading; ValueError unless they are three."""
    lines = commands(text, HEADING)
    if len(lines) != 3:
        raise ValueError(f"{HEADING!r} has {len(lines)} commands, and its name says three")
    return lines[0], lines[1], lines[2]


def commands(text: str, heading: str) -> list[str]:
    """The lines of the first block of commands below a heading, joined where they are continued; ValueError without."""
    _, found, rest = f"\n{text}".partition(f"\n{heading}\n")
    section = rest.split("\n## ", 1)[0]
    block = re.search(r"^```(?:bash|sh)?\n(.*?)^```", section, re.M | re.S)
    if not found or not block:
        raise ValueError(f"no section {heading!r} with a block of commands")
    return [line for line in block[1].replace("\\\n", " ").splitlines() if line.strip()]


def nested(settings: dict[str, str]) -> dict[str, object]:
    """{"image.tag": "dev"} as {"image": {"tag": "dev"}}: what `--set-string` means, for a file of chart values."""
    values: dict[str, object] = {}
    for key, value in settings.items():
        place = values
        *parents, last = key.split(".")
        for name in parents:
            inner = place.setdefault(name, {})
            assert isinstance(inner, dict)
            place = inner
        place[last] = value
    return values
