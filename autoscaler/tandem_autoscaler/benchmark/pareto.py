"""Joint attainment against GPU-hours, one picture per trace."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from tandem_autoscaler.benchmark.contenders import DYNAMO, OURS
from tandem_autoscaler.benchmark.frontier import Point, frontier, mean
from tandem_autoscaler.benchmark.row import Row, gpu_hours

_OURS_COLOUR, _HINDSIGHT_COLOUR = "#d1410c", "#111111"
_COLOURS = (
    "#4269d0", "#3ca951", "#9c6b4e", "#a463f2", "#6cc5b0", "#e0a800", "#ff8ab7", "#5b7083", "#97bbf5", "#2f7d4f",
    "#b04a8b", "#8a8f00", "#7a5195",
)  # fmt: skip
_TICKS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
_LEAST, _MOST = 0.5, 0.9995


def draw(
    trace: str, rows: Sequence[Row], sweeps: Sequence[Row], hindsight: Sequence[Point], folder: Path
) -> Path:
    """`rows` and `sweeps` of this trace, means over their seeds; `hindsight` is the curve of one seed."""
    figure, axes = plt.subplots(figsize=(10, 6.5), layout="constrained")
    labels: list[tuple[float, float, str, str]] = []
    if hindsight:
        line = [point for point in frontier(hindsight) if point.attainment >= _LEAST]
        axes.plot(
            [point.gpu_hours for point in line], _height([point.attainment for point in line]),
            color=_HINDSIGHT_COLOUR, linestyle="--", linewidth=1.6, zorder=4,
        )  # fmt: skip
        labels.append(
            (line[-1].gpu_hours, float(_height([line[-1].attainment])[0]), "hindsight", _HINDSIGHT_COLOUR)
        )
    colours = _colours([*rows, *sweeps])
    for policy, colour in colours.items():
        swept = _points([row for row in [*sweeps, *rows] if row["policy"] == policy])
        chosen = {
            tuned: [_mean(group)]
            for tuned in (False, True)
            if (group := [row for row in rows if row["policy"] == policy and row["tuned"] is tuned])
        }
        ours = policy.startswith(OURS)
        seen = [point for point in swept if point.attainment >= _LEAST]
        line = frontier(seen)
        axes.plot(
            [point.gpu_hours for point in seen], _height([point.attainment for point in seen]),
            color=colour, marker=".", markersize=5, linestyle="", alpha=0.5, zorder=3,
        )  # fmt: skip
        axes.plot(
            [point.gpu_hours for point in line], _height([point.attainment for point in line]),
            color=colour, linewidth=2.4 if ours else 1.2, alpha=1.0 if ours else 0.75, zorder=5 if ours else 3,
        )  # fmt: skip
        for tuned, points in chosen.items():
            for point in points:
                axes.plot(
                    point.gpu_hours, _height([max(_LEAST, point.attainment)])[0],
                    marker="o" if tuned else "s", markersize=9 if ours else 6, color=colour,
                    markerfacecolor=colour if tuned else "white", zorder=6,
                )  # fmt: skip
        named = chosen.get(True) or chosen.get(False) or line[-1:]
        if named:
            labels.append(
                (named[0].gpu_hours, float(_height([max(_LEAST, named[0].attainment)])[0]), policy, colour)
            )
    _frame(axes, trace, hindsight, rows)
    _label(axes, labels)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"pareto-{trace}.png"
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)
    return path


def _height(attainments: Sequence[float]) -> NDArray[np.float64]:
    """Nines: each factor of ten fewer misses is one step up."""
    return -np.log10(1.0 - np.minimum(np.asarray(attainments, dtype=float), _MOST))


def _colours(rows: Sequence[Row]) -> Mapping[str, str]:
    policies = sorted(
        {row["policy"] for row in rows}, key=lambda name: (not name.startswith(OURS), name != DYNAMO, name)
    )
    others = iter(_COLOURS * 3)
    return {name: _OURS_COLOUR if name == OURS else next(others) for name in policies}


def _points(rows: Sequence[Row]) -> list[Point]:
    """One per constant: means over seeds."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(repr(sorted(row["constants"].items())), []).append(row)
    return [_mean(group) for group in groups.values()]


def _mean(rows: Sequence[Row]) -> Point:
    return Point(
        mean([gpu_hours(row) for row in rows]).value, mean([row["joint_attainment"] for row in rows]).value
    )


def _frame(axes: Axes, trace: str, hindsight: Sequence[Point], rows: Sequence[Row]) -> None:
    axes.set_title(f"{trace}: who keeps the promise, and for how much", loc="left", fontweight="bold", pad=22)
    axes.set_xlabel("GPU-hours")
    axes.set_ylabel("requests that meet TTFT and TPOT, of the feasible ones")
    axes.set_yticks(_height(_TICKS), [f"{100 * tick:g} %" for tick in _TICKS])
    axes.set_ylim(_height([_LEAST])[0] - 0.05, _height([_MOST])[0] + 0.1)
    axes.axhline(_height([0.99])[0], color="#999999", linewidth=0.8, zorder=1)
    cheapest = min((point.gpu_hours for point in hindsight), default=0.0)
    hours = [gpu_hours(row) for row in rows]
    if hours:
        least = min([cheapest or min(hours), *hours])
        axes.set_xlim(0.92 * least, min(1.05 * max(hours), 3.0 * least))
    axes.grid(axis="both", color="#eeeeee", zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.text(
        0.0, 1.015,
        "open square: published defaults    disc: tuned on another seed    line: the best that its constant can do",
        transform=axes.transAxes, fontsize=9, color="#666666",
    )  # fmt: skip


def _label(axes: Axes, labels: Sequence[tuple[float, float, str, str]]) -> None:
    """Beside their points, pushed apart where they would cover each other."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    height, width = 0.028 * (top - bottom), 0.15 * (right - left)
    placed: list[tuple[float, float]] = []
    for x, y, text, colour in sorted(labels, key=lambda label: -label[1]):
        x = min(x, right)
        at = y
        while any(abs(at - other_y) < height and abs(x - other_x) < width for other_x, other_y in placed):
            at -= height
        placed.append((x, at))
        axes.annotate(
            text, (x, y), (x + 0.012 * (right - left), at), color=colour, fontsize=9, va="center",
            fontweight="bold" if text.startswith(OURS) else "normal", annotation_clip=False,
        )  # fmt: skip
