"""What the values promise, in single renderings. That each value does something at all is asked elsewhere."""

from typing import Any

import pytest
import yaml

from tests.chart.chart import (
    ALL_KINDS,
    CHART,
    arguments_of,
    helm,
    named,
    of_kind,
    pod_of,
    pods,
    rendered,
    template,
)

MIRROR = {"global": {"imageRegistry": "mirror.example:5000", "imagePullSecrets": [{"name": "key"}]}}


@pytest.mark.parametrize("program", ["helm", "helm4"])
def test_it_passes_helms_own_strict_lint(program: str) -> None:
    done = helm("lint", "--strict", str(CHART), program=program)
    assert done.returncode == 0, done.stdout + done.stderr


def test_cluster_scope_uses_cluster_roles_and_namespace_scope_none() -> None:
    bound = {binding["roleRef"]["name"] for binding in of_kind(rendered(), "ClusterRoleBinding")}
    assert bound == {"tandem-operator", "tandem-autoscaler"}
    namespaced = rendered({"namespaced": True})
    assert not of_kind(namespaced, "ClusterRole") and not of_kind(namespaced, "ClusterRoleBinding")
    for component in ("operator", "autoscaler"):
        assert "--namespace=system" in arguments_of(namespaced, component)


def test_an_explicit_zero_of_replicas_is_zero() -> None:
    documents = rendered({"operator": {"replicas": 0}, "autoscaler": {"replicas": 0}})
    assert [one["spec"]["replicas"] for one in of_kind(documents, "Deployment")] == [0, 0]


def test_a_budget_of_zero_gpus_is_a_budget() -> None:
    assert "--gpu-budget=0" in arguments_of(rendered({"autoscaler": {"gpuBudget": 0}}), "autoscaler")
    assert not [flag for flag in arguments_of(rendered(), "autoscaler") if flag.startswith("--gpu-budget")]


def test_images_reach_the_operator() -> None:
    values: dict[str, Any] = {
        "worker": {"image": {"repository": "mine/worker", "tag": "v7"}},
        "router": {"image": {"digest": "sha256:" + "0" * 64}},
    }
    arguments = arguments_of(rendered(values), "operator")
    assert "--worker-image=mine/worker:v7" in arguments
    assert f"--router-image=tandem/router@sha256:{'0' * 64}" in arguments


def test_behind_a_private_registry_nothing_is_pulled_from_elsewhere() -> None:
    documents = rendered(MIRROR)
    for name, pod in pods(documents):
        assert pod["imagePullSecrets"] == [{"name": "key"}], name
        for one in pod["containers"]:
            assert one["image"].startswith("mirror.example:5000/tandem/"), name
    arguments = arguments_of(documents, "operator")
    assert "--worker-image=mirror.example:5000/tandem/worker:0.1.0" in arguments
    assert "--router-image=mirror.example:5000/tandem/router:0.1.0" in arguments
    assert "--image-pull-secrets=key" in arguments


def test_the_autoscaler_can_be_left_out_whole() -> None:
    documents = rendered({"autoscaler": {"enabled": False}})
    assert not [one for one in documents if "autoscaler" in one["metadata"]["name"]]
    assert "autoscaler" not in str(of_kind(documents, "Pod"))


def test_prometheus_needs_its_address_and_says_so() -> None:
    done = template({"autoscaler": {"source": "prometheus"}})
    assert done.returncode != 0 and "set prometheus.url" in done.stderr
    values = {"autoscaler": {"source": "prometheus"}, "prometheus": {"url": "http://p:9090"}}
    assert "--prometheus-url=http://p:9090" in arguments_of(rendered(values), "autoscaler")


def test_the_token_is_where_the_flag_says() -> None:
    prometheus = {"url": "https://p", "tokenSecret": {"name": "reader", "key": "bearer"}}
    pod = pod_of(rendered({"autoscaler": {"source": "prometheus"}, "prometheus": prometheus}), "autoscaler")
    flag = next(one for one in pod["containers"][0]["args"] if one.startswith("--prometheus-token-file="))
    folder, _, file = flag.partition("=")[2].rpartition("/")
    mount = next(one for one in pod["containers"][0]["volumeMounts"] if one["mountPath"] == folder)
    volume = next(one for one in pod["volumes"] if one["name"] == mount["name"])
    assert volume["secret"] == {"secretName": "reader", "items": [{"key": "bearer", "path": file}]}


@pytest.mark.parametrize(
    "path",
    ["typo", "operator.replica", "image.pullpolicy", "worker.image.pullPolicy", "prometheus.token",
     "monitoring.rules.enable", "autoscaler.dashboard.host", "serviceAccount.name", "crds.upgrade"],
)  # fmt: skip
def test_a_key_that_would_be_ignored_is_refused(path: str) -> None:
    values: Any = 1
    for key in reversed(path.split(".")):
        values = {key: values}
    done = template(values)
    assert done.returncode != 0
    assert path.split(".")[-1] in done.stderr


@pytest.mark.parametrize(
    "values",
    [
        {"autoscaler": {"source": "guess"}},
        {"image": {"tag": 1}},
        {"image": {"digest": "latest"}},
        {"operator": {"replicas": -1}},
        {"autoscaler": {"tickSeconds": 0}},
        {"prometheus": {"url": "prometheus:9090"}},
        {"podLabels": {"a": 1}},
        {"imagePullSecrets": ["key"]},
        {"monitoring": {"podMonitors": {"interval": "15"}}},
    ],
)
def test_a_value_that_would_fail_later_is_refused_now(values: dict[str, Any]) -> None:
    assert template(values).returncode != 0


def test_globals_of_a_chart_around_this_one_are_not_refused() -> None:
    assert template({"global": {"storageClass": "fast"}}).returncode == 0


def test_crds_are_kept_on_uninstall_unless_asked_and_can_be_left_out() -> None:
    crds = of_kind(rendered(), "CustomResourceDefinition")
    assert {crd["spec"]["names"]["kind"] for crd in crds} == {"InferenceService", "WorkerPool"}
    assert all(crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for crd in crds)
    unkept = of_kind(rendered({"crds": {"keep": False}}), "CustomResourceDefinition")
    assert not [crd for crd in unkept if "helm.sh/resource-policy" in crd["metadata"].get("annotations", {})]
    assert [crd["spec"] for crd in unkept] == [crd["spec"] for crd in crds]
    assert not of_kind(rendered({"crds": {"install": False}}), "CustomResourceDefinition")


def test_a_pods_own_labels_never_break_its_selector() -> None:
    documents = rendered({"podLabels": {"app.kubernetes.io/component": "mine", "team": "ml"}})
    deployment = named(documents, "Deployment", "tandem-operator")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels["team"] == "ml"
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_a_spread_constraint_counts_the_pods_of_its_own_component() -> None:
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    documents = rendered({"topologySpreadConstraints": [constraint]})
    for component in ("operator", "autoscaler"):
        (found,) = pod_of(documents, component)["topologySpreadConstraints"]
        assert found["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == component
        assert {**constraint, "labelSelector": found["labelSelector"]} == found


def test_accounts_that_exist_already_are_used_and_not_made() -> None:
    account = {"create": False, "operatorName": "op", "autoscalerName": "as"}
    documents = rendered({"serviceAccount": account})
    assert not of_kind(documents, "ServiceAccount")
    assert pod_of(documents, "operator")["serviceAccountName"] == "op"
    bound = {one["subjects"][0]["name"] for one in of_kind(documents, "ClusterRoleBinding")}
    assert bound == {"op", "as"}


def test_a_services_selector_finds_its_pods() -> None:
    documents = rendered()
    for service in of_kind(documents, "Service"):
        labels = named(documents, "Deployment", service["metadata"]["name"])["spec"]["template"]["metadata"][
            "labels"
        ]
        assert service["spec"]["selector"].items() <= labels.items()


MATRIX: list[dict[str, Any]] = [
    {},
    {"namespaced": True, "userRoles": {"diagnoseWith": "view"}},
    {"autoscaler": {"enabled": False}, "crds": {"install": False}},
    {
        "autoscaler": {"source": "prometheus", "dashboard": {"enabled": True}},
        "prometheus": {"url": "http://p"},
    },
    {"fullnameOverride": "a" * 63, "serviceAccount": {"create": False}, "userRoles": {"create": False}},
    {**MIRROR, "imagePullSecrets": [{"name": "own"}], "workloads": {"imagePullSecrets": [{"name": "key"}]}},
    {"podSecurityContext": {"runAsUser": None}},
]


@pytest.mark.parametrize("number", range(len(MATRIX)))
def test_names_are_unique_and_everything_lies_in_the_release_s_namespace(number: int) -> None:
    documents = rendered({**MATRIX[number], "monitoring": {"dashboards": {"enabled": True}}}, kinds=ALL_KINDS)
    keys = [(one["kind"], one["metadata"]["name"]) for one in documents]
    assert len(keys) == len(set(keys))
    for one in documents:
        cluster_wide = one["kind"] in ("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition")
        assert ("namespace" in one["metadata"]) != cluster_wide, one["kind"]
        assert len(one["metadata"]["name"]) <= 63


@pytest.mark.parametrize("number", range(len(MATRIX)))
def test_helm_4_renders_what_helm_3_does(number: int) -> None:
    three = rendered(MATRIX[number], kinds=ALL_KINDS)
    done = template(MATRIX[number], kinds=ALL_KINDS, program="helm4")
    assert done.returncode == 0, done.stderr
    assert [one for one in yaml.safe_load_all(done.stdout) if one] == three
