# SPDX-License-Identifier: MIT
"""Find nvcc, or only the CUDA headers, for Meson.

    find_nvcc.py nvcc 80 90   "<nvcc>;<library folder>;<flag>;<flag>..." of the first that compiles
                              a kernel for these architectures, or for those of `all`
    find_nvcc.py headers      "<folder>;<folder>..." to be included

Searched, in this order: $NVCC, PATH, $CUDA_HOME, $CUDA_PATH, /usr/local/cuda, and the wheels
nvidia-cuda-* of this Python. Prints nothing and exits with 1 if there is none.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

GENERATIONS = ("80", "90", "100", "120")
KERNEL = "#include <cuda_bf16.h>\n__global__ void k(__nv_bfloat16 *x) { x[0] = x[1]; }\n"


def toolkits() -> Iterator[Path]:
    """Folders that may hold a CUDA toolkit, and the wheels' folders, which are laid out alike."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield Path("/usr/local/cuda")
    for folder in sys.path:
        yield from sorted(Path(folder, "nvidia").glob("cu[0-9]*"), reverse=True)


def compilers() -> Iterator[str]:
    """Candidates for nvcc."""
    for candidate in (os.environ.get("NVCC"), shutil.which("nvcc")):
        if candidate:
            yield candidate
    for toolkit in toolkits():
        yield str(toolkit / "bin" / "nvcc")


def flags_for(nvcc: str, architectures: list[str]) -> list[str]:
    """Machine code for these architectures, and PTX of the last for what comes later."""
    if architectures == ["all"]:
        command = [nvcc, "--list-gpu-arch"]
        known = subprocess.run(command, capture_output=True, text=True).stdout.split()
        architectures = [a for a in GENERATIONS if f"compute_{a}" in known]
    codes = [(a, f"sm_{a}") for a in architectures]
    codes += [(a, f"compute_{a}") for a in architectures[-1:]]
    return [f"-gencode=arch=compute_{a},code={code}" for a, code in codes]


def works(nvcc: str, flags: list[str]) -> bool:
    """True if nvcc compiles a kernel with these flags; otherwise the reason goes to stderr."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.cu")
        source.write_text(KERNEL)
        command = [nvcc, *flags, "-c", str(source), "-o", str(Path(folder, "kernel.o"))]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        print(f"{nvcc}: {(run.stderr or run.stdout).strip()}", file=sys.stderr)
    return run.returncode == 0


def root(nvcc: str) -> Path:
    """Folder of the toolkit an nvcc belongs to, which may be a wrapper or a link."""
    command = [nvcc, "--dryrun", "-x", "cu", os.devnull, "-c"]
    for line in subprocess.run(command, capture_output=True, text=True).stderr.splitlines():
        if line.startswith("#$ TOP="):
            return Path(line.split("=", 1)[1].strip()).resolve()
    return Path(nvcc).resolve().parents[1]


def find_nvcc(architectures: list[str]) -> str | None:
    """The first nvcc that works and has a static runtime beside it."""
    for nvcc in compilers():
        if not os.access(nvcc, os.X_OK):
            continue
        flags = flags_for(nvcc, architectures)
        if not works(nvcc, flags):
            continue
        for library in ("lib64", "lib", "targets/x86_64-linux/lib"):
            if (root(nvcc) / library / "libcudart_static.a").exists():
                return ";".join([nvcc, str(root(nvcc) / library), *flags])
    return None


def find_headers() -> str | None:
    """The folders that cuda_runtime.h and what it includes are in."""
    roots = [*toolkits(), *(root(nvcc) for nvcc in compilers() if os.access(nvcc, os.X_OK))]
    for toolkit in roots:
        for include in (toolkit / "include", toolkit / "targets/x86_64-linux/include"):
            if (include / "cuda_runtime.h").exists() and (include / "cuda_bf16.h").exists():
                cccl = include / "cccl"
                return ";".join(map(str, [include, cccl] if cccl.exists() else [include]))
    return None


if __name__ == "__main__":
    found = find_headers() if sys.argv[1] == "headers" else find_nvcc(sys.argv[2:])
    if found is None:
        sys.exit(1)
    print(found)
