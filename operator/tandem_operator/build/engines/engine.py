"""The port to an engine: pure, words only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tandem_api.inference_service import InferenceServiceSpec, Role
from tandem_api.kubernetes.cluster import Manifest
from tandem_operator.build.engine_settings import EngineSettings
from tandem_operator.build.group import Place
from tandem_operator.build.images import Images


@dataclass(frozen=True)
class Start:
    """One pod's engine: what it is told, before the user's own flags. `place` is None for a worker of one pod."""

    service: str
    spec: InferenceServiceSpec
    role: Role
    settings: EngineSettings
    model: str
    shutdown_timeout_seconds: int
    place: Place | None = None

    @property
    def disaggregated(self) -> bool:
        return self.spec.mode == "Disaggregated"

    @property
    def served_name(self) -> str:
        return self.spec.model.name or self.service


class Engine(Protocol):
    """What differs from engine to engine."""

    # Answers 200 when new requests are wanted and 503 when not, at no cost to the requests inside.
    health_path: str

    def image(self, images: Images) -> str:
        """The default image of its workers."""

    def command(self) -> list[str] | None:
        """The container's command; None where the image's own entry point takes the words."""

    def words(self, start: Start) -> list[str]:
        """The command line, as the engine's own flags."""

    def environment(self, spec: InferenceServiceSpec, role: Role) -> list[Manifest]:
        """Variables beside those that every engine gets."""

    def annotations(self, spec: InferenceServiceSpec, role: Role) -> dict[str, str]:
        """Of the pod, for whoever must find the engine's other ports."""

    def phase(self, spec: InferenceServiceSpec, role: Role) -> str | None:
        """What a running engine cannot change: its role, where it is started for one. Part of the template hash."""

    def problem(self, spec: InferenceServiceSpec, role: Role, settings: EngineSettings) -> str | None:
        """What it has not, of what this role asks for, as one sentence; None: it has all."""

    def owned(self) -> Sequence[str]:
        """Flags that `words` renders, beside those of `OWNED_FLAGS`."""
