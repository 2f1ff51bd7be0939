# SPDX-License-Identifier: MIT
"""Small trainings of the command line, and how it refuses."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")

from typer.testing import CliRunner, Result

from gnograd.cli.app import app

GREEN = ["--nodes=8", "--modes=4", "--hidden=4", "--batch=2", "--epochs=2"]
PROGRAM = [sys.executable, "-c", "from gnograd.cli import main; main()"]


def gnograd(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(result: Result, *texts: str) -> None:
    """One line says which file is wrong, and how."""
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    (line,) = result.output.splitlines()
    assert line.startswith("gnograd: ")
    for text in texts:
        assert text in line
    assert "pickle=" not in line and "unsafe" not in line
