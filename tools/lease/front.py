# SPDX-License-Identifier: MIT
"""Calls of operators in any front on a GPU, and the registry of checks."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu")

import numpy as np

import gnograd as gg

GROUPS: dict[str, list[Callable]] = {}
GPU_ONLY: set[str] = set()
DEVICE = "cuda"


def check(group: str, gpu: bool = False) -> Callable:
    def add(function: Callable) -> Callable:
        GROUPS.setdefault(group, []).append(function)
        if gpu:
            GPU_ONLY.add(function.__name__)
        return function

    return add


def graph_of(n: int = 200, degree: int = 7, seed: int = 0) -> gg.Graph:
    rng = np.random.default_rng(seed)
    weight = np.arange(1, n + 1) ** -0.8
    dst = rng.choice(n, degree * n, p=weight / weight.sum())
    return gg.Graph.from_edges(rng.integers(0, n, degree * n), dst, n, n)


@functools.cache
def calls() -> dict[str, tuple]:
    """name: operator's name, inputs in float64, static arguments but the graph, graph or None."""
    n, rng = 200 if DEVICE == "cuda" else 48, np.random.default_rng(1)
    g = graph_of(n)
    e = g.n_edges

    def r(*shape, scale=1.0):
        return scale * rng.standard_normal(shape)

    packed = r(2 * 8 + 8 + 8 * 6 + 6, scale=0.5)
    edge = r(5 * 9 + 7 * 9 + 7 * 9 + 9 + 9 * 5 + 5 + 5 + 5, scale=0.4)
    index = rng.integers(0, n // 16, (n, 2, 3)).astype(np.int32)
    return {
        "agg": ("agg_weighted", (r(n, 33), r(e)), {"aggregation": "sum"}, g),
        "max": ("agg_weighted", (r(n, 32), r(e)), {"aggregation": "max"}, g),
        "gat": ("mha_gat", (r(n, 32), r(n, 32), r(64)), {"num_heads": 4}, g),
        "mha": ("mha_simple", (r(n, 64), r(n, 64), r(n, 64), r(e, 64)), {"num_heads": 4}, g),
        "softmax": ("edge_softmax", (r(e, 4),), {}, g),
        "gno": ("gno", (r(n, 12), r(e, 2), r(2, 24), r(24), r(24, 12, 10, scale=0.2), r(12, 10)),
                {"activation": "gelu"}, g),
        "laplacian": ("gno_with_laplacian",
                      (r(n, 4), r(n, 2), r(n, 2), packed, r(6, 4, 1, scale=0.3), r(4, 1)),
                      {"widths": [8, 6]}, g),
        "moments": ("offset_moments", (r(n, 3), r(n, 3)), {}, g),
        "edge_mlp": ("edge_mlp", (r(e, 5), r(n, 7), r(n, 7), edge), {"widths": [9, 5]}, g),
        "selected": ("selected_attention", (r(n, 8, 32), r(n, 2, 32), r(n, 2, 32)),
                     {"block_index": index, "block_size": 16, "causal": True}, None),
        "window": ("window_attention", (r(n, 8, 64), r(n, 2, 64), r(n, 2, 64)),
                   {"window": 37, "causal": True}, None),
        "compress": ("compress", (r(n, 2, 16), r(8, 2)), {"block": 8, "stride": 4}, None),
    }  # fmt: skip


TOLERANCE = {"float64": 1e-10, "float32": 3e-5, "bfloat16": 4e-2, "float16": 8e-3}
HALF = {"laplacian", "moments", "edge_mlp"}  # have no kernels in half precision


def near(found, expected, dtype: str, what: str, slack: float = 1) -> None:
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    assert found.shape == expected.shape, (what, found.shape, expected.shape)
    if expected.size:
        error = np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-300)
        assert error < slack * TOLERANCE[dtype], f"{what}: relative error {error:.2e} in {dtype}"


_truth: dict = {}


def truth(name: str, dtype: str):
    """Output and gradients for a fixed cotangent by the CPU in float64, of inputs as rounded."""
    if (name, dtype) not in _truth:
        import torch

        operator, inputs, static, g = calls()[name]
        kind = getattr(torch, dtype)
        rounded = tuple(torch.from_numpy(x).to(kind).double().numpy() for x in inputs)
        # geometry is float32 beside half precision
        if operator == "gno" and dtype in ("bfloat16", "float16"):
            rounded = (rounded[0], inputs[1].astype(np.float32).astype(float), *rounded[2:])
        op = getattr(gg, operator)
        given = static | ({"graph": g} if g is not None else {})
        out = op(*rounded, **given)
        outs = out if isinstance(out, tuple) else (out,)
        rng = np.random.default_rng(2)
        c = tuple(
            torch.from_numpy(rng.standard_normal(o.shape)).to(kind).double().numpy() for o in outs
        )
        gradients = op.vjp(c if isinstance(out, tuple) else c[0], rounded, **given)
        _truth[name, dtype] = rounded, given, outs, c, gradients[: len(inputs)]
    return _truth[name, dtype]


def tensors(name: str, dtype: str, device: str | None = None, offset: int = 0):
    """Inputs as leaves, static arguments, cotangents."""
    import torch

    import gnograd.torch as gt

    device = device or DEVICE
    rounded, given, _, c, _ = truth(name, dtype)
    kind = getattr(torch, dtype)

    def put(x, kind=kind):
        if not offset:
            return torch.from_numpy(np.ascontiguousarray(x)).to(device, kind)
        base = torch.empty(x.size + offset, dtype=kind, device=device)
        view = base[offset:].view(x.shape)
        view.copy_(torch.from_numpy(np.ascontiguousarray(x)).to(device, kind))
        return view

    operator = calls()[name][0]
    geometry = operator == "gno" and dtype in ("bfloat16", "float16")
    leaves = [
        put(x, torch.float32 if geometry and k == 1 else kind).requires_grad_()
        for k, x in enumerate(rounded)
    ]
    static = dict(given)
    if "graph" in static:
        static["graph"] = gt.Graph.of(static["graph"]).to(device)
    if "block_index" in static:
        static["block_index"] = torch.from_numpy(static["block_index"]).to(device)
    return getattr(gt, operator), leaves, static, [put(x) for x in c]


def forward_backward(function, leaves, static, c):
    import torch

    out = function(*leaves, **static)
    outs = out if isinstance(out, tuple) else (out,)
    return outs, torch.autograd.grad(outs, leaves, c, allow_unused=True)


def compare(name: str, dtype: str, outs, gradients, slack: float = 1) -> None:
    _, _, expected, _, expected_gradients = truth(name, dtype)
    for k, (a, b) in enumerate(zip(outs, expected, strict=True)):
        near(a.detach().double().cpu(), b, dtype, f"{name} output {k}", slack)
    for k, (a, b) in enumerate(zip(gradients, expected_gradients, strict=True)):
        if a is not None and b is not None:
            near(a.detach().double().cpu(), b, dtype, f"{name} gradient {k}", 4 * slack)


def dtypes_of(name: str) -> tuple[str, ...]:
    kinds = (
        ("float32", "float64", "bfloat16", "float16")
        if DEVICE == "cuda"
        else ("float32", "bfloat16")
    )
    return tuple(k for k in kinds if name not in HALF or k not in ("bfloat16", "float16"))
