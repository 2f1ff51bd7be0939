# SPDX-License-Identifier: MIT
"""Check what users call on a GPU: tensors of PyTorch, arrays of CuPy and JAX, streams, captures.

    fronts.py GROUP [--device cuda] [--json FILE] [--from N]

Groups: torch, streams, capture, compile, cupy, jax, large. Each check gives a line of JSON before
it begins and one when it has ended. Exit status 3: the device is lost, and --from N goes on behind
the check that did it. With --device host the checks that need no GPU are run on the host's build of
the kernels, with tensors in host memory that say they are on a GPU (tests/host_tensors.py).
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

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


# ---- calls, in any front ----


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


# ---- torch ----


@check("torch")
def values_and_gradients():
    for name in calls():
        for dtype in dtypes_of(name):
            compare(name, dtype, *forward_backward(*tensors(name, dtype)))


@check("torch")
def odd_storage_offsets():
    for name in calls():
        for dtype in dtypes_of(name):
            compare(name, dtype, *forward_backward(*tensors(name, dtype, offset=1)))


@check("torch")
def transposed_inputs():
    for name in ("agg", "gat", "mha", "selected"):
        function, leaves, static, c = tensors(name, "float32")
        turned = [
            x.detach().transpose(0, -1).contiguous().transpose(0, -1).requires_grad_()
            for x in leaves
        ]
        turned_c = [x.transpose(0, -1).contiguous().transpose(0, -1) for x in c]
        compare(name, "float32", *forward_backward(function, turned, static, turned_c))


@check("torch")
def cotangents_of_a_sum():
    """That of .sum().backward() is one number with strides of 0."""
    import torch

    for name in calls():
        function, leaves, static, _ = tensors(name, "float32")
        out = function(*leaves, **static)
        outs = out if isinstance(out, tuple) else (out,)
        found = torch.autograd.grad(sum(o.sum() for o in outs), leaves, allow_unused=True)
        function, leaves, static, _ = tensors(name, "float32")
        out = function(*leaves, **static)
        outs = out if isinstance(out, tuple) else (out,)
        ones = [torch.ones_like(o) for o in outs]
        expected = torch.autograd.grad(outs, leaves, ones, allow_unused=True)
        for a, b in zip(found, expected, strict=True):
            assert a is None or torch.equal(a, b), name


@check("torch")
def second_derivatives():
    """Gradients of a function of gradients, beside the CPU's."""
    import torch

    for name in ("agg", "gat", "gno", "laplacian", "selected"):
        results = []
        for device in ("cpu", DEVICE):
            function, leaves, static, c = tensors(name, "float64", device)
            out = function(*leaves, **static)
            outs = out if isinstance(out, tuple) else (out,)
            first = torch.autograd.grad(outs, leaves, c, create_graph=True, allow_unused=True)
            s = sum((x * x).sum() for x in first if x is not None)
            results.append(torch.autograd.grad(s, leaves, allow_unused=True))
        for k, (a, b) in enumerate(zip(*results, strict=True)):
            if a is not None:
                near(b.cpu(), a, "float64", f"{name} second {k}", 100)


@check("torch")
def forward_mode():
    import torch

    for name in ("agg", "gat", "gno", "selected"):
        function, leaves, static, _ = tensors(name, "float64")
        inputs = tuple(x.detach() for x in leaves)
        torch.manual_seed(0)
        tangents = tuple(map(torch.randn_like, inputs))
        applied = functools.partial(function, **static)
        _, tangent = torch.func.jvp(applied, inputs, tangents)
        h = 1e-6
        plus = applied(*(x + h * t for x, t in zip(inputs, tangents, strict=True)))
        minus = applied(*(x - h * t for x, t in zip(inputs, tangents, strict=True)))
        error = ((plus - minus) / (2 * h) - tangent).norm() / tangent.norm()
        assert error < 1e-6, (name, float(error))


@check("torch")
def same_bits_twice():
    import torch

    for name in calls():
        for dtype in dtypes_of(name):
            first, second = (forward_backward(*tensors(name, dtype)) for _ in range(2))
            for a, b in zip((*first[0], *first[1]), (*second[0], *second[1]), strict=True):
                assert a is None or torch.equal(a, b), (name, dtype)


@check("torch", gpu=True)
def neighbours_are_those_of_the_cpu():
    import torch

    import gnograd.torch as gt

    n = 3000 if DEVICE == "cpu" else 200_000
    for d in (2, 3):
        torch.manual_seed(d)
        x = torch.rand(n, d)
        r = float((20 / (n * (np.pi if d == 2 else 4 / 3 * np.pi))) ** (1 / d))
        for make in (lambda p, r=r: gt.Graph.radius(p, r), lambda p: gt.Graph.knn(p, 16)):
            here, there = make(x), make(x.to(DEVICE))
            for a, b in zip(here.arrays, there.arrays, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    assert torch.equal(a, b.cpu())


@check("torch", gpu=True)
def a_layer_learns():
    import torch

    import gnograd.torch as gt

    torch.manual_seed(0)
    points = torch.rand(3000, 2, device=DEVICE)
    u = torch.sin(6 * points[:, :1])
    graph = gt.Graph.radius(points, 0.05)
    coords = points[graph.dst] - points[graph.src]
    layer = gt.GNO(1, 1, coord_dim=2).to(DEVICE)
    adam = torch.optim.Adam(layer.parameters(), 1e-2)
    losses = []
    for _ in range(5 if DEVICE == "cpu" else 60):
        adam.zero_grad()
        loss = (layer(u, coords, graph) / 20 - torch.cos(6 * points[:, :1])).square().mean()
        loss.backward()
        adam.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0], losses
    assert np.all(np.isfinite(losses)), losses


@check("torch")
def autocast():
    import torch

    for name in ("agg", "gat", "selected", "gno"):
        function, leaves, static, c = tensors(name, "float32")
        with torch.autocast(DEVICE, torch.bfloat16):
            half = [x.detach().bfloat16().requires_grad_() for x in leaves]
            out = function(*half, **static)
        assert out.dtype == torch.bfloat16 or DEVICE == "cpu", (name, out.dtype)
        torch.autograd.grad(out, half, c[0].to(out.dtype))


@check("torch")
def wrong_arguments_do_no_harm():
    import gnograd.torch as gt

    function, leaves, static, _ = tensors("agg", "float32")
    for bad in ((leaves[0], leaves[0]), (leaves[0].double(), leaves[1])):
        try:
            function(*bad, **static)
        except (TypeError, ValueError):
            continue
        raise AssertionError("taken")
    if DEVICE == "cuda":
        try:
            gt.agg_weighted(leaves[0].cpu(), leaves[1], **static)
        except (TypeError, ValueError, RuntimeError):
            pass
        else:
            raise AssertionError("taken from two devices")
    compare("agg", "float32", *forward_backward(*tensors("agg", "float32")))


# ---- streams ----


@check("streams", gpu=True)
def work_is_on_the_current_stream():
    """Inputs are written late on a side stream; whoever works on another one reads too early."""
    import torch

    side = torch.cuda.Stream()
    for name in calls():
        function, leaves, static, c = tensors(name, "float32")
        right = [x.detach().clone() for x in leaves]
        torch.cuda.synchronize()
        with torch.no_grad():
            for x in leaves:
                x.fill_(float("nan"))
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)
            with torch.no_grad():
                for x, y in zip(leaves, right, strict=True):
                    x.copy_(y)
            outs, gradients = forward_backward(function, leaves, static, c)
        side.synchronize()
        compare(name, "float32", outs, gradients)


@check("streams", gpu=True)
def memory_is_not_handed_out_early():
    """Many calls with temporaries that die, on two streams at a time."""
    import torch

    streams = [torch.cuda.Stream() for _ in range(2)]
    made = {name: tensors(name, "float32") for name in ("agg", "gno", "selected", "laplacian")}
    torch.cuda.synchronize()
    found = []
    for step in range(8 if DEVICE == "cpu" else 60):
        name = list(made)[step % len(made)]
        function, leaves, static, c = made[name]
        with torch.cuda.stream(streams[step % 2]):
            found.append((name, forward_backward(function, leaves, static, c)))
    torch.cuda.synchronize()
    for name, (outs, gradients) in found:
        compare(name, "float32", outs, gradients)


@check("streams", gpu=True)
def a_graph_of_the_host_on_many_streams():
    """gnograd.Graph: its copy is made at the first use, on no stream."""
    import torch

    import gnograd.torch as gt

    for k in range(20):
        g = graph_of(500, seed=k)
        x = torch.randn(500, 16, device=DEVICE)
        w = torch.randn(g.n_edges, device=DEVICE)
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            out = gt.agg_weighted(x, w, graph=g)
        torch.cuda.synchronize()
        expected = gg.agg_weighted(x.double().cpu().numpy(), w.double().cpu().numpy(), graph=g)
        near(out.double().cpu(), expected, "float32", "first use")
        del g, out


@check("streams", gpu=True)
def threads_that_call_at_the_same_time():
    import threading

    import torch

    made = {name: tensors(name, "float32") for name in ("agg", "gat", "selected", "gno")}
    torch.cuda.synchronize()
    wrong: list = []

    def work(name):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(10):
                    result = forward_backward(*made[name])
                    torch.cuda.current_stream().synchronize()
                    compare(name, "float32", *result)
        except BaseException as problem:
            wrong.append((name, repr(problem)))

    threads = [threading.Thread(target=work, args=(name,)) for name in made for _ in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong, wrong[:2]


@check("streams", gpu=True)
def out_of_memory_is_told_and_passes():
    import torch

    import gnograd.torch as gt

    free, _ = torch.cuda.mem_get_info()
    ballast = torch.empty(int(free * 0.97), dtype=torch.int8, device=DEVICE)
    n, width = 2000, 60_000
    try:
        x = torch.zeros(n, width, device=DEVICE)
        g = graph_of(n)
        for _ in range(20):
            x = (
                gt.agg_weighted(x, torch.ones(g.n_edges, device=DEVICE), graph=g)
                + x.repeat(4, 1)[:n]
            )
    except (torch.OutOfMemoryError, MemoryError):
        pass
    del ballast
    x = None
    torch.cuda.empty_cache()
    compare("agg", "float32", *forward_backward(*tensors("agg", "float32")))


# ---- capture ----


@check("capture", gpu=True)
def first_call_of_a_process_inside_a_capture():
    """Kernels are loaded lazily: the first launch of each is inside the capture."""
    import torch

    for name in calls():
        function, leaves, static, _ = tensors(name, "float32")
        inputs = [x.detach().clone() for x in leaves]
        torch.cuda.synchronize()
        cuda_graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(cuda_graph):
            out = function(*inputs, **static)
        for _ in range(2):
            cuda_graph.replay()
        torch.cuda.synchronize()
        outs = out if isinstance(out, tuple) else (out,)
        for a, b in zip(outs, truth(name, "float32")[2], strict=True):
            near(a.double().cpu(), b, "float32", f"{name} captured cold")


@check("capture", gpu=True)
def replay_with_other_numbers():
    import torch

    for name in calls():
        function, leaves, static, c = tensors(name, "float32")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                forward_backward(function, leaves, static, c)
        torch.cuda.current_stream().wait_stream(warm)
        right = [x.detach().clone() for x in leaves]
        cuda_graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(cuda_graph):
            outs, gradients = forward_backward(function, leaves, static, c)
        with torch.no_grad():
            for x in leaves:
                x.normal_()
        cuda_graph.replay()
        with torch.no_grad():
            for x, y in zip(leaves, right, strict=True):
                x.copy_(y)
        cuda_graph.replay()
        torch.cuda.synchronize()
        compare(name, "float32", outs, gradients)


@check("capture", gpu=True)
def a_graph_of_the_host_first_used_in_a_capture():
    import torch

    import gnograd.torch as gt

    g = graph_of(500, seed=77)
    x, w = torch.randn(500, 16, device=DEVICE), torch.randn(g.n_edges, device=DEVICE)
    torch.cuda.synchronize()
    cuda_graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(cuda_graph):
        out = gg.agg_weighted(x, w, graph=g)
    cuda_graph.replay()
    torch.cuda.synchronize()
    expected = gg.agg_weighted(x.double().cpu().numpy(), w.double().cpu().numpy(), graph=g)
    found = torch.as_tensor(out, device=DEVICE)
    near(found.double().cpu(), expected, "float32", "captured")
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        gt.agg_weighted(x, w, graph=g)


# ---- compile ----


@check("compile")
def compiled_once_for_all_graphs():
    import torch

    import gnograd.torch as gt

    for backend in ("aot_eager",) if DEVICE == "cpu" else ("aot_eager", "inductor"):
        torch._dynamo.reset()
        _, leaves, static, c = tensors("gat", "float32")

        def f(x_src, x_dst, a, graph):
            return gt.mha_gat(x_src * 1.0, x_dst, a, graph=graph, num_heads=4)

        compiled = torch.compile(f, backend=backend, fullgraph=True)
        out = compiled(*leaves, static["graph"])
        compare("gat", "float32", (out,), torch.autograd.grad(out, leaves, c))


@check("compile", gpu=True)
def compiled_into_cuda_graphs():
    import torch

    import gnograd.torch as gt

    _, leaves, static, _ = tensors("agg", "float32")
    inputs = [x.detach() for x in leaves]

    @torch.compile(mode="reduce-overhead", fullgraph=True)
    def f(x, w, graph):
        return gt.agg_weighted(torch.relu(x) - torch.relu(-x), w, graph=graph)

    for _ in range(4):
        out = f(*inputs, static["graph"]).clone()
    near(out.double().cpu(), truth("agg", "float32")[2][0], "float32", "reduce-overhead")


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

    if DEVICE == "cuda":
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
    row = torch.arange(n, device=DEVICE)
    src = torch.stack([row, (row * 5 + 1) % n], 1).flatten()
    graph = gt.Graph.from_edge_index(torch.stack([src, row.repeat_interleave(2)]), n, n)
    x = torch.randn(n, width, device=DEVICE, dtype=torch.bfloat16)
    w = torch.rand(2 * n, device=DEVICE, dtype=torch.bfloat16)
    assert x.numel() > 2**31
    out = gt.agg_weighted(x, w, graph=graph)
    pairs = src.view(n, 2)
    for first in (0, n // 2, n - 5000):
        rows = slice(first, first + 5000)
        expected = (x[pairs[rows]].float() * w.view(n, 2)[rows, :, None].float()).sum(1)
        error = (out[rows].float() - expected).norm() / expected.norm()
        assert error < 1e-2, (first, float(error))
    del out
    g = torch.randn(n, width, device=DEVICE, dtype=torch.bfloat16)
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
    q = torch.randn(n, heads, d, device=DEVICE, dtype=torch.bfloat16)
    k, v = (torch.randn(n, 1, d, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    index = torch.randint(0, n // 64, (n, 1, 16), device=DEVICE, dtype=torch.int32)
    index = index.sort(-1).values
    out = gt.selected_attention(q, k, v, block_index=index, block_size=64)
    for t in (0, n // 2, n - 1):
        blocks = index[t, 0].unique().long()
        keys = (blocks[:, None] * 64 + torch.arange(64, device=DEVICE)).flatten()
        s = q[t].float() @ k[keys, 0].float().T * d**-0.5
        expected = s.softmax(-1) @ v[keys, 0].float()
        error = (out[t].float() - expected).norm() / expected.norm()
        assert error < 2e-2, (t, float(error))


def lost() -> bool:
    """Whether nothing can be done in this process any more."""
    if DEVICE == "cpu":
        return False
    try:
        import torch

        torch.cuda.synchronize()
        return bool((torch.ones(3, device="cuda").sum().item()) != 3)
    except Exception:
        return True


def main() -> int:
    global DEVICE
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--from", type=int, default=0, dest="first")
    given = parser.parse_args()
    if given.device != "host":
        DEVICE = given.device
        return run(given)
    DEVICE = "cpu"
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
    import gnograd.torch  # noqa: F401  (before tensors change)
    from host_tensors import tensors_on_gpu

    with tensors_on_gpu():
        return run(given)


def run(given: argparse.Namespace) -> int:
    out = given.json.open("a") if given.json else sys.stdout
    bad = 0
    for k, function in enumerate(GROUPS[given.group]):
        if k < given.first or (DEVICE == "cpu" and function.__name__ in GPU_ONLY):
            continue
        entry = {"check": function.__name__, "group": given.group, "number": k}
        # what a crash leaves says where it was
        print(json.dumps(entry | {"ended": "began"}), file=out, flush=True)
        start = time.perf_counter()
        try:
            function()
            entry["ended"] = "well"
        except BaseException as problem:
            bad += 1
            entry["ended"] = f"{type(problem).__name__}: {problem}"[:800]
        entry["seconds"] = round(time.perf_counter() - start, 2)
        print(json.dumps(entry), file=out, flush=True)
        if entry["ended"] != "well" and lost():
            return 3
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
