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


def build(
    compiler: str, source: Path, folder: Path, archive: bool = False, options: tuple[str, ...] = ()
) -> Path:
    """The program, with the shared library or with the archive."""
    if shutil.which(compiler) is None or shutil.which("pkg-config") is None:
        pytest.skip(f"{compiler} or pkg-config is not installed")
    environment = os.environ | {"PKG_CONFIG_PATH": str(LIBRARY / "pkgconfig")}
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", *["--static"][: int(archive)], "gnograd"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    if archive:
        flags = ["-l:libgnograd.a" if flag == "-lgnograd" else flag for flag in flags]
    program = folder / source.stem
    subprocess.run([compiler, *options, source, *flags, "-o", program], check=True, cwd=folder)
    return program


def build_and_run(compiler: str, source: Path, folder: Path, *arguments: str) -> str:
    program = build(compiler, source, folder)
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_c_program(tmp_path):
    assert build_and_run("gcc", ROOT / "tests/consumer/graph.c", tmp_path) == "ok\n"


def test_archive_links_with_what_it_names(tmp_path):
    """By gcc, which adds nothing of Fortran itself."""
    source = tmp_path / "gno.c"
    source.write_text(
        "extern void gnograd_gno_vjp_r32(); int main(void) { return !gnograd_gno_vjp_r32; }"
    )
    program = build("gcc", source, tmp_path, archive=True)
    assert subprocess.run([program], check=False).returncode == 0
    assert b"libgnograd.so" not in program.read_bytes()


def test_fortran_example_trains(tmp_path):
    output = build_and_run("gfortran", ROOT / "examples/fortran/train_gno.f90", tmp_path)
    errors = [float(line.split()[-1]) for line in output.splitlines()]
    assert errors[-1] < 0.05 < errors[0]
