# SPDX-License-Identifier: MIT
"""The graph neural operator with a deep diagonal kernel, edge by edge."""

import numpy as np

from reference.gno import ACTIVATIONS
from reference.gno_jets import unpack


def gno_deep(
    h, y, x, c, layers, edge_weight, src, dst, n_dst, widths, activation="gelu", reduction="sum"
):
    parts = [None if y is None else y[src], None if x is None else x[dst], c]
    z = np.concatenate([part for part in parts if part is not None], axis=1)
    for k, (U, b) in enumerate(unpack(layers, z.shape[1], widths)):
        z = (z if k == 0 else ACTIVATIONS[activation](z)) @ U + b
    if h is not None:
        functions = h.shape[1] // widths[-1]
        z = h[src] * np.concatenate([z] * functions, axis=1)
    if edge_weight is not None:
        z = edge_weight[:, None] * z
    out = np.zeros((n_dst, z.shape[1]), z.dtype)
    for e, i in enumerate(dst):
        out[i] += z[e]
    if reduction == "mean":
        degree = np.maximum(np.bincount(dst, minlength=n_dst), 1)
        out = out / degree[:, None].astype(out.real.dtype)
    return out
