# SPDX-License-Identifier: MIT
"""Expand the Fortran sources to fortran/fpm_src, for fpm and for readers without fypp."""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools" / "interface"))
from declarations import families  # noqa: E402

# fpm links the system's OpenBLAS (libopenblas-dev)
DEFINES = ["-SBLAS_NAME=openblas", "-SBLAS_PREFIX="]

root = Path(__file__).resolve().parents[1]
interface = root.parent / "tools" / "interface"
target = root / "fpm_src"


def expand(source: Path, output: Path, *options: str) -> None:
    """Plain Fortran of a template."""
    command = [sys.executable, "-m", "fypp", *DEFINES, f"-I{root}", *options]
    subprocess.run([*command, str(source), str(output)], check=True)


if target.exists():
    shutil.rmtree(target)
sources = [root / "gnograd.f90"]
# the interfaces of the CUDA library, which is loaded when a program asks for a GPU
target.mkdir(parents=True)
shutil.copy(root.parent / "cuda" / "gnograd_cuda.f90", target)
folders = "core", "weights", "primitives", "kernels", "entries", "device", "autodiff", "nn", "capi"
for folder in folders:
    suffixes = ".f90", ".fypp", ".c", ".h"
    sources += sorted(p for p in (root / folder).rglob("*") if p.suffix in suffixes)
for source in sources:
    output = target / source.relative_to(root)
    output.parent.mkdir(parents=True, exist_ok=True)
    if source.name == "operators.fypp":  # of each family, from the declarations of its operators
        for family in families():
            options = f"-M{interface}", "-mfortran", f'-DFAMILY="{family}"'
            expand(source, output.with_name(f"{source.parent.name}_{family}.f90"), *options)
    elif source.suffix == ".fypp":
        expand(source, output.with_suffix(".f90"))
    else:
        shutil.copy(source, output)
