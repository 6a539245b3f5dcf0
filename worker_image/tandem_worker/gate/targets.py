"""The service's targets, as the pod's annotations carry them (a downward-API file, renewed while the pod runs)."""

import json
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger("tandem.gate")

# The names of tandem_api.names; the gate stands alone and may not import them. A test compares.
TTFT_KEY = "tandem.dev/ttft-target-seconds"
TPOT_KEY = "tandem.dev/tpot-target-seconds"
DEFAULT_PATH = "/etc/tandem/podinfo/annotations"
# The kubelet renews the file about once a minute; looking more often than this finds nothing new.
LOOK_EVERY_SECONDS = 1.0

_LINE = re.compile(r'^([^=\s]+)=(".*")$')


@dataclass(frozen=True)
class Targets:
    """Seconds, or None where the service has no such target."""

    ttft_seconds: float | None = None
    tpot_seconds: float | None = None


def parse_annotations(text: str) -> dict[str, str]:
    """Lines `key="value"`, the value quoted as Go's strconv.Quote does; other lines are skipped."""
    annotations = {}
    for line in text.splitlines():
        match = _LINE.match(line.strip())
        if match is None:
            continue
        key, quoted = match.groups()
        # Go's \x.. and \a \v have no place in JSON; no target is written with them.
        try:
            annotations[key] = json.loads(quoted)
        except ValueError:
            continue
    return annotations


class TargetsFile:
    """Reads the file again when it has changed. A missing file or value is "no target", a bad one is told once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._looked_at_seconds = float("-inf")
        self.targets = Targets()

    def look(self, now_seconds: float) -> bool:
        """True when the targets are not those of the last look."""
        if now_seconds - self._looked_at_seconds < LOOK_EVERY_SECONDS:
            return False
        self._looked_at_seconds = now_seconds
        return self.read()

    def read(self) -> bool:
        """Look now, whenever the last look was."""
        try:
            # The kubelet swaps a symlink, so the inode behind the name changes.
            status = os.stat(self._path)
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            if stamp == self._seen:
                return False
            annotations = parse_annotations(self._path.read_text(errors="replace"))
        except OSError:
            # Without the file what was known stays true: the volume is gone, the targets are not.
            return False
        self._seen = stamp
        before = self.targets
        self.targets = Targets(
            self._seconds(annotations, TTFT_KEY, before.ttft_seconds),
            self._seconds(annotations, TPOT_KEY, before.tpot_seconds),
        )
        return self.targets != before

    def _seconds(self, annotations: dict[str, str], key: str, before: float | None) -> float | None:
        value = annotations.get(key)
        if not value:
            return None
        try:
            seconds = float(value)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds < 1e6:
            logger.warning(
                "%s: %s=%r is not a positive number of seconds; kept %s", self._path, key, value, before
            )
            return before
        return seconds
