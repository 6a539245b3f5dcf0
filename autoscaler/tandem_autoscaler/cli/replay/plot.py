"""Load and replicas over time, as a picture."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.replay.play import OURS, Stage
from tandem_autoscaler.cli.replay.recommendation import ROLES, targets
from tandem_autoscaler.simulator.run import Result

_OURS_COLOUR = "#d1410c"
_COLOURS = ("#4269d0", "#3ca951", "#9c6b4e", "#a463f2", "#6cc5b0", "#e0a800", "#ff8ab7", "#5b7083")
_LOAD_COLOUR = "#888888"
# At most so many points on the axis of time.
_BINS = 240


def draw(stage: Stage, results: Mapping[str, Result], path: Path) -> None:
    """Requests, then a panel of replicas per role. Raises Mistake when the file cannot be written."""
    figure, panels = plt.subplots(
        3, 1, figsize=(10, 7.5), sharex=True, layout="constrained", height_ratios=(2, 3, 3)
    )
    _load(panels[0], stage)
    others = iter(_COLOURS * 4)
    colours = {name: _OURS_COLOUR if name == OURS else next(others) for name in results}
    for panel, role in zip(panels[1:], ROLES, strict=True):
        for name, result in results.items():
            both = result.attainment.joint
            panel.step(
                result.log[:, 0] / 60.0, targets(result, role), where="post", color=colours[name],
                linewidth=2.2 if name == OURS else 1.3, zorder=4 if name == OURS else 3,
                label=f"{name} ({100 * both:.1f} %, {result.gpu_hours:.0f} GPU-h)",
            )  # fmt: skip
        panel.set_ylabel(f"{role} replicas")
        panel.set_ylim(bottom=0)
    panels[1].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=9)
    panels[-1].set_xlabel("minutes")
    for panel in panels:
        panel.grid(color="#eeeeee", zorder=0)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_xlim(0, stage.trace.duration_seconds / 60.0)
    try:
        figure.savefig(path, dpi=130, facecolor="white")
    except (OSError, ValueError) as error:
        raise Mistake(f"--plot {path}: {getattr(error, 'strerror', None) or error}") from None
    finally:
        plt.close(figure)


def _load(panel: Axes, stage: Stage) -> None:
    trace = stage.trace
    edges = np.linspace(
        0.0, trace.duration_seconds, max(2, min(_BINS, int(trace.duration_seconds / 30.0))) + 1
    )
    count, _ = np.histogram(trace.arrival, bins=edges)
    panel.fill_between(edges[:-1] / 60.0, count / np.diff(edges), step="post", color=_LOAD_COLOUR, alpha=0.5)
    panel.set_ylabel("requests/s")
    panel.set_ylim(bottom=0)
    panel.set_title(f"{stage.service.name} on {trace.name}, workers {stage.worker.hardware.name}", loc="left",
                    fontweight="bold")  # fmt: skip
