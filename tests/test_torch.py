# SPDX-License-Identifier: MIT
"""The PyTorch front: derivatives, registration, compilation, and PyG's layers as reference."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

import calls
import gnograd as gg
from calls import DST, SRC
from conftest import few
from reference.attention import dropout_factors

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
from gnograd.torch.graph import arrays_of  # noqa: E402

# static arguments that are arrays may be tensors of any integer type
SELECTED = torch.from_numpy(calls.SELECTED).long()


class OtherMode(torch.overrides.TorchFunctionMode):
    """Something that wants to see operators, which then go through the dispatcher."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@pytest.fixture
def graph():
    return calls.graph()


def tensors(*shapes, seed=0):
    return as_tensors(calls.normal(*shapes, seed=seed))


def as_tensors(arrays):
    return [torch.from_numpy(a).requires_grad_() for a in arrays]


def gno_inputs(weighted=True):
    return as_tensors(calls.gno_inputs(weighted))


def jets_inputs():
    return as_tensors(calls.jets_inputs())


def bind(name, graph):
    arrays, static = calls.call_of(name, graph)
    static = {
        k: torch.from_numpy(v).long() if isinstance(v, np.ndarray) else v for k, v in static.items()
    }
    return as_tensors(arrays), lambda *x: getattr(gt, name)(*x, **static), static


def outputs_of(result):
    return result if isinstance(result, tuple) else (result,)


NAMES = list(calls.calls())


def test_every_operator_is_there():
    assert set(gt.functional.__all__) == calls.FUNCTIONS


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck_reverse_and_forward(name, graph):
    inputs, function, _ = bind(name, graph)
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True)


@pytest.mark.parametrize("name", NAMES)
def test_vmap_of_gradients(name, graph):
    inputs, function, _ = bind(name, graph)
    outputs = outputs_of(function(*inputs))
    cotangents = [torch.randn(3, *out.shape, dtype=torch.float64) for out in outputs]

    def pull(*cotangents):
        return torch.autograd.grad(outputs, inputs, cotangents, retain_graph=True)

    for k, batch in enumerate(zip(*torch.vmap(pull)(*cotangents), strict=True)):
        for got, want in zip(batch, pull(*(c[k] for c in cotangents)), strict=True):
            torch.testing.assert_close(got, want)


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
    cotangents = [torch.ones_like(y).requires_grad_() for y in outputs_of(function(*inputs))]
    torch.library.opcheck(
        getattr(torch.ops.gnograd, f"{name}_vjp").default,
        (cotangents, *padded, *arrays, [], wrt, *plain),
    )


def test_absent_inputs_and_unwanted_gradients(graph):
    h, *rest = gno_inputs(weighted=False)
    h = h.detach()
    out = gt.gno(h, *rest, graph=graph)
    gradients = torch.autograd.grad(out.sum(), rest)
    expected = gg.gno.vjp(
        np.ones((5, 2)), tuple(x.detach().numpy() for x in (h, *rest)), graph=graph
    )
    for got, want in zip(gradients, expected[1:], strict=False):
        assert np.array_equal(got.numpy(), want)


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
    inputs = [x.detach().float() for x in gno_inputs()]
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
        outputs = outputs_of(getattr(gt, name)(*arrays, **static))
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
    h, x, y, layers, V, b_v = (t.detach() for t in jets_inputs()[:6])
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


def test_functional_transforms(graph):
    inputs = [x.detach() for x in gno_inputs()]

    def loss(coords):
        return gt.gno(inputs[0], coords, *inputs[2:], graph=graph, activation="tanh").sin().sum()

    coords = inputs[1]
    batch = torch.stack([coords, 2 * coords, coords - 1])
    gradient = torch.func.grad(loss)
    each = torch.stack([gradient(c) for c in batch])
    torch.testing.assert_close(torch.vmap(gradient)(batch), each)
    hessian = torch.func.hessian(loss)(coords).reshape(16, 16)
    torch.testing.assert_close(hessian, hessian.T)
    along = torch.func.jvp(gradient, (coords,), (torch.ones_like(coords),))[1]
    torch.testing.assert_close(along.flatten(), hessian @ torch.ones(16, dtype=torch.float64))


# ---- half precision ----

bfloat16 = torch.bfloat16


def half_inputs(name, graph):
    """Leaves in bfloat16, their float32 copies as leaves, and the operator."""
    inputs, function, _ = bind(name, graph)
    half = [x.detach().to(bfloat16).requires_grad_() for x in inputs]
    return half, [x.detach().float().requires_grad_() for x in half], function


def weighted_sum(outputs, weights):
    return sum((w * y).sum() for w, y in zip(weights, outputs_of(outputs), strict=True))


def like_outputs(outputs):
    return [torch.randn(y.shape).to(bfloat16).to(y.dtype) for y in outputs_of(outputs)]


def assert_rounded(got, want):
    """Check that numbers are equal but for the last bit of bfloat16."""
    for a, b in zip(got, want, strict=True):
        scale = float(b.detach().abs().max()) if b.numel() else 0.0
        torch.testing.assert_close(a.float(), b.float(), rtol=2**-7, atol=2**-12 * scale)


@pytest.mark.parametrize("name", NAMES)
def test_training_under_autocast(name, graph):
    half, single, function = half_inputs(name, graph)
    with torch.autocast("cpu", dtype=bfloat16):
        outputs = function(*half)
    assert all(y.dtype == torch.float32 for y in outputs_of(outputs))
    expected = function(*single)
    weights = like_outputs(expected)
    gradients = torch.autograd.grad(weighted_sum(outputs, weights), half)
    wanted = torch.autograd.grad(weighted_sum(expected, weights), single)
    for got, want in zip(outputs_of(outputs), outputs_of(expected), strict=True):
        assert torch.equal(got, want)
    for got, want in zip(gradients, wanted, strict=True):
        assert torch.equal(got, want.to(bfloat16))


def test_autocast_makes_types_equal(graph):
    """A linear layer gives bfloat16, parameters are float32; float64 is nobody's to change."""
    h, *rest = (x.detach().float() for x in gno_inputs())
    with torch.autocast("cpu", dtype=bfloat16):
        out = gt.gno(h.to(bfloat16), *rest, graph=graph)
        assert torch.equal(out, gt.gno(h.to(bfloat16).float(), *rest, graph=graph))
        doubles = [x.double() for x in (h, *rest)]
        assert gt.gno(*doubles, graph=graph).dtype == torch.float64
        with pytest.raises(TypeError, match="gno: h is float32 but coords is float64"):
            gt.gno(h, *doubles[1:], graph=graph)


@pytest.mark.parametrize("kernels", [True, False])
def test_autocast_keeps_half_precision_where_there_are_kernels(kernels, monkeypatch):
    """Types of the results of attention and selection on a GPU, without one."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from gnograd.torch import adapter

    monkeypatch.setattr(adapter, "_has_kernel", lambda *_: kernels)
    before = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)
    try:
        with FakeTensorMode():
            q, k, v = (torch.empty(6, 2, 3, device="cuda", dtype=torch.float16) for _ in range(3))
            out, lse = gt.compressed_attention(q, k.float(), v, block=2, stride=1)
            static = dict(block=2, stride=1, block_size=2, n_blocks=2)
            blocks = gt.select_blocks(q, k, lse, **static)
            full = gt.window_attention(q.float(), k.float(), v.float(), window=2)
            sizes = (9, 2), (2, 4), (4,), (4, 3, 2), (3, 2)
            coords, U, *rest = (torch.empty(size, device="cuda") for size in sizes)
            kappa = gt.gno_kernel(coords, U.half(), *rest)
    finally:
        torch.set_autocast_enabled("cuda", before)
    assert out.dtype == (torch.get_autocast_dtype("cuda") if kernels else torch.float32)
    assert (lse.dtype, blocks.dtype, full.dtype) == (torch.float32, torch.int32, torch.float32)
    assert kappa.dtype == out.dtype


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_on_the_cpu(name, graph):
    """All faces compute in float32 copies, and return the type of what was given."""
    half, single, function = half_inputs(name, graph)
    results = []
    torch.manual_seed(0)
    weights = None
    for inputs in (half, single):
        outputs = function(*inputs)
        weights = like_outputs(outputs) if weights is None else weights
        # no product in the loss that would be rounded
        cotangents = [w.to(y.dtype) for w, y in zip(weights, outputs_of(outputs), strict=True)]
        first = torch.autograd.grad(outputs, inputs, cotangents, create_graph=True)
        directions = [torch.ones_like(x) for x in inputs]
        second = torch.autograd.grad(first, inputs, directions, allow_unused=True)
        pushed = torch.func.jvp(function, tuple(x.detach() for x in inputs), tuple(directions))[1]
        results.append([*outputs_of(outputs), *first, *second, *outputs_of(pushed)])
    there = [y is not None for y in results[1]]
    assert there == [y is not None for y in results[0]]
    got, want = ([y for y in r if y is not None] for r in results)
    assert_rounded(got, want)
    n = len(outputs_of(function(*half)))
    lse = {"compressed_attention": [bfloat16, torch.float32]}.get(name, [bfloat16] * n)
    assert [y.dtype for y in got[:n]] == lse
    assert all(y.dtype == bfloat16 for y in got[n : len(got) - n])


def test_shapes_alone(graph):
    h, kappa = (torch.empty(shape, device="meta") for shape in ((5, 3), (8, 3, 2)))
    assert gt.gno_aggregate(h, kappa, graph=graph).shape == (5, 2)


def test_types_of_half_precision_are_checked(graph):
    h, coords, *rest = (x.detach().to(bfloat16) for x in gno_inputs())
    with pytest.raises(TypeError, match="gno: h is bfloat16 but U is float32"):
        gt.gno(h, coords, rest[0].float(), *rest[1:], graph=graph)
    with pytest.raises(TypeError, match="gno: h is float32 but coords is bfloat16"):
        gt.gno(h.float(), coords, *rest, graph=graph)
    with pytest.raises(TypeError, match="gno: coords is float16, needs float32"):
        gt.gno(h, coords.half(), *rest, graph=graph)


def test_geometry_is_float32_beside_half_precision(graph):
    """Coordinates and quadrature weights are not rounded; gradients have the types of inputs."""
    h, coords, *rest, weight = (x.detach().float() for x in gno_inputs())
    half = [x.to(bfloat16).requires_grad_() for x in (h, *rest)]
    geometry = [x.clone().requires_grad_() for x in (coords, weight)]
    inputs = half[0], geometry[0], *half[1:], geometry[1]
    out = gt.gno(*inputs, graph=graph)
    assert out.dtype == bfloat16
    expected = gt.gno(*(x.float() for x in inputs), graph=graph)
    assert torch.equal(out, expected.to(bfloat16))
    gradients = torch.autograd.grad(out.float().sum(), inputs)
    assert [g.dtype for g in gradients] == [x.dtype for x in inputs]
    kappa = gt.gno_kernel(*inputs[1:6])
    assert kappa.dtype == bfloat16
    with pytest.raises(TypeError, match="gno_kernel: coords is float32 but U is float64"):
        gt.gno_kernel(inputs[1], *(x.double() for x in inputs[2:6]))


def test_half_precision_in_batches_and_compiled(graph):
    inputs, _, function = half_inputs("mha_gat", graph)

    def loss(*x):
        return torch.tanh(function(*x)).sum()

    def under_autocast(*x):
        with torch.autocast("cpu", dtype=bfloat16):
            return loss(*x)

    for f in (loss, under_autocast):
        compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
        expected = torch.autograd.grad(f(*inputs), inputs)
        for a, b in zip(torch.autograd.grad(compiled(*inputs), inputs), expected, strict=True):
            assert a.dtype == bfloat16
            torch.testing.assert_close(a, b, rtol=2**-6, atol=2**-8)
    x, *rest = (t.detach() for t in inputs)
    batch = torch.stack([x, 2 * x, -x])
    gradient = torch.func.grad(lambda x: loss(x, *rest))
    mapped = torch.vmap(gradient)(batch)
    assert mapped.dtype == bfloat16
    for row, x in zip(mapped, batch, strict=True):
        assert torch.equal(row, gradient(x))


SHORT = dict(
    compress_block_size=4, compress_stride=2, selection_block_size=4, num_selected_blocks=5,
    window_size=4,
)  # fmt: skip


def modules():
    """Modules and inputs in float32, by name."""
    torch.manual_seed(3)
    graph = calls.graph()
    x, e, points = torch.randn(5, 6), torch.randn(len(SRC), 3), torch.rand(20, 2)
    tokens = torch.randn(20, 8)
    block = dict(pos_embedding_type=None, channel_mlp_layers=[8])
    attention = {
        name: (getattr(gt, name)(6, 4, heads=2, edge_dim=3), (x, edge_index(), e))
        for name in ("GATConv", "GATv2Conv", "TransformerConv")
    }
    dimenet = gt.DimeNetPlusPlus(
        8, 1, 1, 8, 4, 8, 3, 4, output_initializer="glorot_orthogonal", cutoff=2.0
    )
    atoms = torch.tensor([6, 1, 1, 1, 8]), 2 * torch.rand(5, 3), torch.tensor([0, 0, 0, 1, 1])
    return attention | {
        "WeightedAggregation": (
            torch.nn.Sequential(torch.nn.Linear(6, 4), gt.WeightedAggregation("mean")),
            (x, edge_index()),
        ),
        "GNO": (gt.GNO(6, 4, coord_dim=3), (x, e, graph)),
        "GNOBlock": (gt.GNOBlock(4, 4, 2, 0.4, **block), (points, points[:9], tokens[:, :4])),
        "deep GNOBlock": (gt.GNOBlock(4, 4, 2, 0.4), (points, points[:9], tokens[:, :4])),
        "InteractionPPBlock": (
            gt.InteractionPPBlock(8, 8, 4, 3, 4, 1, 1),
            (torch.randn(8, 8), torch.randn(8, 4), torch.randn(8, 12), e, graph),
        ),
        "DimeNetPlusPlus": (dimenet, atoms),
        "NativeSparseAttention": (gt.NativeSparseAttention(8, 2, **SHORT), (tokens,)),
        "BallSparseAttention": (
            gt.BallSparseAttention(8, 2, ball_size=8, compress_size=4, position_dim=2),
            (tokens, points),
        ),
    }


class Weighted(torch.nn.Sequential):
    """A linear layer and `WeightedAggregation`, which has no parameters."""

    def forward(self, x, edge_index):
        return self[1](self[0](x), edge_index)


def of_module(name):
    module, inputs = modules()[name]
    return (Weighted(*module) if name == "WeightedAggregation" else module), inputs


MODULES = [
    "GATConv", "GATv2Conv", "TransformerConv", "WeightedAggregation", "GNO", "GNOBlock",
    "deep GNOBlock", "InteractionPPBlock", "DimeNetPlusPlus", "NativeSparseAttention",
    "BallSparseAttention",
]  # fmt: skip


def as_type(dtype, values):
    """Floating-point tensors in another type."""
    return [
        v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in values
    ]


def gradients_of(module, loss):
    """Gradients to the parameters, by a backward pass."""
    module.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in module.parameters() if p.grad is not None]


@pytest.mark.parametrize("name", MODULES)
def test_modules_train_under_autocast(name):
    module, inputs = of_module(name)
    expected = gradients_of(module, module(*inputs).square().sum())
    with torch.autocast("cpu", dtype=bfloat16):
        loss = module(*inputs).square().sum()
    got = gradients_of(module, loss)  # outside, as everyone does
    largest = max(float(g.norm()) for g in expected)
    for a, b in zip(got, expected, strict=True):
        assert float((a - b).norm()) <= 0.1 * float(b.norm()) + 0.02 * largest


@pytest.mark.parametrize("name", MODULES)
def test_modules_in_bfloat16(name):
    module, inputs = of_module(name)
    module.to(bfloat16)
    out = module(*as_type(bfloat16, inputs))
    assert out.dtype == bfloat16
    gradients = gradients_of(module, out.square().sum())
    assert all(g.dtype == bfloat16 and torch.isfinite(g).all() for g in gradients)
    with torch.no_grad():
        expected = module.float()(*as_type(torch.float32, as_type(bfloat16, inputs)))
        assert float((out - expected).norm()) <= 0.1 * float(expected.norm())


# ---- programs ----


@pytest.mark.parametrize(
    "name",
    few(
        [*MODULES, "NSA of packed sequences", "BSA of clouds"],
        "GATConv",
        "GNO",
        "NativeSparseAttention",
        "BSA of clouds",
    ),
)
def test_compile_breaks_where_numbers_are_looked_at(name):
    """Code that makes a graph of tensors is left to Python without fullgraph."""
    borders = (torch.tensor([0, 9, 20]),)
    if name.startswith("NSA"):
        module, inputs = of_module("NativeSparseAttention")
        inputs += borders
    elif name.startswith("BSA"):
        module, inputs = of_module("BallSparseAttention")
        inputs += borders
    else:
        module, inputs = of_module(name)
    compiled = torch.compile(module, backend="aot_eager")
    results = []
    for function in (module, compiled):
        out = function(*inputs)
        results.append([out.detach(), *gradients_of(module, out.square().sum())])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


# ---- functions ----


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
    h, x, y, _, V, b_v = (t.detach() for t in jets_inputs()[:6])
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
    h, *rest = gno_inputs()
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


def test_gnograd_does_not_import_torch():
    code = "import sys, gnograd; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- layers ----


def edge_index():
    return torch.tensor([SRC, DST])


@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_layer_equals_pyg(name, edge_dim, concat):
    pyg = pytest.importorskip("torch_geometric")
    torch.manual_seed(1)
    options = dict(heads=2, concat=concat, edge_dim=edge_dim)
    theirs = getattr(pyg.nn, name)(6, 4, **options).double()
    ours = getattr(gt, name)(6, 4, **options).double()
    ours.load_state_dict(theirs.state_dict())
    x, e = tensors((5, 6), (len(SRC), 3))
    attributes = (e,) if edge_dim else ()
    out, expected = ours(x, edge_index(), *attributes), theirs(x, edge_index(), *attributes)
    torch.testing.assert_close(out, expected)
    weight = torch.randn_like(out)
    wanted = [x, *attributes, *ours.parameters()]
    reference = [x, *attributes, *theirs.parameters()]
    names = [n for n, _ in ours.named_parameters()]
    got = torch.autograd.grad((weight * out).sum(), wanted, allow_unused=True)
    want = torch.autograd.grad((weight * expected).sum(), reference, allow_unused=True)
    order = [n for n, _ in theirs.named_parameters()]
    n = 1 + len(attributes)
    by_name = dict(zip(order, want[n:], strict=True))
    for g, w in zip(got, [*want[:n], *(by_name[k] for k in names)], strict=True):
        torch.testing.assert_close(g, w)


@pytest.mark.parametrize("residual", [True, False])
def test_bipartite_gat_equals_pyg(residual):
    pyg = pytest.importorskip("torch_geometric")
    torch.manual_seed(2)
    options = dict(heads=2, add_self_loops=False, residual=residual)
    theirs = pyg.nn.GATConv((6, 3), 4, **options).double()
    ours = gt.GATConv((6, 3), 4, **options).double()
    ours.load_state_dict(theirs.state_dict())
    x = tuple(t.detach() for t in tensors((5, 6), (7, 3)))
    torch.testing.assert_close(ours(x, edge_index()), theirs(x, edge_index()))


@pytest.mark.parametrize("aggr", ["add", "mean", "min", "max"])
def test_weighted_aggregation(aggr):
    x, w = tensors((5, 3), (len(SRC),))
    w = w.detach().abs() + 0.1
    out = gt.WeightedAggregation(aggr)(x, edge_index(), w)
    messages = w[:, None] * x[SRC]
    for i in range(5):
        rows = [k for k, d in enumerate(DST) if d == i]
        expected = torch.zeros(3, dtype=torch.float64)
        if rows:
            m = messages[rows]
            expected = {
                "add": m.sum(0),
                "mean": m.sum(0) / w[rows].sum(),
                "min": m.amin(0),
                "max": m.amax(0),
            }[aggr]
        torch.testing.assert_close(out[i], expected)


def pyg_pair(name, *arguments, **options):
    """PyG's layer and ours with its parameters, in float64."""
    pyg = pytest.importorskip("torch_geometric")
    torch.manual_seed(4)
    theirs = getattr(pyg.nn, name)(*arguments, **options).double()
    ours = getattr(gt, name)(*arguments, **options).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def parameter_gradients(layer, loss):
    gradients = torch.autograd.grad(loss, list(layer.parameters()), allow_unused=True)
    return dict(zip([n for n, _ in layer.named_parameters()], gradients, strict=True))


LAYERS = ["GATConv", "GATv2Conv", "TransformerConv"]


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("name", LAYERS)
def test_attention_weights_equal_pyg(name, edge_dim):
    theirs, ours = pyg_pair(name, 6, 4, heads=2, edge_dim=edge_dim)
    x, e = tensors((5, 6), (len(SRC), 3))
    given = dict(x=x, edge_index=edge_index(), edge_attr=e if edge_dim else None)
    results = []
    for layer in (theirs, ours):
        out, (edges, alpha) = layer(**given, return_attention_weights=True)
        loss = (alpha * torch.arange(1.0, 3)).square().sum()
        results.append((out, edges, alpha, parameter_gradients(layer, loss)))
    (out, edges, alpha, gradients), (own_out, own_edges, own_alpha, own_gradients) = results
    torch.testing.assert_close(own_out, out)
    assert torch.equal(own_edges, edges)
    torch.testing.assert_close(own_alpha, alpha)
    for key, gradient in gradients.items():
        torch.testing.assert_close(own_gradients[key], gradient)
    # for a Graph, in the order of its edge arrays
    graph = gg.Graph.from_edges(SRC, DST, 5, 5)
    _, (edges, alpha) = ours(**given | {"edge_index": graph}, return_attention_weights=True)
    assert torch.equal(edges, own_edges)
    torch.testing.assert_close(alpha, own_alpha)


def test_size_and_absent_destinations_equal_pyg():
    theirs, ours = pyg_pair("GATConv", (6, 3), 4, heads=2, add_self_loops=False, residual=True)
    x = tensors((5, 6))[0]
    out = ours((x, None), edge_index(), size=(5, 7))
    assert out.shape == (7, 8)
    torch.testing.assert_close(out, theirs((x, None), edge_index(), size=(5, 7)))
    torch.testing.assert_close(ours((x, None), edge_index()), theirs((x, None), edge_index()))
    theirs, ours = pyg_pair("GATConv", 6, 4)
    torch.testing.assert_close(
        ours(x, edge_index(), size=(5, 5)), theirs(x, edge_index(), size=(5, 5))
    )
    with pytest.raises(ValueError, match=r"GATConv: size is \(5, 4\), but x has 5 sources and 5"):
        ours(x, edge_index(), size=(5, 4))
    for name in LAYERS[1:]:
        with pytest.raises(TypeError, match=f"{name}: x has no features of destinations"):
            getattr(gt, name)(6, 4).double()((x, None), edge_index())


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("name", LAYERS)
def test_sparse_matrices_of_edges(name, layout):
    _, ours = pyg_pair(name, 6, 4, heads=2)
    (x,) = tensors((5, 6))
    pairs = sorted(set(zip(DST, SRC, strict=True)))
    matrix = torch.sparse_coo_tensor(torch.tensor(pairs).T, torch.ones(len(pairs)), (5, 5))
    matrix = {"coo": matrix, "csr": matrix.to_sparse_csr(), "csc": matrix.to_sparse_csc()}[layout]
    edges = torch.tensor(pairs).T.flip(0)
    out, (weights, alpha) = ours(x, matrix, return_attention_weights=True)
    expected, (edges, expected_alpha) = ours(x, edges, return_attention_weights=True)
    assert torch.equal(out, expected)
    dense = torch.zeros(5, 5, 2, dtype=torch.float64)
    dense[edges[1], edges[0]] = expected_alpha
    assert torch.equal(weights.to_dense(), dense)
    assert weights.layout == matrix.layout
    assert torch.equal((weights.coalesce() if layout == "coo" else weights).values(), alpha)
    with pytest.raises(ValueError, match="needs a row for each of the 4 destinations"):
        ours(x[:4], matrix)


@pytest.mark.parametrize("name", LAYERS)
def test_checkpoint_of_training_with_dropout_predicts(name):
    theirs, ours = pyg_pair(name, 6, 4, heads=2, dropout=0.6)
    (x,) = tensors((5, 6))
    assert repr(ours) == repr(theirs) == f"{name}(6, 4, heads=2)"
    assert (ours.dropout, ours.edge_dim) == (0.6, None)
    torch.testing.assert_close(ours.eval()(x, edge_index()), theirs.eval()(x, edge_index()))


def trained(layer, x, edges, seed):
    """Result and gradients of a step with this seed."""
    torch.manual_seed(seed)
    layer.zero_grad()
    out = layer(x, edges)
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in layer.parameters())]


@pytest.mark.parametrize("name", LAYERS)
def test_training_with_dropout(name):
    """The seed of dropout comes from PyTorch's generator, in eager mode and when compiled."""
    _, layer = pyg_pair(name, 6, 4, heads=2, dropout=0.5)
    (x,) = tensors((5, 6))
    graph = gt.with_self_loops(gt.graph_from_edge_index(edge_index(), 5, 5))[0]
    layer.train().add_self_loops = False
    first, again, other = (trained(layer, x, graph, seed) for seed in (1, 1, 2))
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], other[0])

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for expected, seed in (first, 1), (other, 2):
        torch.manual_seed(seed)
        layer.zero_grad()
        out = compiled(x, graph)
        out.square().sum().backward()
        assert torch.equal(out, expected[0])
        for p, gradient in zip(layer.parameters(), expected[1:], strict=True):
            assert torch.equal(p.grad, gradient)
    assert torch.equal(layer.eval()(x, graph), layer(x, graph))


@pytest.mark.parametrize("name", LAYERS)
def test_mean_of_training_with_dropout_is_the_prediction(name):
    _, layer = pyg_pair(name, 6, 4, heads=2, dropout=0.3)
    (x,) = tensors((5, 6))
    torch.manual_seed(0)
    with torch.no_grad():
        sample = torch.stack([layer.train()(x, edge_index()) for _ in range(500)])
        error = (sample.mean(0) - layer.eval()(x, edge_index())).abs()
    assert (error <= 5 * sample.std(0) / 500**0.5 + 1e-12).all()


@pytest.mark.parametrize("name", LAYERS)
def test_attention_weights_in_training_with_dropout(name):
    """Weights are those of PyG: after dropout in GATConv and GATv2Conv, else before it."""
    _, layer = pyg_pair(name, 6, 4, heads=2, dropout=0.4, bias=False)
    (x,) = tensors((5, 6))
    if name == "TransformerConv":
        layer.root_weight = False
    _, (_, alpha) = layer.eval()(x, edge_index(), return_attention_weights=True)
    torch.manual_seed(3)
    out, (edges, dropped) = layer.train()(x, edge_index(), return_attention_weights=True)
    torch.manual_seed(3)
    seed = layer.draw(x)["seed"]
    looped = name != "TransformerConv"
    shape = len(SRC) + 5 * looped, 2  # rows of edge arrays, former self-loops among them
    factors = gt.dropout_factors(seed, *shape, 0.4)
    assert torch.equal(factors, torch.from_numpy(dropout_factors(*shape, 0.4, seed.numpy())))
    if looped:
        src, dst = edge_index()
        factors = factors[torch.cat([src != dst, torch.ones(5, dtype=torch.bool)])]
    weights = dropped if name != "TransformerConv" else factors * dropped
    torch.testing.assert_close(weights, factors * alpha)
    project = {"GATConv": "lin", "GATv2Conv": "lin_l", "TransformerConv": "lin_value"}[name]
    values = getattr(layer, project)(x).view(5, 2, 4)[edges[0]]
    expected = torch.zeros(5, 2, 4, dtype=torch.float64)
    expected = expected.index_add(0, edges[1], weights[..., None] * values).flatten(1)
    torch.testing.assert_close(out, expected)


def test_dropout_factors_are_those_of_the_kernels():
    for p in (0.0, 0.01, 0.5, 1.0):
        for seed in (0, -1, 2**63 - 1):
            expected = torch.from_numpy(dropout_factors(50, 3, p, [seed]))
            assert torch.equal(gt.dropout_factors(torch.tensor([seed]), 50, 3, p), expected)


@pytest.mark.parametrize("name", LAYERS)
def test_new_parameters(name):
    layer = getattr(gt, name)(6, 4, heads=2, edge_dim=3)
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    layer.reset_parameters()
    after = layer.state_dict()
    assert all(not torch.equal(after[k], v) for k, v in before.items() if v.any())


def test_sizes_of_a_gno_are_named():
    for name in ("in_channels", "out_channels", "coord_dim", "hidden_channels"):
        sizes = {"in_channels": 3, "out_channels": 3, "coord_dim": 2}
        for number in (0, -1):
            with pytest.raises(ValueError, match=f"GNO: {name} is {number}, needs at least 1"):
                gt.GNO(**(sizes | {name: number}))
        with pytest.raises(TypeError, match=rf"GNO: {name} is 2\.5, needs an integer"):
            gt.GNO(**(sizes | {name: 2.5}))


def test_layer_errors():
    layer, x = gt.GATConv(6, 4), torch.ones(5, 6)
    with pytest.raises(ValueError, match=r"edge_index has shape \(8, 2\), needs \(2, n_edges\)"):
        layer(x, edge_index().T)
    with pytest.raises(TypeError, match="edge_index is of type ndarray, needs a tensor of int64"):
        layer(x, edge_index().numpy())
    with pytest.raises(
        ValueError, match=r"edge_attr has shape \(7, 3\), needs one row for each of"
    ):
        gt.GATConv(6, 4, edge_dim=3)(x, edge_index(), torch.ones(7, 3))
    with pytest.raises(ValueError, match="gno: activation is 'mish', needs one of 'relu', 'gelu'"):
        gt.GNO(3, 4, coord_dim=2, activation="mish")
    with pytest.raises(ValueError, match="WeightedAggregation: aggr is 'median', needs one of"):
        gt.WeightedAggregation("median")
    with pytest.raises(ValueError, match="GATConv: edge_attr goes with edge_dim"):
        gt.GATConv(6, 4)(torch.ones(5, 6), edge_index(), torch.ones(len(SRC), 3))
    with pytest.raises(ValueError, match="diagonal kernel needs in_channels == out_channels"):
        gt.GNO(3, 4, coord_dim=2, kernel="diagonal")
    with pytest.raises(ValueError, match="gno: activation is 'mish', needs one of 'relu'"):
        gt.GNO(3, 5, coord_dim=2, activation="mish")
    with pytest.raises(ValueError, match="gno: kernel is 'full ', needs one of"):
        gt.GNO(3, 3, coord_dim=2, kernel="full ")


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
