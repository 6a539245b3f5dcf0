"""What the router may do: read the pods of its own namespace, to find the workers. Nothing else."""

from tandem_api import names
from tandem_api.kubernetes.cluster import ROLE, ROLE_BINDING, SERVICE_ACCOUNT, Manifest
from tandem_operator.build.ownership import child


def router_service_account(*, namespace: str, service: str, owner: Manifest) -> Manifest:
    return child(
        SERVICE_ACCOUNT,
        namespace=namespace,
        service=service,
        name=names.router_name(service),
        component=names.COMPONENT_ROUTER,
        owner=owner,
    )


def router_role(*, namespace: str, service: str, owner: Manifest) -> Manifest:
    return child(
        ROLE,
        namespace=namespace,
        service=service,
        name=names.router_name(service),
        component=names.COMPONENT_ROUTER,
        owner=owner,
        rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
    )


def router_role_binding(*, namespace: str, service: str, owner: Manifest) -> Manifest:
    name = names.router_name(service)
    return child(
        ROLE_BINDING,
        namespace=namespace,
        service=service,
        name=name,
        component=names.COMPONENT_ROUTER,
        owner=owner,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    )
