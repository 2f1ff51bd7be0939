# SPDX-License-Identifier: MIT
"""Files that are either complete or absent."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic(path: Path) -> Iterator[BinaryIO]:
    """Open a stream whose content becomes `path` when the block ends without an error.

    The bytes are written beside `path` and moved over it at the end, so a
    reader, or a run that continues after a kill, sees the old file or the new
    one and never a part of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def remove_parts(directory: Path) -> None:
    """Remove what a killed process was writing in `directory` with `atomic`."""
    for part in directory.glob(".*.part"):
        part.unlink(missing_ok=True)


def cache_directory() -> Path:
    """Where generated data is kept: ``$GNOGRAD_CACHE``, else the user's cache directory."""
    if chosen := os.environ.get("GNOGRAD_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnograd"
