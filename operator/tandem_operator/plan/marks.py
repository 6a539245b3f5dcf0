"""Labels and annotations of live workers that should be other than they are: changed in place, nothing restarts.

A worker that somebody else has deleted (kubectl, an eviction, a spot node's end) leaves the router at once: its gate
serves on for the moment that this takes.
"""

from tandem_api import names
from tandem_operator.build.worker_pod import slo_annotations
from tandem_operator.observe.group import joined
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.actions import Mark


def wanted_marks(observed: Observed) -> tuple[Mark, ...]:
    """New targets for the gate, the serving label where another hand changed it, and what the pods of a group must know
    of each other."""
    assert observed.spec is not None
    targets: dict[str, str | None] = {
        names.ANNOTATION_TTFT_TARGET: None,
        names.ANNOTATION_TPOT_TARGET: None,
        **slo_annotations(observed.spec),
    }
    marks = []
    for pod in observed.pods:
        if pod.finished:
            continue
        if pod.terminating:
            if pod.serving:
                marks.append(Mark(pod.name, pod.uid, {names.LABEL_SERVING: None}, {}))
            continue
        if pod.broken is not None and not pod.draining:
            continue
        annotations: dict[str, str | None] = {
            key: value for key, value in targets.items() if pod.annotations.get(key) != value
        }
        labels: dict[str, str | None] = {}
        if pod.member and not pod.serving:
            labels[names.LABEL_SERVING] = "true"
        elif pod.draining and pod.serving:
            labels[names.LABEL_SERVING] = None
        if pod.ranks and pod.ready and names.ANNOTATION_JOINED not in pod.annotations:
            annotations[names.ANNOTATION_JOINED] = joined(pod)
        if annotations or labels:
            marks.append(Mark(pod.name, pod.uid, labels, annotations))
        # The leader's role is the group's: a flip relabels it alone.
        marks += [
            Mark(other.name, other.uid, {names.LABEL_ROLE: pod.role})
            for other in pod.ranks
            if other.role != pod.role and not other.terminating
        ]
    return tuple(marks)
