# SPDX-License-Identifier: MIT
"""The functions of pylibcugraphops 24.12 under their names, on the CPU too.

The functions of `operators` and `dimenet` write into the arrays that the caller gives: NumPy
arrays, PyTorch tensors and others that share their memory by ``__array_interface__``, DLPack or,
on a GPU, ``__cuda_array_interface__``. Outputs are overwritten; one that is None is not computed.
All arrays are checked before anything is written. Those of `pytorch` take tensors and return
tensors, with autograd. ``docs/howto/pylibcugraphops.md`` maps every function to what is here;
`gnograd.compat.install_pylibcugraphops` lets codes import it as ``pylibcugraphops``.

Examples
--------
>>> import numpy as np
>>> from gnograd.compat import pylibcugraphops
>>> from gnograd.compat.pylibcugraphops.operators import AggOp, agg_simple_n2n_fwd
>>> graph = pylibcugraphops.make_csc(np.array([0, 2, 3, 3]), np.array([1, 2, 0]))
>>> x, out = np.array([[1.0], [10.0], [100.0]], np.float32), np.empty((3, 1), np.float32)
>>> agg_simple_n2n_fwd(out, x, graph, AggOp.Mean)
>>> out
array([[55.],
       [ 1.],
       [ 0.]], dtype=float32)
"""

from __future__ import annotations

import importlib
from typing import Any

from gnograd.compat.pylibcugraphops import dimenet, operators, typing
from gnograd.compat.pylibcugraphops.dimenet import MMAOp
from gnograd.compat.pylibcugraphops.graph import (
    Csc,
    HeteroCsc,
    make_bipartite_csc,
    make_bipartite_csc_hg,
    make_csc,
    make_csc_hg,
)
from gnograd.compat.pylibcugraphops.legacy import (
    make_fg_csr,
    make_fg_csr_hg,
    make_mfg_csr,
    make_mfg_csr_hg,
)

__all__ = [
    "Csc",
    "HeteroCsc",
    "MMAOp",
    "dimenet",
    "make_bipartite_csc",
    "make_bipartite_csc_hg",
    "make_csc",
    "make_csc_hg",
    "make_fg_csr",
    "make_fg_csr_hg",
    "make_mfg_csr",
    "make_mfg_csr_hg",
    "operators",
    "typing",
]

__version__ = "24.12.00"
"""Release with this interface, for codes that check the version."""


def __getattr__(name: str) -> Any:
    # these modules import torch
    if name in ("pytorch", "torch"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
