"""The images that the operator fills in where the user's template names none."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Images:
    """Defaults come from the chart. They are no part of the template hash, so that an upgrade restarts nothing."""

    worker: str = "vllm/vllm-openai:v0.32.0"
    sglang_worker: str = "lmsysorg/sglang:v0.5.23"
    # Carries vllm-router and sglang-router.
    router: str = "tandem/router:latest"
    # None: Kubernetes' own default (IfNotPresent, or Always for :latest).
    pull_policy: str | None = None
    pull_secrets: tuple[str, ...] = ()
