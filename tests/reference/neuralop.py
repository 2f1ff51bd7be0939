# SPDX-License-Identifier: MIT
"""neuraloperator's integral transform and neighbour search by their formulas, one loop each."""

import numpy as np

from reference.gno import ACTIVATIONS


def mlp(layers, activation, x):
    """Layers are pairs of a matrix (out, in) and a bias (out)."""
    for weight, bias in layers[:-1]:
        x = ACTIVATIONS[activation](weight @ x + bias)
    weight, bias = layers[-1]
    return weight @ x + bias


def integral_transform(
    layers, activation, y, x, index, splits, f=None, weight=None, transform_type="linear",
    reduction="sum",
):  # fmt: skip
    """The weight is that of an edge; with weights the reduction is the sum."""
    out = np.zeros((len(x), len(layers[-1][1])))
    for i in range(len(x)):
        for e in range(splits[i], splits[i + 1]):
            j = index[e]
            enters = f is not None and transform_type.startswith("nonlinear")
            term = mlp(layers, activation, np.concatenate([y[j], x[i], f[j] if enters else []]))
            if f is not None and transform_type in ("linear", "nonlinear"):
                term = term * f[j]
            out[i] += term if weight is None else weight[e] * term
        if reduction == "mean" and weight is None and splits[i + 1] > splits[i]:
            out[i] /= splits[i + 1] - splits[i]
    return out


def neighbors(data, queries, radius, period=None):
    """Index and row splits, and squared distances to the nearest image."""
    index, splits, squares = [], [0], []
    for q in queries:
        for j, p in enumerate(data):
            offset = q - p
            for axis, length in enumerate(np.broadcast_to(0 if period is None else period, len(q))):
                if length > 0:
                    images = offset[axis] + length * np.arange(-5, 6)
                    offset[axis] = images[np.abs(images).argmin()]
            if np.sqrt(offset @ offset) <= radius:
                index.append(j)
                squares.append(offset @ offset)
        splits.append(len(index))
    return np.array(index, np.int64), np.array(splits), np.array(squares)
