"""Short replays, as documents."""

import json
from pathlib import Path
from typing import Any

import pytest

from tandem_autoscaler.cli.main import main
from tests.cli.manifests import written

SHORT = ("--trace", "azure-conv-2023", "--scale", "12", "--duration", "5m")


def replayed(
    capsys: pytest.CaptureFixture[str], folder: Path, manifest: dict[str, Any], *arguments: str
) -> dict[str, Any]:
    assert main(["replay", "-f", written(folder, manifest), *SHORT, "-o", "json", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def row(document: dict[str, Any], policy: str = "tandem") -> dict[str, Any]:
    return next(one for one in document["policies"] if one["policy"] == policy)


def gpu_hours(found: dict[str, Any]) -> float:
    return float(found["gpuHoursPrefill"] + found["gpuHoursDecode"])
