"""Rollouts on the real API server."""

import pytest

from tandem_api import names
from tests.integration.operator.conftest import Operator, Place, disaggregated, eventually

pytestmark = pytest.mark.integration


def test_editing_decode_never_touches_prefill(place: Place, operator: Operator) -> None:
    place.apply("chat", disaggregated())
    place.run_all("chat", count=2)
    eventually(lambda: place.service("chat").get("status", {}).get("summary") == "2/2")
    prefill = place.workers("chat", role="prefill")[0]["metadata"]
    old = place.workers("chat", role="decode")[0]["metadata"]["uid"]

    changed = {"minReplicas": 1, "maxReplicas": 4, "engine": {"maxSequences": 64}}
    place.apply("chat", disaggregated(decode=changed))

    # No budget: the new worker comes first, the old one goes when it serves.
    both = eventually(lambda: (pods := place.workers("chat", role="decode")) and len(pods) == 2 and pods)
    new = next(pod for pod in both if pod["metadata"]["uid"] != old)
    assert "--max-num-seqs" in new["spec"]["containers"][0]["args"]
    place.run(new)
    eventually(
        lambda: (
            [pod["metadata"]["uid"] for pod in place.workers("chat", role="decode")]
            == [new["metadata"]["uid"]]
        ),
        seconds=20,
    )
    now = place.workers("chat", role="prefill")[0]["metadata"]
    assert (now["uid"], now["resourceVersion"]) == (prefill["uid"], prefill["resourceVersion"])


def test_new_targets_reach_running_workers_without_a_restart(place: Place, operator: Operator) -> None:
    place.apply("chat", disaggregated(slo={"ttft": "1s", "tpot": "40ms"}))
    before = {pod["metadata"]["uid"] for pod in place.run_all("chat", count=2)}
    place.apply("chat", disaggregated(slo={"ttft": "500ms", "tpot": "40ms"}))
    eventually(
        lambda: (
            {pod["metadata"]["annotations"][names.ANNOTATION_TTFT_TARGET] for pod in place.workers("chat")}
            == {"0.5"}
        )
    )
    assert {pod["metadata"]["uid"] for pod in place.workers("chat")} == before


def test_a_change_of_mode_keeps_the_old_workers_until_the_new_ones_serve(
    place: Place, operator: Operator
) -> None:
    place.apply("chat", disaggregated())
    place.run_all("chat", count=2)
    place.run_router("chat")
    eventually(lambda: place.reason("chat") == "AllReady")
    router = place.cluster.api.get(place.path("deployments", "chat-router", group="apps/v1"))

    place.cluster.api.patch(
        place.path(names.INFERENCE_SERVICES, "chat"),
        {
            "spec": {
                "mode": "Colocated",
                "prefill": None,
                "decode": None,
                "workers": {"minReplicas": 1, "maxReplicas": 1},
            }
        },
    )

    new = eventually(lambda: place.workers("chat", role="workers"))[0]
    assert len(place.workers("chat", serving=True)) == 3
    untouched = place.cluster.api.get(place.path("deployments", "chat-router", group="apps/v1"))
    assert untouched["metadata"]["generation"] == router["metadata"]["generation"]

    place.run(new)
    eventually(
        lambda: (
            "--selector"
            in place.cluster.api.get(place.path("deployments", "chat-router", group="apps/v1"))["spec"][
                "template"
            ]["spec"]["containers"][0]["args"]
        )
    )
    # The old router still sends to the old workers, until the new one has taken over.
    assert len(place.workers("chat", serving=True)) == 3
