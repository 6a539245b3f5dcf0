"""`WorkerPool`: the scale target of one role. The operator creates it; whoever owns `/scale` writes it."""

from typing import Literal

from pydantic import Field

from tandem_api.inference_service import Wire


class WorkerPoolSpec(Wire):
    """The target of one role. Only `replicas` is ever written by others, through `/scale`."""

    service: str = Field(max_length=63, description="The InferenceService that this pool belongs to.")
    role: Literal["prefill", "decode", "workers"] = Field(description="Which of its roles.")
    replicas: int = Field(ge=0, le=10000, description="Target, written through the scale subresource.")


class WorkerPoolStatus(Wire):
    """What the operator counts; read by HPA and KEDA through `/scale`."""

    replicas: int = Field(default=0, description="Workers that exist, ready or not.")
    ready_replicas: int = Field(default=0, description="Workers that serve.")
    selector: str | None = Field(default=None, description="Selects exactly this pool's pods.")
