"""The engine's command line for one role: the engine's own words, then the user's."""

from dataclasses import dataclass

from tandem_api.inference_service import InferenceServiceSpec, Role
from tandem_operator.build.engine_settings import engine_settings
from tandem_operator.build.engines import engine_of
from tandem_operator.build.engines.engine import Start
from tandem_operator.build.flags import merge_flags
from tandem_operator.build.group import Place

MODEL_MOUNT = "/mnt/model"


@dataclass(frozen=True)
class ModelPlace:
    """Where the engine finds the model; `claim` is a PersistentVolumeClaim to mount, read-only."""

    argument: str
    claim: str | None = None


def model_place(uri: str) -> ModelPlace:
    """hf://organisation/name -> its id; path:///x -> /x; pvc://claim/sub -> below the claim's mount."""
    scheme, _, rest = uri.partition("://")
    if scheme in ("hf", "path"):
        return ModelPlace(rest)
    claim, _, path = rest.partition("/")
    return ModelPlace(f"{MODEL_MOUNT}/{path.strip('/')}", claim=claim)


def engine_args(
    service: str,
    spec: InferenceServiceSpec,
    role: Role,
    *,
    shutdown_timeout_seconds: int,
    place: Place | None = None,
) -> list[str]:
    """The words after the image's entry point: model, what Tandem owns, the tuning, the user's own last.

    `place` is that of a pod in its group, None for a worker of one pod.
    """
    start = Start(
        service=service,
        spec=spec,
        role=role,
        settings=engine_settings(spec, role),
        model=model_place(spec.model.uri).argument,
        shutdown_timeout_seconds=shutdown_timeout_seconds,
        place=place,
    )
    return list(merge_flags((*engine_of(spec).words(start), *start.settings.extra_args)))
