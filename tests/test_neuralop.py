# SPDX-License-Identifier: MIT
"""neuraloperator's IntegralTransform on the operators of gnograd, against formulas in NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gnograd as gg
from memory import needs_linux, temporary_bytes
from reference import neuralop as reference

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
integral_transform = pytest.importorskip("gnograd.torch.integral_transform")
weighting = pytest.importorskip("gnograd.torch.weighting")
from neuralop_cases import CHANNELS, M, N, normal, points  # noqa: E402

F = torch.nn.functional
TRANSFORM_TYPES = ("linear_kernelonly", "linear", "nonlinear_kernelonly", "nonlinear")
LAYERS = {"one hidden": [8], "wider than hidden": [3], "none": [], "three hidden": [5, 6, 5]}


@pytest.fixture(params=["at once", "in parts"])
def parts(request, monkeypatch):
    """Deep networks on all edges at a time, and on few."""
    if request.param == "in parts":
        monkeypatch.setattr(integral_transform, "_EDGE_NUMBERS", 100)


def network(hidden, transform_type, f=True, activation=F.gelu):
    enters = f and transform_type.startswith("nonlinear")
    torch.manual_seed(0)
    layers = [4 + (CHANNELS if enters else 0), *hidden, CHANNELS]
    return gt.LinearChannelMLP(layers, activation).double()


def expected(layer, y, x, found, f=None, weight=None, activation="gelu"):
    layers = [[p.detach().numpy() for p in fc.parameters()] for fc in layer.channel_mlp.fcs]
    index, splits = found["neighbors_index"].numpy(), found["neighbors_row_splits"].numpy()
    return torch.from_numpy(
        reference.integral_transform(
            layers, activation, y.numpy(), x.numpy(), index, splits,
            None if f is None else f.numpy(), None if weight is None else weight.numpy(),
            layer.transform_type, layer.reduction,
        )
    )  # fmt: skip


# ---- forward ----


@pytest.mark.filterwarnings("ignore:IntegralTransform. transform_type='linear_kernelonly'")
@pytest.mark.parametrize("hidden", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("transform_type", TRANSFORM_TYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_equals_formula(hidden, transform_type, weighted, reduction, parts):
    y, x = points()
    found = gt.neighbor_search(y, x, 0.4)
    mlp = network(hidden, transform_type)
    layer = gt.IntegralTransform(mlp, transform_type=transform_type, reduction=reduction)
    batch = normal(4, N, CHANNELS)
    weights = normal(N, seed=1).abs() if weighted else None
    on_edges = None if weights is None else weights[found["neighbors_index"]]
    want = torch.stack([expected(layer, y, x, found, f, on_edges) for f in batch])
    torch.testing.assert_close(layer(y, found, x, batch, weights), want)
    torch.testing.assert_close(layer(y, found, x, batch[0], weights), want[0])


@pytest.mark.parametrize("hidden", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("transform_type", TRANSFORM_TYPES)
def test_without_a_function(hidden, transform_type, parts):
    y, x = points()
    found = gt.neighbor_search(y, x, 0.4)
    mlp = network(hidden, transform_type, f=False)
    layer = gt.IntegralTransform(mlp, transform_type=transform_type)
    torch.testing.assert_close(layer(y, found, x), expected(layer, y, x, found))


def test_what_neuraloperator_does_with_kernelonly_is_said():
    y, x = points()
    found = gt.neighbor_search(y, x, 0.4)
    layer = gt.IntegralTransform(network([8], "linear"), transform_type="linear_kernelonly")
    with pytest.warns(UserWarning, match="'linear_kernelonly' leaves f_y out, by which neuralop"):
        layer(y, found, x, normal(N, CHANNELS))


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("name", weighting.WEIGHTING_FN_REGISTRY)
def test_weighting_function_of_squared_distances(name, batched):
    y, x = points()
    found = gt.neighbor_search(y, x, 0.4, return_norm=True)
    function = gt.dispatch_weighting_fn(name, sq_radius=0.16, scale=2.0)
    layer = gt.IntegralTransform(network([8], "linear"), weighting_fn=function, reduction="mean")
    f = normal(2, N, CHANNELS)
    weight = function(found["weights"])
    want = torch.stack([expected(layer, y, x, found, item, weight) for item in f])
    torch.testing.assert_close(
        layer(y, found, x, f if batched else f[0]), want[: len(want)] if batched else want[0]
    )
    # quadrature weights come on top
    quadrature = normal(N, seed=1)
    both = weight * quadrature[found["neighbors_index"]]
    want = expected(layer, y, x, found, f[0], both)
    torch.testing.assert_close(layer(y, found, x, f[0], quadrature), want)


ACTIVATIONS = [
    ("gelu", F.gelu), ("relu", F.relu), ("relu", torch.relu), ("silu", F.silu),
    ("tanh", torch.tanh), ("tanh", F.tanh), ("sin", torch.sin), ("gelu", torch.nn.GELU()),
    ("silu", torch.nn.SiLU()), ("identity", torch.nn.Identity()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "activation"), ACTIVATIONS)
def test_activations_of_the_operator(name, activation):
    y, x = points()
    found = gt.neighbor_search(y, x, 0.4)
    layer = gt.IntegralTransform(network([8], "linear", activation=activation))
    assert integral_transform._network(layer.channel_mlp) is not None
    f = normal(N, CHANNELS)
    want = expected(layer, y, x, found, f, activation=name)
    torch.testing.assert_close(layer(y, found, x, f), want)


class Product(torch.nn.Module):
    """A kernel network of the user's own."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(CHANNELS, dtype=torch.float64))

    def forward(self, edges):
        return edges[:, :1] * edges[:, 3:] * self.scale


OTHERS = {
    "tanh-gelu": lambda: gt.LinearChannelMLP([4, 8, 3], torch.nn.GELU(approximate="tanh")),
    "softplus": lambda: gt.LinearChannelMLP([4, 8, 3], F.softplus),
    "two activations": lambda: torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3), torch.nn.ReLU()
    ),
    "own module": Product,
}


@pytest.mark.parametrize("module", OTHERS.values(), ids=OTHERS)
def test_other_networks(module, parts):
    y, x = points()
    found = gt.neighbor_search(y, x, 0.4)
    torch.manual_seed(0)
    mlp = module().double()
    assert integral_transform._network(mlp) is None
    f = normal(N, CHANNELS)
    splits, index = found["neighbors_row_splits"], found["neighbors_index"]
    on_edges = mlp(torch.cat([y[index], x.repeat_interleave(splits.diff(), dim=0)], 1)) * f[index]
    want = torch.stack([on_edges[a:b].sum(0) for a, b in itertools.pairwise(splits.tolist())])
    torch.testing.assert_close(gt.IntegralTransform(mlp)(y, found, x, f), want)


def test_sequential_without_biases_is_a_kernel_network():
    y, x = points()
    found = gt.neighbor_search(y, x, 0.4)
    torch.manual_seed(0)
    linear = torch.nn.Linear
    mlp = torch.nn.Sequential(linear(4, 8, bias=False), torch.nn.Tanh(), linear(8, 3)).double()
    same = gt.LinearChannelMLP([4, 8, 3], torch.tanh).double()
    with torch.no_grad():
        for layer, source in zip(same.fcs, mlp[::2], strict=True):
            layer.weight.copy_(source.weight)
            layer.bias.copy_(torch.zeros(8) if source.bias is None else source.bias)
    f = normal(N, CHANNELS)
    assert integral_transform._network(mlp) is not None
    out, want = (gt.IntegralTransform(m)(y, found, x, f) for m in (mlp, same))
    torch.testing.assert_close(out, want)


def test_dropout_is_applied_in_training_only():
    y, x = points()
    found = gt.neighbor_search(y, x, 0.4)
    layer = gt.IntegralTransform(gt.LinearChannelMLP([4, 8, 3], dropout=0.5).double())
    assert not torch.equal(layer(y, found, x), layer(y, found, x))
    torch.testing.assert_close(layer.eval()(y, found, x), expected(layer, y, x, found))


def test_queries_are_the_points_when_left_out():
    y, _ = points()
    found = gt.neighbor_search(y, y, 0.3)
    layer = gt.IntegralTransform(network([8], "linear"))
    torch.testing.assert_close(layer(y, found), layer(y, found, y))


def test_graph_instead_of_a_dict():
    y, x = points()
    graph = gg.Graph.radius(y.numpy(), 0.4, x.numpy())
    layer = gt.IntegralTransform(network([8], "linear"))
    f = normal(N, CHANNELS)
    assert torch.equal(layer(y, graph, x, f), layer(y, gt.neighbor_search(y, x, 0.4), x, f))


@pytest.mark.parametrize("hidden", [[8], [5, 6]])
def test_dtype_is_kept(hidden):
    y, x = points()
    layer = gt.IntegralTransform(network(hidden, "linear"))
    f = normal(2, N, CHANNELS)
    found = gt.neighbor_search(y, x, 0.4)
    exact = layer(y, found, x, f)
    assert exact.dtype == torch.float64
    rounded = layer.float()(y.float(), found, x.float(), f.float())
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact.float())


# ---- weighting functions, embedding ----


@pytest.mark.parametrize("name", weighting.WEIGHTING_FN_REGISTRY)
def test_weighting_functions(name):
    t = np.linspace(0, 1, 9)
    with np.errstate(divide="ignore"):
        formula = {
            "bump": np.exp(1 - 1 / (1 - t**2)),
            "half_cos": np.cos(np.pi * t / 2) ** 2,
            "quadr": np.where(t < 0.5, 1 - 2 * t**2, 2 * (1 - t) ** 2),
            "quartic": 1 - 2 * t**2 + t**4,
            "octic": 1 - 6 * t**4 + 8 * t**6 - 3 * t**8,
        }[name]
    weight = gt.dispatch_weighting_fn(name, sq_radius=0.25, scale=3.0)
    got = weight(torch.from_numpy(0.25 * t))
    tolerance = 3e-6 if name == "bump" else 1e-15  # bump: eps is part of its definition
    np.testing.assert_allclose(got.numpy(), 3 * formula, rtol=tolerance, atol=1e-15)
    inside = torch.tensor([0.01, 0.1, 0.2], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(weight, inside)
    assert torch.autograd.gradgradcheck(weight, inside)


# ---- vjp, jvp, hvp ----


def functions(hidden, transform_type, weighting_fn="quartic"):
    """The layer as a function of points, features and parameters, and these."""
    y, x = points()
    found = gt.neighbor_search(y, x, 0.4)
    mlp = network(hidden, transform_type, activation=torch.tanh)
    function = weighting_fn and gt.dispatch_weighting_fn(weighting_fn, 0.16)
    layer = gt.IntegralTransform(mlp, transform_type=transform_type, weighting_fn=function)
    names = [name for name, _ in layer.named_parameters()]
    index, degree = found["neighbors_index"], found["neighbors_row_splits"].diff()

    def apply(y, x, f, *parameters):
        squares = (x.repeat_interleave(degree, dim=0) - y[index]).square().sum(-1)
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, given, (y, found | {"weights": squares}, x, f))

    leaves = [y, x, normal(2, N, CHANNELS, seed=3), *layer.parameters()]
    return apply, [leaf.detach().clone().requires_grad_() for leaf in leaves]


@pytest.mark.parametrize("transform_type", TRANSFORM_TYPES)
@pytest.mark.parametrize("hidden", [[8], [3], [5, 6]], ids=str)
def test_gradients_to_second_order(hidden, transform_type, parts):
    function, inputs = functions(hidden, transform_type)
    if transform_type == "linear_kernelonly":
        inputs[2].requires_grad_(False)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("hidden", [[8], [5, 6]], ids=str)
def test_forward_mode(hidden, parts):
    function, inputs = functions(hidden, "nonlinear")
    assert torch.autograd.gradcheck(
        function, inputs, check_forward_ad=True, check_backward_ad=False, fast_mode=True
    )


def test_second_order_behind_a_nonlinear_readout():
    """Second derivatives are right where the gradient of the sum must itself keep a graph."""
    function, inputs = functions([8], "linear")

    def gradient(position, *others):
        out = function(position, *others).tanh().sum()
        return torch.autograd.grad(out, position, create_graph=True)[0]

    gradients = torch.autograd.grad(gradient(*inputs).square().sum(), inputs)
    direction = [normal(*leaf.shape, seed=5) for leaf in inputs]
    step = 1e-5

    def loss(t):
        moved = [leaf.detach() + t * d for leaf, d in zip(inputs, direction, strict=True)]
        return gradient(moved[0].requires_grad_(), *moved[1:]).square().sum()

    difference = (loss(step) - loss(-step)) / (2 * step)
    along = sum((g * d).sum() for g, d in zip(gradients, direction, strict=True))
    torch.testing.assert_close(along, difference.detach(), rtol=1e-6, atol=0)


def test_gradient_of_the_squared_distances():
    y, x = (p.requires_grad_() for p in points())
    period = [0.9, 0.0]

    def squares(y, x):
        return gt.neighbor_search(y, x, 0.3, return_norm=True, period=period)["weights"]

    assert torch.autograd.gradcheck(squares, (y, x))
    assert torch.autograd.gradgradcheck(squares, (y, x))


def test_block_to_second_order(parts):
    """Positions enter through neighbours' weights, the embedding and the kernel network."""
    torch.manual_seed(0)
    weight = gt.dispatch_weighting_fn("octic", 0.16)
    block = gt.GNOBlock(
        3, 3, 2, radius=0.4, weighting_fn=weight, pos_embedding_channels=2, channel_mlp_layers=[6]
    ).double()
    y, x = (p.requires_grad_() for p in points())
    f = normal(N, 3).requires_grad_()
    assert torch.autograd.gradcheck(block, (y, x, f), fast_mode=True)
    assert torch.autograd.gradgradcheck(block, (y, x, f), fast_mode=True)


# ---- degenerate ----


@pytest.mark.parametrize("hidden", [[8], [5, 6]], ids=str)
def test_no_edges_no_points(hidden):
    layer = gt.IntegralTransform(network(hidden, "linear"))
    for n, m in itertools.product((0, 4), (0, 3)):
        y, x, f = normal(n, 2), 9 + normal(m, 2), normal(2, n, CHANNELS).requires_grad_()
        out = layer(y, gt.neighbor_search(y, x, 0.1, return_norm=True), x, f)
        assert torch.equal(out, torch.zeros(2, m, CHANNELS, dtype=torch.float64))
        (gradient,) = torch.autograd.grad(out.sum(), f)
        assert torch.equal(gradient, torch.zeros_like(f))


# ---- errors ----


def test_errors():
    y, x = points()
    f = normal(N, CHANNELS)
    found = gt.neighbor_search(y, x, 0.4)
    mlp = network([8], "linear")
    layer = gt.IntegralTransform(mlp)
    with pytest.raises(ValueError, match="transform_type is 'quadratic', needs one of"):
        gt.IntegralTransform(mlp, transform_type="quadratic")
    with pytest.raises(ValueError, match="reduction is 'max', needs one of"):
        gt.IntegralTransform(mlp, reduction="max")
    with pytest.raises(ValueError, match="needs channel_mlp or channel_mlp_layers"):
        gt.IntegralTransform()
    with pytest.raises(KeyError, match=r"weighting_fn needs neighbors\['weights'\]"):
        gt.IntegralTransform(mlp, weighting_fn=torch.exp)(y, found, x, f)
    with pytest.raises(ValueError, match=r"weights has shape \(7,\), needs \(12,\)"):
        layer(y, found, x, f, weights=normal(M))
    with pytest.raises(ValueError, match="f_y has not as many channels as the kernel"):
        layer(y, found, x, normal(N, 2))
    with pytest.raises(ValueError, match=r"f_y has shape \(7, 3\), needs one row"):
        layer(y, found, x, normal(M, CHANNELS))
    with pytest.raises(ValueError, match="give the kernel network 5 channels, but it takes 4"):
        layer(normal(N, 3), found, x, f)
    with pytest.raises(ValueError, match="neighbors is for 12 and 7 points, but y has 12"):
        layer(y, found, None, f)
    with pytest.raises(ValueError, match="neighbors is a graph with edge_ids"):
        layer(y, gg.Graph.from_edges([0, 1], [1, 0], N, M), x, f)
    with pytest.raises(ValueError, match="channel_mlp has in_channels 4, needs 6"):
        gt.GNOBlock(3, 3, 3, 0.1, pos_embedding_type=None, channel_mlp=mlp)
    with pytest.raises(ValueError, match="embedding_type is 'wavelet'"):
        gt.SinusoidalEmbedding(2, 4, "wavelet")
    with pytest.raises(NotImplementedError, match="weight_function_name is 'box'"):
        gt.dispatch_weighting_fn("box", 1.0)


# ---- determinism, memory ----


@pytest.mark.parametrize("hidden", [[8], [5, 6]], ids=str)
def test_same_bits_for_any_number_of_threads(hidden, threads, parts):
    function, inputs = functions(hidden, "linear")
    results = []
    for n in (1, 2, 3):
        threads(n)
        out = function(*inputs)
        results.append([out, *torch.autograd.grad(out.square().sum(), inputs)])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def _training_step(hidden):
    torch.set_num_threads(1)
    gg.set_num_threads(1)
    side, reach = 64, 4
    axis = torch.linspace(0, 1, side)
    x = torch.cartesian_prod(axis, axis)
    found = gt.neighbor_search(x, x, (reach + 1e-3) / (side - 1))
    layer = gt.IntegralTransform(channel_mlp_layers=[4, *hidden, 8])
    f = torch.rand(len(x), 8, requires_grad=True)
    leaves = [f, *layer.parameters()]

    def work():
        out = layer(x, found, x, f)
        return [g.numpy() for g in torch.autograd.grad(out.sum(), leaves)]

    work()
    return work


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize(("hidden", "numbers"), [([128], 16), ([64, 64], 32)], ids=["one", "two"])
def test_memory_of_edges(hidden, numbers):
    """Memory is a few numbers an edge; only a part of the edges has hidden layers at a time."""
    n_edges = 64**2 * 49
    # values and gradients of the part, and what is not counted
    beside = 2 * 4 * integral_transform._EDGE_NUMBERS + 2**23
    assert temporary_bytes(_training_step, hidden) < 4 * numbers * n_edges + beside


@pytest.mark.parametrize("hidden", [[6], [6, 5]], ids=["one layer", "two layers"])
@pytest.mark.parametrize("activation", [torch.nn.functional.gelu, torch.nn.functional.mish])
def test_padded_graphs(hidden, activation, parts):
    """Room for more edges changes neither values nor gradients."""
    torch.manual_seed(0)
    y, x, f = (torch.rand(n, c, dtype=torch.float64) for n, c in ((20, 2), (12, 2), (20, 3)))
    graph = gt.Graph.radius(y, 0.3, x)
    layer = gt.IntegralTransform(
        channel_mlp_layers=[4, *hidden, 3], channel_mlp_non_linearity=activation
    ).double()
    found = []
    for given in (graph, graph.pad(graph.n_edges + 9)):
        points = [v.clone().requires_grad_() for v in (y, x, f)]
        out = layer(points[0], given, points[1], points[2])
        found.append(
            [out, *torch.autograd.grad(out.square().sum(), [*points, *layer.parameters()])]
        )
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("transform_type", ["linear", "nonlinear", "nonlinear_kernelonly"])
@pytest.mark.parametrize("hidden", [[8], [8, 8]])
@pytest.mark.parametrize("activation", [torch.nn.functional.gelu, torch.nn.functional.mish])
def test_batch_of_no_functions(transform_type, hidden, activation):
    y, x = torch.rand(20, 2), torch.rand(12, 2)
    layers = [4 if transform_type == "linear" else 7, *hidden, 3]
    layer = gt.IntegralTransform(
        channel_mlp_layers=layers, channel_mlp_non_linearity=activation,
        transform_type=transform_type,
    )  # fmt: skip
    f = torch.rand(0, 20, 3, requires_grad=True)
    out = layer(y, gt.Graph.radius(y, 0.3, x), x, f)
    assert out.shape == (0, 12, 3)
    out.sum().backward()
    assert all(not p.grad.any() for p in layer.parameters() if p.grad is not None)
