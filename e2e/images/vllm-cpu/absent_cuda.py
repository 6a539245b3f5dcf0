"""Stand in for the CUDA libraries that torch names but a CPU never calls: python absent_cuda.py SITE_PACKAGES

torch's shared objects list libcublas, libcudnn and a dozen others as needed, so the loader wants files of these
names; on a machine without a GPU no function of theirs is ever called. One small library that defines every
undefined symbol, each ending the process with a sentence, satisfies the loader under all the names. The CUDA
runtime itself stays real (package nvidia-cuda-runtime): torch's static initialisers do call it.
"""

import re
import subprocess
import sys
from pathlib import Path

REAL = {"libcudart.so.13", "libcuda.so.1"}  # libcuda is loaded on demand only, and must then be absent
NAMES = re.compile(r"lib(cu|nv|nccl)")
SYMBOLS = re.compile(r"(cu|nccl|nvrtc|nvshmem|nvml|nvJit)\w*|_Z\w*nvshmem\w*")


def needed_and_undefined(libraries: list[Path]) -> tuple[set[str], set[str]]:
    """(names of libraries to stand in for, symbols that these would define)."""
    needed: set[str] = set()
    undefined: set[str] = set()
    for library in libraries:
        dynamic = subprocess.run(
            ["readelf", "-dW", library], capture_output=True, text=True, check=True
        ).stdout
        needed |= {n for n in re.findall(r"NEEDED.*\[(.*?)\]", dynamic) if NAMES.match(n)} - REAL
        symbols = subprocess.run(
            ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
        ).stdout
        for line in symbols.splitlines():
            symbol, _, version = line.split()[-1].partition("@")
            if SYMBOLS.fullmatch(symbol) and version.lstrip("@") not in REAL:
                undefined.add(symbol)
    return needed, undefined


def main(site_packages: Path) -> None:
    needed, undefined = needed_and_undefined(sorted((site_packages / "torch" / "lib").glob("*.so")))
    folder = site_packages / "nvidia" / "cu13" / "lib"  # on the run path of torch's libraries
    source = folder / "absent.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        'static void absent(void) { fputs("this image has no CUDA libraries\\n", stderr); abort(); }\n'
        + "".join(f"void {symbol}(void) {{ absent(); }}\n" for symbol in sorted(undefined))
    )
    target = folder / "libabsent.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Os", "-w", "-fno-builtin", "-o", target, source], check=True)
    source.unlink()
    for name in needed:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target.name)
    print(f"{len(needed)} libraries, {len(undefined)} functions stood in for")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
