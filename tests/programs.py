# SPDX-License-Identifier: MIT
"""Programs of users, compiled against an installation of gnograd by pkg-config, and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import gnograd

ROOT = Path(__file__).parents[1]
PACKAGE = Path(gnograd.__file__).parent

needs_installation = pytest.mark.skipif(
    not (PACKAGE / "lib/pkgconfig/gnograd.pc").exists(),
    reason="an editable install has no single folder to link with",
)


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """Output of a command, which must succeed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def flags(where: Path, folder: Path, *options: str) -> list[str]:
    """Options of the compiler that pkg-config prints."""
    path = os.pathsep.join([str(where / "lib/pkgconfig"), os.environ.get("PKG_CONFIG_PATH", "")])
    told = run("pkg-config", *options, "gnograd", folder=folder, PKG_CONFIG_PATH=path)
    # blanks in paths are escaped
    return [flag.replace("\\ ", " ") for flag in re.split(r"(?<!\\)\s+", told.strip())]


def build(compiler: str, source: Path, folder: Path, *options: str, where: Path = PACKAGE) -> Path:
    """The program, with the shared library."""
    program = folder / source.stem
    found = flags(where, folder, "--cflags", "--libs")
    run(compiler, *options, source, *found, "-o", program, folder=folder)
    return program


def build_and_run(
    compiler: str, source: Path, folder: Path, *arguments: str, where: Path = PACKAGE
) -> str:
    """Build a program with the shared library, and give its output."""
    program = build(compiler, source, folder, where=where)
    return run(program, *arguments, folder=folder, LD_LIBRARY_PATH=str(where / "lib"))
