# SPDX-License-Identifier: MIT
"""Aggregation by its formulas, destination by destination."""

import numpy as np


def _extreme(values, sign):
    """First of the largest (sign 1) or smallest (sign -1) in every column."""
    winner = np.argmax(sign * values.real, axis=0)
    return values[winner, np.arange(values.shape[1])]


AGGREGATIONS = {
    "sum": lambda values, weights: values.sum(axis=0),
    "mean": lambda values, weights: values.sum(axis=0) / weights.sum(),
    "min": lambda values, weights: _extreme(values, -1),
    "max": lambda values, weights: _extreme(values, 1),
}


def agg_concat(x, w, e, own, src, dst, n_dst, aggregation="sum"):
    blocks = []
    for table, rows, weights in ((x, src, w), (e, np.arange(len(src)), None)):
        if table is None:
            continue
        if weights is None:
            weights = np.ones(len(src), table.dtype)
        block = np.zeros((n_dst, table.shape[1]), np.result_type(table, weights))
        for i in np.unique(dst):
            p = np.flatnonzero(dst == i)
            values = weights[p, None] * table[rows[p]]
            block[i] = AGGREGATIONS[aggregation](values, weights[p])
        blocks.append(block)
    return np.concatenate(blocks + ([] if own is None else [own]), axis=1)


def agg_weighted(x, w, src, dst, n_dst, aggregation="sum"):
    return agg_concat(x, w, None, None, src, dst, n_dst, aggregation)


def agg_simple(x, e, src, dst, n_dst, aggregation="sum"):
    return agg_concat(x, None, e, None, src, dst, n_dst, aggregation)
