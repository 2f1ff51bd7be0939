# SPDX-License-Identifier: MIT
"""Edge-to-edge aggregation of DimeNet++ against its formula."""

import numpy as np
import pytest

import gnograd as gg
from conftest import Edges, edges, power_law
from memory import needs_linux, temporary_bytes
from reference import derivatives
from reference import dimenet as reference

EXCLUSIONS = ["reverse_edge", "same_node", "none"]
SMALL = {"n_spherical": 4, "n_radial": 2}
FREQUENCIES = np.pi * np.arange(1.0, 5.0)


def arrays(rng, graph: Edges, n_spherical, n_radial, n_mid, n_emb, dtype=np.float64):
    """Inputs; an edge and the next one back between the same nodes have opposite vectors."""
    n, n_basis = graph.n_edges, n_spherical * n_radial
    inputs = (
        antisymmetric(graph, rng.normal(size=(n, 3))),
        rng.normal(size=(n, n_basis)),
        rng.normal(size=(n, n_emb)),
        rng.normal(size=(n_basis + n_emb, n_mid)),
    )
    return tuple(array.astype(dtype) for array in inputs)


def antisymmetric(graph: Edges, vector):
    for e in range(graph.n_edges):
        for f in range(e):
            if (graph.src[e], graph.dst[e]) == (graph.dst[f], graph.src[f]):
                vector[e] = -vector[f]
    return vector


def small(rng, graph: Edges, exclude="reverse_edge"):
    """Inputs, tangents, static arguments and the reference of a small case."""
    inputs = arrays(rng, graph, **SMALL, n_mid=3, n_emb=5)
    tangents = arrays(rng, graph, **SMALL, n_mid=3, n_emb=5)
    static = {"graph": graph.graph, "exclude": exclude, **SMALL}

    def formula(*inputs):
        return reference.agg_edge_to_edge(*inputs, graph.src, graph.dst, 4, 2, exclude)

    return inputs, tangents, static, formula


def compare(actual, expected, rtol):
    """Compare to rtol of the largest entry, or of 1, the size of what is summed."""
    assert actual.shape == expected.shape
    scale = np.max(np.abs(expected), initial=1)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=rtol * scale)


def square(edges):
    """Copy of edges with as many sources as destinations."""
    n = max(edges.n_src, edges.n_dst)
    return Edges(edges.src, edges.dst, n, n)


@pytest.fixture
def molecule(rng):
    """Positions, edges within the cutoff, and inputs of a chain from positions to energy."""
    position = rng.random((9, 3)) * 2.2
    graph = gg.Graph.radius(position, 1.5, include_self=False)
    return position, graph, rng.normal(size=(4, 6)), rng.normal(size=(16 + 6, 3))


def energy_inputs(position, graph, mix, weights):
    vector = position[graph.dst] - position[graph.src]
    length = np.linalg.norm(vector, axis=1, keepdims=True)
    rbf, sbf = gg.radial_basis(length / 1.5, FREQUENCIES, n_spherical=4)
    return vector, sbf, rbf @ mix, weights


def energy(position, graph, mix, weights):
    out = gg.agg_edge_to_edge(
        *energy_inputs(position, graph, mix, weights), graph=graph, n_spherical=4, n_radial=4
    )
    return np.sum(out**2) / 2


@pytest.mark.parametrize(
    "sizes", [(7, 6, 8, 64), (1, 1, 1, 1), (2, 3, 9, 17), (10, 16, 64, 33)], ids=str
)
def test_forward_of_any_size_and_degree(rng, sizes):
    # more edges at a node than a tile holds
    graph = power_law(30, 700)
    n_spherical, n_radial, n_mid, n_emb = sizes
    inputs = arrays(rng, graph, n_spherical, n_radial, n_mid, n_emb)
    actual = gg.agg_edge_to_edge(
        *inputs, graph=graph.graph, n_spherical=n_spherical, n_radial=n_radial, exclude="none"
    )
    expected = reference.agg_edge_to_edge(
        *inputs, graph.src, graph.dst, n_spherical, n_radial, "none"
    )
    compare(actual, expected, 1e-12)


def test_edges_in_any_order(rng):
    graph = power_law(15, 60)
    inputs, _, static, _ = small(rng, graph)
    order = rng.permutation(graph.n_edges)
    shuffled = (*(array[order] for array in inputs[:3]), inputs[3])
    out = gg.agg_edge_to_edge(*inputs, **static)
    static.pop("graph")
    again = gg.agg_edge_to_edge(
        *shuffled, edges=(graph.src[order], graph.dst[order]), n_nodes=15, **static
    )
    compare(again, out[order], 1e-13)


def test_periodic_images_of_one_node_are_neighbours(rng):
    # one atom in a cell: edges to its own images, every one with a reverse
    vector = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0], [0, -1.0, 0]])
    graph = edges([(0, 0)] * 4, 1, 1)
    inputs = (vector, *arrays(rng, graph, **SMALL, n_mid=3, n_emb=5)[1:])
    for exclude, kept in (("reverse_edge", 3), ("same_node", 0), ("none", 4)):
        # with Y_0 only and all else 1, the output counts triplets
        ones = np.ones((4, 1)), np.ones((4, 1)), np.ones((2, 1))
        static = {"graph": graph.graph, "exclude": exclude}
        count = gg.agg_edge_to_edge(vector, *ones, n_spherical=1, n_radial=1, **static)
        np.testing.assert_allclose(count, kept * np.sqrt(1 / (4 * np.pi)))
        formula = reference.agg_edge_to_edge(*inputs, graph.src, graph.dst, 4, 2, exclude)
        compare(gg.agg_edge_to_edge(*inputs, **static, **SMALL), formula, 1e-13)


def test_reverse_edge_despite_rounding(rng):
    cell = np.array([50.0, 60.0, 70.0])
    position = rng.random((2, 3)).astype(np.float32) * cell.astype(np.float32)
    there = (position[1] + cell - position[0]).astype(np.float32)
    back = ((position[0] - cell) - position[1]).astype(np.float32) * np.float32(1 + 3e-7)
    ones = [np.ones(shape, np.float32) for shape in ((2, 1), (2, 1), (2, 1))]
    out = gg.agg_edge_to_edge(
        np.stack([there, back]), *ones, edges=([0, 1], [1, 0]), n_spherical=1, n_radial=1
    )
    assert np.array_equal(out, np.zeros((2, 1)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vjp_and_jvp_are_adjoint(rng, dtype):
    graph = power_law(30, 500)
    sizes = (7, 6, 8, 24)
    inputs, tangents = (arrays(rng, graph, *sizes, dtype) for _ in range(2))
    cotangent = rng.normal(size=inputs[2].shape).astype(dtype)
    gradients = gg.agg_edge_to_edge.vjp(cotangent, inputs, graph=graph.graph)
    tangent = gg.agg_edge_to_edge.jvp(inputs, tangents, graph=graph.graph)
    forward = np.sum(cotangent.astype(float) * tangent)
    products = [np.sum(g.astype(float) * t) for g, t in zip(gradients, tangents, strict=True)]
    tolerance = 1e3 * np.finfo(dtype).eps
    assert abs(forward - sum(products)) <= tolerance * np.max(np.abs(products))


def test_forces_are_differences_of_the_energy(molecule):
    position, graph, mix, weights = molecule
    inputs = energy_inputs(position, graph, mix, weights)
    static = {"graph": graph, "n_spherical": 4, "n_radial": 4}
    out = gg.agg_edge_to_edge(*inputs, **static)
    to_vector, to_sbf, to_embedding, _ = gg.agg_edge_to_edge.vjp(out, inputs, **static)
    length = np.linalg.norm(inputs[0], axis=1, keepdims=True)
    to_x, _ = gg.radial_basis.vjp(
        (to_embedding @ mix.T, to_sbf), (length / 1.5, FREQUENCIES), n_spherical=4
    )
    to_vector = to_vector + to_x / 1.5 * inputs[0] / length
    gradient = np.zeros_like(position)
    np.add.at(gradient, graph.dst, to_vector)
    np.add.at(gradient, graph.src, -to_vector)

    step = 1e-5
    differences = np.zeros_like(position)
    for entry in np.ndindex(position.shape):
        move = np.zeros_like(position)
        move[entry] = step
        ahead, behind = (energy(position + s * move, graph, mix, weights) for s in (1, -1))
        differences[entry] = (ahead - behind) / (2 * step)
    compare(gradient, differences, 1e-7)


def test_gradient_of_a_force_loss_to_the_weights(molecule, rng):
    """d/dW <t, dE/dx> = d/ds dE/dW at x + s t: forward over reverse."""
    position, graph, mix, weights = molecule
    direction = rng.normal(size=position.shape)
    inputs = energy_inputs(position, graph, mix, weights)
    static = {"graph": graph, "n_spherical": 4, "n_radial": 4}
    vector_dot = direction[graph.dst] - direction[graph.src]
    length = np.linalg.norm(inputs[0], axis=1, keepdims=True)
    length_dot = np.sum(inputs[0] * vector_dot, axis=1, keepdims=True) / length
    rbf_dot, sbf_dot = gg.radial_basis.jvp(
        (length / 1.5, FREQUENCIES), (length_dot / 1.5, None), n_spherical=4
    )
    tangents = vector_dot, sbf_dot, rbf_dot @ mix, None
    op = gg.agg_edge_to_edge
    out, out_dot = op(*inputs, **static), op.jvp(inputs, tangents, **static)
    actual = (
        op.hvp(out, inputs, tangents, wrt="weights", **static)[3]
        + op.vjp(out_dot, inputs, wrt="weights", **static)[3]
    )

    def slope(weights):
        step = 1e-5
        ahead, behind = (
            energy(position + s * step * direction, graph, mix, weights) for s in (1, -1)
        )
        return (ahead - behind) / (2 * step)

    expected = np.zeros_like(weights)
    for entry in np.ndindex(weights.shape):
        move = np.zeros_like(weights)
        move[entry] = 1e-3
        expected[entry] = (slope(weights + move) - slope(weights - move)) / 2e-3
    compare(actual, expected, 1e-6)


# ---- degenerate input ----


def test_edges_without_length(rng):
    graph = edges([(0, 1), (1, 2), (1, 1), (2, 0)], 3, 3)
    inputs, tangents, static, _ = small(rng, graph, "none")
    inputs[0][2] = 0
    out = gg.agg_edge_to_edge(*inputs, **static)
    constant = gg.agg_edge_to_edge(
        inputs[0],
        *(inputs[1][:, :2].copy(), inputs[2], np.concatenate([inputs[3][:2], inputs[3][8:]])),
        graph=graph.graph,
        n_spherical=1,
        n_radial=2,
        exclude="none",
    )
    compare(out[2], constant[2], 1e-14)
    for gradients in (
        gg.agg_edge_to_edge.vjp(inputs[2], inputs, **static),
        gg.agg_edge_to_edge.hvp(inputs[2], inputs, tangents, **static),
    ):
        assert np.array_equal(gradients[0][2], np.zeros(3))
        assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("cosine", [1, -1])
def test_straight_angles(cosine):
    # P_l'(1) = l(l+1)/2 is finite, and so is every derivative by the vectors
    rng = np.random.default_rng(3)
    graph = edges([(0, 1), (1, 2)], 3, 3)
    inputs, tangents, static, formula = small(rng, graph)
    inputs[0][:] = [[0.3, -0.4, 0.5], [0.6 * cosine, -0.8 * cosine, 1.0 * cosine]]
    cotangent = inputs[2]
    compare(gg.agg_edge_to_edge(*inputs, **static), formula(*inputs), 1e-13)
    for a, b in zip(
        gg.agg_edge_to_edge.vjp(cotangent, inputs, **static),
        derivatives.vjp(formula, inputs, cotangent),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=1e-12)
    for a, b in zip(
        gg.agg_edge_to_edge.hvp(cotangent, inputs, tangents, **static),
        derivatives.hvp(formula, inputs, cotangent, tangents),
        strict=True,
    ):
        compare(a, b, 1e-7)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_only_directions_count(rng, scale):
    inputs, _, static, _ = small(rng, power_law(12, 40), "none")
    single = tuple(array.astype(np.float32) for array in inputs)
    scaled = ((inputs[0] * scale).astype(np.float32), *single[1:])
    compare(gg.agg_edge_to_edge(*scaled, **static), gg.agg_edge_to_edge(*single, **static), 1e-5)


def test_what_is_not_a_number_stays_so(rng):
    inputs, _, static, _ = small(rng, edges([(0, 1), (1, 2), (2, 3)], 4, 4))
    inputs[0][0, 1] = np.nan
    out = gg.agg_edge_to_edge(*inputs, **static)
    assert np.isnan(out[1]).all()
    assert np.isfinite(out[[0, 2]]).all()
    rbf, sbf = gg.radial_basis(np.array([[np.nan]]), FREQUENCIES)
    assert np.isnan(rbf).all()
    assert np.isnan(sbf).all()


# ---- errors ----


@pytest.mark.parametrize(
    ("static", "shapes", "message"),
    [
        ({"exclude": "self"}, {}, "exclude is 'self', needs one of 'reverse_edge'"),
        ({"n_radial": 3}, {}, r"rbf has shape \(3, 8\), needs \(n_edges=3, .*=12\)"),
        ({}, {"vector": (3, 2)}, r"vector has shape \(3, 2\)"),
        ({}, {"weights": (12, 3)}, r"weights has shape \(12, 3\)"),
        ({}, {"embedding": (3, 513), "weights": (521, 3)}, "n_emb is 513, needs 1 to 512"),
        ({}, {"weights": (13, 65)}, "n_mid is 65, needs 1 to 64"),
        (
            {"n_spherical": 11, "n_radial": 1},
            {"rbf": (3, 11), "weights": (16, 3)},
            "n_spherical is 11",
        ),
        (
            {"n_spherical": 1, "n_radial": 17},
            {"rbf": (3, 17), "weights": (22, 3)},
            "n_radial is 17",
        ),
    ],
)
def test_errors(static, shapes, message):
    sizes = {"vector": (3, 3), "rbf": (3, 8), "embedding": (3, 5), "weights": (13, 3), **shapes}
    inputs = [np.ones(shape) for shape in sizes.values()]
    with pytest.raises(ValueError, match="agg_edge_to_edge: .*" + message):
        gg.agg_edge_to_edge(*inputs, edges=([0, 1, 2], [1, 2, 0]), **{**SMALL, **static})


def test_errors_of_edges(rng):
    graph = edges([(0, 1), (1, 2)], 3, 3)
    inputs, _, static, _ = small(rng, graph)
    pair = {"edges": (graph.src, graph.dst)}
    with pytest.raises(TypeError, match="agg_edge_to_edge: graph and edges are both given"):
        gg.agg_edge_to_edge(*inputs, **static, **pair)
    with pytest.raises(TypeError, match="agg_edge_to_edge: graph is None"):
        gg.agg_edge_to_edge(*inputs, **SMALL)
    with pytest.raises(TypeError, match=r"edges is an array of .*, needs the pair \(src, dst\)"):
        gg.agg_edge_to_edge(*inputs, edges=graph.src, **SMALL)
    with pytest.raises(IndexError, match=r"dst\[1\] is 2, not one of 2"):
        gg.agg_edge_to_edge(*inputs, **pair, n_nodes=2, **SMALL)
    with pytest.raises(ValueError, match=r"agg_edge_to_edge: .* as many sources as destinations"):
        gg.agg_edge_to_edge(*inputs, **SMALL, graph=edges([(0, 1), (1, 2)], 2, 3).graph)


# ---- memory ----


def prepare(face, degree):
    """A call on nodes with this many edges each way, ready to be measured."""
    gg.set_num_threads(2)
    rng = np.random.default_rng(0)

    def call(n):
        src, step = np.repeat(np.arange(n), degree), np.tile(np.arange(degree), n)
        graph = Edges(src, (src + step) % n, n, n)
        inputs = tuple(
            rng.normal(size=shape).astype(np.float32)
            for shape in ((graph.n_edges, 3), (graph.n_edges, 42), (graph.n_edges, 64), (106, 8))
        )
        static = {"graph": graph.graph, "exclude": "none"}
        op, cotangent = gg.agg_edge_to_edge, inputs[2]
        return {
            "forward": lambda: (op(*inputs, **static),),
            "vjp": lambda: op.vjp(cotangent, inputs, **static),
            "jvp": lambda: (op.jvp(inputs, inputs, **static),),
            "hvp": lambda: op.hvp(cotangent, inputs, inputs, **static),
        }[face]

    call(100)()
    return call(40_000 // degree)


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize("face", ["forward", "vjp", "jvp", "hvp"])
@pytest.mark.parametrize("degree", [4, 32])
def test_peak_memory_is_as_documented(face, degree):
    """40,000 edges with 160,000 and 1,280,000 triplets."""
    twice = 2 if face in ("jvp", "hvp") else 1
    bound = 2 * 4 * twice * (32 * 7 * (3 * 64 + 96) + 32 * (3 * 64 + 2 * 42)) + 8 * 40_000 // degree
    if face in ("vjp", "hvp"):
        bound += twice * (4 * 6 * 40_000 + 8 * 64 * 42 * 64)
    slack = 3 * 2**20  # stacks of threads, BLAS, rounding to pages
    assert temporary_bytes(prepare, face, degree) <= bound + slack
