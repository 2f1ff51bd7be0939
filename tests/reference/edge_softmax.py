# SPDX-License-Identifier: MIT
"""Softmax over the edges of every destination."""

import numpy as np


def edge_softmax(s, src, dst, n_dst):
    out = np.zeros_like(s)
    for i in range(n_dst):
        rows = np.flatnonzero(dst == i)
        if rows.size:
            weight = np.exp(s[rows] - np.real(s[rows]).max(axis=0))
            out[rows] = weight / weight.sum(axis=0)
    return out
