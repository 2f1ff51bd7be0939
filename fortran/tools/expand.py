# SPDX-License-Identifier: MIT
"""Expand the Fortran sources to fortran/fpm_src, for fpm and for readers without fypp."""

import shutil
import subprocess
import sys
from pathlib import Path

# fpm links the system's OpenBLAS (libopenblas-dev)
DEFINES = ["-SBLAS_NAME=openblas", "-SBLAS_PREFIX="]

root = Path(__file__).resolve().parents[1]
target = root / "fpm_src"
if target.exists():
    shutil.rmtree(target)
sources = [root / "gnograd.f90"]
for folder in ("core", "primitives", "kernels", "autodiff", "capi"):
    sources += sorted(p for p in (root / folder).rglob("*") if p.suffix in (".f90", ".fypp", ".c"))
for source in sources:
    output = target / source.relative_to(root)
    output.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".fypp":
        output = output.with_suffix(".f90")
        command = [sys.executable, "-m", "fypp", *DEFINES, f"-I{root}", str(source), str(output)]
        subprocess.run(command, check=True)
    else:
        shutil.copy(source, output)
