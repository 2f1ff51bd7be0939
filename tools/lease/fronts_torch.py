# SPDX-License-Identifier: MIT
"""Checks of PyTorch on a GPU: tensors, streams, captures, compilation."""

from __future__ import annotations

import functools

import front
import numpy as np
from front import (
    calls,
    check,
    compare,
    dtypes_of,
    forward_backward,
    graph_of,
    near,
    tensors,
    truth,
)

import gnograd as gg

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
        for device in ("cpu", front.DEVICE):
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

    n = 3000 if front.DEVICE == "cpu" else 200_000
    for d in (2, 3):
        torch.manual_seed(d)
        x = torch.rand(n, d)
        r = float((20 / (n * (np.pi if d == 2 else 4 / 3 * np.pi))) ** (1 / d))
        for make in (lambda p, r=r: gt.Graph.radius(p, r), lambda p: gt.Graph.knn(p, 16)):
            here, there = make(x), make(x.to(front.DEVICE))
            for a, b in zip(here.arrays, there.arrays, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    assert torch.equal(a, b.cpu())


@check("torch", gpu=True)
def a_layer_learns():
    import torch

    import gnograd.torch as gt

    torch.manual_seed(0)
    points = torch.rand(3000, 2, device=front.DEVICE)
    u = torch.sin(6 * points[:, :1])
    graph = gt.Graph.radius(points, 0.05)
    coords = points[graph.dst] - points[graph.src]
    layer = gt.GNO(1, 1, coord_dim=2).to(front.DEVICE)
    adam = torch.optim.Adam(layer.parameters(), 1e-2)
    losses = []
    for _ in range(5 if front.DEVICE == "cpu" else 60):
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
        with torch.autocast(front.DEVICE, torch.bfloat16):
            half = [x.detach().bfloat16().requires_grad_() for x in leaves]
            out = function(*half, **static)
        assert out.dtype == torch.bfloat16 or front.DEVICE == "cpu", (name, out.dtype)
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
    if front.DEVICE == "cuda":
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
    for step in range(8 if front.DEVICE == "cpu" else 60):
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
        x = torch.randn(500, 16, device=front.DEVICE)
        w = torch.randn(g.n_edges, device=front.DEVICE)
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
    ballast = torch.empty(int(free * 0.97), dtype=torch.int8, device=front.DEVICE)
    n, width = 2000, 60_000
    try:
        x = torch.zeros(n, width, device=front.DEVICE)
        g = graph_of(n)
        for _ in range(20):
            x = (
                gt.agg_weighted(x, torch.ones(g.n_edges, device=front.DEVICE), graph=g)
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
    x, w = torch.randn(500, 16, device=front.DEVICE), torch.randn(g.n_edges, device=front.DEVICE)
    torch.cuda.synchronize()
    cuda_graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(cuda_graph):
        out = gg.agg_weighted(x, w, graph=g)
    cuda_graph.replay()
    torch.cuda.synchronize()
    expected = gg.agg_weighted(x.double().cpu().numpy(), w.double().cpu().numpy(), graph=g)
    found = torch.as_tensor(out, device=front.DEVICE)
    near(found.double().cpu(), expected, "float32", "captured")
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        gt.agg_weighted(x, w, graph=g)


# ---- compile ----


@check("compile")
def compiled_once_for_all_graphs():
    import torch

    import gnograd.torch as gt

    for backend in ("aot_eager",) if front.DEVICE == "cpu" else ("aot_eager", "inductor"):
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
