# SPDX-License-Identifier: MIT
"""The graph neural operator and its derivatives by the query positions, with whole matrices.

Every edge has the Jacobian and the Hessian of its kernel, by the chain rule layer by layer; the
Laplacian is the trace of the Hessian.
"""

import math

import numpy as np

from reference.gno import ACTIVATIONS, erf


def _density(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _logistic(x):
    return 1 / (1 + np.exp(-x))


SLOPES = {
    "relu": lambda x: np.where(np.real(x) > 0, 1, 0).astype(x.dtype),
    "gelu": lambda x: (1 + erf(x / x.real.dtype.type(math.sqrt(2)))) / 2 + x * _density(x),
    "silu": lambda x: _logistic(x) * (1 + x * _logistic(-x)),
    "tanh": lambda x: 1 / np.cosh(x) ** 2,
    "sin": np.cos,
    "identity": np.ones_like,
}
CURVES = {
    "relu": np.zeros_like,
    "gelu": lambda x: _density(x) * (2 - x * x),
    "silu": lambda x: _logistic(x) * _logistic(-x) * (2 + x * (_logistic(-x) - _logistic(x))),
    "tanh": lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2,
    "sin": lambda x: -np.sin(x),
    "identity": np.zeros_like,
}


def unpack(packed, n_in, widths):
    layers, start = [], 0
    for before, width in zip([n_in, *widths[:-1]], widths, strict=True):
        U = packed[start : start + before * width].reshape(before, width)
        b = packed[start + before * width : start + (before + 1) * width]
        layers.append((U, b))
        start += (before + 1) * width
    return layers


def network(c, n_x, layers, activation):
    """Hidden features of edges, their Jacobian and Hessian by the first n_x entries of c."""
    act, slope, curve = (table[activation] for table in (ACTIVATIONS, SLOPES, CURVES))
    n_edges, n_in = c.shape
    z = c
    J = np.zeros((n_edges, n_in, n_x), c.dtype)
    J[:] = np.eye(n_in, n_x, dtype=c.dtype)
    T = np.zeros((n_edges, n_in, n_x, n_x), c.dtype)
    for U, b in layers:
        p = z @ U + b
        J, T = np.einsum("nm,ena->ema", U, J), np.einsum("nm,enab->emab", U, T)
        T = np.einsum("em,emab->emab", slope(p), T) + np.einsum("em,ema,emb->emab", curve(p), J, J)
        z, J = act(p), np.einsum("em,ema->ema", slope(p), J)
    return z, J, T


def gno_with_hessian(
    h, x, y, layers, V, b_v, edge_weight, weight_derivatives, src, dst, n_dst, widths,
    geometry="difference", activation="gelu", reduction="sum",
):  # fmt: skip
    d, n_edges = x.shape[1], len(src)
    c = np.concatenate([x[dst], y[src]], axis=1) if geometry == "pair" else x[dst] - y[src]
    z, J, T = network(c, d, unpack(layers, c.shape[1], widths), activation)

    kappa = np.einsum("eh,h...->e...", z, V) + b_v
    first = np.einsum("eha,h...->ea...", J, V)
    second = np.einsum("ehab,h...->eab...", T, V)
    if h is not None and b_v.ndim == 1:
        rows = h[src]
        kappa, first = rows * kappa, rows[:, None] * first
        second = rows[:, None, None] * second
    elif h is not None:
        kappa, first, second = (
            np.einsum("ei,e...io->e...o", h[src], a) for a in (kappa, first, second)
        )

    if edge_weight is not None:
        w = edge_weight
        dw = np.zeros((n_edges, d), w.dtype)
        ddw = np.zeros((n_edges, d, d), w.dtype)
        if weight_derivatives is not None:
            a, b = np.triu_indices(d)
            dw = weight_derivatives[:, :d]
            ddw = np.zeros_like(ddw, weight_derivatives.dtype)
            ddw[:, a, b] = ddw[:, b, a] = weight_derivatives[:, d:]
        cross = dw[:, :, None, None] * first[:, None]
        second = (
            w[:, None, None, None] * second
            + cross
            + np.swapaxes(cross, 1, 2)
            + ddw[..., None] * kappa[:, None, None]
        )
        first = w[:, None, None] * first + dw[..., None] * kappa[:, None]
        kappa = w[:, None] * kappa

    degree = np.maximum(np.bincount(dst, minlength=n_dst), 1) if reduction == "mean" else None
    return tuple(_sum_by_destination(a, dst, n_dst, degree) for a in (kappa, first, second))


def _sum_by_destination(message, dst, n_dst, degree):
    out = np.zeros((n_dst, *message.shape[1:]), message.dtype)
    for e, i in enumerate(dst):
        out[i] += message[e]
    if degree is not None:
        out = (out.T / degree.astype(out.real.dtype)).T
    return out


def gno_with_laplacian(h, x, y, layers, V, b_v, edge_weight, weight_derivatives, *args, **static):
    """The Laplacian of a weight stands in for the first entry of its Hessian."""
    weight_derivatives = _pad(weight_derivatives, x.shape[1])
    out, gradient, hessian = gno_with_hessian(
        h, x, y, layers, V, b_v, edge_weight, weight_derivatives, *args, **static
    )
    return out, gradient, np.einsum("iaaf->if", hessian)


def gno_with_gradient(h, x, y, layers, V, b_v, edge_weight, weight_derivatives, *args, **static):
    weight_derivatives = _pad(weight_derivatives, x.shape[1])
    return gno_with_hessian(
        h, x, y, layers, V, b_v, edge_weight, weight_derivatives, *args, **static
    )[:2]


def _pad(derivatives, d):
    if derivatives is None:
        return None
    missing = d + d * (d + 1) // 2 - derivatives.shape[1]
    return np.pad(derivatives, ((0, 0), (0, missing)))
