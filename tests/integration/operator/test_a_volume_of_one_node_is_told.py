"""Field case E9 with the real operator and its real rights: the claim's access modes are asked of the API server."""

import pytest

from tandem_api import names
from tests.integration.operator.conftest import Manifest, Operator, Place, colocated, eventually

pytestmark = pytest.mark.integration


def claim(name: str, mode: str) -> Manifest:
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
    }


def test_several_workers_on_a_read_write_once_claim(place: Place, operator: Operator) -> None:
    for name, mode in (("one-node", "ReadWriteOnce"), ("shared", "ReadOnlyMany")):
        place.cluster.api.post(place.path("persistentvolumeclaims"), claim(name, mode))
        place.apply(name, colocated(model={"uri": f"pvc://{name}/llama"}))
    told = eventually(lambda: place.condition("one-node", "SettingsSound"), what="the condition is there")
    assert (told["status"], told["reason"]) == ("False", "VolumeNotShared")
    assert "claim one-node is ReadWriteOnce, and up to 4 pods mount it" in told["message"]
    for name in ("one-node", "shared"):
        eventually(lambda name=name: len(place.workers(name)) == 1, what="it holds nothing back")
    assert place.condition("shared", "SettingsSound") is None
    assert place.service("one-node")["status"]["observedGeneration"] == 1
    assert place.workers("one-node")[0]["metadata"]["labels"][names.LABEL_SERVING] == "true"
