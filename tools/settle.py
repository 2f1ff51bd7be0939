# SPDX-License-Identifier: MIT
"""Keep ninja from compiling again what is built: settle.py BUILD, behind a build.

Meson has ninja read the times of all files anew whenever it configures, as every installation by
pip does. gfortran leaves a module file as it was if its interface is, and such a file is then older
than its source: all that uses it would be compiled in every installation.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

FEW = 30
"""Compilations up to which nothing is settled."""


def ninja(build: Path, *options: str) -> str:
    """Output of ninja in this folder."""
    command = ["ninja", "-C", str(build), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(build: Path) -> None:
    """Make no module file older than what it is made of, if much would be compiled for that."""
    ninja(build, "-t", "restat")
    # to settle the few that follow from a change would have all compiled once more
    if ninja(build, "-n").count("Compiling") <= FEW:
        return
    newest = newest_of([*build.rglob("*.f90"), *Path("fortran").rglob("*.f90")])
    # the kernels' modules, then those that also wait for the kernels' objects
    for library in ("libgnograd_kernels*.p", "libgnograd.*.p"):
        for module in build.glob(f"fortran/{library}/*.*mod"):
            if module.stat().st_mtime_ns < newest:
                os.utime(module, ns=(newest, newest))
        newest = max(newest, newest_of(build.glob(f"fortran/{library}/*.o")))
    ninja(build, "-t", "restat")


def newest_of(paths: Iterable[Path]) -> int:
    """Time of the newest file, 0 without one."""
    return max((path.stat().st_mtime_ns for path in paths), default=0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
