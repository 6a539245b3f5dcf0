"""`diagnose`: facts -> what binds, why, and what to do."""

from dataclasses import dataclass

from tandem_autoscaler.diagnose.bottleneck import Bottleneck, find
from tandem_autoscaler.diagnose.facts import Facts
from tandem_autoscaler.diagnose.fixes import Fix, fixes
from tandem_autoscaler.diagnose.plant import plant_of


@dataclass(frozen=True)
class Diagnosis:
    """`predicted`: share of requests in time as things are, by the same models that predict each fix's."""

    bottleneck: Bottleneck
    sentence: str
    evidence: tuple[str, ...]
    fixes: tuple[Fix, ...]
    predicted: float | None


def diagnose(facts: Facts) -> Diagnosis:
    """Pure: the same facts give the same diagnosis."""
    plant = plant_of(facts)
    found = find(facts, plant)
    return Diagnosis(
        found.bottleneck,
        found.sentence,
        found.evidence,
        fixes(found.bottleneck, facts, plant),
        None if plant is None else plant.in_time(),
    )
