"""Ranks that a group still lacks, because their creation failed or they went before the engine began to serve."""

from tandem_operator.build.template_hash import template_hash
from tandem_operator.build.worker_pod import worker_pods
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.actions import Create
from tandem_operator.plan.draft import Draft
from tandem_operator.plan.settings import Settings


def complete(observed: Observed, draft: Draft, *, settings: Settings) -> None:
    """Make them; the budget counts them already (`observe/group.py`). A group that is let go now is left as it is."""
    spec = observed.spec
    assert spec is not None
    leaving = draft.leaving()
    for pod in observed.pods:
        role = spec.roles.get(pod.role)
        if not pod.missing or not pod.member or pod.name in leaving or role is None:
            continue
        if pod.template_hash != template_hash(observed.name, spec, role):
            continue
        manifests = worker_pods(
            namespace=observed.namespace,
            service=observed.name,
            spec=spec,
            role_name=pod.role,
            ordinal=int(pod.name.rpartition("-")[2]),
            owner=observed.owner_reference(),
            images=settings.images,
        )
        draft.actions += [
            Create(manifests[rank], pod.role, f"rank {rank} of {pod.name} is missing") for rank in pod.missing
        ]
