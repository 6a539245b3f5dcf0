"""A signal source that writes down what another one answers (`--record FILE`)."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from tandem_autoscaler.fleet.service import Key, Service
from tandem_autoscaler.recording.lines import Start, Tick, header, line
from tandem_autoscaler.signals.source import SignalSource, Snapshot

_log = logging.getLogger(__name__)


class RecordingSource:
    """Passes everything on. A disk that is full ends the recording and nothing else.

    Raises OSError when `path` cannot be written at the start. What is there is overwritten: a recording begins with
    the process, because what the process remembers is part of its decisions.
    """

    def __init__(self, source: SignalSource, path: Path, start: Start) -> None:
        self._source = source
        self._path = path
        self._file: TextIO | None = path.open("w", encoding="utf-8")
        self._write([header(start)])

    async def sample(self, services: Sequence[Service], now_seconds: float) -> dict[Key, Snapshot]:
        """What the other source answers, after it was written down."""
        found = await self._source.sample(services, now_seconds)
        self._write(
            line(Tick(now_seconds, service, found[service.key]))
            for service in services
            if service.key in found
        )
        return found

    async def close(self) -> None:
        """Close the file and the other source."""
        self._end()
        await self._source.close()

    def _write(self, lines: Iterable[str]) -> None:
        if self._file is None:
            return
        try:
            self._file.writelines(f"{text}\n" for text in lines)
            # A tick is on disk before its decision is carried out, so that a crash takes no line with it.
            self._file.flush()
        except OSError as error:
            _log.warning("the recording ends here: %s: %s", self._path, error.strerror or error)
            self._end()

    def _end(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except OSError as error:
                _log.warning("the recording is not complete: %s: %s", self._path, error.strerror or error)
