"""Data sheets of GPUs, and which one a product label or a user means.

FLOP/s are dense (vendors print twice that, with sparsity), accumulated in float32. Memory is what the driver reports,
a little below the name's. `link_bytes_per_second` is what an all-reduce over NVLink or PCIe moves in practice.
"""

import re
from dataclasses import dataclass
from typing import Final

_MIB: Final = 2**20


@dataclass(frozen=True)
class Gpu:
    """One GPU. `fp8_flops` equals `bf16_flops` where it has no fp8 units: the weights are then only smaller."""

    name: str
    bf16_flops: float
    fp8_flops: float
    bytes_per_second: float
    memory_bytes: int
    link_bytes_per_second: float

    @property
    def has_fp8(self) -> bool:
        return self.fp8_flops > self.bf16_flops


def _gpu(name: str, bf16: float, fp8: float | None, tb_per_second: float, mib: int, link_gb: float) -> Gpu:
    """Teraflops, terabytes per second, mebibytes, gigabytes per second."""
    flops = bf16 * 1e12
    return Gpu(
        name, flops, flops if fp8 is None else fp8 * 1e12, tb_per_second * 1e12, mib * _MIB, link_gb * 1e9
    )


# Smallest memory first.
GPUS: Final[dict[str, Gpu]] = {
    gpu.name: gpu
    for gpu in (
        _gpu("T4", 65, None, 0.320, 15_360, 8),
        _gpu("A10G", 70, None, 0.600, 23_028, 12),
        _gpu("A10", 125, None, 0.600, 23_028, 12),
        _gpu("L4", 121, 242, 0.300, 23_034, 12),
        _gpu("RTX-4090", 165, 330, 1.008, 24_564, 12),
        _gpu("RTX-5090", 210, 419, 1.792, 32_607, 25),
        _gpu("A100-40GB", 312, None, 1.555, 40_960, 90),
        _gpu("A40", 150, None, 0.696, 46_068, 20),
        _gpu("L40S", 362, 733, 0.864, 46_068, 20),
        _gpu("RTX-6000-Ada", 364, 728, 0.960, 49_140, 20),
        _gpu("H100-PCIe", 756, 1513, 2.0, 81_559, 45),
        _gpu("H100", 989, 1979, 3.35, 81_559, 135),
        _gpu("A100", 312, None, 2.04, 81_920, 90),
        _gpu("H100-NVL", 835, 1671, 3.9, 95_830, 90),
        _gpu("RTX-PRO-6000", 504, 1007, 1.597, 97_887, 25),
        _gpu("H20", 148, 296, 4.0, 97_871, 135),
        _gpu("GH200", 989, 1979, 4.0, 97_871, 135),
        _gpu("H200", 989, 1979, 4.8, 143_771, 135),
        _gpu("B200", 2250, 4500, 8.0, 183_359, 270),
        _gpu("GB200", 2500, 5000, 8.0, 189_471, 270),
        _gpu("MI300X", 1307, 2615, 5.3, 196_592, 100),
        _gpu("MI325X", 1307, 2615, 6.0, 262_128, 100),
        _gpu("MI355X", 2517, 5033, 8.0, 294_896, 150),
    )
}
# The words by which a label tells GPUs of one name apart. Of those whose words are all there, the one with most wins.
_WORDS: Final = {
    **{name: frozenset(name.lower().split("-")) for name in GPUS},
    "RTX-6000-Ada": frozenset({"6000", "ada"}),
    "RTX-PRO-6000": frozenset({"pro", "6000"}),
    "RTX-4090": frozenset({"4090"}),
    "RTX-5090": frozenset({"5090"}),
}


def gpu_named(product: str) -> Gpu | None:
    """The GPU of a product label such as `NVIDIA-H100-80GB-HBM3`, or of a name as users write it.

    None for one that is not in the table, and for a MIG slice, which has only a part of the GPU's memory.
    """
    text = product.strip().lower()
    words = frozenset(word for word in re.split(r"[^a-z0-9.]+", text) if word)
    if any(word.startswith("mig") for word in words):
        return None
    squeezed = re.sub(r"[^a-z0-9]", "", text)
    for name, gpu in GPUS.items():
        if squeezed == re.sub(r"[^a-z0-9]", "", name.lower()):
            return gpu
    found = [name for name in GPUS if _WORDS[name] <= words]
    return GPUS[max(found, key=lambda name: len(_WORDS[name]))] if found else None
