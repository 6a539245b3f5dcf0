"""Every control of the restricted Pod Security Standard, baseline's included, on every pod of the chart.

https://kubernetes.io/docs/concepts/security/pod-security-standards/ as of Kubernetes 1.34.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart.chart import pods, rendered

_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
            "projected", "secret"}  # fmt: skip
_SELINUX = {None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_SECCOMP = ("RuntimeDefault", "Localhost")


def violations(pod: dict[str, Any]) -> Iterator[str]:
    """One sentence per control that the pod does not keep."""
    of_pod = pod.get("securityContext") or {}
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield field
    for volume in pod.get("volumes") or []:
        if not set(volume) - {"name"} <= _VOLUMES:
            yield f"volume {volume['name']}"
    if of_pod.get("sysctls"):
        yield "sysctls"
    for one in [*pod["containers"], *pod.get("initContainers", []), *pod.get("ephemeralContainers", [])]:
        own = one.get("securityContext") or {}
        merged = {**of_pod, **own}
        capabilities = own.get("capabilities") or {}
        checks = {
            "privileged": own.get("privileged"),
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is not False,
            "runAsNonRoot": merged.get("runAsNonRoot") is not True,
            "runAsUser": merged.get("runAsUser") == 0,
            "drop ALL": "ALL" not in capabilities.get("drop", []),
            "add": set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"},
            "procMount": own.get("procMount", "Default") != "Default",
            "seccomp": (merged.get("seccompProfile") or {}).get("type") not in _SECCOMP,
            "appArmor": (merged.get("appArmorProfile") or {}).get("type") == "Unconfined",
            "seLinux type": (merged.get("seLinuxOptions") or {}).get("type") not in _SELINUX,
            "seLinux user": set(merged.get("seLinuxOptions") or {}) & {"user", "role"},
            "windows": (merged.get("windowsOptions") or {}).get("hostProcess"),
            "hostPort": [port for port in one.get("ports", []) if port.get("hostPort")],
            "probe host": [name for name in ("livenessProbe", "readinessProbe", "startupProbe")
                           if (one.get(name) or {}).get("httpGet", {}).get("host")],
        }  # fmt: skip
        yield from (f"{one['name']}: {control}" for control, broken in checks.items() if broken)


@pytest.mark.parametrize(
    "values", [{}, {"namespaced": True}, {"autoscaler": {"dashboard": {"enabled": True}}}]
)
def test_no_control_is_broken(values: dict[str, Any]) -> None:
    found = pods(rendered(values))
    assert {name for name, _ in found} == {"tandem-operator", "tandem-autoscaler", "tandem-test"}
    assert {name: list(violations(pod)) for name, pod in found} == {name: [] for name, _ in found}


def test_the_root_file_system_cannot_be_written() -> None:
    """Not asked by the standard; an attacker's first wish all the same."""
    for name, pod in pods(rendered()):
        assert all(one["securityContext"]["readOnlyRootFilesystem"] for one in pod["containers"]), name


@pytest.mark.parametrize(
    "broken, control",
    [
        ({"podSecurityContext": {"runAsNonRoot": False}}, "runAsNonRoot"),
        ({"podSecurityContext": {"runAsUser": 0}}, "runAsUser"),
        ({"podSecurityContext": {"seccompProfile": {"type": "Unconfined"}}}, "seccomp"),
        ({"containerSecurityContext": {"capabilities": {"drop": ["NET_RAW"]}}}, "drop ALL"),
        ({"containerSecurityContext": {"allowPrivilegeEscalation": True}}, "allowPrivilegeEscalation"),
        ({"containerSecurityContext": {"privileged": True}}, "privileged"),
    ],
)
def test_a_broken_control_would_be_seen(broken: dict[str, Any], control: str) -> None:
    for name, pod in pods(rendered(broken)):
        assert any(found.endswith(control) for found in violations(pod)), name
