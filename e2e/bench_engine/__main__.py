"""`make bench-engine`: the groups of cases one after the other, a table each, and build/bench/engine.json.

python -m e2e.bench_engine                       all of them, about 40 minutes on two cores
python -m e2e.bench_engine --quick               fewer cases and requests, about 15 minutes
python -m e2e.bench_engine chunking batching     only these
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from e2e.bench_engine import cases, late_demotion
from e2e.bench_engine.engine import NotStarted
from e2e.bench_engine.environment import bench_model, engine_python, has_fp8_kv
from e2e.bench_engine.load import LoadError
from e2e.bench_engine.rows import Row, disturbed, effect, merge, plain, table
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import say, step

_LATE_DEMOTION = "late-demotion"
# Of one group: what it is that the comparison shows.
_EFFECTS = {
    "chunking": [
        ("chunked prefill off", "chunks of 256"),
        ("chunked prefill off", "chunks of 256, 128 of one prompt"),
        ("chunked prefill off", "chunks of 512, 256 of one prompt"),
    ],
    "disaggregation": [
        ("colocated, two workers of half the cores", "disaggregated, one worker for prompts and one for answers")
    ],
    "prefix-caching": [("prefix caching off", "prefix caching on")],
    "batching": [
        ("one request at a time", "continuous batching"),
        ("continuous batching", "continuous batching, KV cache in fp8"),
    ],
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point. 1: a group could not be run; the rows of the others are written."""
    options = _options(arguments)
    can_fp8 = has_fp8_kv()
    groups = cases.groups(quick=options.quick, fp8_kv=can_fp8)
    wanted = options.groups or [*groups, _LATE_DEMOTION]
    unknown = [name for name in wanted if name not in groups and name != _LATE_DEMOTION]
    if unknown:
        say(
            f"e2e.bench_engine: there is no group {unknown[0]}; there are {', '.join([*groups, _LATE_DEMOTION])}"
        )
        return 2
    status = 0
    for name in wanted:
        try:
            if name == _LATE_DEMOTION:
                _late_demotion(options.out, quick=options.quick)
            else:
                _group(name, groups[name], options.out)
        except (ClusterError, NotStarted, LoadError, RuntimeError) as error:
            say(f"e2e.bench_engine: {name}: {error}")
            status = 1
    if not can_fp8 and "batching" in wanted:
        say(
            "KV cache in fp8: not run, vLLM's attention on the CPU needs AVX-512 for it and this machine has none"
        )
    return status


def _group(name: str, group: cases.Group, out: Path) -> None:
    python = engine_python()
    model = bench_model(python)
    rows: list[Row] = []
    with step(f"{name}: {len(group.cases)} engines"):
        for row in cases.run(group, python, model):
            rows.append(row)
            say("  " + table([row]).splitlines()[-1])
            # After each, so that what was measured survives an engine that does not start.
            merge(out, [plain(one) for one in rows])
    print(f"\n{name}\n\n{table(rows)}\n")
    noise = disturbed(rows)
    if noise is not None:
        say(f"  {name}: {noise}")
    for before, after in _EFFECTS[name]:
        told = effect(rows, before, after)
        if told is not None:
            print(told)


def _late_demotion(out: Path, *, quick: bool) -> None:
    with step("late demotion: a worker without and one with it"):
        rows = late_demotion.on_real_engine(seconds=30.0 if quick else 60.0, seeds=(1,) if quick else (1, 2))
    print(f"\nlate demotion\n\n{late_demotion.table(rows)}\n")
    merge(out, [asdict(row) for row in rows])


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.bench_engine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="default: all of them")
    parser.add_argument("--quick", action="store_true", help="fewer cases, fewer requests")
    parser.add_argument(
        "--out",
        type=Path,
        default=late_demotion.RESULT,
        help="JSON file of the rows (build/bench/engine.json)",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
