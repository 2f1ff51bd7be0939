# SPDX-License-Identifier: MIT
"""A fault on one of several processes: none waits for ever, and all are told the same."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from processes import mpiexec, torchrun

pytestmark = pytest.mark.exhaustive
SECONDS = 300
"""Limit for a program: more than any takes, and less than engines wait of themselves."""


@pytest.fixture(params=["mpiexec", "torchrun"])
def launch(request):
    if request.param == "mpiexec":
        return mpiexec
    pytest.importorskip("torch")
    return torchrun


def test_the_same_error_on_all(launch):
    assert "faults on 3 processes" in launch(3, "faults.py", "caught", timeout=SECONDS)


def test_an_error_that_nobody_catches_ends_all(launch):
    said = launch(3, "faults.py", "uncaught", timeout=SECONDS, fails=True)
    assert "ZeroDivisionError: of process 1 alone" in said


def test_a_process_that_is_killed_ends_all(launch):
    said = launch(3, "faults.py", "killed", timeout=SECONDS, fails=True)
    assert "killed" in said


def test_a_process_that_was_killed_before():
    mpiexec(3, "faults.py", "late", timeout=SECONDS, fails=True)


def test_a_process_that_ends_before_the_others():
    said = mpiexec(3, "faults.py", "left", timeout=SECONDS, fails=True)
    assert "the processes do different things" in said
    assert "process 1 the end of the program" in said


def test_a_process_that_exits():
    said = mpiexec(3, "faults.py", "exits", timeout=SECONDS, fails=True)
    assert "of process 1 alone" in said


@pytest.mark.parametrize("mode", ["left", "exits"])
def test_a_process_that_ends_under_torchrun(mode):
    pytest.importorskip("torch")
    torchrun(3, "faults.py", mode, timeout=SECONDS, fails=True)


def test_communicators_that_come_and_go():
    assert "30 groups in 3 processes" in mpiexec(3, "faults.py", "subgroups", timeout=SECONDS)


def run_alone(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True,
        text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


WITHOUT_MPI4PY = """
import sys
sys.modules["mpi4py"] = None
import gnograd as gg
try:
    gg.distributed.communicator()
except ImportError as error:
    print(error)
"""


def test_mpiexec_without_mpi4py():
    said = run_alone(WITHOUT_MPI4PY, PMI_RANK="1", PMI_SIZE="3")
    assert "the program was started by mpiexec, which needs mpi4py" in said.stdout, said.stderr


def test_no_communicator():
    said = run_alone(
        "import gnograd as gg\n"
        "for group in (3, 'world', [0, 1], object()):\n"
        "    try: gg.distributed.communicator(group)\n"
        "    except TypeError as error: print(error)\n"
    )
    lines = said.stdout.splitlines()
    assert len(lines) == 4, said.stderr
    assert all("needs one of mpi4py or torch.distributed, or None" in line for line in lines)
