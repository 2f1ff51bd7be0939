# SPDX-License-Identifier: MIT
"""Cases and pieces of Fortran for `operators.fypp`, from the declarations of the operators.

Every operator is tested in its first form, with each value of each choice, and without each input
that may be absent. Sizes and static arguments that have no default are in `SIZES` and `GIVEN`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

import kernels
from declarations import BATCH, NOTHING, Array, Operator, Static, names_in, read_operators

import fortran

operators = [op for op in read_operators() if op.differentiable]

SIZES = {
    "n_features": 3, "n_edge_features": 2, "n_own_features": 2, "n_heads": 2, "n_channels": 3,
    "n_edge_channels": 2, "n_queries": 7, "n_keys": 11, "n_query_heads": 4, "d_k": 3, "d_v": 2,
    "n_temperatures": 7, "n_sequences": 2, "n_edges": 18, "n_spherical": 3, "n_radial": 2,
    "exponent": 5, "n_mid": 3, "n_emb": 4, "f_e": 3, "f_s": 2, "f_d": 1, "n_src_features": 3,
    "n_dst_features": 1, "d": 2, "n_hidden": 5, "f_in": 3, "f_out": 4, "n_batch": 1,
    "n_functions": 2, "d_y": 2, "d_x": 1, "d_c": 2, "n_slots": 2, "block_size": 4, "query_block": 1,
    "q_offset": 0, "block": 4, "stride": 1, "n_tokens": 20, "n_compressed": 9, "n_relations": 3,
    "n_bases": 2, "window": 3,
}  # fmt: skip
"""Sizes and static integers by their names in C."""
GIVEN = {"widths": "[4, 3]", "seed": "[2_int64**62 + 3]"}
"""Static lists and arrays, as expressions of Fortran."""
ARRAYS = {
    "cu_q": "[0_int64, n_queries/6*3, n_queries]",
    "cu_k": "[0_int64, n_keys/2, n_keys]",
    "cu": "[0_int64, n_tokens/2, n_tokens]\nn_compressed = n_compressed - block + 1",
    "block_index": "reshape([(int(mod(mod(k, n_slots) + k/n_slots, (n_keys/2 + block_size - 1)/"
    "block_size), int32), k=0, n_slots*n_heads*((n_queries + query_block - 1)/query_block) - 1)], "
    "[n_slots, n_heads, (n_queries + query_block - 1)/query_block])",
    "edge_type": "[(int(mod(k, max(n_relations - 1, 1_int64)), int32), k=1, self%graph%n_edges)]",
}
"""Static arrays that depend on sizes, as expressions of Fortran, and statements behind them."""
FORMS = {
    "gno": ["n_batch=2"],
    "mha_gat": ["dropout=0.5"],
    "mha_gat_v2": ["dropout=0.5"],
    "mha_simple": ["dropout=0.5"],
    "gno_with_hessian": ["kernel=diagonal geometry=pair"],
    "selected_attention": ["causal=True q_offset=5 query_block=3 n_slots=3"],
}
"""Further forms of operators: values of static arguments and sizes."""
WITHOUT = {
    "mha_gat": ["e n_edge_channels=0"],
    "agg_simple": ["x", "e"],
    "edge_mlp": ["x_src", "x_dst", "edge_weight", "x_src edge_weight"],
    "gno": ["edge_weight"],
    "gno_contract": ["edge_weight"],
    "gno_deep": ["h", "y", "x", "c", "edge_weight", "y c"],
    "update_edges": ["e", "x_src", "x_dst", "e x_src"],
    "window_attention": ["positions_q positions_k slope"],
    **{f"gno_with_{name}": ["weight_derivatives", "edge_weight weight_derivatives"]
       for name in ("gradient", "laplacian", "hessian")},
}  # fmt: skip
"""Inputs that are absent together, where not every one may be absent alone, and sizes."""


@dataclass(frozen=True)
class Case:
    """A form of an operator."""

    op: Operator
    changes: dict[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name for messages."""
        words = [f"{k}={v}" for k, v in self.changes.items()]
        return " ".join([self.op.name, *words, *(f"no {name}" for name in self.absent)])

    @property
    def statics(self) -> dict[str, object]:
        """Values of static arguments by their names in Python."""
        given = {s.name: s.default for s in self.op.statics.values()}
        return given | {k: _value(v) for k, v in self.changes.items() if k in given}

    def holds(self, when: str) -> bool:
        """True if a condition of the declaration does."""
        name, _, values = when.partition("=")
        return str(self.statics[name.rstrip("!")]) in values.split("|")

    def dims(self, array: Array) -> tuple[str, ...]:
        """Extents of an array in this form."""
        for when, dims in array.otherwise.items():
            if self.holds(when):
                return dims
        return array.dims

    def sizes(self) -> dict[str, int]:
        """Sizes and static integers: 0 where only absent inputs have them."""
        names = fortran.sizes(self.op)
        unknown = {*names} - {*SIZES, *fortran.free_sizes(self.op), "n_layers", "n_in"}
        if unknown:
            raise ValueError(f"{self.op.name}: {', '.join(unknown)}: needs a number in SIZES")
        sizes = {n: SIZES[n] for n in names if n in SIZES} | {
            k: int(v) for k, v in self.changes.items() if k in names
        }
        there = {n for a in self.op.inputs if a.name not in self.absent
                 for dim in self.dims(a) for n in names_in(dim)}  # fmt: skip
        for a in self.op.inputs:
            if a.name in self.absent:
                for n in {n for dim in self.dims(a) for n in names_in(dim)} - there - {BATCH}:
                    if n in sizes and n not in self.op.statics:
                        sizes[n] = 0
        for when, changes in self.op.renamed.items():
            if self.holds(when):
                sizes |= {n: sizes[text] for n, text in changes.items() if text in sizes}
        if "n_layers" in names:
            sizes["n_layers"] = len(ast.literal_eval(GIVEN["widths"]))
        if "n_in" in names:
            seen = [a for a in self.op.inputs if a.name in ("e", "x_src", "x_dst", "y", "x", "c")]
            last = ast.literal_eval(GIVEN["widths"])[-1]
            widths = [(self.dims(a)[-1], a.name) for a in seen if a.name not in self.absent]
            sizes["n_in"] = sum(last if dim == "f_out" else sizes[dim] for dim, _ in widths)
        return sizes

    def settings(self) -> list[str]:
        """Statements that set the components of the operator."""
        lines = [f"operator%{n} = {value}" for n, value in self.sizes().items()]
        for static in self.op.statics.values():
            value = self.statics[static.name]
            if static.kind == "code":
                lines.append(f"operator%{static.c_name} = {static.codes[str(value)]}")
            elif static.kind == "logical":
                lines.append(f"operator%{static.c_name} = .{str(value).lower()}.")
            elif static.kind == "number" and value is not None:
                lines.append(f"operator%{static.c_name} = {value}_dp")
            elif static.c_name in GIVEN and (static.kind == "integers" or self.statics["dropout"]):
                lines.append(f"operator%{static.c_name} = {GIVEN[static.c_name]}")
        return lines


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


def cases(op: Operator) -> list[Case]:
    """All forms of an operator that are tested."""
    found = [Case(op)]
    for static in op.statics.values():
        values: Iterable[object] = static.codes if static.kind == "code" else ()
        if static.kind == "logical":
            values = (True, False)
        # a query that sees no key has no finite lse
        more = {"q_offset": "5"} if static.name == "causal" else {}
        found += [Case(op, {static.name: str(v), **more}) for v in values if v != static.default]
    found += [Case(op, dict(w.split("=") for w in text.split())) for text in FORMS.get(op.name, [])]
    alone = [a.name for a in op.inputs if a.optional and a.name != "h"]
    for text in WITHOUT.get(op.name, alone):
        words = [word.split("=") for word in text.split()]
        changes = {word[0]: word[1] for word in words if len(word) > 1}
        found.append(Case(op, changes, tuple(word[0] for word in words if len(word) == 1)))
    if any(a.name == "h" and a.optional for a in op.inputs) and "kernel" in op.statics:
        found.append(Case(op, {"kernel": "diagonal"}, ("h",)))
    return found


def extents(op: Operator, array: Array) -> str:
    """Extents in Fortran's order, of the sizes by their names."""
    return ", ".join(fortran.extents(op, array, "self%graph", in_c=False))


def names(op: Operator) -> list[str]:
    """Sizes, choices and numbers, which are components of the operator."""
    kinds = ("code", "logical", "number")
    return [*fortran.sizes(op), *(s.c_name for s in fortran.of_kind(op, *kinds))]


def associated(op: Operator) -> str:
    """Names of the components without the operator."""
    return f"associate ({', '.join(f'{n} => self%{n}' for n in names(op))})"


def static_arguments(op: Operator) -> list[str]:
    """Static arguments of a face on plain arrays, by name."""
    return [
        f"{s}={s}" if isinstance(s, str) else f"{s.name}={_component(s)}"
        for s in kernels.face_statics(op)
    ]


def _component(static: Static) -> str:
    return f"self%{static.c_name}" if static.kind in ("array", "integers") else static.c_name


def call(op: Operator, face: str) -> str:
    """Call of a face on plain arrays; what forward saves is left out."""
    places = {
        "inputs": "in_",
        "tangents": "t_",
        "gradients": "g_",
        "cotangents": "o_",
        "outputs": "o_",
    }
    given = ["graph=self%graph%view()"] if op.has_graph else []
    given += static_arguments(op)
    words = [word for _, word in op.declaration.operands(face)]
    for (group, array), word in zip(kernels.operands(op, face), words, strict=True):
        if group in places and (group != "outputs" or word.lower() in {a.name for a in op.outputs}):
            given.append(f"{array.name}={places[group]}{word.lower()}")
    return f"call {op.name}_{face}({', '.join([*given, 'error=error'])})"


def record(op: Operator) -> list[str]:
    """Statements that record the operation on a tape, whose results are joined."""
    given = [f"{a.name}=a({k})" for k, a in enumerate(op.inputs, 1)]
    given += ["graph=self%graph"] if op.has_graph else []
    for s in op.statics.values():
        if s.kind == "graph" or s.c_name in op.sizes_from_arrays:
            continue
        value = {
            "code": f"{s.name}_names({s.c_name} + 1)", "integer": f"int({s.c_name})",
            "integers": f"int(self%{s.c_name})", "array": f"self%{s.c_name}",
        }.get(s.kind, s.c_name)  # fmt: skip
        given.append(f"{s.name}={value}")
    if len(op.outputs) == 1:
        return [f"out(1) = {op.name}({', '.join(given)})"]
    results = [f"{array.name}=out({k})" for k, array in enumerate(op.outputs, 1)]
    return [f"call {op.name}({', '.join([*given, *results])})"]


def with_fewer_axes(op: Operator) -> list[str]:
    """Statements that give inputs on the tape the axes that they have there."""
    lines = []
    for k, array in enumerate(op.inputs, 1):
        if array.batched:
            plain = ", ".join(
                fortran.expression(op, d, "self%graph") for d in reversed(array.dims[1:])
            )
            lines.append(
                f"if (n_batch == 1 .and. x({k})%alive()) a({k}) = reshape(x({k}), [{plain}])"
            )
        for when, dims in array.otherwise.items():
            if len(dims) < len(array.dims) and dims != (NOTHING,):
                plain = ", ".join(fortran.expression(op, d, "self%graph") for d in reversed(dims))
                test = fortran.condition(op, when, in_c=False)
                lines.append(f"if ({test}) a({k}) = reshape(x({k}), [{plain}])")
    return lines


def free_sizes(op: Operator) -> str:
    """Call that computes sizes from the widths of layers."""
    return fortran.sizes_hook(op, [f"self%{array.name}" for array in op.lists])
