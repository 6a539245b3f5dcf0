"""What ails a worker stands in the status, in the words of the one who knows; the fleet is not grown for it."""

import pytest

from tests.integration.operator.conftest import Manifest, Operator, Place, colocated, eventually

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("waiting", "message", "last", "reason", "words"),
    [
        ("ImagePullBackOff", 'Back-off pulling image "no/such:1"', None, "ImagePullFailed", "no/such:1"),
        ("CreateContainerConfigError", 'secret "hf-token" not found', None, "SecretNotFound", "hf-token"),
        (
            "CrashLoopBackOff",
            "back-off 10s restarting failed container",
            {
                "exitCode": 1,
                "reason": "Error",
                "message": "Traceback ...\nValueError: no kernel for this GPU",
            },
            "CrashLoop",
            "ValueError: no kernel for this GPU",
        ),
        (
            "CrashLoopBackOff",
            "back-off",
            {
                "exitCode": 78,
                "reason": "Error",
                "message": "InsufficientKVCache: weights 16.1 GB + KV 17.2 GB\n",
            },
            "InsufficientKVCache",
            "weights 16.1 GB",
        ),
        (
            "CrashLoopBackOff",
            "back-off",
            {"exitCode": 137, "reason": "OOMKilled"},
            "OutOfMemory",
            "OOMKilled",
        ),
    ],
)
def test_a_container_that_cannot_run(
    place: Place,
    operator: Operator,
    waiting: str,
    message: str,
    last: Manifest | None,
    reason: str,
    words: str,
) -> None:
    place.apply("chat", colocated())
    pod = eventually(lambda: place.workers("chat"))[0]

    place.wait(pod, waiting, message, last=last)

    condition = eventually(
        lambda: (c := place.condition("chat", "WorkersReady")) and c["reason"] == reason and c
    )
    assert condition["status"] == "False"
    assert words in condition["message"]
    assert place.reason("chat") == reason
    assert len(place.workers("chat")) == 1
    assert words in eventually(lambda: place.told("WorkerFailing"))[0]

    place.run(pod)
    eventually(lambda: place.reason("chat", "WorkersReady") == "AllReady")


def test_no_gpu_left(place: Place, operator: Operator) -> None:
    place.apply("chat", colocated())
    pod = eventually(lambda: place.workers("chat"))[0]
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    place.set_status(
        pod,
        {
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
            ]
        },
    )
    condition = eventually(
        lambda: (c := place.condition("chat", "WorkersReady")) and c["reason"] == "InsufficientGPU" and c
    )
    assert words in condition["message"]


def test_a_service_whose_only_worker_fails_is_not_ready_any_more(place: Place, operator: Operator) -> None:
    place.apply("chat", colocated())
    pod = place.run_all("chat", count=1)[0]
    place.run_router("chat")
    eventually(lambda: place.reason("chat") == "AllReady")
    place.wait(pod, "CrashLoopBackOff", "back-off", last={"exitCode": 139, "reason": "Error"})
    eventually(lambda: (place.condition("chat", "Ready") or {}).get("status") == "False", seconds=5)


def test_a_pod_that_the_server_refuses(place: Place, operator: Operator) -> None:
    place.cluster.api.post(
        place.path("resourcequotas"), {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    )
    eventually(lambda: place.items("resourcequotas")[0].get("status", {}).get("hard"))
    place.apply("chat", colocated())
    condition = eventually(
        lambda: (c := place.condition("chat", "WorkersReady")) and c["reason"] == "PodRefused" and c
    )
    assert "exceeded quota" in condition["message"]


def test_a_template_that_kubernetes_refuses(place: Place, operator: Operator) -> None:
    place.apply("chat", colocated(router={"template": {"spec": {"restartPolicy": "Sometimes"}}}))
    condition = eventually(
        lambda: (c := place.condition("chat", "Ready")) and c["reason"] == "PodRefused" and c
    )
    assert "restartPolicy" in condition["message"]
    assert len(eventually(lambda: place.workers("chat"))) == 1


def test_a_spec_that_cannot_be_carried_out_leaves_what_runs(place: Place, operator: Operator) -> None:
    place.apply("chat", colocated())
    place.run_all("chat", count=1)
    wrong = {"spec": {"containers": [{"name": "engine", "args": ["--port", "1"]}]}}
    place.apply("chat", colocated(workers={"minReplicas": 1, "maxReplicas": 4, "template": wrong}))

    condition = eventually(
        lambda: (c := place.condition("chat", "Ready")) and c["reason"] == "InvalidSpec" and c
    )
    assert "engine.extraArgs" in condition["message"]
    assert len(place.workers("chat")) == 1

    place.apply("chat", colocated())
    eventually(lambda: place.reason("chat") != "InvalidSpec")


def test_somebody_elses_object_is_left_as_it_is(place: Place, operator: Operator) -> None:
    theirs = {"metadata": {"name": "chat-router"}, "data": {}}
    account = place.cluster.api.post(place.path("serviceaccounts"), {"metadata": theirs["metadata"]})
    place.cluster.api.post(
        place.path("services"),
        {"metadata": {"name": "chat"}, "spec": {"ports": [{"port": 1}], "selector": {"a": "b"}}},
    )
    place.apply("chat", colocated())

    condition = eventually(
        lambda: (c := place.condition("chat", "Ready")) and c["reason"] == "NameConflict" and c
    )
    assert "ServiceAccount chat-router" in condition["message"]
    now = place.cluster.api.get(place.path("serviceaccounts", "chat-router"))
    assert now["metadata"]["resourceVersion"] == account["metadata"]["resourceVersion"]
    # The Service has a second choice of name.
    assert place.cluster.api.get(place.path("services", "chat"))["spec"]["selector"] == {"a": "b"}
    eventually(
        lambda: place.service("chat")["status"]["url"] == f"http://chat-router.{place.namespace}.svc/v1"
    )
    eventually(lambda: place.told("NameConflict"))


def test_a_pod_name_that_is_taken_is_passed_over(place: Place, operator: Operator) -> None:
    place.cluster.api.post(
        place.path("pods"),
        {"metadata": {"name": "chat-0"}, "spec": {"containers": [{"name": "x", "image": "x"}]}},
    )
    place.apply("chat", colocated())
    assert [pod["metadata"]["name"] for pod in eventually(lambda: place.workers("chat"))] == ["chat-1"]
