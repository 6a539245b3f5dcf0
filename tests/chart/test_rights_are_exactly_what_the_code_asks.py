"""RBAC (field case D16): the rendered rules are the calls that the code makes, no fewer and no more.

Calls are read from the source: every `cluster.<verb>(KIND, ...)`. Where the kind is a variable, the place
is listed below, and a new such place fails this test until somebody has said what it calls. That the rights suffice is
shown on the real API server (tests/integration).
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tandem_api import names
from tandem_api.kubernetes import cluster as kinds
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, ROLE_BINDING, WORKER_POOL, Kind
from tandem_autoscaler import permissions as of_autoscaler
from tandem_operator import permissions as of_operator
from tandem_operator.watch.kinds import OPTIONAL, WATCHED
from tests.chart.chart import CHART, Manifest, of_kind, rendered

ROOT = Path(__file__).parents[2]
OPERATOR = ROOT / "operator" / "tandem_operator"
AUTOSCALER = ROOT / "autoscaler" / "tandem_autoscaler"
Right = tuple[str, str, str]  # group, resource, verb

# Server-side apply of an object that does not exist yet is a creation too.
_VERBS = {"list": ["list"], "get": ["get"], "create": ["create"], "apply": ["patch", "create"],
          "patch": ["patch"], "delete": ["delete"]}  # fmt: skip


def right(kind: Kind, verb: str, subresource: str = "") -> Right:
    return kind.api_version.rpartition("/")[0], kind.plural + (f"/{subresource}" if subresource else ""), verb


def kind_named(node: ast.expr) -> Kind | None:
    found = getattr(kinds, node.id, None) if isinstance(node, ast.Name) else None
    return found if isinstance(found, Kind) else None


def calls(folder: Path, *, without: tuple[str, ...] = ()) -> tuple[set[Right], set[str]]:
    """(rights of the calls with a named kind, "file:method" of those with a variable)."""
    named: set[Right] = set()
    variable: set[str] = set()
    for file in sorted(folder.rglob("*.py")):
        place = file.relative_to(folder).as_posix()
        if place.startswith(without):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            if node.func.attr not in _VERBS or "cluster" not in ast.unparse(node.func.value):
                continue
            kind = kind_named(node.args[0])
            if kind is None:
                variable.add(f"{place}:{node.func.attr}")
                continue
            given = {
                word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg == "subresource"
            }
            below = given.get("subresource", "")
            # A subresource is never created: its object is there.
            verbs = [verb for verb in _VERBS[node.func.attr] if not (below and verb == "create")]
            named |= {right(kind, verb, below) for verb in verbs}
    return named, variable


def kinds_in(file: Path, function: str, *, of: type[ast.AST]) -> set[Kind]:
    """Kinds that a function's calls (`Apply(KIND, ...)`) or dict literals (`{KIND: ...}`) begin with."""
    (found,) = [
        node
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    heads: list[ast.expr] = []
    for node in ast.walk(found):
        if of is ast.Call and isinstance(node, ast.Call) and node.args:
            if isinstance(node.func, ast.Name) and node.func.id == "Apply":
                heads.append(node.args[0])
        elif of is ast.Dict and isinstance(node, ast.Dict):
            heads += [key for key in node.keys if key is not None]
    return {kind for head in heads if (kind := kind_named(head)) is not None}


def asked_by_the_operator() -> set[Right]:
    named, variable = calls(OPERATOR, without=("carry_out/leader_only.py",))
    assert variable == {
        "carry_out/carry_out.py:apply",  # children
        "carry_out/carry_out.py:get",  # children that are not in view
        "carry_out/carry_out.py:delete",  # what an earlier mode left behind, and a binding whose role changed
        "carry_out/status_writer.py:apply",
        "reconcile.py:get",  # names that somebody else had: children
        "watch/resync.py:list",
    }
    children = OPERATOR / "plan" / "children.py"
    applied = kinds_in(children, "wanted_objects", of=ast.Call)
    removed = kinds_in(children, "unwanted_objects", of=ast.Dict)
    assert len(applied) >= 7 and len(removed) >= 3
    found = set(named)
    found |= {right(kind, verb) for kind in applied for verb in ("get", "create", "patch")}
    found |= {right(kind, "delete") for kind in {*removed, *OPTIONAL, ROLE_BINDING}}
    found |= {right(kind, verb) for kind in WATCHED for verb in ("list", "watch")}
    found |= {right(kind, "list") for kind in OPTIONAL}
    found |= {right(kind, "patch", "status") for kind in (INFERENCE_SERVICE, WORKER_POOL)}
    # No call of ours: OpenShift's admission asks for it whenever a controller reference is set.
    return found | {right(INFERENCE_SERVICE, "update", "finalizers")}


def asked_by_the_autoscaler() -> set[Right]:
    # The command line runs with its user's own rights.
    named, variable = calls(AUTOSCALER, without=("cli/",))
    assert variable == set()
    return named


def granted(rules: Iterable[Manifest]) -> Iterator[Right]:
    for rule in rules:
        assert set(rule) <= {"apiGroups", "resources", "verbs", "resourceNames"}
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield from ((group, resource, verb) for verb in rule["verbs"])


@pytest.mark.parametrize("namespaced", [False, True])
@pytest.mark.parametrize(
    "component, asked", [("operator", asked_by_the_operator), ("autoscaler", asked_by_the_autoscaler)]
)
def test_the_rules_are_the_calls(component: str, asked: Any, namespaced: bool) -> None:
    documents = rendered({"namespaced": namespaced})
    kind = "Role" if namespaced else "ClusterRole"
    roles = {one["metadata"]["name"]: one["rules"] for one in of_kind(documents, kind)}
    rights = list(granted(roles[f"tandem-{component}"]))
    assert len(rights) == len(set(rights))
    assert set(rights) == asked()


@pytest.mark.parametrize("component, module", [("operator", of_operator), ("autoscaler", of_autoscaler)])
def test_the_lease_is_asked_for_by_name_in_the_release_s_namespace(component: str, module: Any) -> None:
    roles = {one["metadata"]["name"]: one for one in of_kind(rendered(), "Role")}
    role = roles[f"tandem-{component}-lease"]
    assert role["metadata"]["namespace"] == "system"
    wanted = {(one.group, one.resource, verb) for one in module.LEASE_PERMISSIONS for verb in one.verbs}
    assert set(granted(role["rules"])) == wanted
    lease = {"operator": names.OPERATOR_LEASE, "autoscaler": names.AUTOSCALER_LEASE}[component]
    for rule in role["rules"]:
        # The name of what is created is not known to the authorizer.
        assert rule.get("resourceNames") == (None if rule["verbs"] == ["create"] else [lease])


def test_no_component_reads_secrets_or_grants_more_than_it_has() -> None:
    for role in [one for kind in ("Role", "ClusterRole") for one in of_kind(rendered(), kind)]:
        rights = set(granted(role["rules"]))
        assert not [one for one in rights if one[1].startswith("secrets") or "*" in one], role["metadata"][
            "name"
        ]
        assert not [one for one in rights if one[2] in ("escalate", "bind", "impersonate")]


def test_the_operator_has_what_it_gives_to_routers() -> None:
    """Or the API server would refuse the Role as an escalation."""
    from tandem_operator.build.router_rbac import router_role

    given = set(granted(router_role(namespace="a", service="chat", owner={})["rules"]))
    assert given <= asked_by_the_operator()


# --- people -------------------------------------------------------------------------------------------------
def user_roles(values: Manifest) -> dict[str, Manifest]:
    kind = "Role" if values.get("namespaced") else "ClusterRole"
    return {
        one["metadata"]["name"].removeprefix("tandem-"): one
        for one in of_kind(rendered(values), kind)
        if one["metadata"]["labels"]["app.kubernetes.io/component"] == "users"
    }


def aggregated(role: Manifest) -> set[str]:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    return {label.removeprefix(prefix) for label in role["metadata"]["labels"] if label.startswith(prefix)}


def test_people_get_what_kubectl_tandem_asks() -> None:
    named, variable = calls(AUTOSCALER / "cli")
    assert variable == {
        "cluster.py:list"
    }  # what a shell completes: services, and namespaces where one may list them
    own = {one for one in named if one[0] == names.GROUP}
    roles = {name: set(granted(role["rules"])) for name, role in user_roles({}).items()}
    assert {one for one in own if one[2] in ("get", "list")} <= roles["view"]
    assert own <= roles["view"] | roles["edit"]
    assert roles["diagnose"] == {("", "pods/proxy", "get")}
    assert not {one for one in roles["view"] if one[2] not in ("get", "list", "watch")}


def test_diagnosing_is_nobody_s_right_until_it_is_asked_for() -> None:
    """Through the proxy every port of every pod can be reached."""
    assert {name: aggregated(role) for name, role in user_roles({}).items()} == {
        "view": {"view"}, "edit": {"edit", "admin"}, "diagnose": set(),
    }  # fmt: skip
    assert aggregated(user_roles({"userRoles": {"diagnoseWith": "view"}})["diagnose"]) == {"view"}
    assert aggregated(user_roles({"userRoles": {"aggregate": False}})["edit"]) == set()


def test_roles_of_a_namespaced_release_are_not_aggregated() -> None:
    roles = user_roles({"namespaced": True, "userRoles": {"diagnoseWith": "view"}})
    assert len(roles) == 3 and not any(aggregated(role) for role in roles.values())


def test_the_files_are_the_modules() -> None:
    for component, module in (("operator", of_operator), ("autoscaler", of_autoscaler)):
        rules = yaml.safe_load((CHART / "files" / "rbac" / f"{component}.yaml").read_text())
        wanted = {(one.group, one.resource, verb) for one in module.PERMISSIONS for verb in one.verbs}
        assert set(granted(rules)) == wanted
