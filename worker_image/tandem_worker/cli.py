"""`tandem-worker`: the command line of `vllm serve`, and a few words of its own."""

import json
import os
import sys
from collections.abc import Sequence

from tandem_worker.engine_flags import EngineFlags
from tandem_worker.exits import PreflightRefused, UserMistake, WorkerExit, say_last_words
from tandem_worker.launch import ENGINES, VLLM, drain_deadline_seconds, launch

USAGE = """\
usage: tandem-worker MODEL [engine flags] [--simulate PROFILE] [--late-demotion] [--no-preflight] [--no-gate]
       tandem-worker --engine sglang --model-path MODEL [engine flags] [--simulate PROFILE] [...]
       tandem-worker preflight MODEL [engine flags]
       tandem-worker close [--deadline SECONDS] [--settle SECONDS]
       tandem-worker status

Start an inference engine behind Tandem's gate (without it where --headless says that the engine has no HTTP
server). MODEL and the engine flags are those of `vllm serve`; they pass through untouched.

  --engine NAME       vllm (default) or sglang; the flags are then those of that engine
  --simulate PROFILE  serve the same HTTP API with timings from a profile (no GPU, no weights); a name
                      of a built-in profile or a path to a JSON file
  --late-demotion     the gate lets prompts into the engine one behind the other; one that cannot meet the
                      TTFT target any more, or that makes others miss it, waits for those who can
  --no-preflight      do not check the model against the device's memory
  --no-gate           start the engine without the gate

  preflight           only the check; exit 0 when the model fits, 78 when it does not
  close               (preStop) refuse new requests, wait until the open ones have ended or the deadline
                      has passed; --settle: keep serving that long first, for the router to drop the pod
  status              state of the gate, as one line of JSON

environment: TANDEM_DRAIN_DEADLINE_SECONDS (300), TANDEM_GATE_DIRECTORY, TANDEM_PODINFO
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code (or does not return, when the engine takes the process over)."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except PreflightRefused as refusal:
        say_last_words(str(refusal))
        return refusal.exit_code
    except WorkerExit as end:
        say_last_words(f"tandem-worker: {end}")
        return end.exit_code
    except KeyboardInterrupt:
        return 130


def _dispatch(words: list[str]) -> int:
    if not words:
        print(USAGE, file=sys.stderr, end="")
        raise UserMistake("no MODEL given")
    if words[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    if words[0] == "close":
        return _close(words[1:])
    if words[0] == "status":
        return _status(words[1:])
    if words[0] == "preflight":
        from tandem_worker.preflight import preflight

        words, engine = _take_engine(words[1:])
        print(preflight(_told(_engine_flags(words), engine), os.environ).summary())
        return 0
    return _serve(words[1:] if words[0] == "serve" else words)


def _serve(words: list[str]) -> int:
    words, engine = _take_engine(words)
    words, profile = _take_value(words, "--simulate")
    words, no_preflight = _take_switch(words, "--no-preflight")
    words, no_gate = _take_switch(words, "--no-gate")
    words, late_demotion = _take_switch(words, "--late-demotion")
    if late_demotion and no_gate:
        raise UserMistake("--late-demotion is done by the gate; it does not go with --no-gate")
    if late_demotion and engine != VLLM:
        raise UserMistake("--late-demotion is for --engine vllm")
    flags = _engine_flags(words)
    if flags.headless and late_demotion:
        raise UserMistake("--late-demotion is done by the gate, and there is none with --headless")
    if profile is not None and flags.headless:
        from tandem_worker.simulate.follower import follow

        return follow()
    if profile is not None:
        from tandem_worker.simulate.serve import serve

        return serve(flags, profile=profile, gate=not no_gate, late_demotion=late_demotion, engine=engine)
    if not no_preflight:
        from tandem_worker.preflight import preflight

        print(preflight(_told(flags, engine), os.environ).summary(), file=sys.stderr, flush=True)
    launch(flags, gate=not no_gate and not flags.headless, late_demotion=late_demotion, engine=engine)
    raise AssertionError("exec returned")


def _engine_flags(words: list[str]) -> EngineFlags:
    flags = EngineFlags.parse(words)
    if flags.model is None and not flags.has("model-path") and not flags.has("config"):
        raise UserMistake("no MODEL given: it is the first word, as for `vllm serve`")
    return flags


def _take_engine(words: list[str]) -> tuple[list[str], str]:
    words, engine = _take_value(words, "--engine")
    if engine not in (None, *ENGINES):
        raise UserMistake(f"--engine: {engine!r} is none of {', '.join(ENGINES)}")
    return words, engine or VLLM


def _told(flags: EngineFlags, engine: str) -> EngineFlags:
    """What the engine was told, in vLLM's words."""
    if engine == VLLM:
        return flags
    from tandem_worker.sglang_flags import as_vllm

    return as_vllm(flags)


def _close(words: list[str]) -> int:
    from tandem_worker.gate.closing import close_and_wait

    words, deadline = _take_value(words, "--deadline")
    words, settle = _take_value(words, "--settle")
    if words:
        raise UserMistake(f"close: unknown argument {words[0]!r}")
    seconds = drain_deadline_seconds(os.environ) if deadline is None else _seconds("--deadline", deadline)
    settle_seconds = 0.0 if settle is None else _seconds("--settle", settle)
    print(close_and_wait(deadline_seconds=seconds, settle_seconds=settle_seconds), file=sys.stderr)
    return 0


def _status(words: list[str]) -> int:
    from tandem_worker.gate.closing import gate_status

    if words:
        raise UserMistake(f"status: unknown argument {words[0]!r}")
    status = gate_status()
    if status is None:
        raise UserMistake("no gate is running here")
    print(json.dumps(status))
    return 0


def _seconds(flag: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise UserMistake(f"{flag}: {value!r} is not a number of seconds")
    return seconds


def _take_switch(words: list[str], flag: str) -> tuple[list[str], bool]:
    return [word for word in words if word != flag], flag in words


def _take_value(words: list[str], flag: str) -> tuple[list[str], str | None]:
    """Remove `flag VALUE` or `flag=VALUE` from `words`."""
    rest: list[str] = []
    value: str | None = None
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == flag:
            if index >= len(words) or words[index].startswith("--"):
                raise UserMistake(f"{flag} needs a value")
            value = words[index]
            index += 1
        elif word.startswith(flag + "="):
            value = word[len(flag) + 1 :]
        else:
            rest.append(word)
    if value == "":
        raise UserMistake(f"{flag} needs a value")
    return rest, value


if __name__ == "__main__":
    sys.exit(main())
