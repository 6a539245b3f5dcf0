"""The flags of `kubectl tandem size`, and its steps."""

import argparse
import math

from tandem_autoscaler.cli import manifest, output
from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.size.answer import answer
from tandem_autoscaler.cli.size.document import document
from tandem_autoscaler.cli.size.question import Wanted, from_flags, from_manifest
from tandem_autoscaler.cli.size.report import print_answers

_EXAMPLES = """\
examples:
  kubectl tandem size --model meta-llama/Llama-3.1-8B-Instruct --gpu H100 --concurrency 100 --context 4096
  kubectl tandem size --model deepseek-r1 --context 16384
  kubectl tandem size -f chat.yaml --gpu A100-40GB -o json

The exit status is 1 when it does not fit.
"""
_MOST = 100_000_000


def add(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand to the program."""
    flags = subcommands.add_parser(
        "size",
        help="does a model fit a GPU, and for how many users",
        description="Weights, KV cache and activations against the memory of a GPU; the highest concurrency; and how "
        "fast prefill and decode can be at most. Needs neither a cluster nor a GPU.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    flags.add_argument("-f", "--filename", metavar="FILE", help="an InferenceService; - is stdin")
    flags.add_argument(
        "--model", metavar="MODEL", help="a Hugging Face id, a name of the built-in list, or a directory"
    )
    flags.add_argument(
        "--gpu", metavar="NAME", help="such as H100, A100-40GB, L40S, or a node's product label"
    )
    flags.add_argument("--gpus", type=_whole, metavar="N", help="GPUs of one worker, in tensor parallel")
    flags.add_argument("--concurrency", type=_whole, metavar="N", help="sequences at once (default 1)")
    flags.add_argument(
        "--context", type=_whole, metavar="TOKENS",
        help="of each sequence, prompt and answer (default: engine.maxModelLen, or else the model's own)",
    )  # fmt: skip
    flags.add_argument("--quantization", choices=("none", "fp8", "awq", "gptq"))
    flags.add_argument("--kv-cache-dtype", choices=("auto", "bf16", "fp8"))
    flags.add_argument(
        "--utilization",
        type=_share,
        metavar="SHARE",
        help="of the memory that the engine takes (default 0.92)",
    )
    flags.add_argument(
        "--batched-tokens", type=_whole, metavar="N", help="of one step, for the activations (default 8192)"
    )
    flags.add_argument("-o", "--output", choices=output.FORMS, default="table")
    flags.set_defaults(run=run)


def run(flags: argparse.Namespace) -> int:
    """0: fits, or nothing said on which GPU; 1: does not fit. Raises Mistake."""
    wanted = Wanted(
        flags.model, flags.gpu, flags.gpus, flags.concurrency, flags.context, flags.quantization,
        flags.kv_cache_dtype, flags.utilization, flags.batched_tokens,
    )  # fmt: skip
    if flags.filename is not None:
        questions = from_manifest(manifest.read(flags.filename), wanted)
    elif wanted.gpus is not None and wanted.gpu is None:
        raise Mistake("--gpus says how many; --gpu says which")
    else:
        questions = [from_flags(wanted)]
    answers = [answer(question) for question in questions]
    if flags.output == "table":
        print_answers(answers)
    else:
        output.print_document(document(answers), flags.output)
    return 0 if all(one.fits for one in answers) else 1


def _whole(text: str) -> int:
    """A whole number above zero; `4k` and `128K` are multiples of 1,024, as context lengths are told."""
    factor = 1024 if text.lower().endswith("k") else 1
    digits = text[:-1] if factor > 1 else text
    if not digits.isdecimal() or not 0 < int(digits) * factor <= _MOST:
        raise argparse.ArgumentTypeError(f"{text} is no whole number above 0, {_MOST:,} at most")
    return int(digits) * factor


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share above 0, 1 at most")
    return share
