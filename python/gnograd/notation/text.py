# SPDX-License-Identifier: MIT
"""Text: reading of files, and conversion to safe lines for messages and terminals."""

import os
import stat
from pathlib import Path

__all__ = ["printable", "read_text"]

_MOST = 1 << 26
"""Largest file that is read as text, in bytes."""


def printable(text: str) -> str:
    """Text in one line without control characters, which names in files may hold for a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def read_text(path: Path) -> str:
    """Read a text file that is not trusted.

    Raises
    ------
    FileNotFoundError
    ValueError
        Not a file (pipes and devices have no end), too large, or no text.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        kind = os.fstat(opened)
        if not stat.S_ISREG(kind.st_mode):
            raise ValueError(printable(f"{path}: is not a file"))
        if kind.st_size > _MOST:
            raise ValueError(printable(f"{path}: is too large"))
        with open(opened, "rb", closefd=False) as file:
            return file.read().decode()
    except UnicodeDecodeError as error:
        raise ValueError(printable(f"{path}: is no text, or damaged")) from error
    finally:
        os.close(opened)
