# SPDX-License-Identifier: MIT
"""Headers and stubs are what the operators' declarations and their templates make of them."""

import subprocess
import sys
from pathlib import Path

import pytest

INTERFACE = Path(__file__).resolve().parents[1] / "tools" / "interface"


@pytest.mark.parametrize(
    "command", [["header.py", "--check"], ["cuda.py", "header", "--check"], ["stubs.py", "--check"]]
)
def test_what_is_written_is_current(command: list[str]) -> None:
    """What to run when it is not is in the message."""
    if command[0] == "stubs.py":
        pytest.importorskip("ruff", reason="stubs are written as ruff formats them")
    script = [sys.executable, str(INTERFACE / command[0]), *command[1:]]
    run = subprocess.run(script, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
