# SPDX-License-Identifier: MIT
"""Layers of PyTorch, small and by name, with inputs of which the first is differentiated."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")


N, M = 6, 14
"""Nodes and edges of the graphs of layers."""
ITEMS = 3
"""Items of a batch."""


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def edges(seed=0, n=N, m=M):
    return torch.randint(n, (2, m), generator=torch.Generator().manual_seed(seed))


def close(got, expected, tolerance=1e-9):
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


def convolution(name, *more, **options):
    """A layer of PyG's arguments, on an ``edge_index``."""
    return (
        lambda: getattr(gt, name)(3, 2, **options),
        lambda seed: (rand(N, 3, seed=seed), edges(seed), *(make(seed) for make in more)),
    )


def attributes(width):
    return lambda seed: rand(*((M, width) if width else (M,)), seed=seed + 50)


def on_a_graph(make):
    """A layer of the mesh networks, on a graph of tensors."""
    return make, lambda seed: (
        rand(N, 3, seed=seed), rand(M, 2, seed=seed + 50),
        gt.Graph.from_edge_index(edges(seed), N),
    )  # fmt: skip


def points(seed, n=N):
    return rand(n, 2, seed=seed)


class Plain(torch.nn.Module):
    """A module that calls a function of its own layer."""

    def __init__(self, layer, call):
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, *inputs):
        return self.call(self.layer, *inputs)


SMALL_MESH = dict(
    hidden_dim_processor=4, hidden_dim_node_encoder=4, hidden_dim_edge_encoder=4,
    hidden_dim_node_decoder=4,
)  # fmt: skip
SPARSE = dict(
    compress_block_size=2, compress_stride=1, selection_block_size=2, num_selected_blocks=2,
    window_size=3, local_blocks=1,
)  # fmt: skip


def mesh(segments=0):
    net = gt.MeshGraphNet(
        3, 2, 1, processor_size=2, num_processor_checkpoint_segments=segments, **SMALL_MESH
    )
    return Plain(net, lambda net, x, e, graph: net(x, e, graph))


def dimenet(call):
    net = gt.DimeNetPlusPlus(
        4, 1, 1, 4, 2, 4, 2, 2, cutoff=2.0, output_initializer="glorot_orthogonal"
    )
    return Plain(net, call)


ATOMS = torch.tensor([8, 1, 1, 6])


def atoms(seed):
    return 1.5 * rand(4, 3, seed=seed)


def tanh_network(n_in, n_out):
    """A kernel network that PyTorch evaluates."""
    return torch.nn.Sequential(
        torch.nn.Linear(n_in, 5), torch.nn.Tanhshrink(), torch.nn.Linear(5, n_out)
    )


def magno():
    config = gt.MAGNOConfig(radius=0.6, hidden_size=4, scales=[1.0, 1.5], lifting_channels=4)
    return gt.MAGNOEncoder(2, 4, config)


LAYERS = {
    "GATConv": convolution("GATConv"),
    "GATConv, edge features": convolution(
        "GATConv", attributes(2), edge_dim=2, heads=2, concat=False
    ),
    "GATv2Conv": convolution("GATv2Conv", attributes(2), edge_dim=2),
    "TransformerConv": convolution("TransformerConv", attributes(2), edge_dim=2, beta=True),
    "GCNConv": convolution("GCNConv"),
    "GCNConv, weights": convolution("GCNConv", attributes(0)),
    "SAGEConv": convolution("SAGEConv"),
    "SAGEConv, max": convolution("SAGEConv", aggr="max", normalize=True),
    "RGCNConv": convolution(
        "RGCNConv", lambda seed: edges(seed + 9, 2)[0], num_relations=2, num_bases=2
    ),
    "WeightedAggregation": (
        lambda: Plain(
            torch.nn.Linear(3, 2), lambda layer, x, e: gt.WeightedAggregation("mean")(layer(x), e)
        ),
        lambda seed: (rand(N, 3, seed=seed), edges(seed)),
    ),
    "MeshGraphNet": on_a_graph(mesh),
    "MeshGraphNet, checkpoints": on_a_graph(lambda: mesh(2)),
    "GNO": (
        lambda: gt.GNO(3, 2, coord_dim=2, hidden_channels=4),
        lambda seed: (
            rand(N, 3, seed=seed), rand(M, 2, seed=seed + 1),
            gt.Graph.from_edge_index(edges(seed), N),
        ),
    ),
    "GNOBlock": (
        lambda: gt.GNOBlock(2, 2, 2, 0.7, channel_mlp_layers=[8], pos_embedding_channels=2),
        lambda seed: (points(seed), points(seed + 1, 4), rand(N, 2, seed=seed + 2)),
    ),
    "GNOBlock, a network of PyTorch": (
        lambda: gt.GNOBlock(
            2, 2, 2, 0.7, "nonlinear", pos_embedding_type=None, channel_mlp=tanh_network(6, 2)
        ),
        lambda seed: (points(seed), points(seed + 1, 4), rand(N, 2, seed=seed + 2)),
    ),
    "IntegralTransform": (
        lambda: Plain(
            gt.IntegralTransform(channel_mlp_layers=[4, 5, 4, 2]),
            lambda layer, y, x, f: layer(y, gt.neighbor_search(y, x, 0.7), x, f),
        ),
        lambda seed: (points(seed), points(seed + 1, 4), rand(N, 2, seed=seed + 2)),
    ),
    "IntegralTransform, weights": (
        lambda: Plain(
            gt.IntegralTransform(
                channel_mlp_layers=[4, 5, 2],
                weighting_fn=gt.dispatch_weighting_fn("quartic", sq_radius=0.49),
            ),
            lambda layer, y, x, f: layer(
                y, gt.neighbor_search(y, x, 0.7, return_norm=True), x, f
            ),
        ),
        lambda seed: (points(seed), points(seed + 1, 4), rand(N, 2, seed=seed + 2)),
    ),
    "AGNO": (
        lambda: Plain(
            gt.AGNO(channel_mlp_layers=[4, 5, 4, 2], use_attn=True, coord_dim=2),
            lambda layer, y, x, f: layer(y, gt.Graph.radius(y, 0.7, x), x, f),
        ),
        lambda seed: (points(seed), points(seed + 1, 4), rand(N, 2, seed=seed + 2)),
    ),
    "GeometricEmbedding": (
        lambda: Plain(
            gt.GeometricEmbedding(2, 3),
            lambda layer, y, x: layer(y, x, gt.Graph.knn(y, 4, x)),
        ),
        lambda seed: (points(seed), points(seed + 1, 4)),
    ),
    "GeometricEmbedding, pointnet": (
        lambda: Plain(
            gt.GeometricEmbedding(2, 3, method="pointnet"),
            lambda layer, y, x: layer(y, x, gt.Graph.radius(y, 0.7, x)),
        ),
        lambda seed: (points(seed), points(seed + 1, 4)),
    ),
    "MAGNOEncoder": (
        magno,
        lambda seed: (points(seed), rand(1, N, 2, seed=seed + 1), points(seed + 2, 4)),
    ),
    "DimeNetPlusPlus": (
        lambda: dimenet(lambda net, pos: net(ATOMS, pos)),
        lambda seed: (atoms(seed),),
    ),
    "DimeNetPlusPlus, molecules": (
        lambda: dimenet(lambda net, pos: net(ATOMS, pos, batch=torch.tensor([0, 0, 1, 1]))),
        lambda seed: (atoms(seed),),
    ),
    "DimeNetPlusPlus, a graph": (
        lambda: dimenet(
            lambda net, pos: net(ATOMS, pos, gt.Graph.radius(pos, 2.0, include_self=False))
        ),
        lambda seed: (atoms(seed),),
    ),
    "NativeSparseAttention": (
        lambda: gt.NativeSparseAttention(4, 2, **SPARSE),
        lambda seed: (rand(7, 4, seed=seed),),
    ),
    "NativeSparseAttention, cu_seqlens": (
        lambda: Plain(
            gt.NativeSparseAttention(4, 2, **SPARSE),
            lambda layer, x: layer(x, cu_seqlens=torch.tensor([0, 3, 7])),
        ),
        lambda seed: (rand(7, 4, seed=seed),),
    ),
    "NativeSparseAttention, padding": (
        lambda: Plain(
            gt.NativeSparseAttention(4, 2, **SPARSE),
            lambda layer, x: layer(
                x, key_padding_mask=torch.arange(4) >= torch.tensor([[4], [3]])
            ),
        ),
        lambda seed: (rand(2, 4, 4, seed=seed),),
    ),
    "BallSparseAttention": (
        lambda: gt.BallSparseAttention(
            4, 2, ball_size=2, compress_size=2, num_selected_balls=1, position_dim=2
        ),
        lambda seed: (rand(7, 4, seed=seed), points(seed, 7)),
    ),
    "BallSparseAttention, clouds": (
        lambda: Plain(
            gt.BallSparseAttention(
                4, 2, ball_size=2, compress_size=2, num_selected_balls=1, distance_bias=True
            ),
            lambda layer, x, p: layer(x, p, cu_seqlens=[0, 3, 7]),
        ),
        lambda seed: (rand(7, 4, seed=seed), points(seed, 7)),
    ),
    "SliceAttention": (
        lambda: gt.SliceAttention(4, 2, 3, 5), lambda seed: (rand(2, 7, 4, seed=seed),)
    ),
    "SliceAttention, plus": (
        lambda: gt.SliceAttention(4, 2, 3, 5, plus=True), lambda seed: (rand(7, 4, seed=seed),)
    ),
    "SliceAttention, cu_seqlens": (
        lambda: Plain(
            gt.SliceAttention(4, 2, 3, 5), lambda layer, x: layer(x, torch.tensor([0, 3, 3, 7]))
        ),
        lambda seed: (rand(7, 4, seed=seed),),
    ),
    "TransolverBlock": (
        lambda: gt.TransolverBlock(2, 4, last_layer=True, out_dim=2, slice_num=3),
        lambda seed: (rand(2, 7, 4, seed=seed),),
    ),
    "FLARE": (
        lambda: gt.FLARE(4, 2, 3, n_global_queries=5), lambda seed: (rand(2, 7, 4, seed=seed),)
    ),
    "GALE": (
        lambda: gt.GALE(4, 2, 3, 5, context_dim=3),
        lambda seed: (rand(2, 7, 4, seed=seed), rand(2, 2, 4, 3, seed=seed + 1)),
    ),
    "GALE_FA": (
        lambda: gt.GALE_FA(4, 2, 3, n_global_queries=5, context_dim=3),
        lambda seed: (rand(2, 7, 4, seed=seed), rand(2, 2, 4, 3, seed=seed + 1)),
    ),
    **{
        f"PointAttention, {name}": (
            lambda settings=settings: Plain(
                gt.PointAttention(4, 2, 2, coord_dim=2, **settings),
                lambda layer, x, p: layer(x, p, cu_seqlens=[0, 3, 7]),
            ),
            lambda seed: (rand(7, 4, seed=seed), points(seed, 7)),
        )
        for name, settings in {
            "balls": dict(pooled=False, distance_bias=True),
            "pooled": dict(norm=True, offsets=False),
            "selected": dict(selected=1),
            "tree": dict(selected=1, keep=1, pooled=False),
            "all": dict(head_dim=4, selected=1, keep=1, distance_bias=True, rotary=True),
            "BSA": dict(
                selected=1, selected_size=1, distance_bias=True, compression="mlp",
                query_compression="mlp", coarse_queries=True, shared_kv=True,
            ),
        }.items()
    },
    "RotaryPoints": (
        lambda: gt.RotaryPoints(4, 2), lambda seed: (rand(7, 2, 4, seed=seed), points(seed, 7))
    ),
    "scaled_dot_product_attention": (
        lambda: Plain(
            torch.nn.Linear(3, 3),
            lambda layer, q, k, mask: gt.scaled_dot_product_attention(q, layer(k), k, mask),
        ),
        lambda seed: (
            rand(2, 2, 4, 3, seed=seed), rand(2, 2, 5, 3, seed=seed + 1),
            rand(1, 5, seed=seed + 2),
        ),
    ),
    "scaled_dot_product_attention, causal": (
        lambda: Plain(
            torch.nn.Linear(3, 3),
            lambda layer, q, k: gt.scaled_dot_product_attention(
                q, layer(k), k, is_causal=True, enable_gqa=True
            ),
        ),
        lambda seed: (rand(2, 2, 4, 3, seed=seed), rand(2, 1, 5, 3, seed=seed + 1)),
    ),
    "MAGNOEncoder, pointnet": (
        lambda: gt.MAGNOEncoder(2, 4, gt.MAGNOConfig(
            radius=0.6, hidden_size=4, scales=[1.0, 1.5], lifting_channels=4,
            use_scale_weights=True, embedding_method="pointnet", attention_type="dot_product",
        )),
        lambda seed: (points(seed), rand(1, N, 2, seed=seed + 1), points(seed + 2, 4)),
    ),
    "MAGNODecoder": (
        lambda: gt.MAGNODecoder(4, 2, gt.MAGNOConfig(radius=0.6, hidden_size=4)),
        lambda seed: (points(seed), rand(2, N, 4, seed=seed + 1), points(seed + 2, 4)),
    ),
    "moments": (
        lambda: Plain(torch.nn.Linear(2, 2), lambda layer, y, x: torch.cat(
                [t.flatten() for t in gt.neighborhood_moments(
                    layer(y), gt.Graph.knn(y, 4, x), x
                )[:3]]
            )),
        lambda seed: (points(seed), points(seed + 1, 4)),
    ),
}  # fmt: skip


def made(name):
    """A layer with always the same parameters."""
    torch.manual_seed(0)
    return LAYERS[name][0]().double().eval()


def inputs_of(name, seed=0):
    return LAYERS[name][1](seed)


def loss_of(out):
    return out.sin().sum()


def plain_gradient(layer, inputs, order=1):
    """The loss' gradient by the first input, and its derivative along that input's cosine."""
    x = inputs[0].clone().requires_grad_()
    first = torch.autograd.grad(loss_of(layer(x, *inputs[1:])), x, create_graph=True)[0]
    second = torch.autograd.grad((first * x.detach().cos()).sum(), x)[0]
    return first.detach(), second


def randomized(layer):
    """Layer in float64, with a compression that is no plain mean."""
    with torch.no_grad():
        for weights in (layer.compress_k, layer.compress_v):
            weights.copy_(torch.rand_like(weights))
    return layer.double()
