# SPDX-License-Identifier: MIT
"""Programs under several processes."""

import importlib.metadata
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

__all__ = ["Launcher", "by_mpiexec", "by_torchrun", "mpiexec", "on_each_size", "torchrun"]

PROGRAMS = Path(__file__).parent / "distributed"

Launcher: TypeAlias = Callable[[int], tuple[list[str], dict[str, str]]]
"""Function that gives for n processes the words that start a program, and its environment."""


def mpiexec(
    n: int, program: str, *arguments: str, timeout: float = 300, fails: bool = False
) -> str:
    """Output of a program of tests/distributed under n processes of MPI.

    It must end well; or badly, where it `fails`, and its errors come with the rest.
    """
    return _run(by_mpiexec(n), [str(PROGRAMS / program), *arguments], timeout, fails)


def torchrun(
    n: int, program: str, *arguments: str, timeout: float = 300, fails: bool = False
) -> str:
    """Output of a program of tests/distributed under n processes of PyTorch."""
    return _run(by_torchrun(n), [str(PROGRAMS / program), *arguments], timeout, fails)


def on_each_size(
    start: Callable[..., str], sizes: list[int], *programs: str, timeout: float = 600
) -> str:
    """Output of programs of tests/distributed on each of these numbers of processes.

    The processes start once, as many as the largest number.
    """
    numbers = ",".join(map(str, sizes))
    return start(max(sizes), "each.py", numbers, *programs, timeout=timeout)


def by_mpiexec(n: int) -> tuple[list[str], dict[str, str]]:
    """Launcher of n processes of MPI."""
    launcher, environment = _launcher()
    return [launcher, "-n", str(n), sys.executable], environment


def by_torchrun(n: int) -> tuple[list[str], dict[str, str]]:
    """Launcher of n processes of PyTorch."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*launcher, f"--nproc-per-node={n}"], {**os.environ, "OMP_NUM_THREADS": "1"}


def _run(
    by: tuple[list[str], dict[str, str]], program: list[str], timeout: float, fails: bool
) -> str:
    command, environment = [*by[0], *program], by[1]
    errors = subprocess.STDOUT if fails else subprocess.PIPE
    started = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        said, complained = started.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)  # the launcher, and what it has started
        said, complained = started.communicate()
        pytest.fail(f"{' '.join(command)} hangs\n{said}{complained}")
    assert (started.returncode != 0) == fails, f"{' '.join(command)}\n{said}{complained}"
    return said


def _launcher() -> tuple[str, dict[str, str]]:
    """The mpiexec of the MPI that mpi4py is to find, which need not be the system's."""
    # MPICH's processes that wait for one another leave the cores to those that compute
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}
    if not importlib.util.find_spec("mpi4py"):
        pytest.skip("mpi4py is not installed")
    try:
        prefix = Path(importlib.metadata.distribution("mpich").locate_file("")).parents[2]
    except importlib.metadata.PackageNotFoundError:
        found = shutil.which("mpiexec")
        if not found:
            pytest.skip("there is no mpiexec")
        return found, environment
    paths = [str(prefix / "lib"), environment.get("LD_LIBRARY_PATH", "")]
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    return str(prefix / "bin" / "mpiexec"), environment
