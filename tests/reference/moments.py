# SPDX-License-Identifier: MIT
"""Moments of the offsets of neighbours, and what GAOT makes of a neighbourhood."""

import numpy as np


def offset_moments(x, y, src, dst, n_dst):
    d = x.shape[1]
    out = np.zeros((n_dst, 2 + d + d * (d + 1) // 2), np.result_type(x, y))
    for i in range(n_dst):
        neighbors = x[src[dst == i]]
        if not len(neighbors):
            continue
        offset = neighbors - y[i]
        distance = np.sqrt((offset**2).sum(axis=1))
        centred = offset - offset.mean(axis=0)
        covariance = centred.T @ centred / len(offset)
        spread = np.mean((distance - distance.mean()) ** 2)
        upper = covariance[np.triu_indices(d)]
        out[i] = [distance.mean(), spread, *offset.mean(axis=0), *upper]
    return out


def neighborhood_moments(x, y, src, dst, n_dst):
    """Count, mean, variance, centroid and eigenvalues, side by side."""
    out = np.zeros((n_dst, 3 + 2 * x.shape[1]))
    for i in range(n_dst):
        neighbors = x[src[dst == i]]
        if not len(neighbors):
            continue
        distance = np.linalg.norm(neighbors - y[i], axis=1)
        covariance = np.atleast_2d(np.cov(neighbors.T, bias=True))
        values = np.linalg.eigvalsh(covariance)[::-1]
        center = neighbors.mean(axis=0) - y[i]
        out[i] = [len(neighbors), distance.mean(), distance.var(), *center, *values]
    return out
