# SPDX-License-Identifier: MIT
"""The graph neural operator and its derivatives by the query positions, edge by edge.

The network's derivatives are whole matrices: the Jacobian of every layer by the chain rule, and its
Hessian by the chain rule once more.
"""

import numpy as np
from scipy.special import erf


def _normal(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def _logistic(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "relu": (
        lambda x: np.where(np.real(x) > 0, x, 0),
        lambda x: np.where(np.real(x) > 0, 1, 0) + 0 * x,
        lambda x: 0 * x,
    ),
    "gelu": (
        lambda x: x / 2 * (1 + erf(x / np.sqrt(2))),
        lambda x: (1 + erf(x / np.sqrt(2))) / 2 + x * _normal(x),
        lambda x: _normal(x) * (2 - x * x),
    ),
    "silu": (
        lambda x: x * _logistic(x),
        lambda x: _logistic(x) * (1 + x * _logistic(-x)),
        lambda x: (
            _logistic(x) * _logistic(-x) * (2 + x * (_logistic(-x) - _logistic(x)))
        ),
    ),
    "tanh": (
        np.tanh,
        lambda x: 1 / np.cosh(x) ** 2,
        lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2,
    ),
    "sin": (np.sin, np.cos, lambda x: -np.sin(x)),
    "identity": (lambda x: x, lambda x: 1 + 0 * x, lambda x: 0 * x),
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
    """Hidden features of one edge, their Jacobian and Hessian by the first n_x entries of c."""
    act, slope, curve = ACTIVATIONS[activation]
    z, J = c, np.eye(len(c), n_x)
    T = np.zeros((len(c), n_x, n_x))
    for U, b in layers:
        p, J, T = z @ U + b, U.T @ J, np.einsum("nm,nab->mab", U, T)
        T = slope(p)[:, None, None] * T + np.einsum("m,ma,mb->mab", curve(p), J, J)
        z, J = act(p), slope(p)[:, None] * J
    return z, J, T


def gno_with_hessian(
    h, x, y, layers, V, b_v, edge_weight, weight_derivatives, src, dst, n_dst, widths,
    geometry="difference", activation="gelu", reduction="sum",
):  # fmt: skip
    d, kernel, f_out = x.shape[1], b_v.shape, b_v.shape[-1]
    pairs = geometry == "pair"
    network_layers = unpack(layers, 2 * d if pairs else d, widths)
    dtype = np.result_type(*(a for a in (h, x, y, layers, V, b_v, edge_weight) if a is not None),
                           *([] if weight_derivatives is None else [weight_derivatives]))
    out = np.zeros((n_dst, f_out), dtype)
    gradient = np.zeros((n_dst, d, f_out), dtype)
    hessian = np.zeros((n_dst, d, d, f_out), dtype)

    def apply(j, kappa):
        if h is None:
            return kappa
        return h[j] * kappa if len(kernel) == 1 else h[j] @ kappa

    for e, (j, i) in enumerate(zip(src, dst, strict=True)):
        c = np.concatenate([x[i], y[j]]) if pairs else x[i] - y[j]
        z, J, T = network(c, d, network_layers, activation)
        value = apply(j, np.einsum("h,h...->...", z, V) + b_v)
        first = [apply(j, np.einsum("h,h...->...", J[:, a], V)) for a in range(d)]
        w = 1.0 if edge_weight is None else edge_weight[e]
        dw, ddw = np.zeros(d), np.zeros((d, d))
        if weight_derivatives is not None:
            dw = weight_derivatives[e, :d]
            upper = np.zeros((d, d), weight_derivatives.dtype)
            upper[np.triu_indices(d)] = weight_derivatives[e, d:]
            ddw = upper + np.triu(upper, 1).T
        out[i] += w * value
        for a in range(d):
            gradient[i, a] += w * first[a] + dw[a] * value
            for b in range(d):
                second = apply(j, np.einsum("h,h...->...", T[:, a, b], V))
                hessian[i, a, b] += (
                    w * second + dw[a] * first[b] + dw[b] * first[a] + ddw[a, b] * value
                )
    if reduction == "mean":
        degree = np.maximum(np.bincount(dst, minlength=n_dst), 1).astype(float)
        out, gradient, hessian = (
            (a.T / degree).T for a in (out, gradient, hessian)
        )
    return out, gradient, hessian


def gno_with_laplacian(
    h, x, y, layers, V, b_v, edge_weight, weight_derivatives, *args, **static
):
    """As the trace of the Hessian; the Laplacian of a weight goes into its first entry."""
    d = x.shape[1]
    if weight_derivatives is not None:
        padding = np.zeros((len(weight_derivatives), d * (d + 1) // 2 - 1))
        weight_derivatives = np.concatenate([weight_derivatives, padding], axis=1)
    out, gradient, hessian = gno_with_hessian(
        h, x, y, layers, V, b_v, edge_weight, weight_derivatives, *args, **static
    )
    return out, gradient, np.einsum("iaaf->if", hessian)


def gno_with_gradient(
    h, x, y, layers, V, b_v, edge_weight, weight_derivatives, *args, **static
):
    d = x.shape[1]
    if weight_derivatives is not None:
        padding = np.zeros((len(weight_derivatives), d * (d + 1) // 2))
        weight_derivatives = np.concatenate([weight_derivatives, padding], axis=1)
    return gno_with_hessian(
        h, x, y, layers, V, b_v, edge_weight, weight_derivatives, *args, **static
    )[:2]
