# SPDX-License-Identifier: MIT
"""Pieces of Fortran for the templates in fortran/entries and fortran/autodiff, which import this."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from declarations import Array, Operator, read_operators

GRAPH_SIZES = ("n_src", "n_dst", "n_edges")
C_TYPES = {
    "integer": "integer(c_int64_t)", "size": "integer(c_int64_t)", "code": "integer(c_int)",
    "logical": "integer(c_int)", "number": "real(c_double)", "integers": "type(c_ptr)",
    "array": "type(c_ptr)", "graph": "type(c_ptr)",
}  # fmt: skip
"""How arguments before the arrays cross the C interface."""

operators = read_operators()


def family(name: str) -> list[Operator]:
    """The operators of a family."""
    return [op for op in operators if op.family == name]


def names(arrays: Iterable[Array], suffix: str = "") -> str:
    """The names of arrays, for an argument list."""
    return ", ".join(array.name + suffix for array in arrays)


def kind(op: Operator, argument: str) -> str:
    """What an argument before the arrays is: that of its static argument, or a size."""
    return op.statics[argument].kind if argument in op.statics else "size"


def declared(op: Operator, attribute: str = "value") -> list[str]:
    """Declarations of the arguments before the arrays, a line for each type."""
    by_type: dict[str, list[str]] = {}
    for argument in op.arguments:
        by_type.setdefault(C_TYPES[kind(op, argument)], []).append(argument)
    return [f"{type_}, {attribute} :: {', '.join(found)}" for type_, found in by_type.items()]


def pointers(op: Operator, arrays: Iterable[Array], real: str) -> list[str]:
    """Declarations of the pointers that arrays at addresses become, `<name>_`."""
    types = {"int32": "integer(c_int32_t)", "int64": "integer(c_int64_t)"}
    by_type: dict[str, list[str]] = {}
    for array in [*op.arrays, *_lists(op), *arrays]:
        axes = ",".join(":" * len(array.dims))
        type_ = types.get(array.dtype, real)
        by_type.setdefault(type_, []).append(f"{array.name}_({axes})")
    return [f"{type_}, pointer, contiguous :: {', '.join(a)}" for type_, a in by_type.items()]


def views(op: Operator, arrays: Iterable[Array]) -> list[str]:
    """Statements that make these pointers."""
    lines = []
    for array in [*op.arrays, *_lists(op)]:
        lines.append(f"call view({array.name}, {_extents(op, array)}, {array.name}_)")
    if free_sizes(op):
        lines.append(f"call {op.family}_sizes({', '.join(f'{a.name}_' for a in _lists(op))}, "
                     f"{', '.join(free_sizes(op))})")  # fmt: skip
    for array in arrays:
        lines.append(f"call view({array.name}, {_extents(op, array)}, {array.name}_)")
    return lines


def passed(op: Operator, arrays: Iterable[Array]) -> str:
    """The arguments of the kernel, by keyword."""
    given = []
    for argument, static in op.statics.items():
        convert = {
            "graph": "{}_", "array": "{}_", "integers": "{}_", "code": "int({})",
            "logical": "{} /= 0", "integer": "{}", "number": "{}",
        }[static.kind]  # fmt: skip
        given.append(f"{static.name}={convert.format(argument)}")
    given += [f"{array.name}={array.name}_" for array in arrays]
    return ", ".join([*given, "error=error"])


def free_sizes(op: Operator) -> list[str]:
    """Sizes that neither the arguments nor the graph tell, but the Fortran `<family>_sizes`."""
    known = {*op.arguments, *GRAPH_SIZES}
    found: dict[str, None] = {}
    for array in [*op.inputs, *op.outputs]:
        for dim in array.dims:
            found |= dict.fromkeys(n for n in re.findall(r"[a-z_]\w*", dim) if n not in known)
    return list(found)


def expression(op: Operator, text: str, graph: str = "graph_") -> str:
    """An expression of sizes in 64 bits."""
    text = re.sub(r"(?<![\w.])(\d+)", r"\1_c_int64_t", text.replace("//", "/"))
    if op.has_graph:
        text = re.sub(r"\b(n_src|n_dst|n_edges)\b", rf"{graph}%\1", text)
    return text


def condition(op: Operator, text: str) -> str:
    """A condition on a static argument, of its number in C."""
    name, _, value = text.partition("=")
    static = next(static for static in op.statics.values() if static.name == name)
    number = static.codes[value] if static.codes else int(value == "True")
    return f"{static.c_name} == {number}"


def _lists(op: Operator) -> list[Array]:
    """Static lists of integers, as arrays; their length is the argument before them."""
    return [
        Array(argument, (before,), "int64", False, False)
        for before, argument in zip(op.arguments, op.arguments[1:])
        if kind(op, argument) == "integers"
    ]


def _extents(op: Operator, array: Array) -> str:
    """Extents in Fortran's order. Where an array has fewer axes under some condition, 1 stands
    behind the first for each that is missing."""
    extents = [expression(op, dim) for dim in reversed(array.dims)]
    for when, dims in array.otherwise.items():
        first, *rest = [expression(op, dim) for dim in reversed(dims)]
        missing = ["1_c_int64_t"] * (len(extents) - len(dims))
        for k, other in enumerate([first, *missing, *rest]):
            if other != extents[k]:
                extents[k] = f"merge({other}, {extents[k]}, {condition(op, when)})"
    return ", ".join(extents)


def wrap(text: str, indent: str, width: int = 100) -> str:
    """A statement over as many lines as it needs."""
    lines, line = [], ""
    for word in re.split(r"(?<=, )", text):
        if line and len(indent + line + word) > width - 2:
            lines.append(line.rstrip() + " &")
            line = "  & "
        line += word
    return f"\n{indent}".join([*lines, line])
