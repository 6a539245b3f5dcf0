"""The worker pod (field cases C4, C5, E3, E6, E7, E8, F6)."""

from typing import Any

import pytest

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec
from tandem_operator.build.images import Images
from tandem_operator.build.worker_pod import worker_pods
from tandem_operator.observe.pod import gpus_of, is_gpu
from tandem_operator.observe.spec import gpus_per_worker, read_spec
from tests.operator.fleet import colocated, spec

OWNER = {"uid": "u"}


def pod(wish: dict[str, Any], role: str = "workers", images: Images | None = None) -> dict[str, Any]:
    typed, sentence = read_spec(wish)
    assert typed is not None, sentence
    (made,) = worker_pods(
        namespace="team",
        service="chat",
        spec=typed,
        role_name=role,
        ordinal=3,
        owner=OWNER,
        images=images or Images(),
    )
    return made


def engine(wish: dict[str, Any], role: str = "workers") -> dict[str, Any]:
    return pod(wish, role)["spec"]["containers"][0]


def with_template(**template_spec: Any) -> dict[str, Any]:
    return colocated(workers={"template": {"spec": template_spec}})


def test_it_is_named_by_ordinal_and_found_by_service_role_and_serving() -> None:
    made = pod(spec(), "decode")
    assert made["metadata"]["name"] == "chat-3"
    labels = made["metadata"]["labels"]
    assert labels[names.LABEL_SERVICE] == "chat"
    assert labels[names.LABEL_ROLE] == "decode"
    assert labels[names.LABEL_SERVING] == "true"
    assert labels[names.LABEL_MANAGED_BY] == "tandem"
    assert made["metadata"]["ownerReferences"] == [OWNER]


def test_only_args_are_set_so_that_a_stock_image_works_too() -> None:
    assert "command" not in engine(colocated())
    assert engine(colocated())["args"]


def test_a_slow_model_has_its_whole_start_up_time() -> None:
    for timeout, least in (("30m", 1800), ("1h", 3600), ("10s", 600)):
        probe = engine(colocated(engine={"startupTimeout": timeout}))["startupProbe"]
        assert probe["failureThreshold"] * probe["periodSeconds"] >= least


def test_a_busy_engine_is_not_taken_for_a_dead_one() -> None:
    made = engine(colocated())
    liveness, readiness = made["livenessProbe"], made["readinessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 120
    assert liveness["timeoutSeconds"] >= 5
    assert readiness["timeoutSeconds"] >= 5
    assert liveness != readiness


def pre_stop_seconds(script: str) -> int:
    """The longest that preStop may take: by the gate, or in an image without it."""
    settle, gate, stock = (
        int(script.partition(word)[2].split(";")[0].split()[0])
        for word in ("--settle ", "--deadline ", "sleep ")
    )
    return max(settle + gate, stock)


def test_a_worker_that_somebody_else_deletes_serves_on_until_the_router_let_go() -> None:
    script = engine(colocated())["lifecycle"]["preStop"]["exec"]["command"][2]
    assert "close --settle 3 " in script


@pytest.mark.parametrize("deadline", ["1s", "30s", "300s", "1h"])
def test_the_grace_period_outlasts_pre_stop_and_shutdown(deadline: str) -> None:
    made = pod(colocated(drain={"deadline": deadline}))["spec"]
    args = made["containers"][0]["args"]
    shutdown = int(args[args.index("--shutdown-timeout") + 1])
    script = made["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][2]
    assert made["terminationGracePeriodSeconds"] > pre_stop_seconds(script) + shutdown


@pytest.mark.parametrize("grace", [10, 11, 30, 60, 900])
def test_a_grace_period_of_the_users_is_kept_and_everything_fits_into_it(grace: int) -> None:
    made = pod(with_template(terminationGracePeriodSeconds=grace))["spec"]
    assert made["terminationGracePeriodSeconds"] == grace
    args = made["containers"][0]["args"]
    shutdown = int(args[args.index("--shutdown-timeout") + 1])
    script = made["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][2]
    assert shutdown >= 1
    assert pre_stop_seconds(script) + shutdown < grace


def test_the_side_channel_is_the_pods_own_address_and_absent_when_colocated() -> None:
    env = {entry["name"]: entry for entry in engine(spec(), "prefill")["env"]}
    assert env["VLLM_NIXL_SIDE_CHANNEL_HOST"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    port = int(env["VLLM_NIXL_SIDE_CHANNEL_PORT"]["value"])
    assert port not in (names.ENGINE_PORT, names.ROUTER_METRICS_PORT)
    assert "UCX_TLS" not in env
    assert not [entry for entry in engine(colocated())["env"] if "NIXL" in entry["name"]]
    on_cpu = {entry["name"]: entry for entry in engine(spec(prefill={"gpus": 0}), "prefill")["env"]}
    assert on_cpu["UCX_TLS"]["value"] == "tcp"


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-3g.40gb", "amd.com/gpu"])
def test_one_kind_of_gpu_is_asked_for_and_counted(resource: str) -> None:
    made = pod(colocated(workers={"gpus": 2, "gpuResource": resource}))
    assert made["spec"]["containers"][0]["resources"] == {"limits": {resource: "2"}}
    assert is_gpu(resource)
    assert gpus_of(made["spec"]) == 2


def test_without_gpus_no_device_is_asked_for() -> None:
    assert "resources" not in engine(colocated(workers={"gpus": 0}))


@pytest.mark.parametrize(
    ("resources", "sentence"),
    [
        ({"limits": {"nvidia.com/mig-3g.40gb": 1}}, "set gpuResource: nvidia.com/mig-3g.40gb"),
        ({"requests": {"nvidia.com/gpu": "2"}}, "template asks for 2 nvidia.com/gpu, gpus says 1"),
        ({"limits": {"nvidia.com/gpu": "many"}}, "which is no number"),
    ],
)
def test_a_template_that_would_outwit_the_gpu_budget_is_refused(resources: Any, sentence: str) -> None:
    wish = with_template(containers=[{"name": "engine", "resources": resources}])
    assert sentence in str(read_spec(wish)[1])


def test_gpus_by_resource_claim_are_unknown_not_zero() -> None:
    claims = {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}}
    typed = InferenceServiceSpec.model_validate(colocated(workers={"gpus": 0, "template": claims}))
    assert gpus_per_worker(typed.roles["workers"]) is None


def test_shared_memory_is_memory_unless_the_user_mounts_their_own() -> None:
    made = pod(colocated())["spec"]
    mount = next(mount for mount in made["containers"][0]["volumeMounts"] if mount["mountPath"] == "/dev/shm")
    volume = next(volume for volume in made["volumes"] if volume["name"] == mount["name"])
    assert volume["emptyDir"] == {"medium": "Memory"}

    own = with_template(
        containers=[{"name": "engine", "volumeMounts": [{"name": "mine", "mountPath": "/dev/shm"}]}],
        volumes=[{"name": "mine", "emptyDir": {"medium": "Memory", "sizeLimit": "20Gi"}}],
    )
    made = pod(own)["spec"]
    mounts = [mount for mount in made["containers"][0]["volumeMounts"] if mount["mountPath"] == "/dev/shm"]
    assert [mount["name"] for mount in mounts] == ["mine"]
    assert mount["name"] not in [volume["name"] for volume in made["volumes"]]


def test_the_users_template_is_merged_not_appended() -> None:
    wish = colocated(
        model={"uri": "hf://a/b", "tokenSecret": "hf-token"},
        workers={
            "template": {
                "metadata": {"labels": {"team": "x", names.LABEL_SERVING: "no"}, "annotations": {"a": "b"}},
                "spec": {
                    "nodeSelector": {"gpu": "h100"},
                    "containers": [
                        {
                            "name": "engine",
                            "image": "my/vllm:1",
                            "env": [{"name": "HF_TOKEN", "value": "literal"}, {"name": "MORE", "value": "1"}],
                            "resources": {"limits": {"cpu": "4"}},
                            "livenessProbe": {"periodSeconds": 60},
                            "readinessProbe": {"exec": {"command": ["true"]}},
                        },
                        {"name": "sidecar", "image": "s"},
                    ],
                },
            }
        },
    )
    made = pod(wish)
    assert made["metadata"]["labels"]["team"] == "x"
    assert made["metadata"]["labels"][names.LABEL_SERVING] == "true"
    assert made["metadata"]["annotations"]["a"] == "b"
    containers = made["spec"]["containers"]
    assert [container["name"] for container in containers] == ["engine", "sidecar"]
    worker = containers[0]
    assert worker["image"] == "my/vllm:1"
    assert worker["env"] == [{"name": "HF_TOKEN", "value": "literal"}, {"name": "MORE", "value": "1"}]
    assert worker["resources"]["limits"] == {"cpu": "4", "nvidia.com/gpu": "1"}
    assert worker["livenessProbe"]["periodSeconds"] == 60
    assert "httpGet" in worker["livenessProbe"]
    assert worker["readinessProbe"] == {"exec": {"command": ["true"]}}


def test_a_null_in_the_template_removes() -> None:
    made = engine(with_template(containers=[{"name": "engine", "livenessProbe": None}]))
    assert "livenessProbe" not in made


def test_the_token_is_a_reference_and_never_a_value() -> None:
    env = engine(colocated(model={"uri": "hf://a/b", "tokenSecret": "hf-token"}))["env"]
    assert env == [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}]


def test_a_claim_is_mounted_read_only() -> None:
    made = pod(colocated(model={"uri": "pvc://weights/llama"}))["spec"]
    volume = next(volume for volume in made["volumes"] if "persistentVolumeClaim" in volume)
    assert volume["persistentVolumeClaim"] == {"claimName": "weights", "readOnly": True}
    mount = next(mount for mount in made["containers"][0]["volumeMounts"] if mount["name"] == volume["name"])
    assert mount["readOnly"] is True
    assert made["containers"][0]["args"][0] == f"{mount['mountPath']}/llama"


def test_the_targets_travel_as_annotations_which_the_pod_mounts() -> None:
    made = pod(colocated(slo={"ttft": "1s", "tpot": "40ms"}))
    assert made["metadata"]["annotations"] == {
        names.ANNOTATION_TTFT_TARGET: "1",
        names.ANNOTATION_TPOT_TARGET: "0.04",
    }
    paths = [mount["mountPath"] for mount in made["spec"]["containers"][0]["volumeMounts"]]
    assert names.PODINFO_PATH in paths


def test_it_runs_with_no_more_rights_than_it_needs() -> None:
    made = pod(colocated())["spec"]
    assert made["automountServiceAccountToken"] is False
    assert made["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert made["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


LOST = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        (None, {LOST[0]: 60, LOST[1]: 60}),
        ([{"key": "nvidia.com/gpu", "operator": "Exists"}], {LOST[0]: 60, LOST[1]: 60}),
        ([{"key": LOST[1], "operator": "Exists", "tolerationSeconds": 5}], {LOST[0]: 60, LOST[1]: 5}),
        ([{"operator": "Exists"}], {}),
    ],
    ids=["nothing said", "other taints", "one of them", "everything"],
)
def test_a_lost_node_is_waited_for_a_minute_unless_the_template_says_otherwise(
    given: list[dict[str, Any]] | None, waits: dict[str, int]
) -> None:
    wish = colocated() if given is None else with_template(tolerations=given)
    found = pod(wish)["spec"].get("tolerations") or []
    assert {entry["key"]: entry["tolerationSeconds"] for entry in found if entry.get("key") in LOST} == waits
    assert [entry for entry in found if entry in (given or [])] == (given or [])
