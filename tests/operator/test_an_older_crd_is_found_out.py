"""The operator compares the cluster's schema with its own (field case D19); what is lost in silence is told aloud."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from tandem_api.crd import inference_service_crd, worker_pool_crd
from tandem_api.kubernetes.cluster import Unavailable
from tandem_operator.plan.plan import plan
from tandem_operator.plan.schema import outdated_sentence, storable
from tandem_operator.watch.schema import SchemaWatch, missing_fields
from tests.operator.fleet import Fleet

Manifest = dict[str, Any]


def published(*drop: str) -> Manifest:
    """As the API server publishes our CRDs, less these fields (``Kind.path.of.field``)."""
    schemas = {}
    for crd in (inference_service_crd(), worker_pool_crd()):
        kind = crd["spec"]["names"]["kind"]
        schema = copy.deepcopy(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        for path in drop:
            owner, *fields = path.split(".")
            if owner == kind:
                node = schema
                for name in fields[:-1]:
                    node = node["items"] if name == "*" else node["properties"][name]
                del node["properties"][fields[-1]]
        schema["x-kubernetes-group-version-kind"] = [
            {"group": "tandem.dev", "version": "v1alpha1", "kind": kind}
        ]
        schemas[f"dev.tandem.v1alpha1.{kind}"] = schema
    return {"components": {"schemas": schemas}}


class Server:
    def __init__(self, document: Manifest) -> None:
        self.document: Manifest | Exception = document

    async def openapi(self, group_version: str) -> Manifest:
        assert group_version == "tandem.dev/v1alpha1"
        if isinstance(self.document, Exception):
            raise self.document
        return self.document


def test_the_operators_own_crds_lack_nothing() -> None:
    assert missing_fields(published()) == ()


@pytest.mark.parametrize(
    "field",
    [
        "InferenceService.spec.router",
        "InferenceService.spec.decode.gpus",
        "InferenceService.status.gpus",
        "InferenceService.status.conditions.*.reason",
        "WorkerPool.status.selector",
    ],
)
def test_a_field_that_is_missing_is_named(field: str) -> None:
    assert missing_fields(published(field)) == (field,)
    assert field in outdated_sentence((field,))


def test_a_newer_schema_than_the_operators_lacks_nothing() -> None:
    newer = published()
    schema = newer["components"]["schemas"]["dev.tandem.v1alpha1.InferenceService"]
    schema["properties"]["spec"]["properties"]["later"] = {"type": "string"}
    assert missing_fields(newer) == ()


def test_a_document_without_our_kinds_lacks_all_and_says_so_in_one_line() -> None:
    said = outdated_sentence(missing_fields({}))
    assert "InferenceService.spec" in said and "\n" not in said and len(said) < 400


async def test_what_is_found_is_told_once_and_taken_back_when_it_is_mended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server(published("InferenceService.status.gpus"))
    watch = SchemaWatch(server)
    assert [await watch.look(), await watch.look()] == [True, False]
    assert watch.missing == ("InferenceService.status.gpus",)
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
    server.document = Unavailable("no answer")
    assert not await watch.look()
    assert watch.missing, "what was known is not forgotten"
    server.document = published()
    assert await watch.look()
    assert watch.missing == ()


def test_every_service_says_so_and_goes_on_being_served() -> None:
    fleet = Fleet()
    fleet.settle()
    assert not [each for each in fleet.service["status"]["conditions"] if each["type"] == "SchemaCurrent"]
    missing = ("InferenceService.spec.drain", "InferenceService.status.gpus", "WorkerPool.status.selector")
    decided = plan(replace(fleet.observed(), missing_fields=missing), fleet.now, fleet.settings)
    assert decided.status is not None
    # One field more than the schema has, and the API server takes none of them.
    assert "gpus" not in decided.status and "roles" in decided.status
    assert [sorted(status) for status in decided.pool_status.values()] == [["readyReplicas", "replicas"]] * 2
    found = {each["type"]: each for each in decided.status["conditions"]}
    assert (found["SchemaCurrent"]["status"], found["SchemaCurrent"]["reason"]) == ("False", "SchemaOutdated")
    assert found["Ready"]["status"] == "True"
    assert [event.type for event in decided.events] == ["Warning"]


def test_what_is_left_out_may_lie_deep() -> None:
    status = {
        "conditions": [{"type": "Ready", "reason": "A"}],
        "roles": {"decode": {"ready": 1, "summary": "1/1"}},
    }
    missing = ("InferenceService.status.conditions.*.reason", "InferenceService.status.roles.*.summary")
    assert storable(status, "InferenceService", missing) == {
        "conditions": [{"type": "Ready"}], "roles": {"decode": {"ready": 1}}
    }  # fmt: skip
    assert storable(status, "WorkerPool", missing) == status
