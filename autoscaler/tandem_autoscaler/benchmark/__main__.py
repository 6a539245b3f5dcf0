"""`python -m tandem_autoscaler.benchmark`: the whole benchmark, or a part of it."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tandem_autoscaler.benchmark import pareto
from tandem_autoscaler.benchmark.case import Case
from tandem_autoscaler.benchmark.contenders import contenders, unavailable
from tandem_autoscaler.benchmark.frontier import Point, cheapest_reaching
from tandem_autoscaler.benchmark.play import Answer, Crew, Task, play, search
from tandem_autoscaler.benchmark.row import Row, gpu_hours
from tandem_autoscaler.benchmark.suite import (
    DAYS,
    SETS,
    TRACES,
    Job,
    Selection,
    jobs,
    simulation,
    sweep_jobs,
    tuning_cases,
)
from tandem_autoscaler.benchmark.table import print_tables
from tandem_autoscaler.benchmark.tuning import choose
from tandem_autoscaler.benchmark.verdict import verdict
from tandem_autoscaler.simulator.catalogue import SCENARIOS

FOLDER = Path("build/bench")
USUAL_COLD_START_SECONDS = 40.0
_FILE_WIDTH = 160
# Requests that the hindsight search simulates per trace and seed: some 2 s of one core per million.
SEARCH_REQUESTS, QUICK_SEARCH_REQUESTS = 6_000_000, 5_000_000

Curves = dict[tuple[str, int, float], list[Point]]
"""(trace, seed, cold start) -> hindsight"""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    # In a file the tables keep their width.
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
    try:
        selection = _selection(options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for name in contenders():
        if selection.takes_part(name) and (why := unavailable(name)):
            console.print(f"[bold red]{name} does not take part: {why}[/]")
            rest = tuple(other for other in contenders() if other != name and selection.takes_part(other))
            selection = replace(selection, policies=rest)
    began = time.monotonic()
    crew = Crew(options.processes)
    try:
        rows, sweeps, curves = _run(crew, console, selection, options)
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return 130
    finally:
        crew.close()
    options.out.mkdir(parents=True, exist_ok=True)
    _write(options.out / "policies.json", rows)
    _write(options.out / "sweeps.json", sweeps)
    print_tables(console, rows)
    main_rows = [row for row in rows if row["set"] == "main"]
    for trace in dict.fromkeys(row["trace"] for row in main_rows):
        seeds = sorted({seed for at, seed, _ in curves if at == trace})
        hindsight = curves[trace, seeds[0], USUAL_COLD_START_SECONDS] if seeds else []
        drawn = pareto.draw(
            trace,
            [row for row in main_rows if row["trace"] == trace],
            [row for row in sweeps if row["trace"] == trace],
            hindsight,
            options.out,
        )
        console.print(f"drawn: {drawn}")
    console.print(verdict(main_rows, sweeps), markup=False, highlight=False)
    console.print(f"{len(rows)} rows in {options.out / 'policies.json'}, {time.monotonic() - began:.0f} s")
    return 0


def _run(
    crew: Crew, console: Console, selection: Selection, options: argparse.Namespace
) -> tuple[list[Row], list[Row], Curves]:
    columns = (TextColumn("{task.description:>10}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:

        def each(
            what: str, work: Callable[[Task], Answer], tasks: Sequence[Task]
        ) -> list[tuple[Task, Answer]]:
            bar = progress.add_task(what, total=len(tasks))
            done = []
            for count, (task, answer) in enumerate(crew.each(work, tasks), 1):
                progress.advance(bar)
                if not console.is_terminal and count % max(1, len(tasks) // 10) == 0:
                    console.print(f"{what}: {count} of {len(tasks)}", highlight=False)
                if isinstance(answer, Exception):
                    console.print(f"failed: {task}: {answer}", style="bold red", markup=False)
                else:
                    done.append((task, answer))
            return done

        def rows_of(what: str, wanted: Sequence[Job]) -> list[Row]:
            """A case that stands in several sets, or whose tuned constants are the published ones, is run once."""
            same: dict[Case, list[Job]] = {}
            for job in wanted:
                same.setdefault(simulation(job.case), []).append(job)
            found = each(what, play, [group[0] for group in same.values()])
            return [
                row | {"set": job.set_name, "tuned": job.case.tuned}
                for first, row in found
                for job in same[simulation(first.case)]
            ]

        curves: Curves = {}
        if not options.no_hindsight:
            searches = [
                (
                    Case(trace, "", seed=seed, cold_start_seconds=USUAL_COLD_START_SECONDS),
                    options.hindsight_requests
                    or (QUICK_SEARCH_REQUESTS if options.quick else SEARCH_REQUESTS),
                    options.out / "hindsight",
                    selection.cold_starts if "cold" in selection.sets else (),
                    None if options.hindsight_around is None else options.hindsight_around / 100.0,
                )
                for trace in sorted(selection.traces, key=lambda trace: trace not in DAYS)
                for seed in selection.hindsight_seeds_of(trace)
            ]
            for task, by_cold_start in each("hindsight", search, searches):
                for seconds, points in by_cold_start.items():
                    curves[task[0].trace, task[0].seed, seconds] = points
        candidates = [] if options.no_tuning else [Job("tuning", case) for case in tuning_cases(selection)]
        candidates.sort(key=lambda job: job.case.trace not in DAYS)
        tuned = choose(rows_of("tuning", candidates))
        reported = jobs(selection, tuned)
        rows = rows_of("policies", reported)
        sweeps = rows_of("sweeps", [] if options.no_sweeps else sweep_jobs(selection, reported))
    order = {name: at for at, name in enumerate((*SETS, *TRACES, *contenders()))}
    for found in (rows, sweeps):
        for row in found:
            row["oracle_ratio"] = _oracle_ratio(row, curves)
        found.sort(
            key=lambda row: (order.get(row["set"], 0), order.get(row["trace"], 99), order[row["policy"]],
                             row["tuned"], row["cold_start_seconds"], row["model_error"], row["outage"],
                             row["router"], repr(row["constants"]), row["seed"])
        )  # fmt: skip
    return rows, sweeps, curves


def _oracle_ratio(row: Row, curves: Curves) -> float | None:
    """None with a model error: that fleet has other times, and no hindsight was searched for it."""
    points = curves.get((row["trace"], row["seed"], row["cold_start_seconds"]))
    if points is None or row["model_error"]:
        return None
    cheapest = cheapest_reaching(points, row["joint_attainment"])
    return None if cheapest is None else gpu_hours(row) / cheapest


def _write(path: Path, rows: list[Row]) -> None:
    """Whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    part.replace(path)


def _selection(options: argparse.Namespace) -> Selection:
    """Raises ValueError, one sentence, for a name that there is not."""
    for what, given, known in (
        ("trace", options.traces, SCENARIOS),
        ("policy", options.policies, contenders()),
        ("set", options.sets, SETS),
    ):
        for name in given or ():
            if name not in known:
                raise ValueError(f"there is no {what} {name!r}; there are {', '.join(known)}")
    usual = Selection()
    if options.hindsight_around is not None and not 50 <= options.hindsight_around < 100:
        raise ValueError(
            f"an attainment to search around is 50 to below 100 %, not {options.hindsight_around:g}"
        )
    for count in (options.hindsight_requests, options.hindsight_seeds):
        if count is not None and count < 1:
            raise ValueError(
                f"a search has at least one seed and simulates at least one request, not {count}"
            )
    traces = options.traces or [trace for trace in usual.traces if not (options.quick and trace in DAYS)]
    quick = replace(usual, seeds=2, day_seeds=1, few_seeds=1, sweep_seeds=1, sets=("main",))
    selection = replace(
        quick if options.quick else usual, traces=tuple(traces), policies=tuple(options.policies or ())
    )
    if options.sets:
        selection = replace(selection, sets=tuple(options.sets))
    if options.seeds:
        selection = replace(selection, seeds=options.seeds, day_seeds=min(options.seeds, usual.day_seeds))
    if options.hindsight_seeds:
        selection = replace(selection, hindsight_seeds=options.hindsight_seeds)
    if options.cold_starts:
        selection = replace(selection, cold_starts=tuple(options.cold_starts))
    return selection


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tandem_autoscaler.benchmark", description=__doc__)
    parser.add_argument("--traces", nargs="+", metavar="NAME", help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--policies", nargs="+", metavar="NAME", help="default: all")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help=f"of {', '.join(SETS)}")
    parser.add_argument("--seeds", type=int, metavar="N", help="seeds 1 to N are reported")
    parser.add_argument("--cold-starts", type=float, nargs="+", metavar="SECONDS", help="of the set cold")
    parser.add_argument(
        "--quick", action="store_true", help="the main set without the days, two seeds, short searches"
    )
    parser.add_argument(
        "--no-hindsight", action="store_true", help="leave out the search for hindsight schedules"
    )
    parser.add_argument(
        "--hindsight-requests", type=int, metavar="N",
        help=f"requests that its search simulates per trace and seed (default {SEARCH_REQUESTS}; a day has a million)",
    )  # fmt: skip
    parser.add_argument(
        "--hindsight-around", type=float, metavar="PERCENT", help="search only for what this attainment costs"
    )
    parser.add_argument(
        "--hindsight-seeds",
        type=int,
        metavar="N",
        help="search for seeds 1 to N (default 2; of a day always one)",
    )
    parser.add_argument("--no-tuning", action="store_true", help="defaults only")
    parser.add_argument("--no-sweeps", action="store_true", help="leave out the lines of the pictures")
    parser.add_argument("--processes", type=int, default=2, metavar="N")
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="FOLDER", help=f"default {FOLDER}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
