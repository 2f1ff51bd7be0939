# SPDX-License-Identifier: MIT
"""PyTorch's transforms on layers and graphs that nothing else has used before.

A graph that was used keeps what its first use has made, so every call here has objects of its own:
what is expected is computed afterwards, of others that are equal.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from torch.func import (  # noqa: E402
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

from layers_of_torch import (  # noqa: E402
    ITEMS,
    LAYERS,
    N,
    close,
    edges,
    inputs_of,
    loss_of,
    made,
    plain_gradient,
    rand,
)

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")


# ---- derivatives of layers ----


@pytest.mark.parametrize("name", LAYERS)
def test_derivatives_of_layers(name):
    layer = made(name)

    def loss(x, *rest):
        return loss_of(layer(x, *rest))

    first, second = plain_gradient(made(name), inputs_of(name))
    direction = inputs_of(name)[0].cos()
    for transform in (grad, jacrev, jacfwd):
        close(transform(loss)(*inputs_of(name)), first)
    x, *rest = inputs_of(name)
    pull = vjp(lambda x: loss(x, *rest), x)[1]
    close(pull(torch.tensor(2.0, dtype=x.dtype))[0], 2 * first)
    x, *rest = inputs_of(name)
    close(jvp(lambda x: loss(x, *rest), (x,), (direction,))[1], (first * direction).sum())
    x, *rest = inputs_of(name)
    along = jvp(lambda x: grad(loss)(x, *rest), (x,), (direction,))[1]
    close(along, second)
    x, *rest = inputs_of(name)
    twice = grad(lambda x: (grad(loss)(x, *rest) * direction).sum())(x)
    close(twice, second)


@pytest.mark.parametrize("name", LAYERS)
def test_derivatives_by_parameters(name):
    layer, again = made(name), made(name)
    parameters = dict(layer.named_parameters())
    got = grad(lambda p: loss_of(functional_call(layer, p, inputs_of(name))))(parameters)
    loss = loss_of(again(*inputs_of(name)))
    wanted = list(again.parameters())
    expected = torch.autograd.grad(loss, wanted, allow_unused=True) if wanted else []
    for (label, a), b in zip(got.items(), expected, strict=True):
        close(a, torch.zeros_like(a) if b is None else b, 1e-8)
        assert label


# ---- layers under vmap ----


def stacked(inputs, dims=None):
    """Inputs of several items as one of each."""
    return torch.utils._pytree.tree_map(lambda *leaves: torch.stack(leaves), *inputs)


@pytest.mark.parametrize("name", LAYERS)
def test_batches_of_graphs(name):
    """Everything has a batch axis: features, edges or points, and the parameters."""
    layer = made(name)
    items = [inputs_of(name, seed) for seed in range(ITEMS)]
    expected = [made(name)(*inputs_of(name, seed)) for seed in range(ITEMS)]
    close(vmap(layer)(*stacked(items)), torch.stack(expected))

    def gradient(x, *rest):
        return grad(lambda x: loss_of(layer(x, *rest)))(x)

    items = [inputs_of(name, seed) for seed in range(ITEMS)]
    expected = [plain_gradient(made(name), inputs_of(name, seed))[0] for seed in range(ITEMS)]
    close(vmap(gradient)(*stacked(items)), torch.stack(expected))


@pytest.mark.parametrize("name", ["GATConv", "SAGEConv", "MeshGraphNet", "GNOBlock"])
def test_batches_of_parameters_and_graphs(name):
    layers = []
    for seed in range(ITEMS):
        torch.manual_seed(seed)
        layers.append(LAYERS[name][0]().double())
    parameters, buffers = stack_module_state(layers)
    items = [inputs_of(name, seed) for seed in range(ITEMS)]
    got = vmap(lambda p, b, inputs: functional_call(layers[0], (p, b), inputs))(
        parameters, buffers, stacked(items)
    )
    expected = [layer(*inputs_of(name, seed)) for seed, layer in enumerate(layers)]
    close(got, torch.stack(expected))


def test_nested_batches_along_other_axes():
    layer = gt.GATConv(3, 2).double()
    x, e = rand(N, 2, 3, 3), torch.stack([edges(k) for k in range(3)], dim=2)
    inner = vmap(layer, in_dims=(1, 2), out_dims=2)  # (N, 3, 3) and (2, M, 3)
    got = vmap(inner, in_dims=(1, None), out_dims=1)(x, e)
    expected = [
        torch.stack([layer(x[:, a, b], e[..., b].clone()) for b in range(3)], dim=2)
        for a in range(2)
    ]
    close(got, torch.stack(expected, dim=1))
    both = torch.stack([torch.stack([edges(3 * a + b) for b in range(3)]) for a in range(2)])
    got = vmap(vmap(layer))(x.permute(1, 2, 0, 3), both)
    expected = [
        torch.stack([layer(x[:, a, b], both[a, b].clone()) for b in range(3)]) for a in range(2)
    ]
    close(got, torch.stack(expected))


def test_nested_batches_of_nothing():
    layer, edge_index = gt.GATConv(3, 2).double(), edges()
    for sizes in ((2, 0), (0, 2)):
        x = rand(*sizes, N, 3)
        assert vmap(vmap(lambda x: layer(x, edge_index)))(x).shape == (*sizes, N, 2)


@pytest.mark.parametrize("name", ["GATConv", "GCNConv, weights", "GNO", "GNOBlock"])
def test_jacobians_of_a_batch(name):
    """Jacobians and Hessians of a batch of different graphs equal those of its items."""
    layer = made(name)
    for transform in (jacrev, jacfwd):
        got = vmap(transform(layer))(*stacked([inputs_of(name, k) for k in range(ITEMS)]))
        for k in range(ITEMS):
            x, *rest = inputs_of(name, k)
            close(got[k], torch.autograd.functional.jacobian(lambda x: layer(x, *rest), x))  # noqa: B023
    second = vmap(hessian(lambda *inputs: loss_of(layer(*inputs))))(
        *stacked([inputs_of(name, k) for k in range(ITEMS)])
    )
    x, *rest = inputs_of(name, 1)
    plain = torch.autograd.functional.hessian(lambda x: loss_of(layer(x, *rest)), x)
    close(second[1], plain)
    x = inputs_of(name)[0]

    def outside(x):
        items = [(x, *inputs_of(name, k)[1:]) for k in range(2)]
        return loss_of(vmap(layer)(*stacked(items)))

    each = [plain_gradient(layer, (x, *inputs_of(name, k)[1:]))[0] for k in range(2)]
    close(grad(outside)(x), sum(each))


# ---- batches of torch.autograd ----


@pytest.mark.parametrize("name", LAYERS)
def test_vectorized_derivatives_of_layers(name):
    layer = made(name)
    functional = torch.autograd.functional
    x, *rest = inputs_of(name)

    def function(x):
        return layer(x, *rest)

    if name == "MeshGraphNet, checkpoints":
        pytest.skip("PyTorch has no checkpoints under its vmap")
    rows = functional.jacobian(function, x.clone())
    for strategy in ("reverse-mode", "forward-mode"):
        close(functional.jacobian(function, x.clone(), vectorize=True, strategy=strategy), rows)
    along = functional.vhp(lambda x: loss_of(function(x)), x, x.cos())[1]
    strategies = ["reverse-mode", "forward-mode"]
    if name in ("GeometricEmbedding", "MAGNOEncoder", "MAGNODecoder", "moments"):
        strategies.pop()  # x[:, columns] has no derivative of second order there
    for strategy in strategies:
        second = functional.hessian(
            lambda x: loss_of(function(x)), x, vectorize=True, outer_jacobian_strategy=strategy
        )
        close((second * x.cos()).flatten(x.dim()).sum(-1), along)


@pytest.mark.parametrize("name", ["GATConv", "GNOBlock", "DimeNetPlusPlus", "MeshGraphNet"])
def test_checkpoints_and_forward_mode(name):
    from torch.autograd import forward_ad
    from torch.utils.checkpoint import checkpoint

    layer = made(name)
    x, *rest = inputs_of(name)
    x.requires_grad_()
    out = checkpoint(layer, x, *rest, use_reentrant=False)
    first, _ = plain_gradient(made(name), inputs_of(name))
    close(torch.autograd.grad(loss_of(out), x)[0], first)
    x, *rest = inputs_of(name)
    with forward_ad.dual_level():
        out = layer(forward_ad.make_dual(x, x.cos()), *rest)
        along = forward_ad.unpack_dual(loss_of(out)).tangent
    close(along, (first * x.cos()).sum())


def test_large_kernel_networks(monkeypatch):
    """Networks that PyTorch evaluates in parts, keeping nothing, are right under torch.func."""
    monkeypatch.setattr(gt.integral_transform, "_EDGE_NUMBERS", 64)
    name = "GNOBlock, a network of PyTorch"
    layer = made(name)
    inputs = inputs_of(name)
    got = grad(lambda y: loss_of(layer(y, *inputs[1:])))(inputs[0])
    close(got, plain_gradient(made(name), inputs_of(name))[0])


def test_first_use_in_a_process():
    code = """
import torch, gnograd.torch as gt
layer, x = gt.GATConv(3, 2).double(), torch.rand(5, 3).double()
e = torch.tensor([[0, 1, 2, 3, 4, 4], [1, 2, 3, 4, 0, 2]])
loss = lambda x: layer(x, e).sin().sum()
got = torch.func.hessian(loss)(x)
torch.testing.assert_close(got, torch.autograd.functional.hessian(loss, x))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
