"""Known answers of issue 6, and how placements and ceilings must move when their arguments move."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_api.sizing import GPUS, MODELS, Architecture, Demand, Gpu, ceilings, gpu_named, place, smallest
from tandem_api.sizing.placement import divides
from tandem_api.sizing.roofline import step_bytes

LLAMA_8B = MODELS["llama-3.1-8b"].architecture
LLAMA_70B = MODELS["llama-3.1-70b"].architecture
H100 = GPUS["H100"]
GB, GIB = 10**9, 2**30


def test_a_hundred_conversations_of_4k_fit_one_h100_and_of_32k_do_not() -> None:
    """16 GB of weights + 50 GiB of KV cache; and 400 GiB."""
    short = place(LLAMA_8B, H100, 1, Demand(sequences=100, context=4096))
    assert short.kv_bytes == 50 * GIB and short.memory.weights_bytes == pytest.approx(16.06 * GB, rel=1e-3)
    assert short.fits and short.spare_bytes > 0
    long = place(LLAMA_8B, H100, 1, Demand(sequences=100, context=32768))
    assert long.kv_bytes == 400 * GIB and not long.fits
    assert long.memory.sequences == 14, "so many of 32K at once, and no user more"
    assert place(LLAMA_70B, H100, 8, Demand(sequences=100, context=16384)).kv_bytes == 500 * GIB


def test_pipeline_stages_keep_other_layers_and_no_copies() -> None:
    """Eight KV heads over two stages of eight GPUs: no more of a sequence than over eight GPUs."""
    stages = place(LLAMA_70B, H100, 16, Demand(), tensor_parallel=8).memory
    assert stages.kv_bytes_per_sequence == place(LLAMA_70B, H100, 8, Demand()).memory.kv_bytes_per_sequence
    one_group = place(LLAMA_70B, H100, 16, Demand()).memory
    assert one_group.kv_bytes_per_sequence == 2 * stages.kv_bytes_per_sequence


def test_steps_per_second_are_bandwidth_over_weights() -> None:
    assert ceilings(LLAMA_8B, H100, batch=1, context=0).steps_per_second == pytest.approx(209, abs=1)
    assert ceilings(LLAMA_70B, H100, gpus=2, batch=1, context=0).steps_per_second == pytest.approx(48, abs=1)


def test_prefill_is_flops_over_two_per_parameter() -> None:
    found = ceilings(LLAMA_8B, H100, batch=1, context=0)
    assert found.prefill_tokens_per_second == pytest.approx(989e12 / (2 * 8.03e9), rel=1e-3)
    faster = ceilings(LLAMA_8B, H100, batch=1, context=0, quantization="fp8")
    assert faster.prefill_tokens_per_second == pytest.approx(2 * found.prefill_tokens_per_second, rel=0.01)


def test_a_mixture_reads_few_experts_for_one_sequence_and_all_for_many() -> None:
    shape = MODELS["mixtral-8x7b"].architecture
    alone, many = (step_bytes(shape, batch=batch, context=0) for batch in (1, 64))
    assert alone == pytest.approx(2 * shape.active_parameters, rel=1e-6)
    assert many == pytest.approx(2 * shape.parameters, rel=1e-6)


def test_70b_needs_two_h100_for_its_weights_and_four_for_a_crowd() -> None:
    def gpus(name: str, **asked: int) -> int | None:
        found = {p.gpu.name: p.gpus for p in smallest(LLAMA_70B, Demand(**asked))}
        return found.get(name)

    assert gpus("H100", sequences=1, context=8192) == 2
    assert gpus("H100", sequences=1, context=65536) == 4, "two leave 12 GB beside the weights"
    assert gpus("H200", sequences=1, context=8192) == 2
    assert gpus("H200", sequences=100, context=8192) == 4
    assert gpus("T4", sequences=1, context=8192) is None, "not even eight"


def test_only_what_divides_the_heads_is_offered() -> None:
    """vLLM refuses 28 heads on 8 GPUs."""
    qwen = MODELS["qwen2.5-7b"].architecture
    assert [n for n in (1, 2, 4, 8) if divides(qwen, n)] == [1, 2, 4]
    assert divides(MODELS["deepseek-r1"].architecture, 8)


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100"), ("NVIDIA-H100-PCIe", "H100-PCIe"), ("NVIDIA-H100-NVL", "H100-NVL"),
        ("NVIDIA-H200", "H200"), ("NVIDIA-GH200-480GB", "GH200"), ("NVIDIA-A100-SXM4-80GB", "A100"),
        ("NVIDIA-A100-SXM4-40GB", "A100-40GB"), ("NVIDIA-A10", "A10"), ("NVIDIA-A10G", "A10G"), ("NVIDIA-L4", "L4"),
        ("NVIDIA-L40S", "L40S"), ("Tesla-T4", "T4"), ("NVIDIA-GB200", "GB200"), ("NVIDIA-B200", "B200"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"), ("NVIDIA-RTX-6000-Ada-Generation", "RTX-6000-Ada"),
        ("h100", "H100"), ("a100-40gb", "A100-40GB"), ("rtx4090", "RTX-4090"), ("NVIDIA-GeForce-RTX-4090", "RTX-4090"),
        ("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", None), ("NVIDIA-GeForce-GTX-1080", None), ("amd64", None), ("", None),
    ],
)  # fmt: skip
def test_gpus_are_told_apart_by_their_labels(product: str, name: str | None) -> None:
    found = gpu_named(product)
    assert (found.name if found else None) == name


def test_of_every_gpu_the_data_sheet_is_plausible() -> None:
    for name, gpu in GPUS.items():
        assert gpu_named(name) is gpu
        assert 50e12 < gpu.bf16_flops <= gpu.fp8_flops <= 2.1 * gpu.bf16_flops
        assert 0.3e12 <= gpu.bytes_per_second <= 8e12 and 15 * GB < gpu.memory_bytes < 320 * GB


models = st.sampled_from([model.architecture for model in MODELS.values()])
gpus = st.sampled_from(list(GPUS.values()))
counts = st.sampled_from([1, 2, 4, 8])
lengths, crowds = st.integers(1, 200_000), st.integers(1, 1000)


@given(models, gpus, counts, lengths, lengths, crowds, crowds, st.floats(0.3, 1.0), st.floats(0.0, 0.3))
def test_more_to_hold_never_fits_better_and_more_memory_never_worse(
    shape: Architecture, gpu: Gpu, count: int, context: int, longer: int, users: int, more: int, share: float,
    gain: float,
) -> None:  # fmt: skip
    base = place(shape, gpu, count, Demand(users, context, utilization=share))
    for heavier in (
        Demand(users + more, context, utilization=share),
        Demand(users, context + longer, utilization=share),
        Demand(users, context, utilization=share, batched_tokens=16384),
        Demand(users, context, utilization=share, max_sequences=512),
    ):
        worse = place(shape, gpu, count, heavier)
        assert worse.spare_bytes < base.spare_bytes and worse.memory.sequences <= base.memory.sequences
    for lighter in (
        Demand(users, context, utilization=min(1.0, share + gain)),
        Demand(users, context, utilization=share, kv_dtype="fp8"),
        Demand(users, context, utilization=share, quantization="fp8"),
        Demand(users, context, utilization=share, quantization="awq"),
    ):
        assert place(shape, gpu, count, lighter).memory.sequences >= base.memory.sequences
    bigger = replace(gpu, memory_bytes=2 * gpu.memory_bytes)
    assert place(shape, bigger, count, base.demand).memory.sequences >= base.memory.sequences


@given(models, gpus, counts, st.integers(1, 256), st.integers(1, 256), lengths, lengths)
def test_ceilings_fall_with_batch_and_context_and_rise_with_the_gpu(
    shape: Architecture, gpu: Gpu, count: int, batch: int, more: int, context: int, longer: int
) -> None:
    base = ceilings(shape, gpu, gpus=count, batch=batch, context=context)
    assert base.steps_per_second >= base.batch_steps_per_second > 0
    assert (
        ceilings(shape, gpu, gpus=count, batch=batch + more, context=context).batch_steps_per_second
        < base.batch_steps_per_second
    )
    assert (
        ceilings(shape, gpu, gpus=count, batch=batch, context=context + longer).batch_steps_per_second
        <= base.batch_steps_per_second
    )
    faster = replace(gpu, bytes_per_second=2 * gpu.bytes_per_second, bf16_flops=2 * gpu.bf16_flops)
    doubled = ceilings(shape, faster, gpus=count, batch=batch, context=context)
    assert doubled.prefill_tokens_per_second == pytest.approx(2 * base.prefill_tokens_per_second)
    assert doubled.batch_steps_per_second == pytest.approx(2 * base.batch_steps_per_second)


@given(models, gpus, crowds, lengths)
def test_the_fewest_gpus_are_the_fewest(shape: Architecture, gpu: Gpu, users: int, context: int) -> None:
    demand = Demand(users, context)
    for placement in smallest(shape, demand, [gpu]):
        assert placement.fits and divides(shape, placement.gpus)
        assert not any(
            place(shape, gpu, fewer, demand).fits
            for fewer in (1, 2, 4)
            if fewer < placement.gpus and divides(shape, fewer)
        )
