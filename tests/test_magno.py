# SPDX-License-Identifier: MIT
"""GAOT's encoder and decoder over several radii, against formulas in NumPy."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import gnograd as gg
from conftest import few
from reference import gaot as reference
from test_agno import array, ends, expected, normal, numpy_of, points

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

N, M, IN, LATENT, OUT = 20, 9, 3, 6, 2
SMALL = {"radius": 0.35, "hidden_size": 8, "mlp_layers": 2}
CONFIGS = {
    "one radius": {},
    "averaged": {"scales": [0.6, 1.0, 1.7]},
    "weighted": {"scales": [1.0, 1.6], "use_scale_weights": True, "hidden_size": 32},
    "dot product": {"attention_type": "dot_product", "mlp_layers": 1, "scales": [1.0, 1.6]},
    "no attention": {"use_attention": False, "use_geoembed": False},
    "pointnet": {"embedding_method": "pointnet", "pooling": "mean"},
    "embedded": {"node_embedding": True, "attention_type": "dot_product"},
    "three coordinates": {"coord_dim": 3, "radius": 0.6, "mlp_layers": 3},
}
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def configured(config):
    return gt.MAGNOConfig(**SMALL | config)


def encoder_of(config):
    torch.manual_seed(2)
    return gt.MAGNOEncoder(IN, LATENT, configured(config)).double()


def decoder_of(config):
    torch.manual_seed(3)
    return gt.MAGNODecoder(LATENT, OUT, configured(config)).double()


def pointwise(layer, x):
    (conv,) = layer.fcs
    return conv(x.t()[None])[0].t()


def transform(layer, y, x, f):
    """One item of `_MultiscaleTransform`, by the formulas."""
    config = layer.config
    embed = reference.embed if config.node_embedding else lambda p: p
    parts = []
    for scale in config.scales:
        graph = gt.Graph.radius(y, config.radius * scale, x)
        kernel_y, kernel_x = (torch.from_numpy(embed(array(p))) for p in (y, x))
        out = expected(layer.agno, kernel_y, kernel_x, graph, f)
        if config.use_geoembed:
            embedding = layer.geoembed
            if config.embedding_method == "statistical":
                features = reference.statistics(array(y), array(x), *ends(graph))
                shapes = embedding.mlp(torch.from_numpy(features))
            else:
                networks = numpy_of(embedding.pointnet_mlp), numpy_of(embedding.fc)
                shapes = torch.from_numpy(
                    reference.pointnet(*networks, array(y), array(x), *ends(graph), config.pooling)
                )
            out = pointwise(layer.recovery, torch.cat([out, shapes], dim=1))
        parts.append(out)
    if config.use_scale_weights:
        weights = layer.scale_weighting(x).softmax(dim=1)
        return sum(weights[:, k : k + 1] * part for k, part in enumerate(parts))
    return sum(parts) / len(parts)


def positions(config, batch=None):
    d = config.get("coord_dim", 2)
    y, x = points(d, N, M)
    if batch is not None:
        y = torch.stack([points(d, N, M, seed)[0] for seed in range(batch)])
    return y, x


@every_config
@pytest.mark.parametrize("of_items", [False, True], ids=["shared points", "points of items"])
def test_encoder_equals_formula(config, of_items):
    layer = encoder_of(config)
    y, latent = positions(config, 2 if of_items else None)
    f = normal(2, N, IN)
    want = [
        transform(layer, y[k] if of_items else y, latent, pointwise(layer.lifting, f[k]))
        for k in range(2)
    ]
    torch.testing.assert_close(layer(y, f, latent), torch.stack(want))


@every_config
@pytest.mark.parametrize("of_items", [False, True], ids=["shared points", "points of items"])
def test_decoder_equals_formula(config, of_items):
    layer = decoder_of(config)
    if config.get("use_scale_weights") and of_items:
        pytest.skip("weights are those of the first item: see below")
    x, latent = positions(config, 2 if of_items else None)
    f = normal(2, M, LATENT)
    want = [
        pointwise(layer.projection, transform(layer, latent, x[k] if of_items else x, f[k]))
        for k in range(2)
    ]
    torch.testing.assert_close(layer(latent, f, x), torch.stack(want))


def test_weights_of_scales_in_the_decoder_are_the_first_items():
    config = CONFIGS["weighted"]
    layer = decoder_of(config)
    x, latent = positions(config, 2)
    f = normal(2, M, LATENT)
    alone = layer(latent, f[:1], x[0])
    torch.testing.assert_close(layer(latent, f, x)[:1], alone)
    own = layer(latent, f[1:], x[1])
    assert not torch.allclose(layer(latent, f, x)[1:], own)


def test_neighbours_that_are_given():
    config = CONFIGS["averaged"]
    encoder, decoder = encoder_of(config), decoder_of(config)
    y, latent = positions(config)
    f = normal(2, N, IN)
    graphs = encoder.neighbors(y, latent)
    assert len(graphs) == 3
    out = encoder(y, f, latent)
    assert torch.equal(encoder(y, f, latent, graphs), out)
    found = [gt.neighbor_search(y, latent, r) for r in (0.21, 0.35, 0.595)]
    torch.testing.assert_close(encoder(y, f, latent, found), out)
    arrays = [gg.Graph.radius(array(y), r, array(latent)) for r in (0.21, 0.35, 0.595)]
    torch.testing.assert_close(encoder(y, f, latent, arrays), out)
    back = decoder(latent, out, y)
    assert torch.equal(decoder(latent, out, y, decoder.neighbors(latent, y)), back)
    moving = positions(config, 2)[0]
    of_items = [encoder.neighbors(item, latent) for item in moving]
    assert torch.equal(encoder(moving, f, latent, of_items), encoder(moving, f, latent))


def test_whole_model():
    torch.manual_seed(0)
    config = configured({"lifting_channels": LATENT})
    model = gt.MAGNO(IN, OUT, config, processor=torch.nn.Linear(LATENT, LATENT)).double()
    y, latent = positions({})
    f, queries = normal(2, N, IN), points(2, 11, 1)[0]
    encoded = model.processor(model.encoder(y, f, latent))
    torch.testing.assert_close(model(latent, y, f), model.decoder(latent, encoded, y))
    torch.testing.assert_close(
        model(latent, y, f, queries), model.decoder(latent, encoded, queries)
    )


def test_state_dict_has_their_names_and_shapes():
    config = gt.MAGNOConfig(scales=[1.0, 2.0], use_scale_weights=True, attention_type="dot_product")
    encoder, decoder = gt.MAGNOEncoder(3, 32, config), gt.MAGNODecoder(32, 1, config)
    common = {
        **linears("agno.channel_mlp.fcs", [4, 64, 64, 64, 32]),
        **linears("agno", [2, 64], ["query_proj"]),
        **linears("agno", [2, 64], ["key_proj"]),
        **linears("geoembed.mlp", [7, 64, 32], ["0", "2"]),
        "recovery.fcs.0.weight": (32, 64, 1),
        "recovery.fcs.0.bias": (32,),
        **linears("scale_weighting", [2, 16, 2], ["0", "2"]),
    }
    lifting = {"lifting.fcs.0.weight": (32, 3, 1), "lifting.fcs.0.bias": (32,)}
    projection = {"projection.fcs.0.weight": (1, 32, 1), "projection.fcs.0.bias": (1,)}
    for module, own in ((encoder, lifting), (decoder, projection)):
        shapes = {name: tuple(p.shape) for name, p in module.state_dict().items()}
        assert shapes == common | own
    pointnet = gt.GeometricEmbedding(2, 32, "pointnet").state_dict()
    assert {name: tuple(p.shape) for name, p in pointnet.items()} == {
        **linears("pointnet_mlp", [2, 64, 64], ["0", "2"]),
        **linears("fc", [64, 32], ["0"]),
    }


def linears(name, widths, numbers=None):
    numbers = map(str, itertools.count()) if numbers is None else numbers
    shapes = {}
    for k, (n_in, n_out) in zip(numbers, itertools.pairwise(widths), strict=False):
        shapes |= {f"{name}.{k}.weight": (n_out, n_in), f"{name}.{k}.bias": (n_out,)}
    return shapes


def test_configuration_of_any_kind():
    config = SimpleNamespace(**vars(configured({})))
    assert gt.MAGNOEncoder(IN, LATENT, config).config is config


# ---- derivatives ----


@pytest.mark.parametrize("config", [CONFIGS["weighted"], CONFIGS["dot product"]], ids=str)
def test_gradients_to_second_order(config):
    layer = encoder_of(config)
    y, latent = positions(config)
    latent = latent[:-1]  # a query without neighbours has equal eigenvalues
    graphs = layer.neighbors(y, latent)
    names = [name for name, _ in layer.named_parameters()]

    def apply(y, f, *parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, given, (y, f, latent, graphs))

    leaves = [y, normal(2, N, IN), *layer.parameters()]
    inputs = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    assert torch.autograd.gradcheck(apply, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(apply, inputs, fast_mode=True)


@pytest.mark.parametrize(
    "of_items", few([False, True], "False"), ids=["shared points", "points of items"]
)
def test_compiles_whole(of_items):
    config = CONFIGS["weighted"]
    layer = encoder_of(config)
    y, latent = positions(config, 2 if of_items else None)
    f = normal(2, N, IN)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    results = []
    for module in (layer, compiled):
        out = module(y, f, latent)
        results.append([out, *torch.autograd.grad(out.square().sum(), list(layer.parameters()))])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


# ---- sampling ----


def test_edges_are_left_out_in_training():
    y, latent = positions({})
    f = normal(1, N, IN)
    whole = encoder_of({})
    ratio = encoder_of({"sampling_strategy": "ratio", "sample_ratio": 0.5})
    assert torch.equal(ratio.eval()(y, f, latent), whole(y, f, latent))
    torch.manual_seed(5)
    kept = torch.rand(gt.Graph.radius(y, 0.35, latent).n_edges) < 0.5
    graph = gt.Graph.radius(y, 0.35, latent)
    edges = torch.stack([graph.src, graph.dst])[:, kept]
    part = gt.Graph.from_edge_index(edges, N, M)
    part = gt.Graph.from_csc(part.offsets, part.indices, N)
    torch.manual_seed(5)
    torch.testing.assert_close(ratio.train()(y, f, latent), whole(y, f, latent, [part]))


def test_at_most_so_many_neighbours_in_training():
    y, latent = positions({})
    layer = encoder_of({"sampling_strategy": "max_neighbors", "max_neighbors": 2})
    graph = gt.Graph.radius(y, 0.6, latent)
    seen = set()
    for _ in range(80):
        part = layer._sampled(graph)
        assert torch.equal(part.in_degree, graph.in_degree.clamp(max=2))
        pairs = set(zip(part.src.tolist(), part.dst.tolist(), strict=True))
        assert len(pairs) == part.n_edges
        assert pairs <= set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
        seen |= pairs
    assert len(seen) == graph.n_edges  # all of them take part in turn


# ---- errors ----


def test_errors():
    with pytest.raises(ValueError, match="sampling_strategy is 'half', needs one of 'ratio'"):
        gt.MAGNOConfig(sampling_strategy="half")
    with pytest.raises(ValueError, match=r"sample_ratio is None, needs \(0, 1\]"):
        gt.MAGNOConfig(sampling_strategy="ratio")
    with pytest.raises(ValueError, match="max_neighbors is 0, needs 1 or more"):
        gt.MAGNOConfig(sampling_strategy="max_neighbors", max_neighbors=0)
    with pytest.raises(ValueError, match="method is 'fourier', needs one of 'statistical'"):
        gt.GeometricEmbedding(2, 3, "fourier")
    with pytest.raises(ValueError, match="pooling is 'sum', needs one of 'max', 'mean'"):
        gt.GeometricEmbedding(2, 3, "pointnet", "sum")
    layer = encoder_of({})
    y, latent = positions({})
    f = normal(2, N, IN)
    with pytest.raises(ValueError, match=r"MAGNOEncoder: positions have shape \(20, 3\), need coo"):
        layer(normal(N, 3), f, latent)
    with pytest.raises(ValueError, match=r"the function has shape \(2, 5, 6\), needs \(batch, 20"):
        layer(y, f[:, :5], latent)
    with pytest.raises(ValueError, match="positions are of 3 items, but the function of 2"):
        layer(y.expand(3, -1, -1), f, latent)
    with pytest.raises(ValueError, match="neighbours are of 1 items, but the positions of 2"):
        layer(y.expand(2, -1, -1), f, latent, [layer.neighbors(y, latent)])
    with pytest.raises(ValueError, match="needs neighbours with precompute_edges"):
        encoder_of({"precompute_edges": True})(y, f, latent)


def test_same_bits_for_any_number_of_threads(threads):
    layer = encoder_of(CONFIGS["dot product"])
    y, latent = positions({})
    f, results = normal(2, N, IN), []
    for n in (1, 2, 3):
        threads(n)
        out = layer(y, f, latent)
        results.append([out, *torch.autograd.grad(out.square().sum(), list(layer.parameters()))])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
    assert np.isfinite(array(results[0][0])).all()
