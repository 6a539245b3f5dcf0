"""The answer for people, at a terminal of 80 columns or more."""

from rich.console import Console
from rich.markup import escape

from tandem_api.durations import format_seconds
from tandem_api.sizing import Placement, kv_bytes_per_token
from tandem_autoscaler.cli import output
from tandem_autoscaler.cli.output import gigabytes
from tandem_autoscaler.cli.size.answer import Answer
from tandem_autoscaler.cli.size.question import Question

_BITS = {"none": "bf16", "fp8": "fp8", "awq": "4-bit (AWQ)", "gptq": "4-bit (GPTQ)", "mxfp4": "MXFP4"}


def print_answers(answers: list[Answer]) -> None:
    console = output.console()
    for number, answer in enumerate(answers):
        if number:
            console.print()
        _model(console, answer.question)
        if answer.here is not None:
            _memory(console, answer, answer.here)
            _verdict(console, answer, answer.here)
            _speed(console, answer)
        _elsewhere(console, answer)
        for note in answer.question.notes:
            console.print(f"[dim]note: {escape(note)}[/]")


def _model(console: Console, question: Question) -> None:
    shape, demand = question.model.architecture, question.demand
    role = f"{question.role}: " if question.role else ""
    active = f", {shape.active_parameters / 1e9:.3g} B active" if shape.experts else ""
    console.print(
        f"[bold]{role}{escape(question.model.name)}[/], {shape.parameters / 1e9:.3g} B parameters{active}, weights in "
        f"{_BITS[demand.quantization]}"
    )
    heads = "one latent vector" if shape.latent else f"{shape.kv_heads} KV heads of {shape.head_dim}"
    windows = (
        f", {shape.window_layers} of them with a window of {shape.window:,}" if shape.window_layers else ""
    )
    each = kv_bytes_per_token(shape, dtype=demand.kv_dtype, gpus=question.tensor_parallel)
    console.print(
        f"[dim]{shape.layers} layers{windows}, {heads}: {each:,} bytes of KV cache per token"
        f"{' in fp8' if demand.kv_dtype == 'fp8' else ''}[/]"
    )


def _memory(console: Console, answer: Answer, here: Placement) -> None:
    demand, memory = answer.question.demand, here.memory
    made = output.table("memory", "GB", "")
    made.columns[2].justify = "left"
    made.add_row("weights", gigabytes(memory.weights_bytes), "")
    made.add_row("activations", gigabytes(memory.reserve_bytes), f"steps of {demand.batched_tokens:,} tokens")
    made.add_row(
        "KV cache", gigabytes(here.kv_bytes),
        f"{demand.sequences:,} x {demand.context:,} tokens, {gigabytes(memory.kv_bytes_per_sequence)} GB each",
    )  # fmt: skip
    needed = memory.weights_bytes + memory.reserve_bytes + here.kv_bytes
    made.add_row("needed", gigabytes(needed), "", style="bold")
    whole = here.gpu.memory_bytes * here.gpus
    made.add_row(
        "usable", gigabytes(memory.usable_bytes),
        f"{demand.utilization:.0%} of {here.gpus} x {here.gpu.name}, {gigabytes(whole)} GB",
    )  # fmt: skip
    console.print(made)


def _verdict(console: Console, answer: Answer, here: Placement) -> None:
    demand, most = answer.question.demand, here.memory.sequences
    if here.fits:
        console.print(
            f"[bold green]fits[/], {gigabytes(here.spare_bytes)} GB to spare: at most [bold]{most:,}[/] sequences of "
            f"{demand.context:,} tokens at once"
        )
        if most > demand.max_sequences:
            console.print(
                f"[dim]the engine takes {demand.max_sequences:,} at once unless engine.maxSequences is raised[/]"
            )
        return
    console.print(f"[bold red]does not fit[/]: {gigabytes(-here.spare_bytes)} GB are lacking")
    for remedy in answer.remedies:
        placed = remedy.placement
        console.print(f"  fits with {remedy.change} ({gigabytes(placed.spare_bytes)} GB to spare)")
    if not answer.remedies:
        console.print("  no single change makes it fit")


def _speed(console: Console, answer: Answer) -> None:
    limits, expected = answer.ceilings, answer.expected
    assert limits is not None
    prompt = limits.context / limits.prefill_tokens_per_second
    made = output.table("speed", "at most", "expected", "bound by")
    made.columns[3].justify = "left"

    def time(seconds: float | None) -> str:
        return "" if seconds is None else format_seconds(float(f"{seconds:.3g}"))

    made.add_row(
        f"prefill of {limits.context:,} tokens", f"{limits.prefill_tokens_per_second:,.0f} tok/s, {time(prompt)}",
        time(expected.ttft_seconds if expected else None), "FLOP/s",
    )  # fmt: skip
    made.add_row(
        "decode, 1 sequence", f"{limits.steps_per_second:,.0f} steps/s, {time(1 / limits.steps_per_second)}",
        time(expected.tpot_alone_seconds if expected else None), "bandwidth",
    )  # fmt: skip
    if limits.batch > 1:
        made.add_row(
            f"decode, {limits.batch:,} sequences",
            f"{limits.decode_tokens_per_second:,.0f} tok/s, {time(1 / limits.batch_steps_per_second)}",
            time(expected.tpot_seconds if expected else None),
            "FLOP/s" if limits.bound_by_arithmetic else "bandwidth",
        )  # fmt: skip
    console.print(made)


def _elsewhere(console: Console, answer: Answer) -> None:
    demand = answer.question.demand
    asked = f"{demand.sequences:,} sequence{'s' if demand.sequences > 1 else ''} of {demand.context:,} tokens"
    if not answer.elsewhere:
        console.print(f"no GPU of the list holds {asked}, not even eight of them")
        return
    console.print(f"smallest worker of each GPU that holds {asked}; speeds at most, over the whole batch")
    made = output.table("worker", "GB left", "most at once", "prefill tok/s", "decode tok/s")
    for placed, limits in answer.elsewhere:
        here = answer.here is not None and (placed.gpu, placed.gpus) == (answer.here.gpu, answer.here.gpus)
        made.add_row(
            f"{placed.gpus} x {placed.gpu.name}", gigabytes(placed.spare_bytes), f"{placed.memory.sequences:,}",
            f"{limits.prefill_tokens_per_second:,.0f}", f"{limits.decode_tokens_per_second:,.0f}",
            style="bold green" if here else None,
        )  # fmt: skip
    console.print(made)
