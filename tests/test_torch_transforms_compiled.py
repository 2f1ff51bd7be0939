# SPDX-License-Identifier: MIT
"""PyTorch's transforms around compiled and exported programs, and inside of them."""

from __future__ import annotations

import pytest

from conftest import few

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from torch.func import grad, jacfwd, jacrev, jvp, vmap  # noqa: E402

from layers_of_torch import ITEMS, LAYERS, M, N, close, edges, inputs_of, loss_of, made, rand  # noqa: E402


def test_fake_tensors():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x, e = torch.randn(N, 3), torch.randint(N, (2, M))
        for layer in (gt.GATConv(3, 2), gt.GCNConv(3, 2), gt.SAGEConv(3, 2), gt.GATv2Conv(3, 2)):
            out = layer(x.requires_grad_(), e)
            assert out.shape == (N, 2)
            assert torch.autograd.grad(out.sum(), x)[0].shape == x.shape
        graph = gt.Graph.from_edge_index(e, N)
        assert gt.agg_simple(x, graph=graph).shape == x.shape
    e = edges()
    layer = gt.GATConv(3, 2)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert layer(mode.from_tensor(torch.randn(N, 3)), e).shape == (N, 2)
    assert torch.equal(layer(torch.ones(N, 3), e), layer(torch.ones(N, 3), edges()))


COMPILED = {
    "jvp": lambda f, x: jvp(f, (x,), (x.cos(),))[1],
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "jacrev": lambda f, x: jacrev(lambda x: f(x)[..., :1])(x),  # each row is compiled
    "grad": lambda f, x: grad(lambda x: loss_of(f(x)))(x),
    "forward over reverse": lambda f, x: jvp(grad(lambda x: loss_of(f(x))), (x,), (x.cos(),))[1],
}


def dual(function, x):
    with torch.autograd.forward_ad.dual_level():
        out = function(torch.autograd.forward_ad.make_dual(x, x.cos()))
        return torch.autograd.forward_ad.unpack_dual(out).tangent


@pytest.mark.parametrize("name", ["GATConv", "SliceAttention"])
@pytest.mark.parametrize("transform", COMPILED)
def test_transforms_and_compilers(transform, name):
    """Both ways round; the compiled function is used without a transform, too."""
    transform = COMPILED[transform]
    x, *rest = inputs_of(name)
    if name == "SliceAttention":
        x = x[:, :2].contiguous()  # each row of a Jacobian is compiled
    layer, again = made(name), made(name)
    inside = torch.compile(lambda x: transform(lambda x: layer(x, *rest), x), backend="aot_eager")
    got = inside(x)  # first: what is made of edges is made here
    expected = transform(lambda x: again(x, *rest), x)
    close(got, expected)
    outside = torch.compile(lambda x: layer(x, *rest), backend="aot_eager")
    close(outside(x), made(name)(x, *rest))
    close(transform(outside, x), expected)
    close(outside(x), made(name)(x, *rest))


@pytest.mark.parametrize("name", ["GATConv", "SliceAttention"])
def test_dual_numbers_and_compilers(name):
    """AOTAutograd has none: what it compiled is an error there, never a tangent that is 0."""
    layer, (x, *rest) = made(name), inputs_of(name)
    expected = dual(lambda x: made(name)(x, *rest), x)
    inside = torch.compile(lambda x: dual(lambda x: layer(x, *rest), x), backend="eager")
    close(inside(x), expected)
    outside = torch.compile(lambda x: layer(x, *rest), backend="aot_eager")
    for _ in range(2):
        with pytest.raises(NotImplementedError, match="forward mode"):
            dual(outside, x)
        close(outside(x), made(name)(x, *rest))


def test_vmap_does_not_break_compiled_graphs():
    layer, x = made("GATConv"), rand(ITEMS, N, 3)
    compiled = torch.compile(
        lambda x, edges: vmap(layer, (0, None))(x, edges), backend="aot_eager", fullgraph=True
    )
    close(compiled(x, edges()), torch.stack([made("GATConv")(each, edges()) for each in x]))


@pytest.mark.parametrize("transform", ["jvp", "jacfwd", "dual"])
def test_exported_programs_refuse_forward_mode(transform):
    program = torch.export.export(made("SliceAttention"), inputs_of("SliceAttention")).module()
    x = inputs_of("SliceAttention")[0]
    with pytest.raises(NotImplementedError, match="no forward mode of exported or compiled"):
        {**COMPILED, "dual": dual}[transform](program, x)
    close(program(x), made("SliceAttention")(x))


@pytest.mark.parametrize(
    "name",
    few(
        [name for name in LAYERS if name not in ("RotaryPoints", "SliceAttention, plus")],
        "GATConv",
        "GNO",
        "NativeSparseAttention, cu_seqlens",
        "BallSparseAttention, clouds",
    ),
)
def test_compile_breaks_where_numbers_are_looked_at(name):
    """Code that makes a graph of tensors is left to Python without fullgraph."""
    layer, inputs = made(name), inputs_of(name)
    compiled = torch.compile(layer, backend="aot_eager")
    results = []
    for function in (layer, compiled):
        layer.zero_grad()
        out = function(*inputs)
        loss_of(out).backward()
        gradients = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
        results.append([out.detach(), *gradients])
    for got, want in zip(*results, strict=True):
        close(got, want)
