# SPDX-License-Identifier: MIT
"""A network on edges, edge by edge, on the concatenation of what an edge sees."""

import numpy as np

from reference.gno import ACTIVATIONS
from reference.gno_jets import unpack


def edge_mlp(
    e, x_src, x_dst, weights, edge_weight, src, dst, n_dst, widths, activation="silu",
    layer_norm=True, residual=True, reduction="sum", outputs="both",
):  # fmt: skip
    parts = [e, None if x_src is None else x_src[src], None if x_dst is None else x_dst[dst]]
    z = np.concatenate([part for part in parts if part is not None], axis=1)
    for k, (W, b) in enumerate(unpack(weights, z.shape[1], widths)):
        z = (z if k == 0 else ACTIVATIONS[activation](z)) @ W + b
    if layer_norm:
        gamma, beta = weights[-2 * widths[-1] :].reshape(2, -1)
        z = z - z.mean(axis=1, keepdims=True)
        variance = (z * z).mean(axis=1, keepdims=True)
        z = z / np.sqrt(variance + variance.real.dtype.type(1e-5)) * gamma + beta
    edges = e + z if residual else z
    dtype = edges.dtype if edge_weight is None else np.result_type(edges, edge_weight)
    nodes, total = np.zeros((n_dst, widths[-1]), dtype), np.zeros(n_dst, dtype)
    for p, i in enumerate(dst):
        w = 1 if edge_weight is None else edge_weight[p]
        nodes[i] += w * edges[p]
        total[i] += w
    if reduction == "mean":
        some = np.isin(np.arange(n_dst), dst)
        nodes[some] /= total[some, None]
    return {"both": (edges, nodes), "edges": edges, "nodes": nodes}[outputs]
