#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The kernels of one operator after another, counted: small cases of which times scale.

    PTX_COUNT=counts.json PTX_QUICK=1 PTX_ARCH=90 GNOGRAD_CUDA_LIBRARY=libgnograd_cuda_ptx_90.so \
        python baseline.py [CASE...]

Every call is counted under a label of its own, ``case/face``; the table of model.py scales it to
what CASES says of the case in full.
"""

import ctypes
import json
import os
import sys
import time

import numpy as np

import gnograd as gg
from gnograd.backends import cuda

library = ctypes.CDLL(os.environ["GNOGRAD_CUDA_LIBRARY"])
rng = np.random.default_rng(0)  # for every case anew


def done(label: str) -> None:
    library.ptx_count(label.encode())


def normal(*shape: int, dtype: str = "float32", scale: float = 1.0):
    x = scale * rng.standard_normal(shape, np.float32)
    if dtype == "bfloat16":
        import ml_dtypes

        x = x.astype(ml_dtypes.bfloat16)
    return x


def device(x):
    if isinstance(x, tuple):
        return tuple(map(device, x))
    return cuda.to_device(x) if isinstance(x, np.ndarray) else x


def faces(case: str, operator, inputs, static, only: tuple[str, ...] = ()) -> None:
    """Forward and vjp of an operator, each under its label."""
    inputs = device(tuple(inputs))
    static = {k: device(v) for k, v in static.items()}
    out, saved = operator.forward(*inputs, return_saved=True, **static)
    done("-")
    operator(*inputs, **static)
    done(f"{case}/forward")
    outs = out if isinstance(out, tuple) else (out,)
    cotangents = tuple(device(normal(*o.shape, dtype=str(o.dtype))) for o in outs)
    done("-")
    operator.vjp(
        cotangents if isinstance(out, tuple) else cotangents[0], inputs, saved=saved, **static
    )
    done(f"{case}/vjp")


def random_graph(n: int, degree: int) -> gg.Graph:
    return gg.Graph(degree * np.arange(n + 1), rng.integers(0, n, degree * n), n_src=n)


def mesh(side: int) -> gg.Graph:
    i, j = np.divmod(np.arange(side * side), side)
    steps = [(0, 1), (1, 0), (1, 1), (0, -1), (-1, 0), (-1, -1)]
    src = np.stack([(i + a) % side * side + (j + b) % side for a, b in steps], axis=1)
    return gg.Graph(6 * np.arange(side * side + 1), src.ravel())


def aggregation(case: str, graph: gg.Graph, width: int, dtype: str, kind: str) -> None:
    inputs = normal(graph.n_src, width, dtype=dtype), normal(graph.n_edges, dtype=dtype)
    faces(case, gg.agg_weighted, inputs, {"graph": graph, "aggregation": kind})


def agg_sum_128(case):
    aggregation(case, random_graph(20000, 20), 128, "float32", "sum")


def agg_sum_128_bf16(case):
    aggregation(case, random_graph(20000, 20), 128, "bfloat16", "sum")


def agg_sum_64_mesh(case):
    aggregation(case, mesh(200), 64, "float32", "sum")


def agg_max_128(case):
    aggregation(case, random_graph(20000, 20), 128, "float32", "max")


def gat(case):
    graph = random_graph(20000, 20)
    x = device(normal(20000, 128))
    a = normal(256)
    faces(case, gg.mha_gat, (x, x, a), {"graph": graph, "num_heads": 8})


def gno(case, hidden):
    n, degree, width = 500, 8, 32
    inputs = (normal(n, width), normal(n * degree, 2), normal(2, hidden), normal(hidden),
              normal(hidden, width, width, scale=hidden**-0.5), normal(width, width))  # fmt: skip
    faces(case, gg.gno, inputs, {"graph": random_graph(n, degree), "activation": "gelu"})


def gno_64(case):
    gno(case, 64)


def gno_128(case):
    gno(case, 128)


def selection(tokens: int, block: int, slots: int) -> np.ndarray:
    """The own block and earlier ones, as benchmarks/nsa.py draws them; one key/value head."""
    n = tokens // block
    score = rng.random((tokens, 1, n), np.float32)
    own = np.arange(tokens)[:, None, None] // block
    score = np.where(np.arange(n) > own, -1, np.where(np.arange(n) == own, 2, score))
    slots = min(slots, n)
    chosen = np.argpartition(-score, slots - 1, axis=2)[..., :slots].astype(np.int32)
    return np.where(np.take_along_axis(score, chosen, 2) < 0, -1, chosen).astype(np.int32)


def nsa(case):
    tokens = int(os.environ.get("NSA_TOKENS", "1024"))
    # 16 heads of 64 and 1 of 4: heads are independent
    block_index = selection(tokens, 64, 16)
    inputs = tuple(normal(tokens, heads, 128, dtype="bfloat16") for heads in (16, 1, 1))
    print("visits", int((block_index >= 0).sum()), "of", tokens)
    faces(case, gg.selected_attention, inputs,
          {"block_index": block_index, "block_size": 64, "causal": True})  # fmt: skip


def select_blocks(case, dtype="bfloat16", queries=64):
    """Queries in the middle of the sequence, each of which does the mean work."""
    tokens, static = 32768, {"block": 32, "stride": 16, "causal": True}
    q = normal(queries, 16, 128, dtype=dtype)
    k = normal((tokens - 32) // 16 + 1, 1, 128, dtype=dtype)
    x = np.einsum("qhd,kd->qhk", q.astype(np.float32), k[:, 0].astype(np.float32)) * 128**-0.5
    position = tokens - queries + np.arange(queries)
    x[np.arange(len(k)) * 16 + 31 > position[:, None, None] + np.zeros((1, 16, 1))] = -np.inf
    lse = np.log(np.exp(x).sum(-1))
    inputs = device((q, k, lse))
    static |= {"block_size": 64, "n_blocks": 16, "n_keys": tokens, "first_blocks": 1,
               "local_blocks": 2, "q_offset": tokens - queries}  # fmt: skip
    done("-")
    gg.select_blocks(*inputs, **static)
    done(f"{case}/forward")


def select_blocks_f32(case):
    select_blocks(case, "float32", 32)


def edge_to_edge(case):
    sys.path.insert(0, os.environ.get("GNOGRAD_BENCHMARKS", "benchmarks"))
    import dimenet

    vector, graph = dimenet.crystal(1500)
    basis = dimenet.N_SPHERICAL * dimenet.N_RADIAL
    n, mid, emb = graph.n_edges, dimenet.N_MID, dimenet.N_EMB
    print("edges", n, "nodes", graph.n_src, "basis", basis, "mid", mid, "emb", emb)
    inputs = (vector.astype(np.float32), normal(n, basis, scale=0.1), normal(n, emb),
              normal(basis + emb, mid, scale=0.1))  # fmt: skip
    faces(case, gg.agg_edge_to_edge, inputs, {"graph": graph, "exclude": "same_node"})


def radial(case):
    x = rng.random((40000, 1), np.float32)
    faces(case, gg.radial_basis, (x, np.pi * np.arange(1, 7, dtype=np.float32)), {})


def laplacian(case):
    n, degree, width, hidden = 250, 16, 8, (64, 64)
    layers = [(normal(2, 64), normal(64)), (normal(64, 64, scale=0.125), normal(64))]
    inputs = (normal(n, width), normal(n, 2), normal(n, 2), gg.gno_pack_layers(layers),
              normal(64, width, 1, scale=0.125), normal(width, 1))  # fmt: skip
    faces(case, gg.gno_with_laplacian, inputs,
          {"graph": random_graph(n, degree), "widths": list(hidden)})  # fmt: skip


def neighbors(case):
    n, degree = 20000, 20
    points = rng.random((n, 3), np.float32)
    radius = (degree * 3 / (4 * np.pi * n)) ** (1 / 3)
    points = device(points)
    done("-")
    gg.neighbors(points, radius)
    done(f"{case}/search")


def graph(case):
    src, dst = (device(rng.integers(0, 100_000, 400_000)) for _ in range(2))
    done("-")
    gg.Graph.from_edges(src, dst, 100_000)
    done(f"{case}/from_edges")


CASES = {f.__name__: f for f in (
    agg_sum_128, agg_sum_128_bf16, agg_sum_64_mesh, agg_max_128, gat, gno_64, gno_128, nsa,
    select_blocks, select_blocks_f32, edge_to_edge, radial, laplacian, neighbors,
    graph)}  # fmt: skip


def full() -> dict[str, dict]:
    """What labels stand for: how many times as large, and useful work as benchmarks/ count it."""
    f32, nodes, edges = 4, 100_000, 2_000_000
    cases = {}

    def case(name, scale, what, forward, vjp, **more):
        """Bytes, or with a type floating point operations."""
        unit = "flops" if more else "bytes"
        for face, useful in (("forward", forward), ("vjp", vjp)):
            cases[f"{name}/{face}"] = {"scale": scale, unit: useful, "what": what, **more}

    def aggregates(name, scale, n, e, width, size, what):
        case(name, scale, what, size * (e * (width + 1) + n * width),
             size * (2 * e * (width + 1) + 2 * n * width))  # fmt: skip

    graph = "100,000 nodes, 2,000,000 edges"
    aggregates("agg_sum_128", 5, nodes, edges, 128, f32, graph)
    aggregates("agg_sum_128_bf16", 5, nodes, edges, 128, 2, graph)
    aggregates("agg_max_128", 5, nodes, edges, 128, f32, graph)
    aggregates("agg_sum_64_mesh", 25, 10**6, 6 * 10**6, 64, f32, "mesh of 1000 x 1000")
    case("gat", 5, "8 x 16, " + graph, f32 * (edges * 144 + nodes * 256),
         f32 * (edges * 416 + nodes * 512))  # fmt: skip
    n, e, width = 20_000, 160_000, 32
    for hidden in (64, 128):
        # a sum over the edges of hidden features x features, then a product with V
        forward = 2 * e * hidden * width + 2 * n * hidden * width**2
        case(f"gno_{hidden}", 40, f"{e} edges, 32 to 32, hidden {hidden}; useful in tf32, once",
             forward, 3 * forward, type="tf32")  # fmt: skip
    tokens, visits = 65536, 4 * (65536 * 16 - 64 * 15 * 16 // 2)
    pairs = (visits * 64 - 4 * tokens * 63 // 2) * 16  # without what is hidden of the own block
    case("nsa", visits / 8704, "64k tokens, 64 heads of 4, 128/128, 16 blocks of 64, causal",
         512 * pairs, 1280 * pairs, type="bf16")  # fmt: skip
    for face in ("forward", "vjp"):
        cases[f"nsa/{face}"]["arrays_scale"] = 4 * tokens / 1024
    flops = 2 * 128 * 64 * tokens * (tokens / 2 / 16)
    for name, type, queries in (("", "bf16", 64), ("_f32", "tf32", 32)):
        scale = 4 * tokens / queries  # keys do not grow with queries
        cases[f"select_blocks{name}/forward"] = {
            "scale": scale, "arrays_scale": scale * queries / (queries + 128), "flops": flops,
            "type": type, "what": "64k tokens, 64 heads of 4, 128, 16 blocks of 64, causal",
        }  # fmt: skip
    e = 200_000
    case("edge_to_edge", e / 1488, f"{e} edges", f32 * e * (3 + 42 + 128), f32 * e * (90 + 192))
    case("radial", 25, "1,000,000 edges", f32 * 10**6 * 49, f32 * 10**6 * 50)
    layers = 2 * 4 * (2 * 64 + 64 * 64 + 64 * 8)
    case("laplacian", 80, "320,000 edges, 2, 64, 64, 8; useful in float32", 320_000 * layers,
         2 * 320_000 * layers, type="fp32")  # fmt: skip
    cases["neighbors/search"] = {"scale": 10, "what": "200,000 points, 20 neighbours"}
    # two ends of 8 bytes, and what a graph has of an edge
    cases["graph/from_edges"] = {"scale": 5, "bytes": edges * (16 + 40), "what": "2,000,000 edges"}
    return cases


def main() -> None:
    if path := os.environ.get("PTX_COUNT"):
        with open(path, "a") as file:
            for label, case in full().items():
                file.write(json.dumps({"case": label, **case}) + "\n")
    for case in sys.argv[1:] or CASES:
        start = time.perf_counter()
        globals()["rng"] = np.random.default_rng(0)
        CASES[case](case)
        print(f"{case}: {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
