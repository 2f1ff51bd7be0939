# SPDX-License-Identifier: MIT
"""neuraloperator's GNOBlock, its embedding, and its search for neighbours."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reference import neuralop as reference

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
integral_transform = pytest.importorskip("gnograd.torch.integral_transform")
from neuralop_cases import CHANNELS, M, N, normal, points  # noqa: E402


def test_other_networks_after_a_search_in_the_program():
    y, x = points()
    mlp = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Softplus(), torch.nn.Linear(8, 3))
    block = gt.GNOBlock(3, 3, 2, 0.4, pos_embedding_type=None, channel_mlp=mlp).double()
    assert integral_transform._network(mlp) is None
    given = y, x, normal(N, CHANNELS)
    program = torch.export.export(block, given).module()
    torch.testing.assert_close(program(*given), block(*given))


def test_state_dict_has_their_names_and_shapes():
    block = gt.GNOBlock(3, 5, coord_dim=2, radius=0.1)
    assert {name: tuple(p.shape) for name, p in block.state_dict().items()} == {
        f"integral_transform.channel_mlp.fcs.{k}.{name}": shape
        for k, (n_in, n_out) in enumerate([(256, 128), (128, 256), (256, 128), (128, 5)])
        for name, shape in (("weight", (n_out, n_in)), ("bias", (n_out,)))
    }


@pytest.mark.parametrize("shape", [(5, 2), (3, 5, 2)])
@pytest.mark.parametrize("kind", ["transformer", "nerf"])
def test_embedding(kind, shape):
    embedding = gt.SinusoidalEmbedding(2, 4, kind, max_positions=100)
    x = normal(*shape)
    out = embedding(x)
    assert out.shape == (*shape[:-1], embedding.out_channels)
    assert out.dtype == torch.float64
    for channel, k in itertools.product(range(2), range(4)):
        frequency = np.pi * 2**k if kind == "nerf" else 100 ** (-2 * k / 4)
        phase = frequency * x[..., channel]
        at = 8 * channel + 2 * k
        torch.testing.assert_close(out[..., at], phase.sin())
        torch.testing.assert_close(out[..., at + 1], phase.cos())


class Plain(torch.nn.Module):
    """neuraloperator's default block, of PyTorch's operations alone."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, y, x, f, found):
        index, degree = found["neighbors_index"], found["neighbors_row_splits"].diff()
        y, x = self.block.pos_embedding(y), self.block.pos_embedding(x)
        on_edges = torch.cat([y[index], x.repeat_interleave(degree, dim=0)], dim=1)
        on_edges = self.block.integral_transform.channel_mlp(on_edges) * f[index]
        rows = torch.arange(len(x)).repeat_interleave(degree)
        return on_edges.new_zeros(len(x), on_edges.shape[1]).index_add(0, rows, on_edges)


def test_default_block_is_the_plain_formula_to_second_order():
    torch.manual_seed(0)
    block = gt.GNOBlock(3, 3, coord_dim=3, radius=0.5).double()
    y, x = torch.rand(40, 3, dtype=torch.float64), torch.rand(30, 3, dtype=torch.float64)
    f = normal(40, 3)
    found = gt.neighbor_search(y, x, 0.5)
    leaves = [t.requires_grad_() for t in (y, x, f)] + list(block.parameters())
    results = []
    for out in (block(y, x, f, neighbors=found), Plain(block)(y, x, f, found)):
        first = torch.autograd.grad(out.tanh().sum(), leaves, create_graph=True)
        loss = sum(g.square().sum() for g in first)
        results.append([out, *first, *torch.autograd.grad(loss, leaves)])
    for ours, plain in zip(*results, strict=True):
        assert torch.linalg.norm(ours - plain) < 1e-10 * torch.linalg.norm(plain)


@pytest.mark.parametrize("period", [None, 1.0, "mixed"])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_neighbors(d, period, rng):
    if period == "mixed":
        period = [0.8, 0.0, 1.3, 1.0][:d]
    data, queries = 3 * rng.random((40, d)) - 1, 3 * rng.random((25, d)) - 1
    index, splits, squares = reference.neighbors(data, queries, 0.3, period)
    for dtype in (torch.float64, torch.float32):
        found = gt.neighbor_search(
            torch.tensor(data, dtype=dtype), torch.tensor(queries, dtype=dtype), 0.3, True,
            period=period,
        )  # fmt: skip
        assert found["neighbors_index"].dtype == found["neighbors_row_splits"].dtype == torch.int64
        assert found["neighbors_index"].tolist() == index.tolist()
        assert found["neighbors_row_splits"].tolist() == splits.tolist()
        assert found["weights"].dtype == dtype
        tolerance = 1e-12 if dtype == torch.float64 else 1e-5
        np.testing.assert_allclose(found["weights"].numpy(), squares, tolerance, tolerance)


def test_radius_is_inclusive_and_points_are_their_own_neighbors():
    points = torch.tensor([[0.0, 0.0], [0.25, 0.0], [0.0, 0.0]])
    found = gt.neighbor_search(points, points, 0.25, return_norm=True)
    assert found["neighbors_index"].tolist() == [0, 1, 2] * 3
    assert found["weights"].tolist() == [0, 0.0625, 0, 0.0625, 0, 0.0625, 0, 0.0625, 0]


def test_batch_pointer_keeps_items_apart(rng):
    sizes, query_sizes = [9, 0, 6, 5], [4, 3, 0, 7]
    data, queries = torch.from_numpy(rng.random((20, 2))), torch.from_numpy(rng.random((14, 2)))
    ptr, queries_ptr = np.cumsum([0, *sizes]), np.cumsum([0, *query_sizes])
    found = gt.neighbor_search(
        data, queries, 0.5, True, data_ptr=torch.tensor(ptr), queries_ptr=queries_ptr.tolist()
    )
    index, splits, weights = [], [0], []
    for item in range(4):
        mine = slice(*ptr[item : item + 2]), slice(*queries_ptr[item : item + 2])
        alone = gt.neighbor_search(data[mine[0]], queries[mine[1]], 0.5, True)
        index += (alone["neighbors_index"] + ptr[item]).tolist()
        splits += (alone["neighbors_row_splits"][1:] + splits[-1]).tolist()
        weights += alone["weights"].tolist()
    assert found["neighbors_index"].tolist() == index
    assert found["neighbors_row_splits"].tolist() == splits
    assert found["weights"].tolist() == weights


def test_block_with_a_batch_of_geometries():
    torch.manual_seed(0)
    block = gt.GNOBlock(3, 3, 2, radius=0.4, reduction="mean").double()
    y, x = points()
    f = normal(N, 3)
    out = block(y, x, f, y_ptr=[0, 5, N], x_ptr=[0, 4, M])
    want = torch.cat([block(y[:5], x[:4], f[:5]), block(y[5:], x[4:], f[5:])])
    torch.testing.assert_close(out, want)


def test_block_with_given_neighbors():
    block = gt.GNOBlock(3, 3, 2, radius=0.4).double()
    y, x = points()
    f = normal(2, N, 3)
    assert torch.equal(block(y, x, f, neighbors=gt.neighbor_search(y, x, 0.4)), block(y, x, f))


def test_errors_of_the_search():
    y, x = points()
    with pytest.raises(ValueError, match="data_ptr goes with queries_ptr"):
        gt.neighbor_search(y, x, 0.1, data_ptr=[0, N])
    with pytest.raises(ValueError, match=r"queries_ptr is .*, needs to ascend from 0 to the 7"):
        gt.neighbor_search(y, x, 0.1, data_ptr=[0, N], queries_ptr=[0, N])
    with pytest.raises(ValueError, match="data_ptr has 3 entries but queries_ptr has 2"):
        gt.neighbor_search(y, x, 0.1, data_ptr=[0, 3, N], queries_ptr=[0, M])
    with pytest.raises(ValueError, match="radius is -1"):
        gt.neighbor_search(y, x, -1)
    with pytest.raises(ValueError, match="period is -1"):
        gt.neighbor_search(y, x, 0.1, period=-1.0)
    with pytest.raises(ValueError, match=r"period has shape \(3,\), needs one number or 2"):
        gt.neighbor_search(y, x, 0.1, period=[1.0, 1.0, 1.0])


def far_points():
    """Points that are one in bfloat16."""
    torch.manual_seed(0)
    return torch.rand(300, 2) + 100, torch.rand(40, 2) + 100


def layers_of_geometry():
    """Functions of points alone that are computed by PyTorch's own layers."""
    y, x = far_points()
    graph, f = gt.Graph.radius(y, 0.2, x), torch.ones(300, 3)
    own = {"channel_mlp_non_linearity": torch.nn.functional.mish}
    block = gt.GNOBlock(
        3, 3, 2, 0.2, pos_embedding_type=None, channel_mlp_layers=[16], reduction="mean",
        transform_type="linear_kernelonly", **own,
    )  # fmt: skip
    agno = gt.AGNO(
        channel_mlp_layers=[4, 16, 3],
        use_attn=True,
        coord_dim=2,
        attention_type="dot_product",
        **own,
    )
    return {
        "GNOBlock": lambda: block(y, x),
        "AGNO": lambda: agno(y, graph, x, f),
    }


@pytest.mark.parametrize("name", ["GNOBlock", "AGNO"])
def test_geometry_stays_float32_under_autocast(name):
    call = layers_of_geometry()[name]
    exact = call()
    with torch.autocast("cpu", torch.bfloat16):
        rough = call()
    spread = exact.std(0).mean()
    assert (rough.float() - exact).std(0).mean() < 0.02 * spread
