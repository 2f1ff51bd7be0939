# SPDX-License-Identifier: MIT
"""Operators of PyTorch: registration, static arguments, compilation, errors."""

from __future__ import annotations

import inspect
import pickle
from contextlib import nullcontext

import numpy as np
import pytest

import calls
import gnograd as gg
from calls import DST, SRC
from conftest import few
from faces import tuple_of

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
from calls_of_torch import NAMES, SELECTED, OtherMode, bind, leaves, tensors  # noqa: E402
from gnograd.torch.graph import arrays_of  # noqa: E402


def test_every_operator_is_there():
    assert set(gt.functional.__all__) == calls.FUNCTIONS


@pytest.mark.parametrize("name", few(NAMES, *calls.FORMS))
def test_opcheck(name, graph):
    inputs, function, static = bind(name, graph)
    given = {**getattr(gg, name).static, **static}
    arrays = [given.pop(v) for v in getattr(gg, name).arrays]
    plain = [list(arrays_of(v)) if isinstance(v, gg.Graph) else v for v in given.values()]
    padded = [*inputs, *[None] * (len(getattr(gg, name).inputs) - len(inputs))]
    forward = getattr(torch.ops.gnograd, f"{name}_forward").default
    torch.library.opcheck(forward, (*padded, *arrays, *plain))
    wrt = [x is not None for x in padded]
    cotangents = [torch.ones_like(y).requires_grad_() for y in tuple_of(function(*inputs))]
    torch.library.opcheck(
        getattr(torch.ops.gnograd, f"{name}_vjp").default,
        (cotangents, *padded, *arrays, [], wrt, *plain),
    )


def test_edges_instead_of_a_graph(graph):
    inputs, function, static = bind("agg_edge_to_edge", graph)
    static = {k: v for k, v in static.items() if k != "graph"}
    static |= dict(edges=(SRC[::-1], DST[::-1]), n_nodes=5)
    # the graph made of the edges has no other owner than what autograd keeps
    out = gt.agg_edge_to_edge(*inputs, **static)
    expected = function(*inputs)
    assert torch.equal(out, expected)
    for got, want in zip(
        torch.autograd.grad(out.sum(), inputs),
        torch.autograd.grad(expected.sum(), inputs),
        strict=True,
    ):
        assert torch.equal(got, want)


def test_float32_and_wrong_dtype(graph):
    inputs = [x.detach().float() for x in leaves(calls.gno_inputs())]
    assert gt.gno(*inputs, graph=graph).dtype == torch.float32
    with pytest.raises(TypeError, match="gno: h is float32 but V is float64"):
        gt.gno(*inputs[:4], inputs[4].double(), *inputs[5:], graph=graph)


@pytest.mark.parametrize("eager", [True, False])
def test_cpu_tensors_are_not_copied(graph, eager):
    h, kappa = tensors((5, 3), (8, 3, 2))
    seen = []
    cpu = gg.backends.cpu
    run, run_prepared = cpu.run, cpu.Prepared.run

    def spy(operator, face, dtype, arguments):
        seen.extend(a.ctypes.data for a in arguments if isinstance(a, np.ndarray))
        run(operator, face, dtype, arguments)

    def spy_prepared(call, graph, addresses):
        results = run_prepared(call, graph, addresses)
        seen.extend([*addresses, *[y.ctypes.data for y in results]])
        return results

    with pytest.MonkeyPatch.context() as patch, nullcontext() if eager else OtherMode():
        patch.setattr(cpu, "run", spy)
        patch.setattr(cpu.Prepared, "run", spy_prepared)
        out = gt.gno_aggregate(h, kappa, graph=graph)
    assert seen[:2] == [h.data_ptr(), kappa.data_ptr()]
    assert out.data_ptr() in seen


@pytest.mark.parametrize("name", NAMES)
def test_memory_can_still_be_resized(name, graph):
    """FSDP gives the memory of parameters back between passes; Tensor.numpy forbids that."""
    arrays, static = calls.call_of(name, graph)
    arrays = [torch.from_numpy(x).clone().requires_grad_() for x in arrays]
    static = {
        key: torch.from_numpy(x).clone() if isinstance(x, np.ndarray) else x
        for key, x in static.items()
    }

    def loss(*arrays):
        outputs = tuple_of(getattr(gt, name)(*arrays, **static))
        return sum(out.square().sum() for out in outputs)

    first = torch.autograd.grad(loss(*arrays), arrays, create_graph=True)
    torch.autograd.grad(sum(x.square().sum() for x in first), arrays)
    torch.func.jvp(loss, tuple(arrays), tuple(arrays))
    given = [*arrays, *(x for x in static.values() if isinstance(x, torch.Tensor))]
    assert all(tensor.untyped_storage().resizable() for tensor in given)


def test_memory_of_edges_and_points_can_still_be_resized():
    edges, x = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.rand(3, 2, dtype=torch.float64)
    ends, batch = edges.clone(), torch.zeros(3, dtype=torch.long)
    offsets, indices = torch.tensor([0, 1, 2, 3]), torch.tensor([2, 0, 1])
    gt.GATConv(2, 2).double()(x, edges)
    gt.Graph.from_edge_index(ends, 3)
    gt.Graph.from_csc(offsets, indices, 3)
    gt.Graph.radius(x, 0.5)
    gt.Graph.knn(x, 1)
    gt.ball_tree_order(x, batch)
    given = edges, ends, x, batch, offsets, indices
    assert all(tensor.untyped_storage().resizable() for tensor in given)


def test_compile_whole_graph_with_changing_graphs():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = gt.GNO(3, 3, coord_dim=2, hidden_channels=4).double()

        def forward(self, h, coords, graph):
            return torch.tanh(self.layer(h, coords, graph)).square().sum()

    torch.manual_seed(0)
    model = Model()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for n_edges in (8, 6, 3):
        graph = gg.Graph.from_edges(SRC[:n_edges], DST[:n_edges], 5, 5)
        h, coords = tensors((5, 3), (n_edges, 2), seed=n_edges)
        results = []
        for function in (model, compiled):
            model.zero_grad()
            loss = function(h, coords, graph)
            loss.backward()
            results.append([loss.detach(), *(p.grad.clone() for p in model.parameters())])
        for eager, traced in zip(*results, strict=True):
            torch.testing.assert_close(traced, eager, rtol=1e-12, atol=1e-12)


def test_compile_dimenet(graph):
    inputs, function, _ = bind("agg_edge_to_edge", graph)
    vector, _, *rest = inputs
    w = tensors((2,))[0]

    def energy(vector, w, embedding, weights):
        length = vector.norm(dim=1, keepdim=True)
        _, rbf = gt.radial_basis(length / 5, w, n_spherical=4)
        return function(vector, rbf, embedding, weights).square().sum()

    compiled = torch.compile(energy, fullgraph=True, backend="aot_eager")
    wanted = [vector, w, *rest]
    results = [torch.autograd.grad(f(*wanted), wanted) for f in (energy, compiled)]
    for eager, traced in zip(*results, strict=True):
        torch.testing.assert_close(traced, eager, rtol=1e-12, atol=1e-12)


def test_compile_whole_graph_with_changing_selections():
    def model(q, k, v, block_index):
        out = gt.selected_attention(q, k, v, block_index=block_index, block_size=2, causal=True)
        compressed, lse = gt.compressed_attention(q, k, v, block=2, stride=1)
        return (torch.tanh(out) * compressed).sum() + lse.square().sum()

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for n in (6, 4, 3):
        block_index = torch.randint(-1, n // 2, (n, 1, 2))
        results = []
        for function in (model, compiled):
            inputs = tensors((n, 2, 3), (n, 1, 3), (n, 1, 2))
            results.append(torch.autograd.grad(function(*inputs, block_index), inputs))
        for eager, traced in zip(*results, strict=True):
            torch.testing.assert_close(traced, eager, rtol=1e-12, atol=1e-12)


def test_branches_of_native_sparse_attention():
    """Compress, attend, select, attend, also in one graph; a selection has no gradient."""
    inputs = tensors((16, 2, 3), (16, 1, 3), (16, 1, 3), (4, 1))
    compressed = dict(block=4, stride=2, causal=True, q_offset=2)

    def layer(q, k, v, w):
        k_c, v_c = (gt.compress(x, w, block=4, stride=2) for x in (k, v))
        coarse, lse = gt.compressed_attention(q, k_c, v_c, **compressed)
        blocks = gt.select_blocks(q, k_c, lse, block_size=4, n_blocks=2, **compressed)
        assert not blocks.requires_grad
        static = dict(block_index=blocks, block_size=4, causal=True, q_offset=2)
        fine = gt.selected_attention(q, k, v, **static)
        return blocks, (coarse * fine).sum()

    blocks, loss = layer(*inputs)
    arrays = [x.detach().numpy() for x in inputs]
    k_c = gg.compress(arrays[1], arrays[3], block=4, stride=2)
    _, lse = gg.compressed_attention(arrays[0], k_c, k_c, **compressed)
    expected = gg.select_blocks(arrays[0], k_c, lse, block_size=4, n_blocks=2, **compressed)
    assert np.array_equal(blocks.numpy(), expected)
    traced = torch.compile(layer, fullgraph=True, backend="aot_eager")(*inputs)
    assert torch.equal(traced[0], blocks)
    for a, b in zip(
        torch.autograd.grad(loss, inputs), torch.autograd.grad(traced[1], inputs), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_gradient_of_one_of_two_outputs():
    inputs, function, static = bind("compressed_attention", None)
    arrays = [x.detach().numpy() for x in inputs]
    for k in (0, 1):
        out = function(*inputs)[k]
        cotangents = [None, None]
        cotangents[k] = np.ones(tuple(out.shape))
        expected = gg.compressed_attention.vjp(tuple(cotangents), arrays, **static)
        got = torch.autograd.grad(out.sum(), inputs, allow_unused=True, create_graph=True)
        for a, b in zip(got, expected, strict=True):
            assert np.array_equal(a.detach().numpy(), b)
        second = torch.autograd.grad(got[0].square().sum(), inputs[0])[0]
        ones = gg.compressed_attention.hvp(
            tuple(cotangents), arrays, (2 * expected[0], None, None), **static
        )
        torch.testing.assert_close(second, torch.from_numpy(ones[0]))


def test_static_tensors_are_checked():
    inputs, _, static = bind("selected_attention", None)
    with pytest.raises(TypeError, match="selected_attention: block_index is missing"):
        gt.selected_attention(*inputs, block_size=2)
    with pytest.raises(TypeError, match="block_index is float64, needs int32"):
        gt.selected_attention(*inputs, **static | {"block_index": SELECTED.double()})
    with pytest.raises(TypeError, match="selected_attention: unknown argument 'blocks'"):
        gt.selected_attention(*inputs, **static, blocks=SELECTED)
    with pytest.raises(IndexError, match="a block that the sequence"):
        gt.selected_attention(*inputs, **static | {"block_index": SELECTED + 1})


def test_laplacian_loss_under_compile_and_against_autograd(graph):
    """A physics-informed loss: one backward pass here, three nested ones with plain autograd."""
    h, x, y, layers, V, b_v = (t.detach() for t in leaves(calls.jets_inputs())[:6])
    layers.requires_grad_()

    def loss(layers):
        u, _, laplacian = gt.gno_with_laplacian(
            h, x, y, layers, V, b_v, graph=graph, widths=[4, 3], activation="tanh", reduction="mean"
        )
        return (laplacian + u**2).square().sum()

    def plain(layers):
        src, dst = torch.as_tensor(graph.src).long(), torch.as_tensor(graph.dst).long()
        U_1, b_1, U_2, b_2 = layers.split([8, 4, 12, 3])
        at = x.clone().requires_grad_()
        hidden = torch.tanh((at[dst] - y[src]) @ U_1.view(2, 4) + b_1)
        hidden = torch.tanh(hidden @ U_2.view(4, 3) + b_2)
        kappa = torch.einsum("eh,hio->eio", hidden, V) + b_v
        message = torch.einsum("ei,eio->eo", h[src], kappa)
        degree = torch.bincount(dst, minlength=5).clamp(min=1)
        u = torch.zeros(5, 2, dtype=torch.float64).index_add(0, dst, message) / degree[:, None]
        columns = []
        for f in range(2):
            (first,) = torch.autograd.grad(u[:, f].sum(), at, create_graph=True)
            second = [
                torch.autograd.grad(first[:, a].sum(), at, create_graph=True)[0][:, a]
                for a in range(2)
            ]
            columns.append(second[0] + second[1])
        return (torch.stack(columns, 1) + u**2).square().sum()

    results = []
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for function in (plain, loss, compiled):
        value = function(layers)
        results.append((value, *torch.autograd.grad(value, layers)))
    for other in results[1:]:
        for got, want in zip(other, results[0], strict=True):
            torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


def test_functions_are_pickled():
    for name in gt.functional.__all__:
        function = getattr(gt, name)
        assert function.__module__ == "gnograd.torch"
        assert pickle.loads(pickle.dumps(function)) is function


def test_signatures():
    signature = inspect.signature(gt.gno)
    assert list(signature.parameters) == list(inspect.signature(gg.gno).parameters)
    parameters = signature.parameters
    assert parameters["graph"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["graph"].default is inspect.Parameter.empty
    assert parameters["reduction"].default == "sum"
    assert parameters["edge_weight"].annotation == "Tensor | None"


def test_packed_layers_have_gradients(graph):
    h, x, y, _, V, b_v = (t.detach() for t in leaves(calls.jets_inputs())[:6])
    layers = list(zip(tensors((2, 4), (4, 3)), tensors((4,), (3,), seed=1), strict=True))
    packed = gt.gno_pack_layers(layers)
    arrays = [tuple(t.detach().numpy() for t in layer) for layer in layers]
    assert np.array_equal(packed.detach().numpy(), gg.gno_pack_layers(arrays))

    def loss(packed):
        static = dict(graph=graph, widths=[4, 3], activation="tanh")
        return gt.gno_with_gradient(h, x, y, packed, V, b_v, **static)[0].sum()

    to_layers = torch.autograd.grad(loss(packed), [t for layer in layers for t in layer])
    at = packed.detach().requires_grad_()
    (expected,) = torch.autograd.grad(loss(at), at)
    assert torch.equal(torch.cat([t.flatten() for t in to_layers]), expected)
    with pytest.raises(ValueError, match=r"gno_pack_layers: U_2 has shape \(4, 3\), needs \(3, w"):
        gt.gno_pack_layers([(torch.ones(2, 3), torch.ones(3)), layers[1]])
    with pytest.raises(ValueError, match=r"gno_pack_layers: b_1 has shape \(2,\), needs \(3,\)"):
        gt.gno_pack_layers([(torch.ones(2, 3), torch.ones(2))])


def test_arrays_are_no_tensors(graph):
    h, *rest = leaves(calls.gno_inputs())
    with pytest.raises(TypeError, match="gno: h is of type ndarray, needs a tensor"):
        gt.gno(h.detach().numpy(), *rest, graph=graph)
    inputs, _, static = bind("selected_attention", None)
    with pytest.raises(TypeError, match="block_index is of type ndarray, needs a tensor"):
        gt.selected_attention(*inputs, **static | {"block_index": calls.SELECTED})


def test_devices_without_kernels_are_named(graph):
    with torch._subclasses.FakeTensorMode():  # the device itself need not be there
        x = torch.empty(graph.n_src, 2, device="xpu")
        with pytest.raises(TypeError, match="agg_simple: x is on xpu:0, needs a tensor on the CPU"):
            gt.agg_simple(x, graph=graph)


def test_third_derivative_is_refused(graph):
    inputs, function, _ = bind("gno", graph)
    (first,) = torch.autograd.grad(function(*inputs).sum(), inputs[1], create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), inputs[1], create_graph=True)
    with pytest.raises(NotImplementedError, match="gno: there are no third derivatives"):
        torch.autograd.grad(second.sum(), inputs[1])


def test_numpy_operators_say_who_takes_tensors(graph):
    x = torch.ones(5, 3, dtype=torch.float64)
    with pytest.raises(
        TypeError, match=r"agg_simple: x is of type Tensor, .*; gnograd\.torch takes"
    ):
        gg.agg_simple(x, graph=graph)
    layer = torch.nn.Parameter(torch.ones(2, 3)), torch.zeros(3)
    with pytest.raises(
        TypeError, match=r"gno_pack_layers: U_1 is of type Parameter, .* torch\.cat"
    ):
        gg.gno_pack_layers([layer])


def test_static_arguments_are_converted_as_everywhere(graph):
    q = torch.ones(6, 2, 3)
    expected = gt.window_attention(q, q, q)
    for most in (2**63 - 1, 10**30, np.array(100)):
        assert torch.equal(gt.window_attention(q, q, q, window=most), expected)
    for name, value in ("window", 2.5), ("window", torch.tensor(3)), ("causal", 1), ("scale", "1"):
        with pytest.raises(TypeError, match=f"window_attention: {name} is"):
            gt.window_attention(q, q, q, **{name: value})


BEYOND = [2**31, 2**32, 2**32 + 1, 2**63 - 1, -(2**32), -(2**32) - 1, -(2**63)]


@pytest.mark.parametrize("wrong", BEYOND)
@pytest.mark.parametrize("layout", ["plain", "compiled"])
def test_integers_are_not_cut_to_32_bits(wrong, layout):
    """Large integers are refused as they are, not cut to their lower half."""
    graph = gg.Graph.from_edges([0, 1, 2, 2], [1, 2, 0, 1])
    x, kinds = torch.randn(3, 2), torch.tensor([0, 1, wrong, 1])
    q, blocks = torch.randn(16, 2, 4), torch.zeros(16, 2, 2, dtype=torch.int64)
    blocks[..., 1] = -1
    blocks[3, 1, 1] = wrong

    def relational(x, kinds):
        return gt.agg_relational(x, graph=graph, edge_type=kinds, n_relations=3)

    def selected(q, blocks):
        return gt.selected_attention(q, q, q, block_index=blocks, block_size=4)

    if layout == "compiled":
        relational, selected = (torch.compile(f, backend="eager") for f in (relational, selected))
    with pytest.raises(IndexError, match="agg_relational: edge_type"):
        relational(x, kinds)
    with pytest.raises(IndexError, match="selected_attention: block_index"):
        selected(q, blocks)
    for dtype in (torch.uint64, torch.uint32):
        if wrong > 0:
            with pytest.raises(IndexError, match="agg_relational: edge_type"):
                relational(x, torch.tensor([0, 1, min(wrong, 2**31), 1]).to(dtype))


def test_integers_of_rows_without_an_edge_may_be_anything():
    graph = gg.Graph.from_edges([0, 1], [1, 0])
    kinds = torch.tensor([0, 1, 2**40, -(2**63)])
    x = torch.randn(2, 3)
    padded = gt.agg_relational(x, graph=graph.pad(4), edge_type=kinds, n_relations=2)
    plain = gt.agg_relational(x, graph=graph, edge_type=kinds[:2], n_relations=2)
    torch.testing.assert_close(padded, plain, rtol=0, atol=0)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: (gt.GATConv(3, 4), (torch.randn(5, 3), torch.randint(5, (2, 9)))),
        lambda: (gt.NativeSparseAttention(16, 2), (torch.randn(40, 16),)),
        lambda: (
            gt.BallSparseAttention(8, 2, ball_size=4, compress_size=2, num_selected_balls=1),
            (torch.randn(40, 8), torch.randn(40, 2)),
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_torch_jit_trace_is_refused(layer):
    module, inputs = layer()
    with pytest.raises(NotImplementedError, match=r"\w+: torch\.jit\.trace cannot record it"):
        torch.jit.trace(module, inputs)
