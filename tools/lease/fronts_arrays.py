# SPDX-License-Identifier: MIT
"""Checks of CuPy and JAX on a GPU, and of large arrays."""

from __future__ import annotations

import front
import numpy as np
from front import calls, check, near, truth

import gnograd as gg

# ---- CuPy ----


@check("cupy", gpu=True)
def cupy_arrays():
    import cupy as cp

    for name in ("agg", "gat", "gno", "selected", "edge_mlp"):
        operator, inputs, static, g = calls()[name]
        op = getattr(gg, operator)
        given = static | ({"graph": g} if g is not None else {})
        if "block_index" in given:
            there = given | {"block_index": cp.asarray(given["block_index"])}
        else:
            there = given
        for dtype in ("float32", "float64"):
            x = [cp.asarray(a.astype(dtype)) for a in inputs]
            with cp.cuda.Stream(non_blocking=True) as stream:
                y = [a.copy() for a in x]
                out = op(*y, **there)
                outs = out if isinstance(out, tuple) else (out,)
                stream.synchronize()
            expected = op(*inputs, **given)
            expected = expected if isinstance(expected, tuple) else (expected,)
            for a, b in zip(outs, expected, strict=True):
                assert isinstance(a, cp.ndarray), type(a)
                near(cp.asnumpy(a), b, dtype, name)


@check("cupy", gpu=True)
def cupy_slices():
    import cupy as cp

    _, (x, w), _, g = calls()["agg"]
    base = cp.zeros(x.size + 1, "float32")
    base[1:] = cp.asarray(x.astype("float32").ravel())
    out = gg.agg_weighted(base[1:].reshape(x.shape), cp.asarray(w.astype("float32")), graph=g)
    near(cp.asnumpy(out), gg.agg_weighted(x, w, graph=g), "float32", "offset")
    wide = cp.asarray(np.repeat(x.astype("float32"), 2, axis=1))
    out = gg.agg_weighted(wide[:, ::2], cp.asarray(w.astype("float32")), graph=g)
    near(cp.asnumpy(out), gg.agg_weighted(x, w, graph=g), "float32", "every second column")


@check("cupy", gpu=True)
def results_that_outlive_their_stream():
    """bfloat16 results are gnograd's own arrays: their memory goes back on the stream's end."""
    import gc

    import cupy as cp
    import ml_dtypes

    from gnograd.backends import cuda

    _, (x, w), _, g = calls()["agg"]
    kept = []
    for _ in range(5):
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            a, b = (cuda.to_device(v.astype(ml_dtypes.bfloat16)) for v in (x, w))
            kept.append(gg.agg_weighted(a, b, graph=g))
        stream.synchronize()
        del stream, a, b
        gc.collect()
    found = [k.get().astype(float) for k in kept]
    del kept
    gc.collect()
    for f in found:
        near(f, gg.agg_weighted(x, w, graph=g), "bfloat16", "kept")


@check("cupy", gpu=True)
def captured_by_cupy():
    import cupy as cp

    _, (x, w), _, g = calls()["agg"]
    a, b = cp.asarray(x.astype("float32")), cp.asarray(w.astype("float32"))
    gg.agg_weighted(a, b, graph=g)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        gg.agg_weighted(a, b, graph=g)
        stream.synchronize()
        stream.begin_capture()
        out = gg.agg_weighted(a, b, graph=g)
        made = stream.end_capture()
        made.launch(stream)
        stream.synchronize()
    near(cp.asnumpy(out), gg.agg_weighted(x, w, graph=g), "float32", "captured")


# ---- JAX ----


@check("jax")
def jax_values_and_gradients():
    import jax
    import jax.numpy as jnp

    import gnograd.jax as gj

    if front.DEVICE == "cuda":
        assert jax.default_backend() == "gpu", jax.default_backend()
    for name in ("agg", "gat", "gno", "edge_mlp", "selected", "window"):
        operator, _, static, g = calls()[name]
        given = dict(static)
        if "block_index" in given:
            given["block_index"] = jnp.asarray(given["block_index"])
        if g is not None:
            given["graph"] = gj.Graph.of(g)
        function = getattr(gj, operator)
        rounded, _, expected, c, gradients = truth(name, "float32")
        x = [jnp.asarray(a, jnp.float32) for a in rounded]

        @jax.jit
        def both(x, c, function=function, given=given):
            out, pull = jax.vjp(lambda *x: function(*x, **given), *x)
            return out, pull(c if isinstance(out, tuple) else c[0])

        out, found = both(x, tuple(jnp.asarray(a, jnp.float32) for a in c))
        outs = out if isinstance(out, tuple) else (out,)
        for a, b in zip(outs, expected, strict=True):
            near(a, b, "float32", f"{name} in JAX")
        for a, b in zip(found, gradients, strict=True):
            if b is not None:
                near(a, b, "float32", f"{name} gradient in JAX", 4)


@check("jax")
def jax_in_a_scan():
    import jax
    import jax.numpy as jnp

    import gnograd.jax as gj

    _, (x, w), _, g = calls()["agg"]
    graph, w = gj.Graph.of(g), jnp.asarray(w, jnp.float32) / 10

    @jax.jit
    def many(x):
        return jax.lax.scan(
            lambda x, _: (gj.agg_weighted(x, w, graph=graph) / 4, None), x, None, length=20
        )[0]

    found = many(jnp.asarray(x, jnp.float32))
    expected = x
    for _ in range(20):
        expected = gg.agg_weighted(expected, np.asarray(w, float), graph=g) / 4
    near(found, expected, "float32", "scan", 10)


# ---- large ----


@check("large", gpu=True)
def more_than_two_to_the_31_numbers():
    """A sum of two neighbours each in 17.2 M rows of 128: 2.2e9 numbers in, and out."""
    import torch

    import gnograd.torch as gt

    n, width = (1 << 24) + 400_000, 128
    row = torch.arange(n, device=front.DEVICE)
    src = torch.stack([row, (row * 5 + 1) % n], 1).flatten()
    graph = gt.Graph.from_edge_index(torch.stack([src, row.repeat_interleave(2)]), n, n)
    x = torch.randn(n, width, device=front.DEVICE, dtype=torch.bfloat16)
    w = torch.rand(2 * n, device=front.DEVICE, dtype=torch.bfloat16)
    assert x.numel() > 2**31
    out = gt.agg_weighted(x, w, graph=graph)
    pairs = src.view(n, 2)
    for first in (0, n // 2, n - 5000):
        rows = slice(first, first + 5000)
        expected = (x[pairs[rows]].float() * w.view(n, 2)[rows, :, None].float()).sum(1)
        error = (out[rows].float() - expected).norm() / expected.norm()
        assert error < 1e-2, (first, float(error))
    del out
    g = torch.randn(n, width, device=front.DEVICE, dtype=torch.bfloat16)
    w.requires_grad_()
    out = gt.agg_weighted(x, w, graph=graph)
    (to_w,) = torch.autograd.grad(out, w, g)
    for first in (0, n - 5000):
        rows = slice(first, first + 5000)
        expected = (x[pairs[rows]].float() * g[rows, None].float()).sum(2)
        error = (to_w.view(n, 2)[rows].float() - expected).norm() / expected.norm()
        assert error < 1e-2, (first, float(error))


@check("large", gpu=True)
def attention_over_many_keys():
    """64k tokens, 16 + 1 heads: the last rows beside plain products."""
    import torch

    import gnograd.torch as gt

    n, heads, d = 65536, 16, 128
    torch.manual_seed(0)
    q = torch.randn(n, heads, d, device=front.DEVICE, dtype=torch.bfloat16)
    k, v = (torch.randn(n, 1, d, device=front.DEVICE, dtype=torch.bfloat16) for _ in range(2))
    index = torch.randint(0, n // 64, (n, 1, 16), device=front.DEVICE, dtype=torch.int32)
    index = index.sort(-1).values
    out = gt.selected_attention(q, k, v, block_index=index, block_size=64)
    for t in (0, n // 2, n - 1):
        blocks = index[t, 0].unique().long()
        keys = (blocks[:, None] * 64 + torch.arange(64, device=front.DEVICE)).flatten()
        s = q[t].float() @ k[keys, 0].float().T * d**-0.5
        expected = s.softmax(-1) @ v[keys, 0].float()
        error = (out[t].float() - expected).norm() / expected.norm()
        assert error < 2e-2, (t, float(error))
