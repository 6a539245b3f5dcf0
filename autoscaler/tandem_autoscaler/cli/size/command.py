"""The flags of `kubectl tandem size`, and its steps."""

import argparse
from dataclasses import fields

from tandem_api.sizing import GPUS, MODELS
from tandem_autoscaler.cli import flags, manifest, output
from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.modes import sentence
from tandem_autoscaler.cli.size import modes
from tandem_autoscaler.cli.size.answer import answer
from tandem_autoscaler.cli.size.document import document
from tandem_autoscaler.cli.size.question import Wanted, from_flags, from_manifest
from tandem_autoscaler.cli.size.report import print_answers

_EXAMPLES = """\
  kubectl tandem size --model meta-llama/Llama-3.1-8B-Instruct --gpu H100 --concurrency 100 --context 4096
  kubectl tandem size --model deepseek-r1 --context 16384
  kubectl tandem size -f chat.yaml --gpu A100-40GB -o json
  kubectl tandem size -f chat.yaml --rate 20 --prompt 2k --answer 300

The exit status is 1 when it does not fit.
"""
_MOST = 100_000_000


def add(commands: "flags.Commands[flags.Parser]") -> None:
    """Add the subcommand to the program."""
    made = flags.command(
        commands,
        "size",
        summary="does a model fit a GPU, and for how many users",
        description="Weights, KV cache and activations against the memory of a GPU; the highest concurrency; and how "
        "fast prefill and decode can be at most. Needs neither a cluster nor a GPU.",
        run=run,
        examples=_EXAMPLES,
    )
    flags.manifest(made, required=False)
    tokens = flags.whole(_MOST)
    model = made.add_argument(
        "--model", metavar="MODEL", help="a Hugging Face id, a name of the built-in list, or a directory"
    )
    gpu = made.add_argument(
        "--gpu", metavar="NAME", help="such as H100, A100-40GB, L40S, or a node's product label"
    )
    flags.completes(made, model, lambda _: MODELS)
    flags.completes(made, gpu, lambda _: GPUS)
    made.add_argument("--gpus", type=tokens, metavar="N", help="GPUs of one worker, in tensor parallel")
    made.add_argument("--concurrency", type=tokens, metavar="N", help="sequences at once (default 1)")
    made.add_argument(
        "--context", type=tokens, metavar="TOKENS",
        help="of each sequence, prompt and answer (default: engine.maxModelLen, or else the model's own)",
    )  # fmt: skip
    flags.choice(made, "--quantization", ("none", "fp8", "awq", "gptq"), help="of the weights")
    flags.choice(made, "--kv-cache-dtype", ("auto", "bf16", "fp8"), help="of the KV cache")
    made.add_argument(
        "--utilization", type=flags.factor(1.0, "share"), metavar="SHARE",
        help="of the memory that the engine takes (default 0.92)",
    )  # fmt: skip
    made.add_argument(
        "--batched-tokens", type=tokens, metavar="N", help="of one step, for the activations (default 8192)"
    )
    modes.add(made, _MOST)
    flags.output(made)


def run(given: argparse.Namespace) -> int:
    """0: fits, or nothing said on which GPU; 1: does not fit. Raises Mistake."""
    wanted = Wanted(**{field.name: getattr(given, field.name) for field in fields(Wanted)})
    found = None if given.filename is None else manifest.read(given.filename)
    if found is not None:
        questions = from_manifest(found, wanted)
    elif wanted.gpus is not None and wanted.gpu is None:
        raise Mistake("--gpus says how many; --gpu says which")
    else:
        questions = [from_flags(wanted)]
    answers = [answer(question) for question in questions]
    compared = modes.modes(questions, modes.planned(given), found)
    if given.output == "table":
        print_answers(answers)
        if compared is not None:
            output.console().print(sentence(compared))
    else:
        output.print_document(document(answers, compared), given.output)
    return 0 if all(one.fits for one in answers) else 1
