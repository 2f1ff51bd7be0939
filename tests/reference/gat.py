# SPDX-License-Identifier: MIT
"""Graph attention by its formulas, destination by destination."""

import numpy as np


def _positive(z, above, below):
    return np.where(z.real > 0, above, below)


ACTIVATIONS = {
    "LeakyReLU": lambda z, c: _positive(z, z, c * z),
    "ELU": lambda z, c: _positive(z, z, c * (np.exp(_positive(z, 0, z)) - 1)),
    "Linear": lambda z, c: z,
    "ReLU": lambda z, c: _positive(z, z, 0),
    "Scalar": lambda z, c: c * z,
    "Sigmoid": lambda z, c: 1 / (1 + np.exp(-z)),
    "Tanh": lambda z, c: np.tanh(z),
}


def _attend(scores, values, dst, n_dst, concat_heads):
    """Sum of softmax(scores [n_edges, H]) times values [n_edges, H, C]."""
    n_heads, n_channels = values.shape[1:]
    out = np.zeros((n_dst, n_heads, n_channels), np.result_type(scores, values))
    for i in np.unique(dst):
        p = np.flatnonzero(dst == i)
        weights = np.exp(scores[p] - scores[p].real.max(axis=0))
        alpha = weights / weights.sum(axis=0)
        out[i] = np.sum(alpha[:, :, None] * values[p], axis=0)
    if concat_heads:
        return out.reshape(n_dst, n_heads * n_channels)
    return out.sum(axis=1) / out.real.dtype.type(n_heads)


def mha_gat(
    x_src, x_dst, a, e, src, dst, n_dst, num_heads=1, concat_heads=True, activation="LeakyReLU",
    negative_slope=0.2,
):  # fmt: skip
    d = x_src.shape[1]
    heads = (num_heads, d // num_heads)
    values = x_src[src].reshape(-1, *heads)
    z = np.sum(values * a[:d].reshape(heads), axis=2)
    z = z + np.sum(x_dst[dst].reshape(-1, *heads) * a[d : 2 * d].reshape(heads), axis=2)
    if e is not None:
        parts = e.reshape(len(src), num_heads, e.shape[1] // num_heads)
        z = z + np.sum(parts * a[2 * d :].reshape(parts.shape[1:]), axis=2)
    scores = ACTIVATIONS[activation](z, z.real.dtype.type(negative_slope))
    return _attend(scores, values, dst, n_dst, concat_heads)


def mha_gat_v2(
    x_src, x_dst, a, e, src, dst, n_dst, num_heads=1, concat_heads=True, activation="LeakyReLU",
    negative_slope=0.2,
):  # fmt: skip
    heads = (num_heads, x_src.shape[1] // num_heads)
    u = x_src[src] + x_dst[dst] + (0 if e is None else e)
    t = ACTIVATIONS[activation](u, u.real.dtype.type(negative_slope))
    scores = np.sum((t * a).reshape(-1, *heads), axis=2)
    return _attend(scores, x_src[src].reshape(-1, *heads), dst, n_dst, concat_heads)


def mha_simple(q, k, v, e, src, dst, n_dst, num_heads=1, concat_heads=True, norm_by_dim=True):
    heads = (num_heads, k.shape[1] // num_heads)
    keys, values = (t[src] + (0 if e is None else e) for t in (k, v))
    scores = np.sum((q[dst] * keys).reshape(-1, *heads), axis=2)
    if norm_by_dim:
        scores = scores / np.sqrt(scores.real.dtype.type(heads[1]))
    return _attend(scores, values.reshape(-1, *heads), dst, n_dst, concat_heads)
