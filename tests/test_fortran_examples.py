# SPDX-License-Identifier: MIT
"""The examples in Fortran, compiled against the installed package, with settings that are short."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from programs import PACKAGE, ROOT, build, flags, needs_installation
from programs import run as run_program

pytestmark = needs_installation


def run(program: Path, *arguments: str, threads: int = 1, device: str = "cpu") -> str:
    done = subprocess.run(
        [program, *arguments], cwd=program.parent, capture_output=True, text=True, timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": str(threads), "GNOGRAD_DEVICE": device},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_benchmark_of_small_work_compiles(tmp_path):
    source = ROOT / "benchmarks/fortran/small_work.F90"
    found = flags(PACKAGE, tmp_path, "--cflags")
    run_program("gfortran", "-fsyntax-only", source, *found, folder=tmp_path)


def test_training_on_many_meshes(tmp_path):
    program = build("gfortran", ROOT / "examples/fortran/train_meshes.f90", tmp_path)
    output = run(program, "60", "half.safetensors")
    before, after = map(float, re.findall(r"relative error +(\S+)", output))
    assert after < 0.6 * before
    assert "step 60 of 60" in output
    # all steps are in the file: the same network is judged again
    again = run(program, "60", "half.safetensors")
    assert "step" not in again
    assert again.splitlines()[-1] == output.splitlines()[-1]


@pytest.mark.skipif("GNOGRAD_CUDA_LIBRARY" not in os.environ, reason="no kernels for a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_training_on_a_device(tmp_path, device):
    program = build("gfortran", ROOT / "examples/fortran/train_meshes.f90", tmp_path)
    expected = re.findall(r"(?:error|loss) +(\S+)", run(program, "6"))
    found = re.findall(r"(?:error|loss) +(\S+)", run(program, "6", device=device))
    assert len(found) == 3
    assert list(map(float, found)) == pytest.approx(list(map(float, expected)), rel=1e-3)


def test_assimilation(tmp_path):
    program = build("gfortran", ROOT / "examples/fortran/assimilate_heat.f90", tmp_path)
    output = run(program, "6", "field.csv")
    by_tape, by_differences = map(float, re.search(r"differences: (.*)", output)[1].split())
    assert by_tape == pytest.approx(by_differences, rel=1e-5)
    rows = [list(map(float, line.split())) for line in output.split("error of a\n")[1].splitlines()]
    assert rows[-1][0] == 6
    assert rows[-1][1] < 0.6 * rows[0][1]
    lines = (tmp_path / "field.csv").read_text().splitlines()
    assert lines[0] == "x,y,true,found,sensor"
    assert len(lines) == 1 + 14 * 12


def test_threads_of_the_host_program(tmp_path):
    source = ROOT / "examples/fortran/ensemble.f90"
    program = build("gfortran", source, tmp_path, "-fopenmp")
    output = run(program, threads=3)
    assert output == run(program, threads=1)
    spread = {float(x): float(s) for x, _, s, _ in map(str.split, output.splitlines()[1:])}
    assert spread[0.5] > 5 * spread[-0.5]  # there were no samples around 0.5
