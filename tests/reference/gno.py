# SPDX-License-Identifier: MIT
"""Graph neural operator kernel by its formulas, with a kernel matrix an edge."""

import numpy as np


def erf(x):
    # SciPy's functions take half a second to import, in every process of a test of many
    from scipy.special import erf

    return erf(x)


ACTIVATIONS = {
    "relu": lambda x: np.where(np.real(x) > 0, x, 0),
    "gelu": lambda x: x / 2 * (1 + erf(x / np.sqrt(x.real.dtype.type(2)))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "sin": np.sin,
    "identity": lambda x: x,
}


def gno_kernel(coords, U, b_u, V, b_v, activation="relu"):
    hid = ACTIVATIONS[activation](coords @ U + b_u)
    return np.einsum("eh,h...->e...", hid, V) + b_v


def gno_aggregate(h, kappa, src, dst, n_dst, reduction="sum", edge_weight=None):
    """A kappa of two dimensions is diagonal; h = None is then 1."""
    if h is None:
        message = kappa
    elif kappa.ndim == 2:
        message = h[src] * kappa
    else:
        message = np.einsum("ei,eio->eo", h[src], kappa)
    if edge_weight is not None:
        message = edge_weight[:, None] * message
    out = np.zeros((n_dst, kappa.shape[-1]), message.dtype)
    for e, i in enumerate(dst):
        out[i] += message[e]
    if reduction == "mean":
        out /= np.maximum(np.bincount(dst, minlength=n_dst), 1)[:, None].astype(out.real.dtype)
    return out


def gno_contract(h, hid, V, b_v, edge_weight, src, dst, n_dst, reduction="sum"):
    kappa = np.einsum("eh,h...->e...", hid, V) + b_v
    return gno_aggregate(h, kappa, src, dst, n_dst, reduction, edge_weight)


def gno(
    h, coords, U, b_u, V, b_v, edge_weight, src, dst, n_dst, activation="relu", reduction="sum"
):
    kappa = gno_kernel(coords, U, b_u, V, b_v, activation)
    return gno_aggregate(h, kappa, src, dst, n_dst, reduction, edge_weight)
