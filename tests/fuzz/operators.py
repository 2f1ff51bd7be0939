# SPDX-License-Identifier: MIT
"""Valid calls of all operators and functions of the package.

Shapes come from the operators' own signatures, so that a new operator needs at most a line in
`DOMAIN`; its formula is its oracle.
"""

import inspect
import itertools
from dataclasses import dataclass

import numpy as np
import values
from values import numbers

import gnograd as gg
from calls import FUNCTIONS
from conftest import Edges
from gnograd.notation import shapes
from table_case import SEEN

NAMES = sorted(FUNCTIONS)
DOMAIN = {
    "num_heads": (1, 2, 3),
    "negative_slope": (0.2, -0.5, 0.0, 1.0),
    "dropout": (0.0, 0.0, 0.3, 0.9, 1.0),
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
    "keep": (None, None, 1, 2, 5, 40),
    "n_spherical": (1, 2, 4),
    "n_radial": (1, 2, 3),
    "exponent": (1, 2, 5),
    "widths": ([4], [3, 2], [2, 1, 3]),
    "n_relations": (1, 2, 5),
}
"""Values of static arguments, None where that is the default; those that are chosen by name, and
booleans, need no line."""
STYLES = {(name, "w"): "positive" for name in ("agg_weighted", "agg_concat", "agg_relational")}
STYLES |= {("selected_attention", "slot_gate"): "positive", ("radial_basis", "x"): "unit"}
STYLES |= {(name, "temperature"): "positive" for name in ("attention", "attention_pool")}
MANY = 10**6
"""A size beyond all others here."""
FACES = {
    "forward": (), "vjp": ("cotangent",), "jvp": ("tangents",), "hvp": ("cotangent", "tangents")
}  # fmt: skip
"""Arguments of faces besides the inputs."""


@dataclass
class Call:
    """An operator and its arguments."""

    operator: gg.Function
    inputs: tuple
    static: dict
    edges: Edges | None = None
    ghost: bool = False
    """True if a dimension is huge; no array has elements then."""
    cotangent: object = None
    tangents: tuple = ()

    @property
    def faces(self):
        return [
            face for face, more in FACES.items()
            if isinstance(self.operator, gg.Operator) and not ("cotangent" in more and self.ghost)
        ] or ["forward"]  # fmt: skip

    def arguments(self, face):
        return {"inputs": self.inputs, **{k: getattr(self, k) for k in FACES[face]}, **self.static}


def invoke(trial, call, face, arguments):
    """Call a face by the names of its arguments."""
    operator, rest = call.operator, dict(arguments)
    names = [*operator.inputs, *operator.static, "cotangent", "tangent", "saved", "wrt", "out"]
    given = rest.pop("inputs") if face == "forward" else ()
    function = getattr(operator, face)
    return trial.attempt(f"{operator.name}.{face}", function, *given, names=names, **rest)


def make(trial, name, style="normal", forced=(), dense=False):
    """A valid call; `dense` ones have something in every dimension."""
    operator, edges = getattr(gg, name), None
    static = chosen(trial, operator) | dict(forced)
    sizes = {k: v for k, v in static.items() if type(v) is int}
    if "graph" in operator.static:
        edges = values.graph(trial, same_nodes=name == "agg_edge_to_edge", some=dense)
        static["graph"] = edges.graph
        sizes.update(n_src=edges.n_src, n_dst=edges.n_dst, n_edges=edges.n_edges)
    small = (1, 2, 3) if dense else (0, 1, 1, 2, 3, 5, 16)
    sizes["*"] = () if dense else trial.pick((), (), (3, 2), (1,), (0,))
    sizes["Hk"] = trial.pick(*small)
    sizes["Hq"] = sizes["Hk"] * trial.pick(1, 1, 2, 3)
    tokens(trial, operator, static, sizes, dense)
    signature = operator.signature(**static)
    sizes.update(signature.sizes)
    known, specs = set(sizes), signature.inputs | signature.arrays
    present = {}
    if "positions_q" in specs:
        sizes["d"] = trial.pick(1, 2, 3, 8)
    together = trial.chance(0.5)
    for label, spec in specs.items():
        if not shapes.parse(spec).optional or static.get(label) is not None:
            present[label] = spec
        elif label == "weight_derivatives" and "edge_weight" not in present:
            continue  # they go together
        elif label in signature.all_or_none:
            if together:
                present[label] = spec
        elif label in signature.inputs and trial.chance(0.7):
            present[label] = spec
    if name in SEEN and not {*SEEN[name]} & {*present}:
        label = [*SEEN[name]][-1]
        present[label] = specs[label]  # the network needs something to see
    told = {
        w for spec in present.values() for dim in dims(spec) if "+" not in dim for w in _words(dim)
    }
    for word in (w for spec in specs.values() for dim in dims(spec) for w in _words(dim)):
        # what no array tells is 0
        sizes.setdefault(word, trial.pick(*small) if word in told else 0)
    if "temperature" in present:
        sizes["Tt"] = trial.pick(1, sizes["Tq"])
    if name in SEEN:
        seen = [size for label, size in SEEN[name].items() if label in present]
        if name == "edge_mlp" and static["residual"]:
            sizes["F_e"] = sizes["F_out"]
        sizes[seen[0]] = max(1, sizes[seen[0]])
        sizes["n_in"] = sum(sizes[word] for word in seen)
    ghost = not dense and trial.chance(0.1) and make_ghost(trial, signature, sizes, known)
    inputs = {}
    for label, spec in signature.inputs.items():
        own = style
        if style != "wild" or label in ("slot_gate", "temperature"):
            own = STYLES.get((name, label), style)
        shape = shapes.shape_of(spec, sizes) if label in present else None
        inputs[label] = None if shape is None else numbers(trial, shape, own)
    if "block_index" in static:
        shape = shapes.shape_of(specs["block_index"], sizes)
        static["block_index"] = selection(trial, static, shape, sizes)
    if "edge_type" in operator.static:
        types = trial.rng.integers(0, static["n_relations"], sizes["n_edges"], np.int32)
        static["edge_type"] = types
    if name == "select_blocks" and not ghost and inputs["q"].shape[1] * inputs["q"].shape[2]:
        needed = static["keep"] is None or trial.chance(0.5)
        inputs["lse"] = log_sum_exp(inputs["q"], inputs["k"], static) if needed else None
    call = Call(operator, tuple(inputs.values()), static, edges, ghost)
    if isinstance(operator, gg.Operator) and any(x is not None for x in call.inputs):
        call.tangents = tuple(None if x is None else numbers(trial, x.shape) for x in call.inputs)
        if not ghost:
            given = [None if x is None else (x.shape, str(x.dtype)) for x in call.inputs]
            results = list(operator.results(given, **static).values())[: operator.n_outputs]
            there = operator.signature(**static).there
            cotangents = tuple(
                numbers(trial, shape)
                for (shape, _), is_there in zip(results, there, strict=True)
                if is_there
            )
            call.cotangent = cotangents if len(cotangents) > 1 else cotangents[0]
    return call


def dims(spec):
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
            some = [value for value in DOMAIN[name] if value is not None or default is None]
            static[name] = trial.pick(*some)
        elif name != "graph":
            static[name] = None if default is inspect.Parameter.empty else default
    if static.get("dropout", 0) or ("seed" in static and trial.chance(0.3)):
        static["seed"] = trial.rng.integers(-(2**63), 2**63, 1)
    return static


def tokens(trial, operator, static, sizes, dense):
    """Numbers of tokens, and the borders of packed sequences."""
    if not operator.arrays:
        return
    for word in ("T", "Tq", "Tk"):
        # 600 is behind all sizes at which kernels cut sequences
        sizes[word] = trial.pick(*(() if dense else (0, 70, 600)), 1, 3, 6, 20)
    n_sequences = sizes["n_sequences"] = trial.pick(1, 2, 3)
    query_block = static.get("query_block", 1)
    packed = trial.chance(0.4) and query_block < MANY
    for label, end, step in (("cu", "T", 1), ("cu_q", "Tq", query_block), ("cu_k", "Tk", 1)):
        if label in operator.static:
            most = sizes[end] // step
            # also sequences of nothing beside one of all
            cuts = [
                trial.pick(0, most, int(trial.rng.integers(0, most + 1)))
                for _ in range(n_sequences - 1)
            ]
            borders = [0, *(step * cut for cut in sorted(cuts)), sizes[end]]
            static[label] = np.array(borders, np.int64) if packed else None
    if operator.name == "select_blocks":
        static["n_keys"] = sizes["n_keys"] = sizes["Tk"]
        static["n_blocks"] += static["first_blocks"] + static["local_blocks"]
        static["exclude_own"] &= static["local_blocks"] == 0
        static["causal"] &= static["keep"] is None
        sizes["Tc"] = int(compressed(static)[-1])


def compressed(static):
    """Borders of the compressed sequences."""
    cu = [0, static["n_keys"]] if static["cu_k"] is None else static["cu_k"]
    return gg.compressed_offsets(cu, static["block"], static["stride"])


def log_sum_exp(q, k, static):
    """Logarithms of the sums of exponentials that `select_blocks` needs of queries and keys."""
    shared = {name: static[name] for name in ("block", "stride", "scale", "causal", "q_offset")}
    shared |= {"cu_q": static["cu_q"], "cu_k": compressed(static)}
    if static["cu_k"] is None:
        shared["cu_k"] = None
    return gg.compressed_attention(q, k, k, **shared)[1]


def selection(trial, static, shape, sizes):
    """Blocks that the sequences have, or none."""
    blocks = np.full(shape, -1, np.int32)
    cu_q = [0, sizes["Tq"]] if static["cu_q"] is None else static["cu_q"]
    cu_k = [0, sizes["Tk"]] if static["cu_k"] is None else static["cu_k"]
    borders = zip(itertools.pairwise(cu_q), itertools.pairwise(cu_k), strict=True)
    for (first, end), (k_first, k_end) in borders:
        n_blocks = -((k_first - k_end) // static["block_size"])
        rows = slice(first // static["query_block"], -(-end // static["query_block"]))
        if n_blocks:
            blocks[rows] = trial.rng.integers(-1, n_blocks, blocks[rows].shape)
    if static["duplicates"] == "error":
        blocks[..., 1:] = -1
    return blocks


def make_ghost(trial, signature, sizes, known):
    """Make a dimension huge, where no array has elements all the same."""
    specs = [s for s in (signature.inputs | signature.arrays).values() if not s.startswith("int64")]
    heads = ["Hq"] if any("Hq" in spec for spec in specs) else []
    word = trial.pick(*[word for word in sizes if word not in known], *heads)
    n = int(trial.pick(2**31 - 1, 2**31, 2**32, 2**32 + 1))
    huge = sizes | {word: n * sizes["Hk"] if word == "Hq" else n}
    ghost = all(0 in shapes.shape_of(spec, huge) for spec in specs)
    sizes.update(huge if ghost else {})
    return ghost
