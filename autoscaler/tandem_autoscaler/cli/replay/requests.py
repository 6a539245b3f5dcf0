"""The requests of `--trace`."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.replay.from_prometheus import from_prometheus
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces import NAMES, from_csv, named
from tandem_autoscaler.simulator.traces.recorded import WARM_UP_SECONDS, superposed

_PROMETHEUS = "prometheus:"
# Of a trace, at most so large a part is warm-up.
_WARM_UP_SHARE = 0.1


def load(
    what: str,
    service: Service,
    *,
    seed: int,
    scale: float | None = None,
    duration_seconds: float | None = None,
) -> Trace:
    """The trace with its warm-up. Raises Mistake."""
    try:
        trace = _first(_load(what, service, seed, scale), duration_seconds)
    except ValueError as error:
        raise Mistake(str(error)) from None
    if not (trace.arrival >= trace.warm_up_seconds).any():
        raise Mistake(f"{trace.name}: no request within {trace.duration_seconds:g} s, the warm-up apart")
    return trace


def _load(what: str, service: Service, seed: int, scale: float | None) -> Trace:
    if what in NAMES:
        return named(what, seed, scale=scale)
    random = np.random.default_rng(seed)
    if what.startswith(_PROMETHEUS):
        trace = from_prometheus(what.removeprefix(_PROMETHEUS), service, random)
    elif Path(what).suffix or "/" in what or Path(what).exists():
        trace = from_csv(what)
    else:
        raise ValueError(f"there is no trace and no file {what!r}; there are {', '.join(NAMES)}")
    if scale is None:
        return trace
    arrival, prompt, output = superposed(
        trace.arrival, trace.prompt, trace.output, random, scale, trace.duration_seconds
    )
    return replace(trace, arrival=arrival, prompt=prompt, output=output)


def _first(trace: Trace, duration_seconds: float | None) -> Trace:
    """A recording has no warm-up of its own, but a policy needs to have seen something."""
    seconds = min(trace.duration_seconds, duration_seconds or trace.duration_seconds)
    count = int(np.searchsorted(trace.arrival, seconds, side="left"))
    return replace(
        trace,
        arrival=trace.arrival[:count],
        prompt=trace.prompt[:count],
        output=trace.output[:count],
        duration_seconds=seconds,
        warm_up_seconds=min(trace.warm_up_seconds or WARM_UP_SECONDS, _WARM_UP_SHARE * seconds),
    )
