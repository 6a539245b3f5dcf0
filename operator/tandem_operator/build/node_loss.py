"""How long a worker waits for its lost node: Kubernetes' own 300 s are five minutes without the capacity."""

from tandem_api.kubernetes.cluster import Manifest

# A node that rejoins within this keeps its workers, and with them their loaded weights.
NODE_LOSS_SECONDS = 60
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def tolerate_node_loss(pod_spec: Manifest) -> None:
    """Add the two tolerations where the template does not speak of these taints itself."""
    given = pod_spec.get("tolerations") or []
    spoken_of = {toleration.get("key") for toleration in given}
    if None in spoken_of:
        # Everything is tolerated for ever, and so are these.
        return
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NODE_LOSS_SECONDS}
        for taint in _TAINTS
        if taint not in spoken_of
    ]
    pod_spec["tolerations"] = [*given, *added]
