"""A real Kubernetes on one bare machine, built from its Go modules.

Commands (from the repository root)::

    python -m e2e.cluster up [--form full|light] [--name NAME] [--gpus N] [--kwok NODES]
    python -m e2e.cluster down [--name NAME] [--purge]     # --purge also drops the node's image store
    python -m e2e.cluster status [--name NAME]             # exit status 0: every component runs and answers
    python -m e2e.cluster kubeconfig [--name NAME]         # prints the path
    python -m e2e.cluster env [--name NAME]                # eval "$(...)": KUBECONFIG and PATH with kubectl, helm
    python -m e2e.cluster logs COMPONENT [--name NAME]     # prints the path of a component's log
    python -m e2e.cluster binaries [NAME ...]              # only builds (default: all)

Two forms:

``full`` (default name ``tandem``, needs root, one per machine)
    etcd, kube-apiserver (RBAC, audit log of writes), controller-manager, scheduler, containerd, kubelet,
    kube-proxy, CoreDNS; one node ``node-1`` with a fake extended resource ``nvidia.com/gpu`` (default 8).
    Pods reach the API at kubernetes.default.svc and services by DNS name; this machine reaches Service and
    pod addresses directly. Nothing of the cluster's address ranges leaves the machine, and no image is ever
    pulled: images come from ``python -m e2e.images load``. The image store outlives ``down``.
``light`` (default name ``light``, no root, any number side by side)
    etcd, kube-apiserver, controller-manager on free ports, ready in seconds; with ``--kwok N`` also the
    scheduler and N fake nodes of 8 GPUs each, whose pods become Running without running.

Everything is torn down by ``down``, also after an unclean end; ``up`` on a running cluster does nothing, and
``up`` on a broken one replaces it. State: ``${TANDEM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}``,
below ``clusters/NAME`` (state, logs), ``bin`` (binaries, built once), ``node-images`` (containerd's store).

Python, for tests::

    from e2e.cluster import LightCluster

    with LightCluster() as cluster:            # LightCluster(kwok_nodes=3, controller_manager_args=[...])
        cluster.kubeconfig                     # Path
        cluster.audit_log                      # Path, one JSON event a line
        mark = cluster.audit.mark()
        ...
        cluster.audit.writes_since(mark, user_agent="tandem-operator")   # list[Write]
        cluster.metrics()                      # the API server's metrics, text
        cluster.kubectl("get", "pods", "-A")   # stdout; raises ClusterError with stderr
        cluster.api.get("/api/v1/nodes")       # parsed JSON; also post, put, patch, delete

``LightCluster`` cleans up after a killed predecessor. An aggregated API for tests (for example the external
metrics an HPA asks for) can be served by the test itself: an ``ExternalName`` Service ``localhost`` plus an
``APIService`` with ``insecureSkipTLSVerify`` and the test's port.
"""

from e2e.cluster.audit import AuditLog, Write
from e2e.cluster.errors import ClusterError
from e2e.cluster.full import FullCluster
from e2e.cluster.light import LightCluster

__all__ = ["AuditLog", "ClusterError", "FullCluster", "LightCluster", "Write"]
