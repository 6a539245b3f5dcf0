"""Colocated or Disaggregated, told: for people and for programs. What `diagnose` and `size` have in common."""

from typing import Any

from tandem_api.durations import format_seconds
from tandem_autoscaler.diagnose.diagnosis import Modes


def sentence(modes: Modes) -> str:
    """One line of markup, in the manifest's words."""
    compared = modes.compared
    roles = "" if compared.prefill is None else f" ({compared.prefill} prefill + {compared.decode} decode)"
    even = (
        "at no TPOT target is Disaggregated the smaller one"
        if modes.even_tpot_seconds is None
        else f"Disaggregated is the smaller one for TPOT targets up to {_short(modes.even_tpot_seconds)}"
    )
    advice = f"; [bold]mode: {modes.advised}[/] is advised" if modes.advised else ""
    return (
        f"[bold]mode[/]: Colocated {_needs(compared.colocated)}, Disaggregated {_needs(compared.disaggregated)}{roles} "
        f"for this traffic; {even}{advice}"
    )


def document(modes: Modes) -> dict[str, Any]:
    """GPUs; null: no number keeps both promises."""
    compared = modes.compared
    return {
        "now": modes.now, "advised": modes.advised, "colocatedGpus": compared.colocated,
        "disaggregatedGpus": compared.disaggregated, "prefill": compared.prefill, "decode": compared.decode,
        "evenTpotSeconds": modes.even_tpot_seconds,
    }  # fmt: skip


def _needs(gpus: int | None) -> str:
    if gpus is None:
        return "cannot keep both promises"
    return f"needs {gpus} GPU{'s' if gpus > 1 else ''}"


def _short(seconds: float) -> str:
    return format_seconds(float(f"{seconds:.2g}"))
