"""The baselines by name, each with its published defaults and the constants among which it may be tuned."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tandem_autoscaler.simulator.policies import static
from tandem_autoscaler.simulator.policies.aibrix_apa import AibrixApa
from tandem_autoscaler.simulator.policies.constant_headroom import ConstantHeadroom
from tandem_autoscaler.simulator.policies.heteroscale import HeteroScale
from tandem_autoscaler.simulator.policies.hpa import Hpa
from tandem_autoscaler.simulator.policies.keda import Keda
from tandem_autoscaler.simulator.policies.kpa import Kpa
from tandem_autoscaler.simulator.policies.oracle_model import oracle_model
from tandem_autoscaler.simulator.policies.policy import Policy
from tandem_autoscaler.simulator.policies.tokenscale import TokenScale
from tandem_autoscaler.simulator.policies.wva_queueing import WvaQueueing
from tandem_autoscaler.simulator.policies.wva_saturation import WvaSaturation, WvaSaturationV1

Constants = Mapping[str, Any]
Make = Callable[..., Policy]
"""make(trace, profile, **constants)"""


@dataclass(frozen=True)
class Contender:
    """`grid`: one dial, from frugal to generous; `default` is what is published and lies on it.

    `levers`: fields of FleetSettings that the policy's own system brings along. Baselines have none, as others ship
    them; the rows "...+demotion" show how much of the difference is the smart prefill queue alone.
    """

    name: str
    make: Make
    default: Constants
    grid: tuple[Constants, ...]
    levers: Constants = field(default_factory=dict)
    uses_model: bool = False  # believes a table of the hardware, so that an error of the table matters


def _sized(policy: Callable[..., Policy]) -> Make:
    return lambda trace, profile, **constants: policy(profile, **constants)


def _dial(name: str, *values: float, **fixed: float) -> tuple[Constants, ...]:
    return tuple({name: value, **fixed} for value in values)


# What constant_headroom takes over from ours: shrink after 30 s, and size boldly where late prompts step aside.
_LEVERS = {"hold_seconds": 30.0, "allowance": 0.3}

_DEMOTION = {"late_demotion": True}

_SCALE = _dial("scale", 1.5, 1.0, 0.65, 0.4, 0.25)
_HPA = Contender("hpa", _sized(Hpa), {"scale": 1.0}, _SCALE)
_KPA = Contender("kpa", _sized(Kpa), {"scale": 1.0}, _SCALE)
_CONSTANT = Contender(
    "constant_headroom",
    _sized(ConstantHeadroom),
    {"headroom": 1.25},
    _dial("headroom", 1.0, 1.1, 1.25, 1.5, 2.0),
    uses_model=True,
)

_ALL = (
    Contender("static", lambda trace, profile, **c: static.peak(trace, profile, **c), {"share": 1.0},
             _dial("share", 0.55, 0.7, 0.85, 1.0), uses_model=True),
    _HPA,
    _KPA,
    Contender("keda", _sized(Keda), {"scale": 1.0}, _SCALE),
    Contender("aibrix_apa", _sized(AibrixApa), {"scale": 1.0}, _SCALE),
    Contender("wva_saturation", _sized(WvaSaturation), {"scale": 1.0}, _dial("scale", 1.0, 0.7, 0.45, 0.25)),
    Contender("wva_saturation_v1", _sized(WvaSaturationV1), {"scale": 1.0}, _dial("scale", 1.0, 0.7, 0.4)),
    Contender("wva_queueing", _sized(WvaQueueing), {"headroom": 1.0},
             _dial("headroom", 1.0, 1.25, 1.5, 1.8, 2.2), uses_model=True),
    Contender("tokenscale", _sized(TokenScale), {"utilisation": 1.0},
             _dial("utilisation", 1.0, 0.75, 0.55, 0.4, 0.3), uses_model=True),
    Contender("heteroscale", _sized(HeteroScale), {"utilisation": 0.8},
             _dial("utilisation", 0.8, 0.65, 0.5, 0.35), uses_model=True),
    _CONSTANT,
    Contender("constant_headroom+demotion", _CONSTANT.make, _CONSTANT.default, (), _DEMOTION, True),
    Contender("constant_headroom+levers", _CONSTANT.make, {"headroom": 1.1, **_LEVERS},
             _dial("headroom", 1.0, 1.1, 1.2, 1.35, 1.6, **_LEVERS), {**_DEMOTION, "undrain": True}, True),
    Contender("hpa+demotion", _HPA.make, _HPA.default, (), _DEMOTION),
    Contender("kpa+demotion", _KPA.make, _KPA.default, (), _DEMOTION),
    Contender("oracle_model", oracle_model, {"allowance": 0.0375},
             _dial("allowance", 0.125, 0.0375, 0.008, 0.001), uses_model=True),
)  # fmt: skip

BASELINES: dict[str, Contender] = {baseline.name: baseline for baseline in _ALL}
GRID: dict[str, tuple[Constants, ...]] = {name: baseline.grid for name, baseline in BASELINES.items()}
