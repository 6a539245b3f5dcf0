"""`diagnose`: facts -> what binds, why, and what to do."""

from dataclasses import dataclass

from tandem_autoscaler.diagnose import mixed
from tandem_autoscaler.diagnose.bottleneck import Bottleneck, find
from tandem_autoscaler.diagnose.break_even import Compared, Kinds, compare, even_tpot
from tandem_autoscaler.diagnose.chunking import Grid, Tuned, tune
from tandem_autoscaler.diagnose.facts import Facts
from tandem_autoscaler.diagnose.fixes import Fix, fixes
from tandem_autoscaler.diagnose.plant import Plant, plant_of
from tandem_autoscaler.fleet.service import decode_role, prefill_role
from tandem_autoscaler.model.mixed_step import Chunking

# Neither mode is advised for less: the models are no better, and a change of mode replaces all workers.
_WORTH_A_CHANGE = 0.10


@dataclass(frozen=True)
class Modes:
    """Both modes for the present traffic.

    `even_tpot_seconds`: the TPOT target below which Disaggregated needs fewer GPUs; None: at no target.
    """

    now: str
    compared: Compared
    even_tpot_seconds: float | None

    @property
    def advised(self) -> str | None:
        """The other mode, where it clearly needs fewer GPUs or is the only one that keeps the promises."""
        better, gain = self.compared.better, self.compared.gain
        if better is None or better == self.now:
            return None
        return better if gain is None or abs(gain) >= _WORTH_A_CHANGE else None


@dataclass(frozen=True)
class Diagnosis:
    """`predicted`: share of requests in time as things are, of a Colocated pool by the model of its mixed steps.

    `tuned`: of a Colocated pool. `modes` and `tuned` are None while the traffic or the workers' times are not known.
    """

    bottleneck: Bottleneck
    sentence: str
    evidence: tuple[str, ...]
    fixes: tuple[Fix, ...]
    predicted: float | None
    tuned: Tuned | None = None
    modes: Modes | None = None


def diagnose(facts: Facts) -> Diagnosis:
    """Pure: the same facts give the same diagnosis."""
    plant = plant_of(facts)
    found = find(facts, plant)
    tuned, modes = (None, None) if plant is None else (_tuned(facts, plant), _modes(facts, plant))
    return Diagnosis(
        found.bottleneck,
        found.sentence,
        found.evidence,
        fixes(found.bottleneck, facts, plant, tuned, None if modes is None else modes.compared),
        tuned.now.predicted.in_time if tuned else None if plant is None else plant.in_time(),
        tuned,
        modes,
    )


def _tuned(facts: Facts, plant: Plant) -> Tuned | None:
    traffic = mixed.traffic_of(facts)
    ready = facts.prefill_count.ready
    if facts.service.disaggregated or traffic is None or not ready:
        return None
    worker = mixed.colocated_worker(facts, plant, traffic)
    if worker is None:
        return None
    now = facts.chunking or Chunking()
    return tune(worker, traffic, mixed.promise_of(facts), now, ready, _grid(facts))


def _grid(facts: Facts) -> Grid:
    """Of the workers that serve, or would serve, both phases: those that hold the answers."""
    pool = facts.service.pools[decode_role(facts.service)]
    return Grid(facts.longest, pool.max_sequences or 0, facts.thresholds)


def _modes(facts: Facts, plant: Plant) -> Modes | None:
    """None too where the roles' GPUs differ: which of them a colocated worker would have is for the user to say."""
    traffic, service = mixed.traffic_of(facts), facts.service
    if traffic is None or not mixed.same_hardware(facts):
        return None
    if service.disaggregated:
        apart = mixed.apart_workers(facts, plant, traffic)
        if apart is None:
            return None
        prefill, decode = apart
        together = decode
    else:
        worker = mixed.colocated_worker(facts, plant, traffic)
        if worker is None:
            return None
        prefill = decode = together = worker
    gpus = [service.pools[role(service)].gpus for role in (prefill_role, decode_role)]
    kinds = Kinds(together, gpus[1], prefill, gpus[0], decode, gpus[1], chunks=_grid(facts))
    promise = mixed.promise_of(facts)
    now = "Disaggregated" if service.disaggregated else "Colocated"
    return Modes(now, compare(kinds, traffic, promise), even_tpot(kinds, traffic, promise))
