"""Labels and annotations of live workers that should be other than they are: changed in place, nothing restarts."""

from tandem_api import names
from tandem_operator.build.worker_pod import slo_annotations
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.actions import Mark


def wanted_marks(observed: Observed) -> tuple[Mark, ...]:
    """New targets for the gate, and the serving label where another hand changed it."""
    assert observed.spec is not None
    targets: dict[str, str | None] = {
        names.ANNOTATION_TTFT_TARGET: None,
        names.ANNOTATION_TPOT_TARGET: None,
        **slo_annotations(observed.spec),
    }
    marks = []
    for pod in observed.pods:
        if pod.terminating or pod.finished:
            continue
        annotations = {key: value for key, value in targets.items() if pod.annotations.get(key) != value}
        labels: dict[str, str | None] = {}
        if pod.member and not pod.serving:
            labels[names.LABEL_SERVING] = "true"
        elif pod.draining and pod.serving:
            labels[names.LABEL_SERVING] = None
        if annotations or labels:
            marks.append(Mark(pod.name, pod.uid, labels, annotations))
    return tuple(marks)
