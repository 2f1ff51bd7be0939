# SPDX-License-Identifier: MIT
"""``pylibcugraphops.pytorch``: graphs and operators as codes call them, against plain PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from gnograd.compat import pylibcugraphops  # noqa: E402
from gnograd.compat.pylibcugraphops.pytorch import (  # noqa: E402
    CSC,
    BipartiteCSC,
    HeteroCSC,
    SampledCSC,
    SampledHeteroCSC,
    StaticCSC,
    StaticHeteroCSC,
    operators,
)
from gnograd.compat.pylibcugraphops.torch import autograd as legacy  # noqa: E402

float64 = torch.float64
N_SRC, N_DST, H, C, R, B = 7, 4, 2, 3, 3, 2
DEGREES = torch.tensor([3, 0, 5, 2])
OFFSETS = torch.cat([torch.zeros(1, dtype=torch.int64), DEGREES.cumsum(0)])
INDICES = torch.tensor([6, 0, 3, 1, 1, 5, 2, 0, 4, 4])
DST = torch.repeat_interleave(torch.arange(N_DST), DEGREES)
TYPES = torch.tensor([0, 0, 2, 1, 1, 2, 0, 0, 2, 2], dtype=torch.int32)
N_EDGES = len(INDICES)


@pytest.fixture
def draw():
    generator = torch.Generator().manual_seed(0)

    def tensor(*shape, dtype=float64):
        values = torch.randn(shape, generator=generator, dtype=float64).to(dtype)
        return values.requires_grad_()

    return tensor


def close(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# ---- the formulas, edge by edge ----


def aggregate(messages, dst, n_dst, aggr):
    rows = []
    for i in range(n_dst):
        own = messages[dst == i]
        if not len(own):
            rows.append(messages.new_zeros(messages.shape[1]))
        else:
            rows.append(getattr(torch, {"min": "amin", "max": "amax"}.get(aggr, aggr))(own, 0))
    return torch.stack(rows)


def attend(scores, values, dst, n_dst):
    """Softmax of scores (n_edges, H) at every destination, and the sum of values it weighs."""
    rows = []
    for i in range(n_dst):
        own = dst == i
        weights = torch.softmax(scores[own], 0)
        rows.append((weights[:, :, None] * values[own].unflatten(1, (H, C))).sum(0).flatten())
    return torch.stack(rows)


def gat(x_src, x_dst, a, e=None):
    def logits(x, weights):
        return (x.unflatten(1, (H, -1)) * weights.unflatten(0, (H, -1))).sum(-1)

    scores = logits(x_src, a[: H * C])[INDICES] + logits(x_dst, a[H * C : 2 * H * C])[DST]
    if e is not None:
        scores = scores + logits(e, a[2 * H * C :])
    return attend(torch.nn.functional.leaky_relu(scores, 0.3), x_src[INDICES], DST, N_DST)


def gat_v2(x_src, x_dst, a, e=None):
    inner = x_src[INDICES] + x_dst[DST] + (0 if e is None else e)
    inner = torch.nn.functional.leaky_relu(inner, 0.3)
    scores = (inner * a).unflatten(1, (H, C)).sum(-1)
    return attend(scores, x_src[INDICES], DST, N_DST)


def transformer(key, query, value, e=None, norm=True):
    added = 0 if e is None else e
    scores = ((key[INDICES] + added) * query[DST]).unflatten(1, (H, C)).sum(-1)
    return attend(scores / (C**0.5 if norm else 1), value[INDICES] + added, DST, N_DST)


def relational(x, coeff, own, mean):
    blocks = []
    for r in range(R):
        some = r == TYPES
        blocks.append(aggregate(x[INDICES[some]], DST[some], N_DST, "mean" if mean else "sum"))
    out = torch.stack(blocks, 1)
    if coeff is not None:
        out = torch.einsum("rb,ird->ibd", coeff, out)
    return torch.cat([out.flatten(1), *([own] if own is not None else [])], 1)


def mean_of_heads(out):
    return out.unflatten(1, (H, C)).mean(1)


# ---- operators: every call as codes make it, with its formula ----


def sampled():
    return CSC(OFFSETS, INDICES, N_SRC, dst_max_in_degree=5)


def bipartite(integer=torch.int64):
    return CSC(OFFSETS.to(integer), INDICES.to(integer), N_SRC, is_bipartite=True)


def hetero():
    return HeteroCSC(OFFSETS, INDICES, TYPES, N_SRC, R, dst_max_in_degree=5)


def concat_case(aggr):
    def case(draw):
        x = draw(N_SRC, 3)
        return (
            lambda x: operators.agg_concat_n2n(x, sampled(), aggr),
            lambda x: torch.cat([aggregate(x[INDICES], DST, N_DST, aggr), x[:N_DST]], 1),
            [x],
        )

    return case


def concat_pair(draw):
    return (
        lambda x, own, w: operators.agg_concat_n2n((x, own), bipartite(), "mean", edge_weight=w),
        lambda x, own, w: torch.cat(
            [
                aggregate(w[:, None] * x[INDICES], DST, N_DST, "sum")
                / aggregate(w[:, None], DST, N_DST, "sum").masked_fill(DEGREES[:, None] == 0, 1),
                own,
            ],
            1,
        ),
        [draw(N_SRC, 3), draw(N_DST, 2), draw(N_EDGES).detach().abs().add(1).requires_grad_()],
    )


def simple(draw):
    return (
        lambda x, w: torch.cat(
            [
                operators.agg_simple_n2n(x, sampled(), "max"),
                operators.agg_simple_n2n(x, sampled(), "sum", edge_weight=w),
            ]
        ),
        lambda x, w: torch.cat(
            [
                aggregate(x[INDICES], DST, N_DST, "max"),
                aggregate(w[:, None] * x[INDICES], DST, N_DST, "sum"),
            ]
        ),
        [draw(N_SRC, 3), draw(N_EDGES)],
    )


def edges_to_nodes(draw):
    graph = StaticCSC(OFFSETS, INDICES)  # sources beyond the destinations, as GraphCast has it
    return (
        lambda x, e: operators.agg_concat_e2n(x, e, graph, "mean"),
        lambda x, e: torch.cat([aggregate(e, DST, N_DST, "mean"), x], 1),
        [draw(N_DST, 3), draw(N_EDGES, 2)],
    )


def attention_case(name, formula, pair, with_edges):
    def case(draw):
        v2 = name == "mha_gat_v2_n2n"
        ce = C if v2 else 1
        a = draw(H * C if v2 else 2 * H * C + (H * ce if with_edges else 0))
        x = [draw(N_SRC, H * C), draw(N_DST, H * C)] if pair else [draw(N_SRC, H * C)]
        e = [draw(N_EDGES, H * ce)] if with_edges else []
        options = dict.fromkeys(["deterministic_dgrad", "deterministic_wgrad"], True)
        if not v2:
            options.update(dict.fromkeys(["high_precision_dgrad", "high_precision_wgrad"], True))
        graph = bipartite() if pair else sampled()
        graph.add_reverse_graph()

        def call(a, *tensors):
            x = tensors[:2] if pair else tensors[0]
            edge_feat = tensors[-1] if with_edges else None
            function = getattr(operators, name)
            whole = function(x, a, graph, H, "LeakyReLU", 0.3, True, edge_feat=edge_feat)
            mean = function(
                x, a, graph, num_heads=H, activation="LeakyReLU", negative_slope=0.3,
                concat_heads=False, edge_feat=edge_feat, **options,
            )  # fmt: skip
            return torch.cat([whole, mean], 1)

        def expected(a, *tensors):
            x_src, x_dst = tensors[:2] if pair else (tensors[0], tensors[0][:N_DST])
            whole = formula(x_src, x_dst, a, tensors[-1] if with_edges else None)
            return torch.cat([whole, mean_of_heads(whole)], 1)

        return call, expected, [a, *x, *e]

    return case


def transformer_case(draw):
    def call(key, query, value, e):
        return torch.cat(
            [
                operators.mha_simple_n2n(
                    key, query, value, bipartite(torch.int32), H, True, edge_emb=e,
                    norm_by_dim=True, score_bias=None,
                ),
                operators.mha_simple_n2n(
                    key_emb=key, query_emb=query, value_emb=value, graph=bipartite(), num_heads=H,
                    concat_heads=False, norm_by_dim=False,
                ),
            ],
            1,
        )  # fmt: skip

    def expected(key, query, value, e):
        plain = mean_of_heads(transformer(key, query, value, norm=False))
        return torch.cat([transformer(key, query, value, e), plain], 1)

    sizes = (N_SRC, H * C), (N_DST, H * C), (N_SRC, H * C), (N_EDGES, H * C)
    return call, expected, [draw(*size) for size in sizes]


def relational_case(with_coeff, concat_own, mean):
    def case(draw):
        def call(x, coeff=None):
            return operators.agg_hg_basis_n2n_post(
                x, coeff, hetero(), concat_own=concat_own, norm_by_out_degree=mean
            )

        def expected(x, coeff=None):
            return relational(x, coeff, x[:N_DST] if concat_own else None, mean)

        return call, expected, [draw(N_SRC, 2), *([draw(R, B)] if with_coeff else [])]

    return case


def two_ends(draw):
    graph = BipartiteCSC(OFFSETS, INDICES, N_SRC, None, reverse_graph_bwd=True)

    def call(e, x, y):
        return torch.cat(
            [
                operators.update_efeat_bipartite_e2e(e, x, y, graph, "concat"),
                operators.update_efeat_bipartite_e2e(e, x, y, graph, mode="sum"),
                operators.update_efeat_e2e(e, (x, y), graph, True, False, mode="sum"),
                operators.update_efeat_e2e(None, (x, y), graph, "concat", True, True),
            ],
            1,
        )

    def expected(e, x, y):
        src, dst = x[INDICES], y[DST]
        return torch.cat([e, src, dst, e + src + dst, e + src, src, dst], 1)

    return call, expected, [draw(N_EDGES, 2), draw(N_SRC, 2), draw(N_DST, 2)]


def one_set(draw):
    graph = StaticCSC(OFFSETS, INDICES % N_DST)

    def call(e, x):
        return torch.cat(
            [
                operators.update_efeat_static_e2e(
                    e, x, graph, mode="concat", use_source_emb=True, use_target_emb=True
                ),
                operators.update_efeat_static_e2e(e, x, graph, "sum", use_source_emb=False),
                operators.update_efeat_e2e(e, x, graph, "sum"),
                operators.update_efeat_e2e(e, x, graph, use_source_emb=False, use_target_emb=True),
            ],
            1,
        )

    def expected(e, x):
        src, dst = x[INDICES % N_DST], x[DST]
        return torch.cat([e, src, dst, e + dst, e + src + dst, e, dst], 1)

    return call, expected, [draw(N_EDGES, 2), draw(N_DST, 2)]


CASES = {
    **{f"agg_concat_n2n-{aggr}": concat_case(aggr) for aggr in ("sum", "mean", "min", "max")},
    "agg_concat_n2n-pair": concat_pair,
    "agg_simple_n2n": simple,
    "agg_concat_e2n": edges_to_nodes,
    **{
        f"{name}-{'pair' if pair else 'one'}{'-edges' * with_edges}": attention_case(
            name, formula, pair, with_edges
        )
        for name, formula in (("mha_gat_n2n", gat), ("mha_gat_v2_n2n", gat_v2))
        for pair in (False, True)
        for with_edges in (False, True)
    },
    "mha_simple_n2n": transformer_case,
    **{
        f"agg_hg_basis_n2n_post-{with_coeff:d}{concat_own:d}{mean:d}": relational_case(
            with_coeff, concat_own, mean
        )
        for with_coeff in (False, True)
        for concat_own in (False, True)
        for mean in (False, True)
    },
    "update_efeat-two-ends": two_ends,
    "update_efeat-one-set": one_set,
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_values_and_gradients(case, draw):
    call, formula, inputs = case(draw)
    out, expected = call(*inputs), formula(*inputs)
    close(out, expected)
    weights = torch.cos(torch.arange(out.numel(), dtype=float64)).view(out.shape)
    gradients, expected_gradients = (
        torch.autograd.grad((y * weights).sum(), inputs, create_graph=True) for y in (out, expected)
    )
    for a, b in zip(gradients, expected_gradients, strict=True):
        close(a, b)
    # second order, by gradients of gradients
    totals = [sum((g * torch.sin(g.detach())).sum() for g in some) for some in
              (gradients, expected_gradients)]  # fmt: skip
    if totals[1].requires_grad:
        second, expected_second = (
            torch.autograd.grad(total, inputs, allow_unused=True) for total in totals
        )
        for x, a, b in zip(inputs, second, expected_second, strict=True):
            zero = torch.zeros_like(x)
            close(zero if a is None else a, zero if b is None else b, 1e-11)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "name", ["agg_concat_n2n-mean", "mha_gat_n2n", "agg_hg_basis_n2n_post-111"]
)
def test_half_precision(name, dtype, draw):
    """Results are computed in float32 and rounded once."""
    if name in CASES:
        call, _, inputs = CASES[name](draw)
    else:
        inputs = [draw(N_SRC, H * C), draw(2 * H * C)]

        def call(x, a):
            return operators.mha_gat_n2n(x, a, sampled(), H)

    narrow = [x.detach().to(dtype).requires_grad_() for x in inputs]
    wide = [x.detach().float().requires_grad_() for x in narrow]
    out, expected = call(*narrow), call(*wide)
    assert out.dtype == dtype
    torch.testing.assert_close(out, expected.to(dtype), rtol=0, atol=0)
    for a, b in zip(
        torch.autograd.grad(out.float().sum(), narrow),
        torch.autograd.grad(expected.sum(), wide),
        strict=True,
    ):
        # gradients of a tensor that is used twice are added in 16 bits
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(a.float(), b, rtol=2 * eps, atol=eps)


# ---- graphs ----


def test_graphs_tell_of_themselves():
    graph = sampled()
    assert (graph.num_src_nodes, graph.num_dst_nodes, graph.num_indices) == (N_SRC, N_DST, N_EDGES)
    assert (graph.dst_max_in_degree, graph.is_bipartite) == (5, False)
    assert graph.offsets is OFFSETS
    assert repr(graph) == "CSC(num_src_nodes=7, num_dst_nodes=4, num_indices=10)"
    assert BipartiteCSC(OFFSETS, INDICES, N_SRC).is_bipartite
    assert StaticCSC(OFFSETS, INDICES).num_src_nodes == N_SRC
    assert StaticCSC(OFFSETS, INDICES % 2).num_src_nodes == N_DST
    assert hetero().num_edge_types == R
    assert pylibcugraphops.pytorch.graph.CSC is CSC


def test_kinds_of_graphs_are_the_same_graph(draw):
    x = draw(N_SRC, 2)
    of_sample = SampledCSC(OFFSETS, INDICES, 5, N_SRC)
    close(operators.agg_simple_n2n(x, of_sample), operators.agg_simple_n2n(x, sampled()))
    typed = [
        hetero(),
        SampledHeteroCSC(OFFSETS, INDICES, TYPES, 5, N_SRC, R),
        StaticHeteroCSC(OFFSETS, INDICES, TYPES, R),
    ]
    first, *others = (operators.agg_hg_basis_n2n_post(x, None, graph) for graph in typed)
    for out in others:
        close(first, out, 0)


def test_destinations_padded_to_all_nodes(draw):
    """Offsets that are padded to all nodes, as some codes do, change no result."""
    x = draw(N_SRC, 2)
    padded = torch.cat([OFFSETS, OFFSETS[-1:].expand(N_SRC - N_DST)])
    whole = operators.agg_concat_n2n(x, StaticCSC(padded, INDICES), "mean")
    close(whole[:N_DST], operators.agg_concat_n2n(x, sampled(), "mean"), 0)


@pytest.mark.parametrize("integer", [torch.int32, torch.int64])
def test_rows_of_edges(integer, draw):
    """`map_csc_to_coo` names the row of edge arrays that every edge uses; types go by edges."""
    rows = torch.randperm(N_EDGES, generator=torch.Generator().manual_seed(1))
    arrays = OFFSETS.to(integer), INDICES.to(integer)
    e, x = draw(N_EDGES, 2), draw(N_SRC, 2)
    graph = CSC(*arrays, N_SRC, map_csc_to_coo=rows.to(integer))
    plain = operators.agg_concat_e2n(x[:N_DST], e[rows], sampled())
    close(operators.agg_concat_e2n(x, e, graph), plain, 0)
    updated = operators.update_efeat_bipartite_e2e(e, x, None, graph)
    close(updated[rows], torch.cat([e[rows], x[INDICES]], 1), 0)
    typed = HeteroCSC(*arrays, TYPES, N_SRC, R, map_csc_to_coo=rows)
    close(*(operators.agg_hg_basis_n2n_post(x, None, g) for g in (typed, hetero())), 0)


def test_no_edges(draw):
    offsets, indices = torch.zeros(N_DST + 1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    x = draw(N_DST, H * C)
    graph = StaticCSC(offsets, indices)
    out = operators.agg_concat_n2n(x, graph, "max")
    close(out, torch.cat([torch.zeros_like(x), x], 1), 0)
    out = operators.mha_gat_n2n(x, draw(2 * H * C), graph, H)
    assert out.shape == x.shape
    assert not out.any()
    typed = StaticHeteroCSC(offsets, indices, indices.int(), R)
    assert not operators.agg_hg_basis_n2n_post(x, draw(R, B), typed).any()


def test_errors(draw):
    x = draw(N_SRC, 2)
    with pytest.raises(TypeError, match="CSC: indices is of type list, needs a tensor"):
        CSC(OFFSETS, INDICES.tolist(), N_SRC)
    with pytest.raises(IndexError, match="indices"):
        CSC(OFFSETS, INDICES, N_SRC - 1)
    with pytest.raises(ValueError, match="HeteroCSC: edge_types has shape"):
        HeteroCSC(OFFSETS, INDICES, TYPES[1:], N_SRC, R)
    with pytest.raises(TypeError, match="agg_concat_n2n: graph is of type Tensor, needs a CSC"):
        operators.agg_concat_n2n(x, OFFSETS)
    with pytest.raises(TypeError, match="graph is of type CSC, needs a HeteroCSC"):
        operators.agg_hg_basis_n2n_post(x, None, sampled())
    with pytest.raises(ValueError, match="agg_concat_n2n: features have shape"):
        operators.agg_concat_n2n(x[: N_DST - 1], sampled())
    with pytest.raises(ValueError, match="mha_simple_n2n: score_bias is given, needs None"):
        operators.mha_simple_n2n(x, x, x, sampled(), 1, score_bias=x)
    with pytest.raises(ValueError, match="mha_gat_n2n: add_own_node is True"):
        legacy.mha_gat_n2n(x, x, sampled(), 1, "LeakyReLU", 0.2, True)


# ---- names up to 23.02 ----


def test_legacy(draw):
    x, a, coeff = draw(N_SRC, H * C), draw(2 * H * C), draw(R, B)
    nodes = torch.arange(N_DST), torch.arange(N_SRC)
    sample = pylibcugraphops.make_mfg_csr(nodes[0], OFFSETS, INDICES, 5, N_SRC)
    kinds = {"n_node_types": 0, "n_edge_types": R, "edge_types": TYPES}
    absent = {"out_node_types": None, "in_node_types": None}
    make = pylibcugraphops.make_mfg_csr_hg
    typed = [
        make(nodes[0], OFFSETS, INDICES, 5, N_SRC, **kinds, **absent),
        make(*nodes, OFFSETS, INDICES, 5, **kinds, **absent),
    ]
    close(legacy.agg_concat_n2n(x, sample, "max"), operators.agg_concat_n2n(x, sampled(), "max"), 0)
    close(
        legacy.mha_gat_n2n(x, a, sample, H, "LeakyReLU", 0.3, False, False, edge_feat=None),
        operators.mha_gat_n2n(x, a, sampled(), H, "LeakyReLU", 0.3, False),
        0,
    )
    expected = operators.agg_hg_basis_n2n_post(x, coeff, hetero(), True, True)
    for graph in typed:
        out = legacy.agg_hg_basis_n2n_post(
            x, coeff, graph, concat_own=True, norm_by_out_degree=True
        )
        close(out, expected, 0)
    whole = pylibcugraphops.make_fg_csr(OFFSETS, INDICES % N_DST)
    static = StaticCSC(OFFSETS, INDICES % N_DST)
    y = x[:N_DST]
    close(legacy.agg_concat_n2n(y, whole, "sum"), operators.agg_concat_n2n(y, static), 0)
    whole = pylibcugraphops.make_fg_csr_hg(OFFSETS, INDICES % N_DST, node_types=None, **kinds)
    static = StaticHeteroCSC(OFFSETS, INDICES % N_DST, TYPES, R)
    close(*(operators.agg_hg_basis_n2n_post(y, coeff, graph) for graph in (whole, static)), 0)
    assert isinstance(sample, pylibcugraphops.typing.MfgCsr)
    with pytest.raises(TypeError, match="make_mfg_csr: got 4 arguments by position, needs 5"):
        pylibcugraphops.make_mfg_csr(nodes[0], OFFSETS, INDICES, 5)
