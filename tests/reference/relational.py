# SPDX-License-Identifier: MIT
"""Relational aggregation by its formula, destination by destination and relation by relation."""

import numpy as np


def agg_relational(x, w, coeff, own, src, dst, n_dst, edge_type, n_relations, aggregation="sum"):
    weights = np.ones(len(src), x.dtype) if w is None else w
    sums = np.zeros((n_dst, n_relations, x.shape[1]), np.result_type(x, weights))
    for i, r in {*zip(dst, edge_type, strict=True)}:
        p = np.flatnonzero((dst == i) & (edge_type == r))
        sums[i, r] = (weights[p, None] * x[src[p]]).sum(axis=0)
        if aggregation == "mean":
            sums[i, r] /= weights[p].sum()
    if coeff is not None:
        sums = np.einsum("rb,ird->ibd", coeff, sums)
    blocks = [sums.reshape(n_dst, sums.shape[1] * x.shape[1])]
    return np.concatenate(blocks + ([] if own is None else [own]), axis=1)
