"""A real API server with CRDs of an earlier version: the operator says which fields are lost, and goes on (D19)."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import LightCluster
from tandem_api import names
from tandem_api.crd import inference_service_crd
from tests.integration.operator.conftest import Operator, Place, disaggregated, eventually

pytestmark = pytest.mark.integration
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferenceservices.tandem.dev"
PUBLISHED = f"/openapi/v3/apis/{names.API_VERSION}"


def published_fields(cluster: LightCluster) -> set[str]:
    """Of the status, as any client reads them."""
    for name, schema in cluster.api.get(PUBLISHED)["components"]["schemas"].items():
        if name.endswith("InferenceService"):
            return set(schema["properties"]["status"]["properties"])
    return set()


@pytest.fixture
def mend(cluster: LightCluster) -> Iterator[Callable[[], None]]:
    """Puts a CRD without status.gpus and without spec.drain in place of ours; call it to have ours back."""
    ours = inference_service_crd()
    older: Any = copy.deepcopy(ours)
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del schema["status"]["properties"]["gpus"]
    del schema["spec"]["properties"]["drain"]

    def put(crd: Any) -> None:
        cluster.api.patch(CRD, {"spec": {"versions": crd["spec"]["versions"]}})

    put(older)
    eventually(lambda: "gpus" not in published_fields(cluster), what="the older schema is published")
    yield lambda: put(ours)
    put(ours)
    eventually(lambda: "gpus" in published_fields(cluster), what="our schema is published")


def test_what_is_lost_is_said_until_the_crds_are_applied(
    place: Place, mend: Callable[[], None], start_operator: Callable[..., Operator]
) -> None:
    operator = start_operator("--resync-seconds", "3")
    place.apply("chat", disaggregated(gpuBudget=4))
    place.run_all("chat", count=2)
    found = eventually(lambda: place.condition("chat", "SchemaCurrent"), seconds=60)
    assert (found["status"], found["reason"]) == ("False", "SchemaOutdated")
    assert "InferenceService.spec.drain" in found["message"]
    assert "InferenceService.status.gpus" in found["message"]
    assert "gpus" not in place.service("chat")["status"]
    assert found["message"] in operator.log.read_text()
    # It goes on working all the same.
    eventually(lambda: place.service("chat")["status"]["summary"] == "2/2")
    assert "field not declared in schema" not in operator.log.read_text()

    mend()
    eventually(lambda: place.condition("chat", "SchemaCurrent") is None, seconds=60)
    assert eventually(lambda: place.service("chat")["status"].get("gpus")) == {"used": 2, "budget": 4}
