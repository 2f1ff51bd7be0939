# SPDX-License-Identifier: MIT
"""The table of cases of every operator: static arguments, sizes, inputs that are absent.

The laws of `faces.py`, the tape, PyTorch, JAX and the CUDA kernels are tested on these cases.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnograd as gg
from conftest import GRAPHS, Edges, graphs_of, new_rng, power_law
from reference.attention import ACTIVATIONS as SCORE_ACTIVATIONS
from reference.gno import ACTIVATIONS
from table_case import SEEN, Case, case, edge_types, int64, selection

SEED = np.array([2**62 + 3])
N_RELATIONS = 4

# a destination and a source with more edges than a piece of work takes, and rows of every length
HEAVY = Edges(
    src=np.concatenate([np.arange(12_000) % 40, np.full(9000, 7), power_law(300, 9000).src]),
    dst=np.concatenate([np.full(12_000, 3), np.arange(9000) % 50, power_law(300, 9000).dst]),
    n_src=300,
    n_dst=300,
)


def network(widths, f=(2, 3, 1), weight=False, residual=None, **given):
    """f: features of edges, sources, destinations; 0: they are not there."""
    named = dict(zip(SEEN["edge_mlp"], f, strict=True))
    absent = [k for k, n in named.items() if not n] + ["edge_weight"] * (not weight)
    residual = bool(f[0]) if residual is None else residual
    given |= {"F_s": f[1], "F_d": f[2]} | ({} if residual else {"F_e": f[0]})
    return case("edge_mlp", " ".join(absent), widths=widths, residual=residual, **given)


def jets(name, widths, weights=0, absent="", F_out=2, **given):
    """weights: 0 none, 1 constant, 2 with derivatives."""
    absent += " edge_weight weight_derivatives" if not weights else ""
    absent += " weight_derivatives" if weights == 1 else ""
    return case(f"gno_with_{name}", absent, widths=widths, F_out=F_out, **given)


def deep(widths, d=(2, 1, 0), h=1, weight=False, **given):
    """d: what the network sees of sources, destinations, edges; h functions."""
    named = dict(zip(SEEN["gno_deep"], d, strict=True))
    absent = ["h"] * (not h) + [k for k, n in named.items() if not n]
    given |= {"n_functions": h} | dict(zip(("d_y", "d_x", "d_c"), d, strict=True))
    absent += ["edge_weight"] * (not weight)
    return case("gno_deep", " ".join(absent), widths=widths, **given)


def attention() -> list[Case]:
    two = dict(num_heads=2)
    gat_mean = two | dict(concat_heads=False, activation="Tanh")
    simple_mean = two | dict(concat_heads=False, norm_by_dim=False)
    return [
        case("mha_gat", "e", **two),
        case("mha_gat", **gat_mean),
        case("mha_gat_v2", "e", **two, activation="Sigmoid"),
        case("mha_gat_v2", **gat_mean),
        case("mha_simple", "e", **two),
        case("mha_simple", **simple_mean),
        case("edge_softmax", num_heads=1),
        case("edge_softmax", num_heads=3, front=True),
        case("mha_gat", **gat_mean, dropout=0.6, seed=SEED),
        case("mha_gat", "e", **two, dropout=0.3, seed=SEED, many=True),
        case("mha_gat_v2", **gat_mean, dropout=0.5, seed=SEED, many=True, front=True),
        case("mha_simple", **simple_mean, dropout=0.25, seed=SEED, many=True, front=True),
        *(
            case(
                name,
                **two,
                activation=activation,
                negative_slope=0.7,
                many=True,
                front=(name, activation) == ("mha_gat", "Tanh"),
            )
            for name in ("mha_gat", "mha_gat_v2")
            for activation in sorted(SCORE_ACTIVATIONS)
        ),
    ]


def aggregation() -> list[Case]:
    found = []
    for kind in ("sum", "mean", "min", "max"):
        found += [
            case(name, aggregation=kind, front=kind == ("max" if name == "agg_simple" else "mean"))
            for name in ("agg_weighted", "agg_simple", "agg_concat")
        ]
    for kind in ("mean", "max"):
        for name, absent in (("agg_simple", "e"), ("agg_simple", "x"), ("agg_concat", "w e")):
            found.append(case(name, absent, aggregation=kind, many=True))
    return found


def relational() -> list[Case]:
    shared = dict(n_relations=N_RELATIONS, edge_type=edge_types)
    few = [("coeff", "mean"), ("", "sum"), ("", "mean")]
    return [
        case("agg_relational", absent, aggregation=kind, **shared, many=(absent, kind) not in few,
             front=(absent, kind) == ("", "mean"))
        for absent in ("", "coeff", "w own", "coeff own", "w coeff own")
        for kind in ("sum", "mean")
    ]  # fmt: skip


def edge_updates() -> list[Case]:
    absences = ["", "x_dst", "x_src", "e", "x_src x_dst", "e x_dst", "e x_src"]
    return [
        case("update_edges", absent, mode=mode, many=bool(absent),
             front=(mode, absent) == ("concat", ""))
        for mode in ("concat", "sum") for absent in absences
    ]  # fmt: skip


def moments() -> list[Case]:
    return [case("offset_moments", d=d, many=d in (1, 5), front=d == 2) for d in (1, 2, 3, 5)]


def edge_mlp() -> list[Case]:
    few = [
        network([5, 4, 3], weight=True, reduction="mean", activation="tanh", front=True),
        network([4, 3], (0, 2, 0), outputs="nodes", reduction="mean"),
        network([3, 4, 3], outputs="edges"),
        network([4, 2], (3, 0, 2), residual=False, layer_norm=False, weight=True),
    ]
    return [
        *few,
        *(network([4, 3], activation=name, many=True) for name in sorted(ACTIVATIONS)),
        *(network([3], outputs=outputs, many=True) for outputs in ("both", "edges", "nodes")),
        network([3, 4, 5, 3], weight=True, outputs="nodes", many=True),
        network([3, 2], (2, 0, 0), weight=True, reduction="mean", outputs="nodes", many=True),
        network([3, 2], (0, 0, 3), layer_norm=False, many=True),
        # tiles are shorter than the longest
        network([130, 250, 33], (33, 17, 5), weight=True, reduction="mean", large=True),
    ]


def gno() -> list[Case]:
    mean, diagonal = dict(reduction="mean"), dict(kernel="diagonal")
    plain = "edge_weight"
    return [
        case("gno_kernel", activation="tanh", front=True),
        case("gno_aggregate", **mean, front=True),
        case("gno_contract", **mean, kernel="full", front=True),
        case("gno_contract", reduction="sum", **diagonal),
        case("gno", activation="gelu", **mean, front=True),
        case("gno", activation="silu", **diagonal),
        *(case("gno_kernel", activation=name, many=True) for name in sorted(ACTIVATIONS)
          if name != "tanh"),
        case("gno_aggregate", reduction="sum", many=True),
        case("gno_contract", plain, reduction="sum", kernel="full", many=True),
        case("gno_contract", "h edge_weight", **mean, **diagonal, many=True),
        *(case("gno", plain, activation=name, many=True) for name in sorted(ACTIVATIONS)),
        case("gno", plain, activation="tanh", **mean, **diagonal, many=True),
        case("gno", "h edge_weight", activation="sin", **diagonal, many=True),
        case("gno", "h", **mean, **diagonal, many=True),
    ]  # fmt: skip


def gno_jets() -> list[Case]:
    diagonal, pair = dict(kernel="diagonal"), dict(geometry="pair")
    return [
        jets("gradient", [5], 1, **pair),
        jets("laplacian", [5, 4], 2, reduction="mean", activation="tanh", front=True),
        jets("laplacian", [4], 1, d=3, **diagonal, activation="silu"),
        jets("hessian", [4, 3], 2, **diagonal, **pair),
        *(jets("laplacian", [4, 3], activation=name, many=True) for name in sorted(ACTIVATIONS)),
        jets("gradient", [3, 4, 2], 2, d=1, activation="sin", many=True, front=True),
        jets("laplacian", [4], absent="h", **diagonal, reduction="mean", many=True),
        jets("laplacian", [4], d=1, **pair, activation="tanh", many=True),
        jets("hessian", [4], 2, F_in=1, activation="sin", many=True, front=True),
        jets("hessian", [3], 2, absent="h", **diagonal, activation="silu", many=True),
    ]


def gno_deep() -> list[Case]:
    everything = dict(d=(2, 2, 1), weight=True, h=2, reduction="mean", activation="tanh")
    return [
        deep([5, 4, 3], **everything, front=True),
        deep([6, 3], (3, 2, 0)),
        deep([4, 3, 2], (0, 2, 2), h=0, weight=True, activation="silu"),
        *(deep([4, 3, 2], activation=name, many=True) for name in sorted(ACTIVATIONS)),
        deep([3, 4, 5, 2], (1, 1, 0), weight=True, activation="sin", many=True),
        deep([3], (1, 2, 2), weight=True, many=True),
        deep([3, 1], (2, 0, 0), h=0, reduction="mean", many=True),
        deep([3, 2], (0, 0, 3), h=3, reduction="mean", many=True),
        deep([3, 2], (0, 2, 0), activation="tanh", many=True),
        # tiles are shorter than the longest
        deep([130, 250, 97, 33], (5, 4, 3), weight=True, reduction="mean", large=True),
    ]


def dimenet() -> list[Case]:
    return [
        *(case("agg_edge_to_edge", exclude=exclude, n_spherical=4, n_radial=2,
               front=exclude == "reverse_edge")
          for exclude in ("reverse_edge", "same_node", "none")),
        case("radial_basis", n_spherical=3, front=True),
    ]  # fmt: skip


def dense() -> list[Case]:
    packed = {"cu_q": int64(0, 3, 3, 7), "cu_k": int64(0, 4, 6, 11)}
    plain, one = "bias temperature", dict(Tt=1)
    forms = [
        ("", {}), (plain, {}), (plain, dict(scale=0.7)), ("temperature", {}), ("bias", {}),
        ("", one),
        ("", packed), ("", dict(cu_q=int64(0, 3, 5, 7), cu_k=int64(0, 4, 4, 11), **one)),
        ("", dict(Tq=5, Tk=1, Hq=2, Tt=5)), ("", dict(Tq=1, Tk=9, Hq=3, Hk=1, Dk=1, Dv=4, **one)),
        # one block of keys and several parts of queries; several blocks; what is cut: few queries
        # of many keys, few keys of many queries
        ("", dict(Tq=300, Tk=100, Hq=6, Dk=8, Dv=5, Tt=300)),
        ("", dict(Tq=300, Tk=401, Dk=8, Dv=8, Tt=300)),
        ("", dict(Tq=60, Tk=1300, Hq=2, Hk=1, Dk=8, Dv=5, **one)),
        ("", dict(Tq=1300, Tk=3, Hk=4, Dk=5, Dv=8, Tt=1300)),
        ("", dict(Tq=90, Tk=1700, Hq=2, Dk=4, Dv=3, Tt=90, cu_q=int64(0, 29, 50, 50, 90),
                  cu_k=int64(0, 900, 900, 1000, 1700))),
        ("", dict(Tq=1700, Tk=30, Hq=2, Hk=1, Dk=4, Dv=3, cu_q=int64(0, 900, 900, 1000, 1700),
                  cu_k=int64(0, 9, 20, 20, 30), **one)),
    ]  # fmt: skip
    return [
        case(name, absent, **given, large=given.get("Tq", 0) + given.get("Tk", 0) > 20,
             front=given is packed if name == "attention" else not absent and not given)
        for name in ("attention", "attention_pool")
        for absent, given in forms
    ]  # fmt: skip


def selected(gated=False, **given):
    return case("selected_attention", "" if gated else "slot_gate", block_index=selection, **given)


def nsa() -> list[Case]:
    packed = {"cu_q": int64(0, 3, 3, 7), "cu_k": int64(0, 4, 6, 11)}
    causal, plain = dict(causal=True), "positions_q positions_k slope"

    def compressed(**given):
        return case("compressed_attention", **given)

    def window(absent=plain, **given):
        return case("window_attention", absent, **given)

    def compress(**given):
        return case("compress", Hk=3, **given)

    def big(t_q, t_k, h_q, h_k, d_k, d_v):
        return dict(Tq=t_q, Tk=t_k, Hq=h_q, Hk=h_k, Dk=d_k, Dv=d_v, large=True)

    return [
        selected(block_size=4),
        selected(True, block_size=4),
        selected(block_size=3, **causal, q_offset=3),
        selected(True, block_size=3, **causal, n=4),
        selected(True, block_size=2, **packed),
        selected(block_size=2, **causal, **packed, front=True),
        selected(True, block_size=4, query_block=3),
        selected(block_size=4, duplicates="count", scale=0.7, n=5),
        selected(True, block_size=4, duplicates="count", n=5),
        selected(block_size=1, Tq=7, Tk=5, Hq=1, Hk=1, Dk=1, Dv=1, n=3),
        compressed(block=4, stride=2, front=True),
        compressed(block=4, stride=2, **causal, q_offset=5),
        compressed(block=2, stride=1, **causal, **packed),
        window(window=3, **causal),
        window(window=2, **causal, q_offset=1, scale=0.5, **packed),
        window(window=3),
        window(window=2, **packed),
        window(**packed),
        window("", window=3, d=3, front=True),
        window("", window=2, d=1, **causal, **packed),
        compress(block=4, stride=2),
        compress(block=2, stride=5),
        compress(block=4, stride=3, cu=int64(0, 7, 9, 9, 20), n_compressed=5, front=True),
        compress(block=20, stride=1),
        compress(block=1, stride=1),
        compress(block=21, stride=4),
        # several parts and heads, ragged panels, several panels a block
        selected(block_size=16, **big(300, 250, 3, 3, 8, 8), n=4),
        selected(block_size=16, **causal, **big(200, 200, 32, 2, 24, 16), n=6),
        selected(True, block_size=24, query_block=8, **big(200, 333, 6, 2, 5, 9), n=3),
        compressed(block=8, stride=4, **causal, **big(600, 149, 4, 2, 8, 8)),
        window(window=50, **causal, **big(300, 300, 4, 2, 8, 8)),
        window(window=20, **big(310, 310, 2, 2, 8, 18)),
        window("", window=90, d=3, **big(310, 290, 6, 2, 8, 8)),
        compress(block=8, stride=4, cu=int64(0, 7, 1500, 3000), T=3000, large=True),
    ]


CASES = [
    each
    for family in (
        aggregation, relational, edge_updates, attention, moments, gno, gno_deep, gno_jets,
        edge_mlp, dimenet, nsa, dense,
    )
    for each in family()
]  # fmt: skip
"""All cases."""
FRONT = {each.name: each for each in CASES if each.front}
"""The case of an operator on which fronts are tested in all ways."""
_OPERATORS = {name for name in gg.__all__ if isinstance(getattr(gg, name), gg.Operator)}
assert set(FRONT) == _OPERATORS, f"no case of {sorted(_OPERATORS ^ set(FRONT))} for all fronts"


def of(*families: str, **fields: Any) -> list[Case]:
    """The cases of some families, or operators of no such name, with fields of these values."""
    known = {each.family for each in CASES}
    return [
        each
        for each in CASES
        if {each.family, *({each.name} - known)} & {*families}
        and all(getattr(each, k) == v for k, v in fields.items())
    ]


def the(name: str, **static: Any) -> Case:
    """The first case of an operator with these static arguments."""
    return next(
        each for each in CASES if each.name == name and each.static.items() >= static.items()
    )


WIDTHS = [dict(D=n) for n in (1, 16, 33, 128)]
EVERY_SIZE = {
    "aggregation": WIDTHS,
    "relational": [dict(D=0), *WIDTHS, *(dict(n_relations=n, n_bases=40) for n in (1, 2, 70))],
    "edge_updates": [dict(De=n, Ds=n + 1) for n in (0, 1, 16, 33, 128)],
    "mha": [dict(num_heads=h, C=c) for h, c in ((1, 1), (8, 16), (4, 32), (3, 7), (1, 65))],
    "edge_softmax": [dict(num_heads=n) for n in (2, 255, 256, 257, 700)],
    "gno": [
        dict(zip(("d", "H", "F_in", "F_out"), sizes, strict=True))
        for sizes in ((1, 1, 1, 1), (3, 17, 9, 1), (4, 33, 1, 20), (2, 64, 32, 32))
    ],
    "gno_jets": [
        dict(widths=widths, F_in=f, F_out=g)
        for widths in ([1], [16], [17, 33], [64, 2], [7, 16, 5])
        for f, g in ((1, 1), (9, 1), (1, 20), (32, 16))
    ],
    "gno_deep": [
        dict(widths=widths, d_y=y, d_x=x, d_c=c)
        for widths in ([1, 1], [16, 1], [17, 33, 2], [300, 300, 20])
        for y, x, c in ((1, 1, 1), (3, 40, 9))
    ],
    "edge_mlp": [
        dict(widths=widths, F_s=s, F_d=d)
        for widths in ([1], [16, 1], [17, 33, 2], [300, 300, 20])
        for s, d in ((1, 1), (40, 9))
    ],
}
"""Sizes of every kind, by family or operator; those of sequences are in the table itself."""


def on_graphs(cases: list[Case], few: bool = False) -> pytest.MarkDecorator:
    """Parametrize by a case and some graphs, and, exhaustive, all others; one if it takes none.

    few: cases that are one of many of a kind are exhaustive.
    """
    params = []
    for number, each in enumerate(cases):
        some, others = graphs_of(number).values()
        if not each.on_graph or each.large:
            some, others = ["power law"], []
        rare = [pytest.mark.exhaustive] if few and each.many else []
        params.append(pytest.param(each, some, id=str(each), marks=rare))
        if others:
            params.append(
                pytest.param(each, others, id=f"{each}-other", marks=pytest.mark.exhaustive)
            )
    return pytest.mark.parametrize(("case", "graphs"), params)


def on_each(check: Callable[..., None], case: Case, graphs: list[str]) -> None:
    """Check a case on one graph after the other, each as if alone."""
    for name in graphs:
        try:
            check(case, GRAPHS[name], new_rng())
        except BaseException:
            print(f"on the graph '{name}'")
            raise
