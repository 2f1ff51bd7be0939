# SPDX-License-Identifier: MIT
"""The functions of pylibcugraphops 24.12 under their names, on the CPU too.

They write into the arrays that the caller gives: NumPy arrays, PyTorch tensors and whatever else
shares its memory by ``__array_interface__``, DLPack or, on a GPU, ``__cuda_array_interface__``.
Outputs are overwritten; one that is None is not computed. All arrays are checked before anything
is written. ``docs/pylibcugraphops.md`` maps every function to what is here.

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

from gnograd.compat.pylibcugraphops import dimenet, operators
from gnograd.compat.pylibcugraphops.dimenet import MMAOp
from gnograd.compat.pylibcugraphops.graph import Csc, make_bipartite_csc, make_csc

__all__ = ["Csc", "MMAOp", "dimenet", "make_bipartite_csc", "make_csc", "operators"]
