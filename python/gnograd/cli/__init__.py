# SPDX-License-Identifier: MIT
"""The command `gnograd`: training jobs and facts of the installation."""

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from gnograd.distributed.launchers import launched

__all__ = ["main"]


def main() -> None:
    """Run the command line, or print which packages it needs.

    Only the first of several processes prints.
    """
    first = launched().rank == 0
    try:
        from gnograd.cli.app import app

        if first:
            app()
        else:
            _silently(app)
    except ModuleNotFoundError as error:
        if error.name not in {"matplotlib", "rich", "typer"}:
            raise
        raise SystemExit(
            f"gnograd: the command line needs {error.name}; "
            "install it with: pip install typer rich matplotlib"
            if first
            else 1
        ) from error


def _silently(app: Callable[..., Any]) -> None:
    """Run the command line without output: the first process prints the errors."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        try:
            code = app(standalone_mode=False)
        except Exception as error:
            if not hasattr(error, "exit_code"):
                raise
            code = error.exit_code
    sys.exit(code or 0)
