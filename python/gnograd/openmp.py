# SPDX-License-Identifier: MIT
"""The OpenMP runtime that the library is loaded with.

The library needs ``libgomp.so.1`` by that name and brings none: the loader takes the one that the
process has already, so that there is one pool of threads beside PyTorch, whichever is imported
first.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from pathlib import Path

__all__: list[str] = []

_MISSING = (
    "gnograd needs the GNU OpenMP runtime libgomp.so.1, which this system lacks: install libgomp1 "
    "(Debian, Ubuntu: apt-get install libgomp1) or libgomp (RHEL, Fedora: dnf install libgomp; "
    "conda: conda install -c conda-forge libgomp)"
)


def _load() -> None:
    """Load the library, with the libgomp of PyTorch where the system has none."""
    try:
        importlib.import_module("gnograd._core")
        return
    except ImportError as error:
        if "libgomp" not in str(error):
            raise
        reason = error
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        raise ImportError(_MISSING) from reason
    try:
        ctypes.CDLL(str(Path(torch.origin).parent / "lib" / "libgomp.so.1"))
    except OSError:
        raise ImportError(_MISSING) from reason
    importlib.import_module("gnograd._core")


_load()
