# SPDX-License-Identifier: MIT
"""Graph attention and its softmax by their formulas, destination by destination."""

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


def split_mix(seed, n):
    """The first numbers that SplitMix64 (Java's SplittableRandom) makes of a seed."""
    z = np.uint64(seed % 2**64) + np.arange(1, n + 1, dtype=np.uint64) * 0x9E3779B97F4A7C15
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9
    z = (z ^ z >> 27) * 0x94D049BB133111EB
    return z ^ z >> 31


def dropout_factors(n_edges, n_heads, dropout, seed):
    """Factors of the weights [n_edges, n_heads]: 0 with probability `dropout`."""
    factors = np.ones((n_edges, n_heads))
    if dropout:
        numbers = split_mix(int(seed[0]), n_edges * n_heads).reshape(n_edges, n_heads)
        kept = (numbers >> 11) / 2**53 >= dropout
        factors[~kept] = 0
        factors[kept] /= 1 - dropout
    return factors


def _attend(scores, values, dst, n_dst, concat_heads, dropout, seed):
    """Sum of softmax(scores [n_edges, H]) times values [n_edges, H, C]."""
    n_heads, n_channels = values.shape[1:]
    factors = dropout_factors(len(dst), n_heads, dropout, seed).astype(values.real.dtype)
    out = np.zeros((n_dst, n_heads, n_channels), np.result_type(scores, values))
    for i in np.unique(dst):
        p = np.flatnonzero(dst == i)
        weights = np.exp(scores[p] - scores[p].real.max(axis=0))
        alpha = factors[p] * weights / weights.sum(axis=0)
        out[i] = np.sum(alpha[:, :, None] * values[p], axis=0)
    if concat_heads:
        return out.reshape(n_dst, n_heads * n_channels)
    return out.sum(axis=1) / out.real.dtype.type(n_heads)


def mha_gat(
    x_src, x_dst, a, e, src, dst, n_dst, num_heads=1, concat_heads=True, activation="LeakyReLU",
    negative_slope=0.2, dropout=0.0, seed=None,
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
    return _attend(scores, values, dst, n_dst, concat_heads, dropout, seed)


def mha_gat_v2(
    x_src, x_dst, a, e, src, dst, n_dst, num_heads=1, concat_heads=True, activation="LeakyReLU",
    negative_slope=0.2, dropout=0.0, seed=None,
):  # fmt: skip
    heads = (num_heads, x_src.shape[1] // num_heads)
    u = x_src[src] + x_dst[dst] + (0 if e is None else e)
    t = ACTIVATIONS[activation](u, u.real.dtype.type(negative_slope))
    scores = np.sum((t * a).reshape(-1, *heads), axis=2)
    return _attend(scores, x_src[src].reshape(-1, *heads), dst, n_dst, concat_heads, dropout, seed)


def mha_simple(
    q, k, v, e, src, dst, n_dst, num_heads=1, concat_heads=True, norm_by_dim=True, dropout=0.0,
    seed=None,
):  # fmt: skip
    heads = (num_heads, k.shape[1] // num_heads)
    keys, values = (t[src] + (0 if e is None else e) for t in (k, v))
    scores = np.sum((q[dst] * keys).reshape(-1, *heads), axis=2)
    if norm_by_dim:
        scores = scores / np.sqrt(scores.real.dtype.type(heads[1]))
    return _attend(scores, values.reshape(-1, *heads), dst, n_dst, concat_heads, dropout, seed)


def edge_softmax(s, src, dst, n_dst):
    out = np.zeros_like(s)
    for i in range(n_dst):
        rows = np.flatnonzero(dst == i)
        if rows.size:
            weight = np.exp(s[rows] - np.real(s[rows]).max(axis=0))
            out[rows] = weight / weight.sum(axis=0)
    return out
