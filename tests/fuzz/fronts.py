# SPDX-License-Identifier: MIT
"""Graphs, neighbours, the functions without kernels, and the older interfaces."""

import copy
import inspect
import pickle

import numpy as np
import values
from values import numbers, same

import compat_calls
import gnograd as gg
import test_ascend
from gnograd.compat import ascend, pylibcugraphops
from gnograd.compat.pylibcugraphops import dimenet
from gnograd.compat.pylibcugraphops import operators as ops
from reference import neighbors as reference

ANY = ("",)
"""Names, one of which every message has: where Python or NumPy may raise the error."""
ANYTHING = [
    None, True, 0, 1, -1, 2.5, "text", b"bytes", object(), [], [1], [1.5], {}, np.ones(3), 2j, ...,
    np.ones((2, 2)), np.zeros(0), np.array(3), np.ma.masked_array([1.0], [True]), np.nan, np.inf,
    np.array(["a"]), np.array([None]), (1, 2), *values.EXTREMES,
]  # fmt: skip


def with_anything(trial, name, function, arguments, names=(), takes_masked=False):
    """A call one of whose arguments is something else."""
    target = trial.pick(*arguments)
    value = arguments[target]
    wrong = trial.pick(*ANYTHING)
    if isinstance(value, np.ndarray) and trial.chance(0.5):
        wrong = values.no_such_array(trial, value)
    given = arguments | {target: wrong}
    before = copy.deepcopy({k: v for k, v in given.items() if isinstance(v, np.ndarray)})
    result = trial.attempt(name, function, names=[*arguments, *names], **given)
    if isinstance(result, Exception):
        for label, array in before.items():
            trial.expect(same(given[label], array), f"an error changed {label}")
    elif isinstance(wrong, np.ma.MaskedArray) and not takes_masked:
        trial.find(f"accepted a masked array as {target}")
    return result


# ---- graphs ----


def graph(trial):
    """Try graphs of edges: their two orders, pickles, bad arrays."""
    edges = values.graph(trial)
    src, dst = (x.astype(trial.pick(np.int32, np.int64)) for x in (edges.src, edges.dst))
    arguments = {"src": src, "dst": dst, "n_src": edges.n_src, "n_dst": edges.n_dst}
    arguments = {k: values.disguised(trial, v) for k, v in arguments.items()}
    made = trial.attempt("Graph.from_edges", gg.Graph.from_edges, **arguments)
    if isinstance(made, Exception):
        trial.find(f"a graph was refused: {made}")
        return
    for g in made, copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)):
        right = np.array_equal(g.src, src) and np.array_equal(g.dst, dst)
        trial.expect(right and (g.n_src, g.n_dst) == (edges.n_src, edges.n_dst), "other edges")
        back = g.transpose
        order = np.argsort(g.indices, kind="stable")
        trial.expect(np.array_equal(back.position, order), "another transpose")
        trial.expect(
            np.array_equal(np.diff(back.offsets), np.bincount(src, minlength=g.n_src)),
            "other degrees",
        )
    parts = {
        "offsets": np.array(made.offsets), "indices": np.array(made.indices),
        "n_src": made.n_src, "edge_ids": made.edge_ids,
    }  # fmt: skip
    with_anything(trial, "Graph", gg.Graph, parts, ANY)
    with_anything(trial, "Graph.from_edges", gg.Graph.from_edges, arguments, ANY)
    label = trial.pick("offsets", "indices", "edge_ids")
    if parts[label] is not None and parts[label].size:
        spoiled = parts[label].astype(np.int64)
        spoiled[trial.rng.integers(spoiled.size)] = trial.pick(*values.EXTREMES[:-4], -1)
        trial.attempt("Graph", gg.Graph, names=("graph",), **parts | {label: spoiled})


def neighbors(trial):
    """Compare neighbours with all distances, ties at the radius among them; try bad arguments."""
    rng, d = trial.rng, trial.pick(1, 2, 3)
    style = trial.pick("ties", "normal")
    sizes = [int(trial.pick(0, 1, 5, 12)) for _ in range(2)]
    sources, destinations = (numbers(trial, (n, d), style, float) for n in sizes)
    radius = float(trial.pick(0.0, 0.5, 1.0, np.sqrt(0.5), 3.0))
    period = trial.pick(None, np.where(rng.random(d) < 0.5, 4.0, 0.0))
    items = [[0, *np.sort(rng.integers(0, n + 1, 1)), n] for n in sizes]
    arguments = {
        "sources": sources, "radius": radius, "destinations": destinations, "period": period,
    }  # fmt: skip
    if trial.chance(0.3):
        arguments |= {"source_items": items[0], "destination_items": items[1]}
    else:
        items = [[0, n] for n in sizes]
    arguments |= {k: values.disguised(trial, arguments[k]) for k in ("sources", "destinations")}
    found = trial.attempt("neighbors", gg.neighbors, **arguments)
    if isinstance(found, Exception):
        trial.find(f"neighbours were refused: {found}")
    elif style == "ties" and radius != np.sqrt(0.5):  # exact
        box = np.zeros(d) if period is None else period
        expected = reference.neighbors(sources, radius, destinations, box, *items)
        trial.expect(all(map(np.array_equal, found, expected)), "other neighbours")
    with_anything(trial, "neighbors", gg.neighbors, arguments, ANY)
    k = int(trial.pick(0, 1, 4, 99))
    some = {name: x for name, x in arguments.items() if name != "radius"} | {"k": k}
    found = trial.attempt("knn", gg.knn, **some)
    if isinstance(found, Exception):
        trial.find(f"nearest neighbours were refused: {found}")
    elif style == "ties":
        box = np.zeros(d) if period is None else period
        expected = reference.nearest(sources, k, destinations, box, *items)
        trial.expect(all(map(np.array_equal, found, expected)), "other nearest neighbours")
    with_anything(trial, "knn", gg.knn, some, ANY)
    chosen = {"max_neighbors": k, "choose": "random", "seed": 3}
    with_anything(trial, "neighbors", gg.neighbors, arguments | chosen, ANY)
    listed = {"points": sources, "radius": radius, "cell": 2 * np.eye(d), "periodic": True}
    with_anything(trial, "neighbor_list", gg.neighbor_list, listed, ANY)
    points = {"sources": sources, "radius": radius, "include_self": True, "period": period}
    with_anything(trial, "Graph.radius", gg.Graph.radius, points, ANY)
    if sources.size:
        points["sources"] = np.where(rng.random(sources.shape) < 0.5, np.nan, sources)
        points["sources"].flat[0] = trial.pick(np.nan, np.inf)
        result = trial.attempt("neighbors", gg.neighbors, **points)
        trial.expect(isinstance(result, ValueError), "took points that are not finite")


# ---- functions without kernels ----


def helpers(trial):
    """Try functions that pack, count and set, with valid and invalid arguments."""
    d, n_hidden = trial.pick(0, 1, 3), trial.pick(0, 1, 4)
    shape = trial.pick((2, 3), (2,), (0, 1))
    parts = [numbers(trial, s) for s in ((d, n_hidden), n_hidden, (n_hidden, *shape), shape)]
    packed = gg.gno_pack(*parts)
    sizes = {"d": d, "n_hidden": n_hidden, "kernel_shape": shape}
    unpacked = trial.attempt("gno_unpack", gg.gno_unpack, packed, **sizes)
    trial.expect(same(unpacked, parts), "gno_unpack is not the inverse of gno_pack")
    cu = np.array([0, 3, 3, 10])
    layers = gg.gno_pack_layers([(np.ones((2, 3)), np.zeros(3))])
    name, arguments = trial.pick(
        ("gno_unpack", {"params": packed} | sizes),
        ("gno_unpack_layers", {"packed": layers, "n_in": 2, "widths": [3]}),
        ("gno_pack", dict(zip(("U", "b_u", "V", "b_v"), parts, strict=True))),
        ("gno_pack_layers", {"layers": [(np.ones((2, 3)), np.zeros(3))]}),
        ("compressed_offsets", {"cu": cu, "block": 4, "stride": 2}),
        ("set_matmul_precision", {"precision": "float32"}),
    )
    with_anything(trial, name, getattr(gg, name), arguments, ANY, takes_masked=True)
    gg.set_matmul_precision("float32")


def threads(trial):
    """Absurd numbers of threads are refused; with others the bits are the same."""
    x, graph = numbers(trial, (40, 3)), gg.Graph.from_edges(np.arange(40), np.arange(40) % 7)
    expected = gg.agg_simple(x, graph=graph)
    wrong = trial.pick(-1, 0, 1, 2, 3, 5, 10**5, 10**9, *values.EXTREMES, "2", 2.5, None, True, [2])
    result = trial.attempt("set_num_threads", gg.set_num_threads, wrong, names=ANY)
    if type(wrong) is not int or not 0 <= wrong < 10**5:
        trial.require(isinstance(result, Exception), f"took {wrong!r} threads")
    trial.expect(same(gg.agg_simple(x, graph=graph), expected), "other bits for other threads")
    gg.set_num_threads(1)


# ---- compat ----


class Recorder:
    """A module whose functions are called, and the calls kept."""

    def __init__(self, module):
        self._module, self.calls = module, []

    def __getattr__(self, name):
        function = getattr(self._module, name)

        def call(*args):
            self.calls.append((name, function, args))
            return function(*args)

        return call


def recorded(trial):
    """Calls that the tests make, on a random graph."""
    recorder, rng = Recorder(ops), trial.rng
    compat_calls.ops = recorder
    edges = values.graph(trial, same_nodes=True)
    t = compat_calls.arrays(rng, edges)
    g = compat_calls.csc(edges, trial.pick("int32", "int64"), trial.pick(True, False))
    kind = trial.pick("aggregation", "aggregation", "gat", "gat_v2", "dimenet")
    if kind == "aggregation":
        sequence, op = trial.pick(*compat_calls.SEQUENCES), trial.pick(*ops.AggOp)
        sequence(g, t, op, integer=g.index_dtype)
    elif kind == "dimenet":
        recorder, (t, g) = Recorder(dimenet), compat_calls.molecule(rng)
        inputs = np.empty_like(t.embedding), t.vector, t.rbf, t.embedding, t.weights
        by_dst = g.coo_idx, g.dst_offsets, g.dst_edge_index, dimenet.MMAOp.HighPrecision
        recorder.agg_edge_to_edge_fwd(*inputs, *by_dst)
    else:
        dtype = "float32" if kind == "gat" else "float64"
        t = compat_calls.attention_arrays(rng, edges, dtype, kind == "gat_v2")
        params = ops.mha_params(compat_calls.H, trial.pick(True, False), "Tanh", 0.2)
        getattr(compat_calls, kind)(g, t, params, trial.pick(True, False))
    return recorder.calls


def compat(trial):
    """Calls of the tests, with one argument that is something else."""
    if trial.chance(0.1):
        parts = {"offsets": np.array([0, 1, 2]), "indices": np.array([1, 0]), "n_src_nodes": 3}
        make = pylibcugraphops.make_bipartite_csc
        with_anything(trial, "make_bipartite_csc", make, parts, ("graph", "n_src"))
        return
    name, function, args = trial.pick(*recorded(trial))
    arguments = inspect.signature(function).bind(*args).arguments
    params = arguments.get("params")
    if params is not None and trial.chance(0.3):
        field = trial.pick(*params._fields)
        arguments["params"] = params._replace(**{field: trial.pick(*ANYTHING)})
        trial.attempt(name, function, names=[*arguments, *params._fields], **arguments)
    else:
        with_anything(trial, name, function, arguments, ("graph",))


def of_ascend(trial):
    """The arguments of the tests, one of which is something else."""
    given = test_ascend.arguments(trial.rng, trial.pick(np.float32, np.float64))
    name, function = "nsa_selected_attention", ascend.nsa_selected_attention
    if trial.chance(0.5):
        results = function(**given)
        given = test_ascend.grad_arguments(given, results, np.ones_like(results[0]))
        name, function = "nsa_selected_attention_grad", ascend.nsa_selected_attention_grad
    with_anything(trial, name, function, given)


SUBJECTS = {
    "graph": graph, "neighbors": neighbors, "helpers": helpers, "threads": threads,
    "compat": compat, "ascend": of_ascend,
}  # fmt: skip
