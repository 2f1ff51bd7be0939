# SPDX-License-Identifier: MIT
"""GAOT's layers by their formulas, query by query; networks are given as functions."""

import numpy as np

from reference.moments import neighborhood_moments


def scores(y, x, attention, projections=None):
    """Scores of the neighbours y of one query x: cosine, or the product of projections."""
    if attention == "cosine":
        return (y @ x) / (np.linalg.norm(y, axis=1) * np.linalg.norm(x))
    (query, query_bias), (key, key_bias) = projections
    return (y @ key.T + key_bias) @ (query @ x + query_bias) / np.sqrt(len(query))


def agno(network, y, x, src, dst, f=None, attention=None, projections=None, weights=None,
         transform_type="linear"):  # fmt: skip
    """The network maps rows [y_j, x_i] or [y_j, x_i, f_j] to kernels."""
    rows = []
    for i in range(len(x)):
        j = src[dst == i]
        enters = [f[j]] if f is not None and transform_type.startswith("nonlinear") else []
        kernel = network(np.hstack([y[j], np.tile(x[i], (len(j), 1)), *enters]))
        if f is not None and transform_type in ("linear", "nonlinear"):
            kernel = kernel * f[j]
        weight = np.ones(len(j)) if weights is None else weights[j]
        if attention is not None and len(j):
            share = np.exp(scores(y[j], x[i], attention, projections))
            weight = weight * share / share.sum()
        elif weights is None and len(j):
            weight = weight / len(j)
        rows.append(weight @ kernel)
    return np.array(rows)


def statistics(points, queries, src, dst):
    """Moments of every neighbourhood in standard units; what does not vary keeps its own."""
    found = neighborhood_moments(points, queries, src, dst, len(queries))
    spread = found.std(axis=0, ddof=1)
    return (found - found.mean(axis=0)) / np.where(spread < 1e-6, 1, spread)


def pointnet(network, last, points, queries, src, dst, pooling):
    out = np.zeros((len(queries), last(network(np.zeros((1, points.shape[1])))).shape[1]))
    for i in range(len(queries)):
        j = src[dst == i]
        if len(j):
            of_points = network(points[j] - queries[i])
            pooled = of_points.max(axis=0) if pooling == "max" else of_points.mean(axis=0)
            out[i] = last(pooled[None])[0]
    return out


def embed(x):
    """Sines of all coordinates, then cosines, at four frequencies."""
    phases = [np.pi * k * (x + 1) for k in range(1, 5)]
    return np.hstack([column for p in phases for column in (np.sin(p), np.cos(p))])
