"""How much memory the engine may fill here."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DeviceMemory:
    """GPUs: `bytes_per_device` of the smallest of `devices`. CPU: `devices` is 0 and `kv_space_bytes` is what
    VLLM_CPU_KVCACHE_SPACE sets apart (None: the engine decides); `bytes_per_device` is the container's limit.
    """

    devices: int
    bytes_per_device: int
    kv_space_bytes: int | None = None
    name: str = ""


def device_memory(environ: Mapping[str, str]) -> DeviceMemory | None:
    """What is here, by torch; None where that cannot be known."""
    try:
        import torch
    except ImportError:
        return None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count:
        properties = [torch.cuda.get_device_properties(index) for index in range(count)]
        smallest = min(properties, key=lambda device: device.total_memory)
        return DeviceMemory(count, int(smallest.total_memory), name=str(smallest.name))
    return cpu_memory(environ)


def cpu_memory(environ: Mapping[str, str], cgroup: Path = Path("/sys/fs/cgroup")) -> DeviceMemory:
    """The host, or the container's limit where it is lower."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            limit = (cgroup / file).read_text().strip()
        except OSError:
            continue
        if limit.isdigit():  # "max" is no limit
            total = min(total, int(limit))
    space = environ.get("VLLM_CPU_KVCACHE_SPACE", "")
    try:
        kv_space = int(float(space) * 2**30) if space else None
    except ValueError:
        kv_space = None
    return DeviceMemory(0, total, kv_space or None, "CPU")
