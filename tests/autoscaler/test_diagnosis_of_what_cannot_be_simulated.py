"""Workers that cannot start, a colocated pool, and a service of which little is known."""

from dataclasses import replace
from typing import Any

from tandem_autoscaler.diagnose.bottleneck import Bottleneck
from tandem_autoscaler.diagnose.diagnosis import Diagnosis, diagnose
from tandem_autoscaler.diagnose.facts import look
from tandem_autoscaler.diagnose.fixes import Kind
from tests.autoscaler.scene import P, Scene, W


def diagnosed(scene: Scene) -> Diagnosis:
    service = replace(scene.service, pods=tuple(scene.pods.values()))
    return diagnose(look(scene.state, service, scene.snapshot(), scene.settings))


def overloaded(**scene: Any) -> Scene:
    """Prefill is given twice what it can do, and decode has room."""
    made = Scene(**scene)
    for _ in range(20):
        made.prompts(1.0, seconds=0.3)
        made.answers(1.0)
        made.tick(apply=False)
    for _ in range(20):
        made.overload(2.0)
        made.answers(2.0)
        made.tick(apply=False)
    return made


def test_workers_that_cannot_start_are_the_cause_and_not_the_load() -> None:
    scene = overloaded(prefill=1)
    assert diagnosed(scene).bottleneck is Bottleneck.PREFILL
    for _ in range(12):
        scene.add(P, ready=False, stuck=True)
    found = diagnosed(scene)
    assert found.bottleneck is Bottleneck.COLD_START and "cannot start" in found.sentence
    assert found.fixes[0].kind is Kind.FASTER_START and "kubectl tandem status" in found.fixes[0].change
    assert any("stuck" in text for text in found.evidence)


def test_a_service_that_nobody_has_measured_is_unknown_and_not_healthy() -> None:
    scene = Scene()
    scene.silent = set(scene.pods)
    scene.tick(apply=False)
    found = diagnosed(scene)
    assert found.bottleneck is Bottleneck.UNKNOWN and found.fixes == () and found.predicted is None
    assert any("did not answer" in text for text in found.evidence)


def test_a_colocated_pool_of_unknown_times_is_offered_what_only_it_can_change_without_a_prediction() -> None:
    scene = Scene(workers=2)
    for _ in range(40):
        for exported in scene.of(W):
            exported.running = 30.0
            exported.prefill(10.0, tokens=1000, seconds=2.0)
            exported.decode(10.0, tokens=50, seconds_per_token=0.3, batch=30)
        scene.tick(apply=False)
    service = replace(scene.service, pods=tuple(scene.pods.values()))
    # How long answers are is not known: then neither chunks nor modes can be compared.
    facts = replace(look(scene.state, service, scene.snapshot(), scene.settings), output_tokens=None)
    found = diagnose(facts)
    assert found.bottleneck in (Bottleneck.PREFILL, Bottleneck.DECODE)
    offered = {fix.kind: fix.in_time for fix in found.fixes}
    assert offered[Kind.CHUNKING] is None and offered[Kind.DISAGGREGATE] is None
