# SPDX-License-Identifier: MIT
"""All operators of the package, their four faces, and functions without derivatives.

Shapes come from the operators' own signatures, so that a new operator needs at most a line in
`DOMAIN`, and one in `ORACLES`.
"""

import inspect
import itertools
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import values
from values import disguised, numbers, plain, same

import gnograd as gg
from calls import FUNCTIONS
from conftest import Edges
from faces import inner, like
from gnograd import shapes
from reference import aggregation, dimenet, gat, gno, gno_jets, nsa

DOMAIN = {
    "num_heads": (1, 2, 3),
    "negative_slope": (0.2, -0.5, 0.0, 1.0),
    "window": (None, 1, 2, 3, 7, 40),
    "scale": (None, 0.3, 0.0, -1.0),
    "q_offset": (0, 0, 1, -2, 5),
    "block_size": (1, 2, 3, 5, 16),
    "block": (1, 2, 4),
    "stride": (1, 2, 3),
    "query_block": (1, 1, 2, 3),
    "n_blocks": (0, 1, 2, 3),
    "first_blocks": (0, 0, 1, 2),
    "local_blocks": (0, 0, 1, 2),
    "n_spherical": (1, 2, 4),
    "n_radial": (1, 2, 3),
    "exponent": (1, 2, 5),
    "widths": ([4], [3, 2], [2, 1, 3]),
}
"""Values of static arguments; those that are chosen by name, and booleans, need no line."""
LIMITS = {"window", "q_offset", "query_block", "stride", "block_size", "first_blocks"}
LIMITS |= {"local_blocks", "block"}
"""Integers that may be as large as they like, and then have the effect of `MANY`."""
MANY = 10**6
STYLES = {("agg_weighted", "w"): "positive", ("agg_concat", "w"): "positive"}
STYLES |= {("selected_attention", "slot_gate"): "positive", ("radial_basis", "x"): "unit"}
SMOOTH = {"gelu", "silu", "tanh", "sin", "identity", "Linear", "Scalar", "Sigmoid", "Tanh"}
ON_EDGES = {
    "gno_aggregate": gno.gno_aggregate,
    "gno_contract": gno.gno_contract,
    "gno": gno.gno,
    "gno_with_gradient": gno_jets.gno_with_gradient,
    "gno_with_laplacian": gno_jets.gno_with_laplacian,
    "gno_with_hessian": gno_jets.gno_with_hessian,
    "agg_weighted": aggregation.agg_weighted,
    "agg_simple": aggregation.agg_simple,
    "agg_concat": aggregation.agg_concat,
    "mha_gat": gat.mha_gat,
    "mha_gat_v2": gat.mha_gat_v2,
    "mha_simple": gat.mha_simple,
}
ORACLES = {
    "gno_kernel": gno.gno_kernel,
    "selected_attention": lambda *x, **s: nsa.selected_attention(*x, **s)[0],
    "compressed_attention": nsa.compressed_attention,
    "window_attention": lambda *x, **s: nsa.window_attention(*x, **s)[0],
    "compress": lambda x, w, n_compressed, **s: nsa.compress(x, w, **s),
    "select_blocks": lambda q, k, lse, **s: nsa.select_blocks(q, k, **s),
}
FACES = {"forward": (), "vjp": ("cotangent",), "jvp": ("tangents",)}
FACES["hvp"] = ("cotangent", "tangents")


@dataclass
class Call:
    """An operator, its arguments, and what its derivatives take besides."""

    operator: gg.Function
    inputs: tuple
    static: dict
    edges: Edges | None = None
    ghost: bool = False
    cotangent: object = None
    tangents: tuple = ()
    names: list = field(default_factory=list)

    @property
    def faces(self):
        return list(FACES)[: 4 if isinstance(self.operator, gg.Operator) else 1]

    def arguments(self, face):
        more = {name: getattr(self, name) for name in FACES[face]}
        return {"inputs": self.inputs, **more, **self.static}


def invoke(trial, call, face, arguments):
    """Call a face by the names of its arguments."""
    function, rest = getattr(call.operator, face), dict(arguments)
    name = f"{call.operator.name}.{face}"
    if face == "forward" and isinstance(rest["inputs"], tuple):
        return trial.attempt(name, function, *rest.pop("inputs"), names=call.names, **rest)
    return trial.attempt(name, function, names=call.names, **rest)


# ---- valid calls ----


def make(trial, name, style="normal", forced=(), dense=False):
    """A valid call; `dense` ones have something in every dimension."""
    operator, edges = getattr(gg, name), None
    static = chosen(trial, operator) | dict(forced)
    sizes = {k: v for k, v in static.items() if type(v) is int}
    if "graph" in operator.static:
        edges = values.graph(trial, same_nodes=name == "agg_edge_to_edge", some=dense)
        static["graph"] = edges.graph
        sizes.update(n_src=edges.n_src, n_dst=edges.n_dst, n_edges=edges.n_edges)
    small = (1, 2, 3) if dense else (0, 1, 1, 2, 3, 5)
    sizes["Hk"] = trial.pick(*small)
    sizes["Hq"] = sizes["Hk"] * trial.pick(1, 1, 2, 3)
    tokens(trial, operator, static, sizes, dense)
    signature = operator.signature(**static)
    specs = signature.inputs | signature.arrays
    known = set(sizes)
    present = {}
    for label, spec in specs.items():
        if not shapes.parse(spec).optional or label in static and static[label] is not None:
            present[label] = spec
        elif label in signature.inputs and trial.chance(0.7):
            if label != "weight_derivatives" or "edge_weight" in present:
                present[label] = spec
    told = {
        word
        for spec in present.values()
        for dim in _dims(spec)
        if "+" not in dim
        for word in _words(dim)
    }
    for word in itertools.chain(*(_words(dim) for spec in specs.values() for dim in _dims(spec))):
        # what no array tells is 0
        sizes.setdefault(word, trial.pick(*small, *([] if dense else [17])) if word in told else 0)
    ghost = not dense and trial.chance(0.1) and _make_ghost(trial, signature, sizes, known)
    inputs = []
    for label, spec in signature.inputs.items():
        if label not in present:
            inputs.append(None)
            continue
        own = style if style == "wild" else STYLES.get((name, label), style)
        inputs.append(numbers(trial, shapes.shape_of(spec, sizes), own))
    if "block_index" in static:
        shape = shapes.shape_of(specs["block_index"], sizes)
        static["block_index"] = selection(trial, static, shape, sizes)
    if name == "select_blocks" and not ghost:
        shared = ("block", "stride", "scale", "causal", "q_offset", "cu_q")
        q, k, lse = inputs
        k_ends = static["cu_k"]
        if k_ends is not None:
            k_ends = gg.compressed_offsets(k_ends, sizes["block"], sizes["stride"])
        same_static = {label: static[label] for label in shared}
        if q.shape[1] and q.shape[2]:
            _, inputs[2] = gg.compressed_attention(q, k, k, cu_k=k_ends, **same_static)
    call = Call(operator, tuple(inputs), static, edges, ghost)
    call.names = [*operator.inputs, *operator.static]
    call.names += ["cotangent", "tangent", "saved", "wrt", "out"]
    if isinstance(operator, gg.Operator) and any(x is not None for x in inputs):
        given = [None if x is None else (x.shape, str(x.dtype)) for x in inputs]
        results = list(operator.results(given, **static).values())[: operator.n_outputs]
        if all(np.prod(shape, dtype=float) < MANY for shape, _ in results):
            cotangents = tuple(numbers(trial, shape) for shape, _ in results)
            call.cotangent = cotangents if len(cotangents) > 1 else cotangents[0]
        call.tangents = tuple(None if x is None else numbers(trial, x.shape) for x in inputs)
    return call


def _dims(spec):
    return shapes.parse(spec).dims


def _words(dim):
    return compile(dim, "", "eval").co_names


def chosen(trial, operator):
    """Static arguments but the graph and the arrays."""
    static = {}
    for name, default in operator.static.items():
        if name in operator._choices:
            static[name] = trial.pick(*operator._choices[name])
        elif isinstance(default, bool):
            static[name] = trial.pick(True, False)
        elif name in DOMAIN:
            static[name] = trial.pick(*DOMAIN[name])
        elif name != "graph":
            static[name] = None if default is inspect.Parameter.empty else default
    return static


def tokens(trial, operator, static, sizes, dense):
    """Numbers of tokens, and the borders of packed sequences."""
    if not operator.arrays:
        return
    lengths = (1, 3, 6, 20) if dense else (0, 1, 3, 6, 20, 70)
    for word in ("T", "Tq", "Tk"):
        sizes[word] = trial.pick(*lengths)
    n_sequences = sizes["n_sequences"] = trial.pick(1, 2, 3)
    packed = trial.chance(0.4) and static.get("query_block", 1) < MANY
    steps = {"cu": 1, "cu_q": static.get("query_block", 1), "cu_k": 1}
    ends = {"cu": "T", "cu_q": "Tq", "cu_k": "Tk"}
    for label in steps:
        if label not in operator.static:
            continue
        n, step = sizes[ends[label]], steps[label]
        cuts = np.sort(trial.rng.integers(0, n // step + 1, n_sequences - 1)) * step
        static[label] = np.array([0, *cuts, n], np.int64) if packed else None
    if operator.name == "select_blocks":
        static["n_blocks"] += static["first_blocks"] + static["local_blocks"]
        static["exclude_own"] &= static["local_blocks"] == 0
        static["n_keys"] = sizes["n_keys"] = sizes["Tk"]
        cu = [0, sizes["Tk"]] if static["cu_k"] is None else static["cu_k"]
        sizes["Tc"] = int(gg.compressed_offsets(cu, static["block"], static["stride"])[-1])


def selection(trial, static, shape, sizes):
    """Blocks that the sequences have, or none."""
    chosen = np.full(shape, -1, np.int32)
    cu_q = [0, sizes["Tq"]] if static["cu_q"] is None else static["cu_q"]
    cu_k = [0, sizes["Tk"]] if static["cu_k"] is None else static["cu_k"]
    for (first, end), (k_first, k_end) in zip(
        itertools.pairwise(cu_q), itertools.pairwise(cu_k), strict=True
    ):
        n_blocks = -((k_first - k_end) // static["block_size"])
        rows = slice(first // static["query_block"], -(-end // static["query_block"]))
        if n_blocks:
            chosen[rows] = trial.rng.integers(-1, n_blocks, chosen[rows].shape)
    if static["duplicates"] == "error":
        chosen[..., 1:] = -1
    return chosen


def _make_ghost(trial, signature, sizes, known):
    """One dimension is huge, where no array has elements all the same."""
    free = [word for word in sizes if word not in known and word != "n_sequences"]
    word = trial.pick(*free, *(["Hq"] if "Hq" in str(signature.inputs) else []))
    huge = sizes | {word: int(trial.pick(2**31 - 1, 2**31, 2**32, 2**32 + 1))}
    if word == "Hq":
        huge[word] = 2**32 * sizes["Hk"]
    specs = signature.inputs | signature.arrays
    if any(0 not in shapes.shape_of(s, huge) for s in specs.values() if not s.startswith("int64")):
        return False
    sizes.update(huge)
    return True


def valid(trial, name):
    """Layouts, `out`, guard zones, kinds of static arguments, `wrt`; then what is true of values."""
    style = trial.pick("normal", "normal", "normal", "ties", "wild")
    call = make(trial, name, style)
    results = {}
    for face in call.faces:
        if call.cotangent is None and face in ("vjp", "hvp"):
            continue
        arguments = call.arguments(face)
        result = results[face] = invoke(trial, call, face, arguments)
        if isinstance(result, Exception):
            empty = any(0 in x.shape for x in call.inputs if x is not None)
            nothing = all(x is None for x in call.inputs)
            if not (empty or nothing or call.ghost):
                trial.find(f"a valid call was refused: {result}")
            return
        if not call.ghost:
            in_disguise(trial, call, face, arguments, result)
    if style == "normal" and trial.dtype == np.float64 and not call.ghost:
        correct(trial, call, results)


def in_disguise(trial, call, face, arguments, result):
    """The same bits from other layouts, into given memory, and for a subset of the gradients."""
    flat = result if isinstance(result, tuple) else (result,)
    memory = [(None, None) if x is None else values.guarded(x) for x in flat]
    other = {name: _disguised(trial, name, value) for name, value in arguments.items()}
    wanted = list(call.operator.inputs)
    if face in ("vjp", "hvp") and trial.chance(0.4):
        wanted = [name for name in wanted if trial.chance(0.5)]
        other["wrt"] = trial.pick(wanted, set(wanted), tuple(wanted))
        keep = [name in wanted for name in call.operator.inputs]
        flat = tuple(x if k else None for x, k in zip(flat, keep, strict=True))
        memory = [m if k else (None, None) for m, k in zip(memory, keep, strict=True)]
    if face == "vjp" and trial.chance(0.5):
        _, other["saved"] = call.operator.forward(*call.inputs, return_saved=True, **call.static)
    if trial.chance(0.7):
        other["out"] = tuple(inside for inside, _ in memory)
    before = [x.copy() for x in _arrays(other, skip="out")]
    again = invoke(trial, call, face, other)
    if isinstance(again, Exception):
        trial.find("refused in another layout or kind of number")
        return
    again = again if isinstance(again, tuple) else (again,)
    if "saved" in other:  # rounding may differ from what is computed again
        trial.expect(all(map(_close, flat, again)), "another value with `saved`")
    else:
        trial.expect(same(flat, again), "other bits in another layout or kind of number")
    if "out" in other:
        trial.expect(all(a is o for a, o in zip(again, other["out"], strict=True)), "not in `out`")
        trial.expect(all(m[1]() for m in memory if m[1]), "wrote around `out`")
    trial.expect(same(before, list(_arrays(other, skip="out"))), "changed an input")


def _close(a, b):
    if a is None or b is None:
        return a is b
    eps = np.finfo(a.dtype).eps
    size = max(_size(a), _size(b))
    return np.allclose(a, b, rtol=1e3 * eps, atol=1e3 * eps * size, equal_nan=True)


def _size(a):
    finite = np.abs(a[np.isfinite(a)])
    return finite.max(initial=1)


def _disguised(trial, name, value):
    """Arrays in other layouts, numbers of other types."""
    if name in ("inputs", "tangents", "cotangent") and isinstance(value, tuple):
        return tuple(disguised(trial, x) for x in value)
    if isinstance(value, np.ndarray):
        return disguised(trial, value)
    if type(value) is int:
        return trial.pick(value, np.int64(value), np.int32(value), np.array(value), Index(value))
    if type(value) is float:
        return trial.pick(value, np.float64(value), np.array(value))
    if type(value) is list:
        return trial.pick(value, tuple(value), [np.int64(x) for x in value])
    return value


Index = values.Index


def _arrays(arguments, skip=""):
    for name, value in arguments.items():
        for x in value if isinstance(value, tuple) else (value,):
            if isinstance(x, np.ndarray) and name != skip:
                yield x


# ---- what is true of values ----


def correct(trial, call, results):
    """The formula in float64; adjointness, symmetry, and differences."""
    formula = oracle(call)
    if formula is not None and trial.chance(0.5):
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = formula()
        actual = results["forward"]
        pairs = zip(_tuple(actual), _tuple(expected), strict=True)
        trial.expect(
            all(a.shape == e.shape and np.allclose(a, e, 1e-9, 1e-9) for a, e in pairs),
            "another value than the formula's",
        )
    if "hvp" not in results or not all(np.isfinite(x).all() for x in _tuple(results["forward"])):
        return
    left = inner(results["vjp"], call.tangents)
    cotangents, right = _tuple(call.cotangent), _tuple(results["jvp"])
    scale = sum(np.abs(c * r).sum() for c, r in zip(cotangents, right, strict=True))
    trial.expect(values.close(left, inner(cotangents, right), scale), "vjp and jvp are not adjoint")
    operator, static = call.operator, call.static
    other = like(call.inputs, trial.rng)
    twice = operator.hvp(call.cotangent, call.inputs, other, **static)
    left, right = inner(results["hvp"], other), inner(twice, call.tangents)
    scale = sum(
        np.abs(g * t).sum() for g, t in zip(twice, call.tangents, strict=True) if g is not None
    )
    trial.expect(values.close(left, right, scale), "the hvp is not symmetric")
    smooth = static.get("activation", "tanh") in SMOOTH
    if smooth and static.get("aggregation") not in ("min", "max"):
        step = 1e-6
        near = [
            tuple(
                None if x is None else x + s * step * t
                for x, t in zip(call.inputs, call.tangents, strict=True)
            )
            for s in (1, -1)
        ]
        for face, function in (
            ("jvp", lambda x: operator.forward(*x, **static)),
            ("hvp", lambda x: operator.vjp(call.cotangent, x, **static)),
        ):
            ahead, behind = (_tuple(function(x)) for x in near)
            for r, a, b in zip(_tuple(results[face]), ahead, behind, strict=True):
                if r is not None:
                    close = values.close(r, (a - b) / (2 * step), _size(a) + _size(r), 1e-6)
                    trial.expect(close, f"{face} is not the derivative")


def oracle(call):
    """The value by its formula, where there is one for these arguments."""
    name, inputs = call.operator.name, call.inputs
    static = {k: v for k, v in call.static.items() if k != "graph"}
    if static.pop("kernel", "full") == "diagonal":
        return None
    weight = dict(zip(call.operator.inputs, inputs, strict=True))
    if weight.get("weight_derivatives") is not None and weight.get("edge_weight") is None:
        return None
    if (
        all(x is None for x in inputs)
        or any(0 in x.shape[1:] for x in inputs if x is not None)
        or static.get("n_keys") == 0
    ):
        return None
    if name in ON_EDGES:
        e = call.edges
        return partial(ON_EDGES[name], *inputs, src=e.src, dst=e.dst, n_dst=e.n_dst, **static)
    if name == "agg_edge_to_edge":
        e = call.edges
        return partial(dimenet.agg_edge_to_edge, *inputs, src=e.src, dst=e.dst, **static)
    return partial(ORACLES[name], *inputs, **static) if name in ORACLES else None


def _tuple(x):
    return x if isinstance(x, tuple) else (x,)


# ---- NaN ----


def not_a_number(trial, name):
    """A NaN reaches what depends on its place, and nothing else."""
    call = make(trial, name, dense=True)
    if name == "select_blocks" or all(x is None for x in call.inputs):
        return
    # a NaN among the least wins, and then it is alone in what it gets
    extreme = call.static.get("aggregation") in ("min", "max")
    face = "forward" if extreme else trial.pick(*call.faces)
    arguments = call.arguments(face)
    groups = [g for g in ("inputs", "tangents", "cotangent") if g in arguments]
    group = trial.pick(*groups)
    members = list(_tuple(arguments[group]))
    k = trial.pick(*[k for k, x in enumerate(members) if x is not None and x.size] or [None])
    if k is None:
        return
    member = call.operator.inputs[k] if group == "inputs" else group
    place = tuple(int(trial.rng.integers(n)) for n in members[k].shape)

    def moved(value):
        changed = members[k].copy()
        changed[place] = value
        whole = (*members[:k], changed, *members[k + 1 :])
        return invoke(
            trial,
            call,
            face,
            arguments | {group: whole if len(whole) > 1 or group != "cotangent" else whole[0]},
        )

    old = members[k][place]
    results = [moved(value) for value in (old, *_other_values(call, face, old), np.nan)]
    errors = [x for x in results if isinstance(x, Exception)]
    if errors:
        trial.expect(len(errors) == len(results), f"refused for a value: {errors[0]}")
        return
    start, *others, nan = map(_tuple, results)
    moves, where = np.zeros(len(start[0]) if face == "forward" else 0, bool), f"{face} by {member}"
    for j, s in enumerate(start):
        if s is None:
            continue
        # by more than the rounding of sums in which it does not take part
        depends = np.zeros(s.shape, bool)
        for other in others:
            size = np.abs(s) + np.abs(other[j])
            with np.errstate(invalid="ignore"):
                depends |= np.abs(s - other[j]) > 1e3 * np.finfo(s.dtype).eps * np.where(
                    np.isfinite(size), size, 0
                )
            depends |= np.isfinite(s) != np.isfinite(other[j])
        trial.expect(np.isnan(nan[j])[depends].all(), f"a NaN became a number: {where}")
        if face == "forward":
            moves |= depends.reshape(len(moves), depends[:1].size).any(axis=1)
    # Softmax and mean cancel what all edges of a row have in common, dead units of relu their
    # inputs; and products of panels multiply keys that are not seen by 0.
    spec = call.operator.signature(**call.static).inputs.get(member, "None")
    local = _dims(spec)[:1] in [("n_src",), ("n_dst",), ("n_edges",), ("T",)]
    local &= call.static.get("activation") != "relu"
    cancels = "mha" in name or call.static.get("aggregation") == "mean"
    if face == "forward" and local and (not cancels or member in ("v", "x_src", "x")):
        for a, b in zip(start, nan, strict=True):
            spread = (np.isnan(b) & ~np.isnan(a)).reshape(len(moves), a[:1].size).any(axis=1)
            trial.expect(not (spread & ~moves).any(), f"a NaN spread: {where}")


def _other_values(call, face, old):
    """Values near and far; derivatives of what has kinks or winners are compared near only."""
    near = [old * 1.01 + 1e-3]
    return (
        [*near, 50.0, -50.0] if face == "forward" and call.operator.name != "radial_basis" else near
    )


# ---- calls that must not be answered, or rightly ----


def hostile(trial, name):
    """One argument of a valid call is something else."""
    operator = getattr(gg, name)
    target = trial.pick(*operator.inputs, *operator.static, *operator.static, *EXTRA)
    extreme = None
    forced = {}
    if target in LIMITS and trial.chance(0.6) and (name, target) != ("compress", "block"):
        extreme = trial.pick(*values.EXTREMES)
        forced = {target: int(np.clip(extreme, -MANY, MANY))}
    if forced.get(target, 1) < 1 and target not in (
        "q_offset",
        "window",
        "first_blocks",
        "local_blocks",
    ):
        return
    call = make(trial, name, forced=forced, dense=trial.chance(0.5))
    if call.ghost or (call.cotangent is None and len(call.faces) > 1):
        return
    face = trial.pick(*call.faces)
    arguments = call.arguments(face)
    base = invoke(trial, call, face, arguments)
    if target == "wrt" and face in ("vjp", "hvp"):
        wrong = trial.pick("nonsense", ["nonsense"], 3, [3], np.array(["nonsense"]), [None])
        refused(trial, call, face, arguments | {"wrt": wrong}, "wrt", wrong)
    elif target == "saved" and face == "vjp":
        strange_saved(trial, call, arguments)
    elif target == "unknown":
        refused(trial, call, face, arguments | {"unknown": 1}, "unknown", 1)
    elif target in operator.inputs or target in ("tangents", "cotangent"):
        strange_array(trial, call, face, arguments, target)
    elif target == "out" and not isinstance(base, Exception):
        strange_out(trial, call, face, arguments, _tuple(base))
    elif target in operator.arrays and arguments[target] is not None:
        strange_integers(trial, call, face, arguments, target)
    elif target in arguments:
        strange_static(trial, call, face, arguments, target, base, extreme)


EXTRA = ("tangents", "cotangent", "saved", "wrt", "out", "out", "out", "unknown")


def refused(trial, call, face, arguments, name, wrong):
    """A call that must raise, and leave `out` alone."""
    result = invoke(trial, call, face, arguments)
    what = wrong if isinstance(wrong, str) else type(wrong).__name__
    return trial.expect(isinstance(result, Exception), f"accepted as {name}: {what}")


def strange_array(trial, call, face, arguments, target):
    """No array, or one of another kind or size."""
    group = target if target in ("tangents", "cotangent") else "inputs"
    if group not in arguments:
        return
    members = list(_tuple(arguments[group]))
    k = (
        call.operator.inputs.index(target)
        if group == "inputs"
        else trial.rng.integers(len(members))
    )
    if members[k] is None:
        return
    if trial.chance(0.2):  # of another size, which may be right by chance
        n = members[k].shape[0]
        members[k] = np.resize(
            members[k], (trial.pick(n + 1, max(n - 1, 0)), *members[k].shape[1:])
        )
        invoke(trial, call, face, arguments | {group: tuple(members)})
        return
    members[k] = values.no_such_array(trial, members[k])
    whole = tuple(members) if len(members) > 1 or group != "cotangent" else members[0]
    alone = sum(x is not None for x in call.inputs) == 1 and face == "forward"
    if alone and getattr(members[k], "dtype", None) in (np.float32, np.float64):
        return
    refused(trial, call, face, arguments | {group: whole}, group, members[k])


def strange_integers(trial, call, face, arguments, target):
    """Static arguments that are arrays of integers."""
    array = arguments[target]
    if trial.chance(0.4):
        wrong = values.no_such_array(trial, array)
        refused(trial, call, face, arguments | {target: wrong}, target, wrong)
    elif array.size:
        array = array.copy()
        info = np.iinfo(array.dtype)
        array.flat[trial.rng.integers(array.size)] = trial.pick(info.min, info.max, -1, -2, 10**6)
        invoke(trial, call, face, arguments | {target: array})


def strange_saved(trial, call, arguments):
    """Saved arrays of another call, or nonsense in them: any answer will do."""
    _, saved = call.operator.forward(*call.inputs, return_saved=True, **call.static)
    saved = list(saved)
    for k, x in enumerate(saved):
        if x is None:
            continue
        if x.dtype.kind == "i":
            wild = np.array([0, -1, 5, 2**62, -(2**63), 2**63 - 1])
            saved[k] = trial.rng.choice(wild, x.shape).astype(x.dtype)
        else:
            saved[k] = numbers(trial, x.shape, "wild", x.dtype)
        if trial.chance(0.2):
            saved[k] = values.no_such_array(trial, x)
    wrong = trial.pick(tuple(saved), tuple(saved), tuple(saved), saved[:1], 3, "saved", (*saved, 1))
    invoke(trial, call, "vjp", arguments | {"saved": wrong})


def strange_static(trial, call, face, arguments, target, base, extreme):
    """Another value: refused, or the same as the Python number that it stands for."""
    value, default = arguments[target], call.operator.static[target]
    if extreme is not None:
        result = invoke(trial, call, face, arguments | {target: extreme})
        if not isinstance(result, Exception) and not isinstance(base, Exception):
            trial.expect(same(result, base), f"another value than for {MANY}")
        elif not isinstance(result, Exception):
            trial.find(f"accepted, unlike {MANY}")
        return
    if target == "graph":
        wrong = trial.pick(None, 3, "graph", ([0], [0]), np.zeros(3), object(), gg.Graph)
    elif target == "widths":
        wrong = trial.pick(
            3, None, "ab", [], [0], [2.5], [True], [-1], [2**62], [None], [2**64], {4}
        )
    elif target in call.operator._choices:
        wrong = trial.pick(*values.NO_NAMES)
    elif isinstance(value, bool):
        wrong = trial.pick(*values.NO_BOOLEANS)
    elif target in ("scale", "negative_slope"):
        wrong = trial.pick(*values.NO_NUMBERS, None, "0.3", 10**400, np.nan, np.inf, True)
        if wrong is not None and plain(wrong) is not None or wrong is True:
            invoke(trial, call, face, arguments | {target: wrong})
            return
    else:
        wrong = trial.pick(*values.NO_INTEGERS, *values.EXTREMES, None, 0, -1)
        if type(wrong) is int:  # of extremes, those that are no limits, and small ones
            invoke(trial, call, face, arguments | {target: wrong})
            return
    if wrong is not None or default is not None:
        refused(trial, call, face, arguments | {target: wrong}, target, wrong)


def strange_out(trial, call, face, arguments, base):
    """Memory for the results that is not to be written, or is no such memory."""
    k = trial.rng.integers(len(base))
    if base[k] is None or base[k].size == 0:
        return
    out = [None if x is None else np.full_like(x, 77) for x in base]
    kind = trial.pick("alias", "alias", "between", "read-only", "no array", "strided", "many")
    if kind == "read-only":
        out[k] = values.not_writable(trial, out[k])
    elif kind == "no array":
        out[k] = values.no_such_array(trial, out[k])
        if isinstance(out[k], np.ma.MaskedArray):
            out[k] = np.ma.masked_array(np.full_like(base[k], 77), mask=True)
    elif kind == "strided":
        out[k] = np.full((*base[k].shape, 2), 77, base[k].dtype)[..., 0]
        if out[k].flags.c_contiguous:
            return
    elif kind == "many":
        out.append(out[k])
    elif kind == "between":
        others = [j for j, x in enumerate(base) if x is not None and x.size and j != k]
        if not others:
            return
        j = trial.pick(*others)
        out[k], out[j] = _overlapping(trial, base[k], base[j])
    else:
        found = [
            (group, j, x)
            for group in ("inputs", "tangents", "cotangent")
            for j, x in enumerate(_tuple(arguments.get(group)))
            if isinstance(x, np.ndarray) and x.size and x.dtype == base[k].dtype
        ]
        group, j, x = trial.pick(*found) if found else (None, None, None)
        if group is None:
            return
        members = list(_tuple(arguments[group]))
        members[j], out[k] = _overlapping(trial, x, base[k])
        members[j][...] = x
        whole = tuple(members) if len(members) > 1 or group != "cotangent" else members[0]
        arguments = arguments | {group: whole}
    if trial.chance(0.3) and kind != "many":
        out = [x if j == k or kind == "between" else None for j, x in enumerate(out)]
    before = [x.copy() if isinstance(x, np.ndarray) else x for x in out]
    refused(trial, call, face, arguments | {"out": tuple(out)}, "out", kind)
    untouched = all(
        same(a, b) for a, b in zip(before, out, strict=True) if isinstance(a, np.ndarray)
    )
    trial.expect(untouched, f"`out` was written: {kind}")


def _overlapping(trial, x, y):
    """Memory for both, in which they share a part."""
    zone = np.full(x.size + y.size, 77, x.dtype)
    first = trial.rng.integers(x.size + y.size - max(x.size, y.size))
    if y.dtype != x.dtype:  # positions beside numbers
        return zone[: x.size].reshape(x.shape), np.full_like(y, 77)
    at = min(first, x.size - 1)
    return zone[: x.size].reshape(x.shape), zone[at : at + y.size].reshape(y.shape)


PROGRAMS = (valid, valid, hostile, hostile, hostile, not_a_number)


def subject(name):
    """One operator."""

    def run(trial):
        trial.threads()
        trial.pick(*PROGRAMS)(trial, name)

    return run


SUBJECTS = {name: subject(name) for name in sorted(FUNCTIONS)}
