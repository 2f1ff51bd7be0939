# SPDX-License-Identifier: MIT
"""The command `gnograd`: training jobs and facts of the installation."""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
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
            with _output_in_full():
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


@contextmanager
def _output_in_full() -> Iterator[None]:
    """Say in one line that standard output, such as a file on a full disk, takes no more."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # None: it is closed
                sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        # the interpreter writes the rest at its end, which would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        closed = error.errno == errno.EPIPE
        text = f"gnograd: standard output cannot be written ({error.strerror})"
        raise SystemExit(1 if closed else text) from None


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)
"""Errors of a stream that takes no more."""


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
