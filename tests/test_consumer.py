# SPDX-License-Identifier: MIT
"""Fortran and C programs compile against the installed package by pkg-config, and run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import gnograd

ROOT = Path(__file__).parents[1]
LIBRARY = Path(gnograd.__file__).parent / "lib"

pytestmark = pytest.mark.skipif(
    not (LIBRARY / "pkgconfig" / "gnograd.pc").exists(),
    reason="an editable install has no single folder to link with",
)


def build_and_run(compiler: str, source: Path, folder: Path, *arguments: str) -> str:
    if shutil.which(compiler) is None or shutil.which("pkg-config") is None:
        pytest.skip(f"{compiler} or pkg-config is not installed")
    environment = os.environ | {"PKG_CONFIG_PATH": str(LIBRARY / "pkgconfig")}
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "gnograd"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    program = folder / source.stem
    subprocess.run([compiler, source, *flags, "-o", program], check=True, cwd=folder)
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_c_program(tmp_path):
    assert build_and_run("gcc", ROOT / "tests/consumer/graph.c", tmp_path) == "ok\n"


def test_fortran_example_trains(tmp_path):
    output = build_and_run("gfortran", ROOT / "examples/fortran/train_gno.f90", tmp_path)
    errors = [float(line.split()[-1]) for line in output.splitlines()]
    assert errors[-1] < 0.05 < errors[0]
