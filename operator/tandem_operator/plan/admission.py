"""Settings that are valid each by itself and will not do together on what is there: told by condition, never held back.

What can be told from the manifest alone is refused (`observe/engine_spec.py`, CEL). This needs the model or the
cluster.
"""

from collections.abc import Iterator

from tandem_api.reasons import Condition, Reason
from tandem_api.sizing.spec import model_of
from tandem_operator.build.engine_args import model_place
from tandem_operator.build.engine_settings import engine_settings
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.conditions import Verdict

_SHARED = frozenset({"ReadOnlyMany", "ReadWriteMany"})


def settings_sound(observed: Observed) -> Verdict | None:
    """The first thing that will not do; None while there is none, so that the condition is absent."""
    for reason, message in _unsound(observed):
        return Verdict(Condition.SETTINGS_SOUND, "False", reason, message)
    return None


def _unsound(observed: Observed) -> Iterator[tuple[Reason, str]]:
    yield from _whole_prompts(observed)
    yield from _volume(observed)
    yield from _parallelism(observed)


def _whole_prompts(observed: Observed) -> Iterator[tuple[Reason, str]]:
    """Field case E4 where no maxModelLen is set: the engine then takes the model's own."""
    spec = observed.spec
    assert spec is not None
    model = model_of(spec)
    if model is None or spec.engine.max_model_len is not None:
        return
    length = model.architecture.max_position
    for name, role in spec.roles.items():
        chunked = engine_settings(spec, role).chunked_prefill
        if length is None or chunked is None or chunked.enabled or chunked.max_batched_tokens is None:
            continue
        if chunked.max_batched_tokens < length:
            yield (
                Reason.TOKEN_BUDGET_TOO_SMALL,
                f"{name}: with chunked prefill off a prompt is computed in one step, and maxBatchedTokens "
                f"{chunked.max_batched_tokens} is less than the model's {length} tokens; set engine.maxModelLen to "
                f"{chunked.max_batched_tokens} or less, or switch chunked prefill on",
            )


def _volume(observed: Observed) -> Iterator[tuple[Reason, str]]:
    """Field case E9: a claim that one node may mount, and workers on several."""
    spec = observed.spec
    assert spec is not None
    modes = observed.claim_modes
    most = sum(
        role.nodes * (role.replicas if role.replicas is not None else role.max_replicas)
        for role in spec.roles.values()
    )
    if modes is None or most <= 1 or _SHARED & set(modes):
        return
    claim = model_place(spec.model.uri).claim
    yield (
        Reason.VOLUME_NOT_SHARED,
        f"claim {claim} is {', '.join(modes)}, and up to {most} pods mount it: those on a second node stay Pending; "
        "use a claim that is ReadOnlyMany or ReadWriteMany, or one worker",
    )


def _parallelism(observed: Observed) -> Iterator[tuple[Reason, str]]:
    """Field case E5: vLLM's NIXL connector reads across tensor-parallel sizes; SGLang warns of it (sglang#15674)."""
    spec = observed.spec
    assert spec is not None
    if spec.mode != "Disaggregated" or spec.engine.type != "sglang":
        return
    sizes = {name: role.tensor_size for name, role in spec.roles.items()}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{name} {size}" for name, size in sizes.items())
        yield (
            Reason.PARALLELISM_DIFFERS,
            f"SGLang's hand-over between different tensor-parallel sizes ({said}) is known to fail under load; give "
            "both roles the same gpus and tensorParallel",
        )
