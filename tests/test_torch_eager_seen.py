# SPDX-License-Identifier: MIT
"""Parts of PyTorch that have to see operators: transforms, modes, hooks, saved tensors."""

from __future__ import annotations

import gc
import weakref

import pytest

import calls
import gnograd as gg

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from calls_of_torch import NAMES, bind  # noqa: E402
from torch_eager import assert_equal, compare, loss_of  # noqa: E402

# ---- what has to see operators ----


def test_transforms(graph):
    leaves, function, _ = bind("mha_gat", graph)
    detached = [x.detach() for x in leaves]
    batch = [torch.stack([x, 2 * x]) for x in detached]
    function(*leaves)

    def loss(*x):
        return loss_of(function(*x))

    everything = tuple(range(len(leaves)))
    compare(lambda: torch.func.grad(loss, everything)(*detached))
    compare(lambda: [torch.func.vmap(function)(*batch)])
    compare(lambda: torch.func.jvp(function, tuple(detached), tuple(detached)))
    compare(lambda: torch.func.vmap(torch.func.grad(loss, everything))(*batch))
    rows = torch.func.vmap(function)(*batch)
    torch.testing.assert_close(rows[1], function(*[x[1] for x in batch]).detach())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_autocast(dtype, graph):
    x = torch.randn(5, 4).to(dtype).requires_grad_()
    e = torch.randn(8, 2, requires_grad=True)
    gt.agg_simple(x.float(), e, graph=graph)

    def run():
        with torch.autocast("cpu", torch.bfloat16):
            y = gt.agg_simple(x, e, graph=graph)
        return [y, *torch.autograd.grad(y.sin().sum(), (x, e))]

    compare(run)
    assert run()[0].dtype == torch.float32


def test_backward_inside_autocast(graph):
    leaves, function, _ = bind("mha_gat", graph)

    def run():
        y = loss_of(function(*leaves))
        with torch.autocast("cpu", torch.bfloat16):
            return torch.autograd.grad(y, leaves)

    compare(run)


@pytest.mark.parametrize(
    "backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.exhaustive)]
)
def test_compiled(backend, graph):
    leaves, function, _ = bind("mha_gat", graph)
    compiled = torch.compile(lambda *x: function(*x).sin(), fullgraph=True, backend=backend)
    for _ in range(2):
        expected = torch.autograd.grad(function(*leaves).sin().sum(), leaves)
        got = torch.autograd.grad(compiled(*leaves).sum(), leaves)
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b)


def test_fake_and_meta_tensors(graph):
    from torch._subclasses import FakeTensorMode

    x = torch.ones(5, 2)
    assert gt.agg_simple(x, graph=graph).shape == (5, 2)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        assert type(gt.agg_simple(fake, graph=graph)) is type(fake)
    assert gt.agg_simple(x.to("meta"), graph=graph).device.type == "meta"


def test_meta_graphs_and_edges(graph):
    there = gt.Graph.of(graph).to("meta")
    assert repr(there) == f"Graph(n_src=5, n_dst=5, n_edges={graph.n_edges})"
    layer = gt.GATConv(2, 3, edge_dim=1).to("meta")
    x, e = torch.ones(5, 2, device="meta"), torch.ones(graph.n_edges, 1, device="meta")
    edge_index = torch.stack([there.src, there.dst])
    for edges in (there, edge_index, edge_index):  # twice: nothing is kept of edges without numbers
        assert layer(x, edges, edge_attr=e).shape == (5, 3)


def test_subclasses(graph):
    class Mine(torch.Tensor):
        pass

    x = torch.ones(5, 2)
    gt.agg_simple(x, graph=graph)
    assert torch.equal(
        gt.agg_simple(x.as_subclass(Mine), graph=graph), gt.agg_simple(x, graph=graph)
    )
    parameter = torch.nn.Parameter(x)
    assert gt.agg_simple(parameter, graph=graph).grad_fn is not None


def test_dispatch_modes(graph):
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x = torch.ones(5, 2, requires_grad=True)
    gt.agg_simple(x, graph=graph)
    with Mode():
        gt.agg_simple(x, graph=graph).sum().backward()
    assert {"gnograd.agg_simple_forward.default", "gnograd.agg_simple_vjp.default"} <= set(seen)


# ---- hooks, saved tensors, memory ----


def test_hooks(graph):
    leaves, function, _ = bind("mha_gat", graph)

    def run():
        seen = []
        x = [leaf * 1 for leaf in leaves]
        x[0].register_hook(lambda g: 2 * g)
        y = function(*x)
        y.register_hook(lambda g: seen.append(g.detach().clone()))
        y.grad_fn.register_hook(lambda out, into: seen.append(out[1].detach().clone()))
        gradients = torch.autograd.grad(y.sin().sum(), leaves)
        assert len(seen) == 2
        return [*gradients, *[s for s in seen if s is not None]]

    compare(run)


@pytest.mark.parametrize("name", NAMES)
def test_saved_tensors_hooks(name, graph):
    leaves, function, _ = bind(name, graph)

    def run():
        packed = []

        def pack(x):
            packed.append(x.detach().clone())
            return len(packed) - 1

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda k: packed[k]):
            y = function(*leaves)
        return [*torch.autograd.grad(loss_of(y), leaves), *packed]

    compare(run)


@pytest.mark.parametrize(
    "unpack",
    [lambda x: x.float(), lambda x: x[:1], lambda x: x[..., :1], lambda x: x.to("meta")],
)
def test_saved_tensors_that_come_back_otherwise(unpack, graph):
    leaves, function, _ = bind("mha_gat", graph)
    torch.autograd.grad(loss_of(function(*leaves)), leaves)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.detach(), unpack):
        y = function(*leaves)
    with pytest.raises((TypeError, ValueError, RuntimeError, NotImplementedError)):
        torch.autograd.grad(y.sum(), leaves)


def test_parameter_that_gets_other_numbers_before_backward(graph):
    x = torch.ones(5, 2, dtype=torch.float64, requires_grad=True)
    w = torch.ones(8, dtype=torch.float64, requires_grad=True)
    for data in (torch.ones(5, 2), torch.ones(1, 2, dtype=torch.float64)):
        y = gt.agg_weighted(x, w, graph=graph)
        old, w.data = w.data, torch.ones(1, dtype=torch.float64)
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            torch.autograd.grad(y.sum(), (x, w))
        w.data = old
        y = gt.agg_weighted(x, w, graph=graph)
        old, x.data = x.data, data
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            torch.autograd.grad(y.sum(), (x, w))
        x.data = old


def test_changes_in_place_are_found(graph):
    leaves, function, _ = bind("mha_gat", graph)
    for change_output in (False, True):
        x = [leaf * 1 for leaf in leaves]
        y = function(*x)
        (y if change_output else x[0]).mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_checkpoint(graph):
    from torch.utils.checkpoint import checkpoint

    leaves, function, _ = bind("mha_gat", graph)
    expected = torch.autograd.grad(function(*leaves).sin().sum(), leaves)
    for reentrant in (False, True):
        y = checkpoint(lambda *x: function(*x).sin(), *leaves, use_reentrant=reentrant)
        for leaf in leaves:
            leaf.grad = None
        y.sum().backward()
        assert_equal([leaf.grad for leaf in leaves], expected)


def test_backward_twice(graph):
    leaves, function, _ = bind("mha_gat", graph)
    y = function(*leaves).sum()
    first = torch.autograd.grad(y, leaves, retain_graph=True)
    assert_equal(first, torch.autograd.grad(y, leaves))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, leaves)


def test_nothing_is_kept_alive():
    def use():
        graph = gg.Graph.from_edges([0, 1], [1, 0])
        x = torch.ones(2, 3, requires_grad=True)
        y = gt.mha_gat(x, x, torch.ones(6), graph=graph)
        y.sum().backward()
        return weakref.ref(graph), weakref.ref(x), weakref.ref(y)

    alive = use()
    gc.collect()
    assert [reference() for reference in alive] == [None] * 3


def test_graph_lives_until_backward():
    x = torch.ones(2, 3, requires_grad=True)
    y = gt.mha_gat(x, x, torch.ones(6), graph=gg.Graph.from_edges([0, 1], [1, 0]))
    gc.collect()
    y.sum().backward()
    (g,) = torch.autograd.grad(
        gt.agg_simple(x, graph=gg.Graph.from_edges([0, 1], [1, 0])).sum(), x, create_graph=True
    )
    gc.collect()
    assert g.shape == (2, 3)


def test_lists_among_static_arguments_may_change_before_backward(graph):
    leaves = [torch.from_numpy(a).requires_grad_() for a in calls.jets_inputs()[:6]]
    widths = [4, 3]
    options = dict(graph=graph, activation="silu")
    expected = torch.autograd.grad(
        gt.gno_with_gradient(*leaves, widths=[4, 3], **options)[0].sum(), leaves, create_graph=True
    )
    y = gt.gno_with_gradient(*leaves, widths=widths, **options)[0].sum()
    widths[0] = 5
    assert_equal(torch.autograd.grad(y, leaves, create_graph=True), expected)
