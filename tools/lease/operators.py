# SPDX-License-Identifier: MIT
"""Compare all operators with the CPU: four faces, hubs, addresses that are not aligned.

    operators.py [--shift 0 1] [--part 0/8] [--only agg gat ...] [--seconds 90] [--json FILE]
                 [--small]

The cases are those of tests/, with more edges than a unit of work takes, wider rows, and, with
--shift 1, every array (inputs and results; workspaces are aligned) one number behind an aligned
address, as that of a view with a storage offset is. Results are held against the CPU in float64. A
line of JSON for each call of all four faces is written at once, so that nothing is lost at the end
of the time. --small is for the SIMT library.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

import numpy as np  # noqa: E402

import gnograd as gg  # noqa: E402
import on_device  # noqa: E402
import table  # noqa: E402
import test_cuda as t  # noqa: E402
from conftest import Edges  # noqa: E402
from conftest import edges as some_edges  # noqa: E402
from gnograd.backends import cuda, cuda_arrays  # noqa: E402


def power_law(n_src: int, n_dst: int, n_edges: int) -> Edges:
    rng = np.random.default_rng(5)
    weight = np.arange(1, n_dst + 1) ** -1.2
    dst = rng.choice(n_dst, n_edges, p=weight / weight.sum())
    return Edges(rng.integers(0, n_src, n_edges), dst, n_src, n_dst)


def hub(n: int, n_edges: int) -> Edges:
    """One destination and one source with nearly all edges."""
    half = n_edges // 2
    src = np.concatenate([np.arange(half) % n, np.full(n_edges - half, n - 1)])
    dst = np.concatenate([np.zeros(half, int), np.arange(n_edges - half) % n])
    return Edges(src, dst, n, n)


def graphs(small: bool) -> dict[str, Edges]:
    return {
        "power law": power_law(70, 70, 300) if small else power_law(3000, 3000, 24_000),
        "hub": hub(9, 700) if small else hub(50, 40_000),
        "bipartite": some_edges([(6, 0), (0, 2), (5, 0), (3, 1), (1, 0), (3, 2)], 7, 3),
        "no edges": some_edges([], 4, 3),
    }


WIDE = {"D": 16, "C": 16}
DTYPES = ("float32", "bfloat16", "float16", "float64")


# ---- arrays that begin `shift` numbers behind an aligned address ----

shift = 0


def shifted(shape, dtype: str, device: int = 0, stream: int = 0):
    item = cuda_arrays.item_size(dtype)
    n = int(np.prod(shape, dtype=np.int64))
    if not n:
        return cuda_arrays.empty(tuple(shape), dtype, device, stream)
    memory = cuda_arrays.empty((n * item + 256,), "uint8", device, stream)
    return cuda.DeviceArray(tuple(shape), dtype, memory, cuda.address(memory) + shift * item)


def to_device(arrays):
    if arrays is None or isinstance(arrays, tuple):
        return arrays and tuple(map(to_device, arrays))
    if not shift or not arrays.size or arrays.dtype.kind in "iu":
        return cuda.to_device(arrays)
    there = cuda.to_device(arrays)
    moved = shifted(arrays.shape, cuda.describe(there)[1])
    cuda.assign(moved, there)
    return moved


def empty(shape, dtype: str):
    # workspaces are aligned, as the interface asks for
    if dtype == "uint8":
        return cuda_arrays.empty(tuple(shape), dtype, 0, 0)
    return shifted(shape, dtype)


@contextlib.contextmanager
def at_shift(n: int):
    global shift
    shift, before = n, on_device.to_device
    on_device.to_device = t.to_device = to_device
    try:
        with cuda.using(0, empty):
            yield
    finally:
        shift, on_device.to_device, t.to_device = 0, before, before


# ---- calls ----


def on_graphs(small: bool):
    """(name, operator, call) for operators on graphs."""
    for case in t.CASES + t.NETWORKS + t.TRIPLETS:
        for graph, edges in graphs(small).items():
            if case in t.TRIPLETS and graph == "hub":
                continue  # its triplets are the square of it
            for dtype in DTYPES:
                if dtype in ("float16", "bfloat16") and case in t.NETWORKS:
                    continue  # of those in half precision there are tests of their own
                if graph in ("bipartite", "no edges") and dtype != "float32":
                    continue

                def call(case=case, edges=edges, dtype=dtype):
                    # also with wide rows
                    sizes = [case.sizes] + [case.sizes | WIDE] * (case in t.CASES)
                    for given in sizes:
                        made, rng = dataclasses.replace(case, sizes=given), np.random.default_rng(7)
                        t.check(made, edges, rng, dtype, slack=16 if len(edges.src) > 200 else 8)

                yield f"{case}/{graph}/{dtype}", case.name, call


def of_sequences(small: bool):
    """(name, operator, call) for attention over sequences."""
    for case in table.of("nsa", "dense"):
        if case.name == "compress" or (small and case.large):
            continue
        dense = case.family == "dense"
        for dtype in ("float32", "float64") if dense else DTYPES:

            def call(case=case, dtype=dtype, dense=dense):
                rng = np.random.default_rng(7)
                if dense:
                    t.check(case, None, rng, dtype, slack=8)
                else:
                    t.check_sparse(case, dtype, rng, slack=8)

            yield f"{case}/{dtype}", case.name, call
    # rows of whole 16 bytes, which tensor cores take, in tiles that are not full
    for d_k, d_v in ((32, 32), (64, 64), (96, 96), (128, 128), (192, 128)):
        for dtype in ("bfloat16", "float16", "float32"):
            for group, heads, tokens in ((4, 2, 150), (1, 3, 97), (16, 1, 130)):
                if small and (d_k > 64 or group == 4):
                    continue
                for causal in (False, True):

                    def call(d_k=d_k, d_v=d_v, dtype=dtype, group=group, heads=heads,
                             tokens=tokens, causal=causal):  # fmt: skip
                        rng = np.random.default_rng(3)
                        make = lambda h, d: rng.normal(size=(tokens, h, d)).astype(t.numbers(dtype))  # noqa: E731
                        q, k, v = make(group * heads, d_k), make(heads, d_k), make(heads, d_v)
                        tangents = make(group * heads, d_k), make(heads, d_k), make(heads, d_v)
                        c = make(group * heads, d_v)
                        index = rng.integers(-1, -(-tokens // 32), (tokens, heads, 3))
                        static = {"block_index": index.astype(np.int32), "block_size": 32,
                                  "causal": causal}  # fmt: skip
                        gates = (None,)
                        t.check_faces(gg.selected_attention, (q, k, v, *gates), (*tangents, *gates),
                                      c, static, dtype, slack=8)  # fmt: skip
                        static = {"window": 40, "causal": causal}
                        bias = (None,) * 3
                        t.check_faces(gg.window_attention, (q, k, v, *bias), (*tangents, *bias),
                                      c, static, dtype, slack=8)  # fmt: skip

                    name = f"features {d_k}/{d_v}/{dtype}/{group}x{heads}/{'causal' * causal}"
                    yield name, "selected_attention", call


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shift", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    calls = [*on_graphs(given.small), *of_sequences(given.small)]
    if given.only:
        calls = [c for c in calls if any(o in c[1] or o in c[0] for o in given.only)]
    # the same order everywhere; what few parts have seen comes first where time is short
    order = np.random.default_rng(0).permutation(len(calls))
    mine = [calls[k] for k in order[part::parts]]
    start, bad, done = time.perf_counter(), 0, 0
    out = given.json.open("a") if given.json else sys.stdout
    for name, operator, call in mine:
        for n in given.shift:
            if time.perf_counter() - start > given.seconds:
                of = len(mine) * len(given.shift)
                entry = {"part": part, "ended": "out of time", "done": done, "of": of}
                print(json.dumps(entry), file=out, flush=True)
                return bool(bad)
            entry = {"check": name, "operator": operator, "shift": n}
            try:
                with at_shift(n):
                    call()
                entry["ended"] = "well"
            except BaseException as problem:
                if type(problem).__name__ == "Skipped" or "there is no CUDA kernel" in str(problem):
                    entry["ended"] = "skipped"
                elif isinstance(problem, KeyboardInterrupt):
                    raise
                else:
                    bad += 1
                    entry["ended"] = f"{type(problem).__name__}: {problem}"[:600]
            done += 1
            if entry["ended"] != "well" or given.json:
                print(json.dumps(entry), file=out, flush=True)
            if "CUDA" in entry["ended"] or "CUDA error" in entry["ended"]:
                # an address that is none, or the like: nothing more can be done in this process
                try:
                    cuda.to_device(np.ones(1)).get()
                except Exception:
                    print(json.dumps({"part": part, "ended": "the device is lost", "after": name}),
                          file=out, flush=True)  # fmt: skip
                    return 3
    print(
        json.dumps({"part": part, "ended": "all", "done": done, "bad": bad}), file=out, flush=True
    )
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
