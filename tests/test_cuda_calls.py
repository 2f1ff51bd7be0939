# SPDX-License-Identifier: MIT
"""Calls on a GPU like an earlier one, of arrays and of PyTorch's tensors."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gnograd as gg
import table
from conftest import GRAPHS
from gnograd.backends import cuda_library
from gpus import GPUS, needs_gpu, on_host
from on_device import (
    FEW,
    assert_close,
    calls,
    columns,
    draw,
    faces_of,
    numbers,
    static_on_device,
    to_device,
    weighted,
)

__all__ = ["calls", "weighted"]

pytestmark = needs_gpu
if GPUS:
    from gnograd.backends import cuda


def results_of(case, edges, rng, dtype="float32"):
    """All faces on the device, and again with other arrays of the same kind."""
    inputs, tangents, (cotangent,) = draw(case, edges, rng, numbers(dtype))
    static = static_on_device(case.arguments(edges))
    for _ in range(2):  # addresses differ
        given = map(to_device, (inputs, tangents, cotangent))
        yield faces_of(case.operator, *given, static)


@pytest.mark.parametrize("case", FEW + table.of("offset_moments")[1:2], ids=str)
def test_later_calls_give_the_same_bits(case, rng, monkeypatch):
    first, second = results_of(case, GRAPHS["power law"], rng)
    for face, arrays in first.items():
        for a, b in zip(arrays, second[face], strict=True):
            assert (a is None) == (b is None), face
            if a is not None:
                assert a.get().tobytes() == b.get().tobytes(), face


def test_later_calls_are_not_checked_again(weighted, monkeypatch):
    """One look at the arrays, one workspace, one launch."""
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    gg.agg_weighted(x, w, graph=weighted.graph)
    monkeypatch.setattr(cuda, "run", None)
    out = gg.agg_weighted(cuda.to_device(weighted.x), w, graph=weighted.graph)
    assert_allclose(out.get(), weighted.out, rtol=1e-12)


def test_later_calls_on_another_graph_of_the_same_size(rng):
    n, degree = 12, 3
    x, w = rng.normal(size=(n, 4)), rng.normal(size=degree * n)
    there = to_device((x, w))
    for seed in range(3):
        src = np.random.default_rng(seed).integers(0, n, degree * n)
        graph = gg.Graph(degree * np.arange(n + 1), src, n_src=n)
        out = gg.agg_weighted(*there, graph=graph).get()
        assert_allclose(out, gg.agg_weighted(x, w, graph=graph), rtol=1e-12)


def test_later_calls_of_another_kind(weighted):
    """Arrays that kernels cannot take as they are, of other types and shapes, or absent."""
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    graph = weighted.graph
    for _ in range(2):
        assert_allclose(gg.agg_weighted(x, w, graph=graph).get(), weighted.out, rtol=1e-12)
    narrow = gg.agg_weighted(columns(x, 2), w, graph=graph).get()
    assert_allclose(narrow, weighted.out[:, 2:], rtol=1e-12)
    single = to_device((weighted.x.astype("f4"), weighted.w.astype("f4")))
    assert gg.agg_weighted(*single, graph=graph).dtype == np.float32
    expected = gg.agg_simple(weighted.x, graph=graph)
    for _ in range(2):
        assert_allclose(gg.agg_simple(x, graph=graph).get(), expected, rtol=1e-12)
    for _ in range(2):
        with pytest.raises(TypeError, match="agg_weighted: x is float64 but w is float32"):
            gg.agg_weighted(x, single[1], graph=graph)
        with pytest.raises(ValueError, match="agg_weighted: w has shape"):
            gg.agg_weighted(x, cuda.to_device(weighted.w[1:]), graph=graph)
        with pytest.raises(TypeError, match="x is on the GPU but w is on the CPU"):
            gg.agg_weighted(x, weighted.w, graph=graph)


class Pooled:
    """An array like CuPy's: its type has the interface, and it names its stream."""

    def __init__(self, array, stream=1):
        self.array, self.stream = array, stream
        self.shape, self.dtype = array.shape, array.dtype

    @property
    def __cuda_array_interface__(self):
        return dict(self.array.__cuda_array_interface__, stream=self.stream)


@on_host
def test_streams_of_later_calls(weighted, calls):
    """Kernels wait for what arrays name, and results name the stream, in every call."""
    for stream, other in ((40, 50), (60, 70), (60, 60)):
        calls.clear()
        x = Pooled(cuda.to_device(weighted.x), stream)
        w = Pooled(cuda.to_device(weighted.w), other)
        out = gg.agg_weighted(x, w, graph=weighted.graph)
        assert calls["launch"][-1][-1] == stream
        assert calls.get("wait", []) == ([] if stream == other else [(stream, other, 0)])
        assert out.__cuda_array_interface__["stream"] == stream
        assert_allclose(out.get(), weighted.out, rtol=1e-12)


def test_errors_of_later_calls(weighted, monkeypatch):
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    gg.agg_weighted(x, w, graph=weighted.graph)
    name, library = "agg_weighted_forward_f64", cuda_library.library()
    face = library.faces[name]._replace(launch=lambda *_: 2)
    monkeypatch.setitem(library.faces, name, face)
    with pytest.raises(MemoryError, match="agg_weighted"):
        gg.agg_weighted(x, w, graph=weighted.graph)


@pytest.fixture
def tensors():
    """PyTorch, whose tensors say that they are on a GPU; the number of its stream can be set."""
    torch = pytest.importorskip("torch")
    import gnograd.torch  # before its tensors change
    from host_tensors import tensors_on_gpu

    with tensors_on_gpu(stream=75) as current:
        yield SimpleNamespace(torch=torch, current=current, gt=gnograd.torch)


@pytest.fixture
def eager_only(monkeypatch):
    """Custom operators must not be called."""
    from gnograd.torch import adapter

    def refuse(*_, **__):
        raise AssertionError("through the dispatcher")

    monkeypatch.setattr(adapter, "check_tensors", refuse)


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("of_tensors", [True, False])
def test_eager_tensors(dtype, of_tensors, weighted, tensors, eager_only, calls):
    """Values and gradients, twice, also of views that begin anywhere."""
    torch, kind = tensors.torch, getattr(tensors.torch, dtype)
    graph = tensors.gt.Graph.of(weighted.graph) if of_tensors else weighted.graph
    rows = torch.tensor(weighted.x).to(kind)
    for x in (rows, torch.cat([rows[:1], rows])[1:], rows.t().contiguous().t()):
        leaves = x.clone().detach().requires_grad_(), torch.tensor(weighted.w).to(kind)
        leaves[1].requires_grad_()
        exact = [leaf.detach().double().numpy() for leaf in leaves]
        c = torch.ones(weighted.out.shape, dtype=kind)
        calls.clear()
        out = tensors.gt.agg_weighted(*leaves, graph=graph)
        gradients = torch.autograd.grad(out, leaves, c)
        assert {call[-1] for call in calls["launch"]} == {75}
        expected = gg.agg_weighted(*exact, graph=weighted.graph)
        found = gg.agg_weighted.vjp(c.double().numpy(), exact, graph=weighted.graph)
        for a, b in zip((out, *gradients), (expected, *found), strict=True):
            assert a.dtype is kind
            assert_close(a.detach().double().numpy(), b, dtype, 4)
    sums = tensors.gt.agg_weighted(
        *leaves, graph=graph
    ).sum()  # a cotangent without memory of its own
    assert torch.equal(torch.autograd.grad(sums, leaves)[0], gradients[0])


@on_host
@pytest.mark.parametrize("custom", [False, True])
def test_tensors_that_the_vjp_does_not_read_are_not_kept(custom, weighted, tensors):
    torch = tensors.torch
    x, w = (torch.tensor(a, requires_grad=True) for a in (weighted.x, weighted.w))
    with torch.autocast("cpu", enabled=custom):
        out = tensors.gt.agg_weighted(x, w, graph=weighted.graph, aggregation="mean")
    assert sum(x is not None for x in out.grad_fn.saved_tensors) == 2


@on_host
def test_eager_tensors_use_the_current_stream(weighted, tensors, eager_only, calls):
    x, w = (tensors.torch.tensor(a) for a in (weighted.x, weighted.w))
    for stream in (75, 0, 90):
        tensors.current.cuda_stream = stream
        tensors.gt.agg_weighted(x, w, graph=weighted.graph)
        assert calls["launch"][-1][-1] == stream
    assert "wait" not in calls


@on_host
def test_eager_tensors_on_another_graph(rng, tensors, eager_only):
    """A backward pass has the graph of its forward pass, though sizes are those of others."""
    torch, n, degree = tensors.torch, 12, 3
    x = torch.tensor(rng.normal(size=(n, 4)), requires_grad=True)
    w = torch.tensor(rng.normal(size=degree * n))
    graphs = [
        gg.Graph(degree * np.arange(n + 1), rng.integers(0, n, degree * n), n_src=n)
        for _ in range(2)
    ]
    outs = [tensors.gt.agg_weighted(x, w, graph=tensors.gt.Graph.of(g)) for g in graphs]
    for graph, out in zip(graphs, outs, strict=True):
        (found,) = torch.autograd.grad(out, x, torch.ones_like(out))
        host = x.detach().numpy(), w.numpy()
        assert_allclose(out.detach().numpy(), gg.agg_weighted(*host, graph=graph), rtol=1e-12)
        expected = gg.agg_weighted.vjp(np.ones((n, 4)), host, graph=graph)[0]
        assert_allclose(found.numpy(), expected, rtol=1e-12)


@on_host
@pytest.mark.parametrize("of_tensors", [True, False])
def test_second_derivatives_of_tensors(of_tensors, rng, tensors):
    torch, graph = tensors.torch, GRAPHS["power law"].graph
    given = tensors.gt.Graph.of(graph) if of_tensors else graph
    s = torch.tensor(rng.normal(size=(graph.n_edges, 2)), requires_grad=True)
    t = torch.tensor(rng.normal(size=s.shape))
    c = torch.tensor(rng.normal(size=s.shape))
    alpha = tensors.gt.edge_softmax(s, graph=given)
    (first,) = torch.autograd.grad(alpha, s, c, create_graph=True)
    (second,) = torch.autograd.grad(first, s, t)
    host = c.numpy(), (s.detach().numpy(),)
    (expected,) = gg.edge_softmax.hvp(*host, (t.numpy(),), graph=graph)
    assert_allclose(second.numpy(), expected, rtol=1e-10, atol=1e-12)


@on_host
def test_tensors_without_a_kernel_of_their_type(rng, tensors):
    """float16 positions have no kernel: copies in float32, as through the dispatcher."""
    torch = tensors.torch
    x = torch.tensor(rng.normal(size=(5, 3))).half()
    graph = gg.Graph(np.arange(6), np.arange(5))
    assert tensors.gt.offset_moments(x, x, graph=graph)[0].dtype is torch.float16


@on_host
def test_graph_of_tensors_in_other_memory(weighted, tensors, monkeypatch):
    """Tensors on a GPU, and a graph whose tensors are not, though a lent one looks alike."""
    torch, gt = tensors.torch, tensors.gt
    x, w = torch.tensor(weighted.x), torch.tensor(weighted.w)
    gt.agg_weighted(x, w, graph=gt.Graph.of(weighted.graph))
    on_cpu = property(lambda self: torch.device("cpu"))
    graph = gt.Graph.of(weighted.graph)
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "is_cuda", False)
        patch.setattr(torch.Tensor, "device", on_cpu)
        assert not graph.lent.is_remote
    with monkeypatch.context() as patch:
        patch.setattr(gt.Graph, "device", property(lambda self: torch.device("cpu")))
        with pytest.raises(TypeError, match="graph is on cpu, but the arrays are on cuda:0"):
            gt.agg_weighted(x, w, graph=graph)
