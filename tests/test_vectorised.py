# SPDX-License-Identifier: MIT
"""The compiler vectorises what speed rests on, for every x86-64 level of the wheels."""

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FORTRAN = Path(__file__).parents[1] / "fortran"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the levels are those of x86-64")
@pytest.mark.parametrize("level", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_elementary_functions(level, tmp_path):
    """All functions are vectorised for both kinds; SSE2 has few operations on 64-bit integers."""
    pytest.importorskip("fypp")
    compiler = shutil.which("gfortran")
    if compiler is None:
        pytest.skip("gfortran is not installed")
    source = tmp_path / "elementary.f90"
    kernel = FORTRAN / "primitives" / "elementary.fypp"
    subprocess.run(
        [sys.executable, "-m", "fypp", "-I", FORTRAN, kernel, source], check=True, cwd=tmp_path
    )
    options = f"-O3 -march={level} -ffp-contract=fast -fopenmp-simd -fopt-info-vec -c".split()
    files = [FORTRAN / "core" / "kinds.f90", source]
    done = subprocess.run(
        [compiler, *options, *files], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    # seven loops, of either kind; shorter vectors for the rest of a loop do not count
    loops = set(re.findall(r":(\d+):\d+: optimized: loop vectorized", done.stderr))
    assert len(loops) == 14, done.stderr
