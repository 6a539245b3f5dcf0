"""The arithmetic of one question, and which single change would make it fit. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tandem_api.sizing import Ceilings, Gpu, Placement, ceilings, place, smallest
from tandem_api.sizing.placement import TENSOR_PARALLEL, Demand, divides
from tandem_autoscaler.cli.size.question import Question
from tandem_autoscaler.model.priors import worker_prior

# Contexts shorter than such a part of what is asked for are no help.
_SHORTEST = 8


@dataclass(frozen=True)
class Expected:
    """What such a worker does by the priors that the autoscaler starts from, in seconds."""

    ttft_seconds: float  # of one prompt of the whole context on an idle worker
    tpot_alone_seconds: float
    tpot_seconds: float  # with all the sequences that are asked for


@dataclass(frozen=True)
class Remedy:
    """One change that makes it fit."""

    change: str
    placement: Placement


@dataclass(frozen=True)
class Answer:
    """`here` and what follows from it are None while no GPU is named."""

    question: Question
    here: Placement | None
    ceilings: Ceilings | None
    expected: Expected | None
    remedies: tuple[Remedy, ...]
    elsewhere: tuple[tuple[Placement, Ceilings], ...]

    @property
    def fits(self) -> bool:
        return self.here is None or self.here.fits


def answer(question: Question) -> Answer:
    """One worker's memory and ceilings, and the smallest worker of each GPU that holds as much."""
    shape, demand, gpu = question.model.architecture, question.demand, question.gpu
    elsewhere = tuple(
        (placed, _ceilings(question, placed.gpu, placed.gpus)) for placed in smallest(shape, demand)
    )
    if gpu is None:
        return Answer(question, None, None, None, (), elsewhere)
    here = place(shape, gpu, question.gpus, demand, tensor_parallel=question.tensor_parallel)
    limits = _ceilings(question, gpu, question.gpus)
    remedies = () if here.fits else tuple(_remedies(question, here))
    return Answer(question, here, limits, _expected(question), remedies, elsewhere)


def _ceilings(question: Question, gpu: Gpu, gpus: int) -> Ceilings:
    demand = question.demand
    return ceilings(
        question.model.architecture, gpu, batch=demand.sequences, context=demand.context, gpus=gpus,
        quantization=demand.quantization, kv_dtype=demand.kv_dtype,
    )  # fmt: skip


def _expected(question: Question) -> Expected | None:
    """None where the priors hold nothing: pipeline stages."""
    gpu, demand = question.gpu, question.demand
    if gpu is None or question.tensor_parallel != question.gpus:
        return None
    prior = worker_prior(
        question.model.architecture, gpu, gpus=question.gpus, quantization=demand.quantization,
        kv_dtype=demand.kv_dtype,
    )  # fmt: skip
    a, b, c = prior.prefill
    d0, d1, d2 = prior.decode
    n, batch = float(demand.context), float(demand.sequences)
    return Expected(a + b * n + c * n * n, d0 + d1, d0 + d1 * batch + d2 * batch * n)


def _remedies(question: Question, here: Placement) -> Iterator[Remedy]:
    """The least painful first: what changes neither the users nor the GPUs."""
    assert question.gpu is not None
    shape, demand = question.model.architecture, question.demand
    for change, other in _smaller(demand, can_fp8=question.gpu.has_fp8):
        placed = place(shape, question.gpu, question.gpus, other, tensor_parallel=question.tensor_parallel)
        if placed.fits:
            yield Remedy(change, placed)
    more = (count for count in TENSOR_PARALLEL if count > question.gpus and divides(shape, count))
    for count in more:
        placed = place(shape, question.gpu, count, demand)
        if placed.fits:
            yield Remedy(f"{count} x {question.gpu.name}", placed)
            break
    fewer = here.memory.sequences
    if 0 < fewer < demand.sequences:
        yield Remedy(f"{fewer:,} sequences at once", replace(here, demand=replace(demand, sequences=fewer)))
    budget = here.memory.kv_budget_bytes // demand.sequences
    shorter = _longest(question, budget)
    if shorter >= demand.context / _SHORTEST:
        yield Remedy(
            f"{shorter:,} tokens of context",
            place(shape, question.gpu, question.gpus, replace(demand, context=shorter),
                  tensor_parallel=question.tensor_parallel),
        )  # fmt: skip


def _smaller(demand: Demand, *, can_fp8: bool) -> Iterator[tuple[str, Demand]]:
    """The same demand in fewer bytes."""
    if demand.kv_dtype != "fp8":
        yield "KV cache in fp8", replace(demand, kv_dtype="fp8")
    if demand.quantization == "none":
        if can_fp8:
            yield "weights in fp8", replace(demand, quantization="fp8")
            yield "weights and KV cache in fp8", replace(demand, quantization="fp8", kv_dtype="fp8")
        yield "weights in 4 bits (AWQ or GPTQ)", replace(demand, quantization="awq")


def _longest(question: Question, budget_bytes: int) -> int:
    """Most tokens, a multiple of 256, of which one sequence takes no more than the budget."""
    assert question.gpu is not None
    low, high = 0, question.demand.context // 256
    while low < high:
        middle = (low + high + 1) // 2
        tried = place(
            question.model.architecture, question.gpu, question.gpus, replace(question.demand, context=256 * middle),
            tensor_parallel=question.tensor_parallel,
        )  # fmt: skip
        if tried.memory.kv_bytes_per_sequence <= budget_bytes:
            low = middle
        else:
            high = middle - 1
    return 256 * low
