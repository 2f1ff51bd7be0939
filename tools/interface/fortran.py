# SPDX-License-Identifier: MIT
"""Pieces of Fortran for the templates operators.fypp, which import this module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from declarations import (
    BATCH,
    FACES,
    Array,
    Operator,
    Static,
    names_in,
    read_operators,
)

CUDA_HEADER = Path(__file__).resolve().parents[2] / "cuda" / "gnograd_cuda.h.in"
GRAPH_SIZES = ("n_src", "n_dst", "n_edges")
C_TYPES = {
    "integer": "integer(c_int64_t)", "size": "integer(c_int64_t)", "code": "integer(c_int)",
    "logical": "integer(c_int)", "number": "real(c_double)", "integers": "type(c_ptr)",
    "array": "type(c_ptr)", "graph": "type(c_ptr)",
}  # fmt: skip
"""Types in which arguments before the arrays cross the C interface, by kind."""

operators = read_operators()


def family(name: str) -> list[Operator]:
    """The operators of a family."""
    return [op for op in operators if op.family == name]


def families() -> list[str]:
    """Families in their order."""
    return list(dict.fromkeys(op.family for op in operators))


def static_arrays(op: Operator) -> list[Array]:
    """Static arrays and lists."""
    return [*op.arrays, *op.lists]


def names(arrays: Iterable[Array], suffix: str = "") -> str:
    """The names of arrays, for an argument list."""
    return ", ".join(array.name + suffix for array in arrays)


def kind(op: Operator, argument: str) -> str:
    """Kind of an argument before the arrays: that of the static argument, or "size"."""
    return op.statics[argument].kind if argument in op.statics else "size"


def declared(op: Operator, arguments: Iterable[str]) -> list[str]:
    """Declarations of arguments before the arrays, a line for each type."""
    by_type: dict[str, list[str]] = {}
    for argument in arguments:
        by_type.setdefault(C_TYPES[kind(op, argument)], []).append(argument)
    return [f"{type_}, value :: {', '.join(found)}" for type_, found in by_type.items()]


def pointers(op: Operator) -> list[str]:
    """Declarations of the pointers that static arrays at addresses become, `<name>_`."""
    types = {"int32": "integer(c_int32_t)", "int64": "integer(c_int64_t)"}
    by_type: dict[str, list[str]] = {}
    for array in static_arrays(op):
        axes = ",".join(":" * len(array.dims))
        by_type.setdefault(types[array.dtype], []).append(f"{array.name}_({axes})")
    return [f"{type_}, pointer, contiguous :: {', '.join(a)}" for type_, a in by_type.items()]


def view(op: Operator, array: Array, place: str = "") -> str:
    """The statement that makes a pointer of an address, or an error if that is null."""
    given = f"{array.name}, {', '.join(extents(op, array))}, {place or array.name + '_'}"
    if array.optional:
        return f"call view_if_given({given})"
    return f'call view({given}, "{op.name}", "{array.name}", error)'


def shared_gradient(op: Operator, face: str) -> list[Array]:
    """Two inputs whose gradients in a face may be one array, which gets their sum; or none."""
    names = op.declaration.shared_gradient if "gradients" in FACES[face] else ()
    return [array for array in op.inputs if array.name in names]


def free_sizes(op: Operator) -> list[str]:
    """Sizes that come from the Fortran `<family>_sizes`, not from arguments or the graph."""
    known = {*op.arguments, *GRAPH_SIZES}
    found: dict[str, None] = {}
    for array in [*op.inputs, *op.outputs]:
        for dim in array.dims:
            found |= dict.fromkeys(name for name in names_in(dim) if name not in known)
    return list(found)


def expression(op: Operator, text: str, graph: str = "graph_") -> str:
    """An expression of sizes in 64 bits, or a power of one."""
    if "**" in text:
        base, _, power = text.partition("**")
        return f"real({expression(op, base, graph)}, c_double)**({power}_c_double)"
    text = re.sub(r"//([a-z]\w*)", r"/max(\1, 1)", text).replace("//", "/")  # never by 0
    text = re.sub(r"(?<![\w.])(\d+)", r"\1_c_int64_t", text)
    if op.has_graph:
        text = re.sub(r"\b(n_src|n_dst|n_edges)\b", rf"{graph}%\1", text)
    return text


def condition(op: Operator, text: str, in_c: bool = True) -> str:
    """A condition on a static argument, by its number in C or its value in Fortran."""
    if text == "always":
        return ".true."
    name, _, values = text.partition("=")
    static = next(static for static in op.statics.values() if static.name == name)
    if static.kind == "logical" and not in_c:
        return f"{'.not. ' if values == 'False' else ''}{static.c_name}"
    numbers = [static.codes.get(value, int(value == "True")) for value in values.split("|")]
    return " .or. ".join(f"{static.c_name} == {number}" for number in numbers)


def extents(op: Operator, array: Array, graph: str = "graph_", in_c: bool = True) -> list[str]:
    """Extents in Fortran's order.

    If an array has fewer axes under some condition, a 1 behind the first extent stands for each
    missing one.
    """
    extents = [expression(op, dim, graph) for dim in reversed(array.dims)]
    for when, dims in array.otherwise.items():
        first, *rest = [expression(op, dim, graph) for dim in reversed(dims)]
        missing = ["1_c_int64_t"] * (len(extents) - len(dims))
        for k, other in enumerate([first, *missing, *rest]):
            if other != extents[k]:
                extents[k] = f"merge({other}, {extents[k]}, {condition(op, when, in_c)})"
    return extents


def wrap(text: str, indent: str, width: int = 100) -> str:
    """A statement over as many lines as it needs; a comment has one."""
    if text.startswith("!"):
        return text
    lines, line, inside = [], "", False
    for word in re.split(r"(?<=, )", text):
        if line and len(indent + line + word) > width - 2:
            lines.append(line.rstrip() + " &")
            line = "  &" if inside else "  & "  # blanks count inside a text
        line += word
        inside ^= word.count('"') % 2 == 1
    return f"\n{indent}".join([*lines, line])


# ---- the tape ----


def sizes(op: Operator) -> list[str]:
    """Sizes of an operation and its static integers, which are sizes as well."""
    own = [name for name in op.arguments if kind(op, name) in ("size", "integer")]
    return [*own, *free_sizes(op)]


def of_kind(op: Operator, *kinds: str) -> list[Static]:
    """The static arguments of some kinds."""
    return [static for static in op.statics.values() if static.kind in kinds]


def call(op: Operator, face: str, real: str, groups: dict[str, str]) -> str:
    """The entry point called by an operation; groups are the names of the arrays of addresses."""
    given = []
    for name in op.arguments:
        if name == "graph":
            given.append("c_loc(self%graph)")
        elif kind(op, name) in ("array", "integers"):
            given.append(f"address_of(self%{name})")
        else:
            given.append(f"self%{name}")
    given += _addresses(op, face, groups)
    return f"gnograd_{op.name}_{face}_{real}({', '.join(given)})"


def device_call(op: Operator, face: str, kind_of: str, groups: dict[str, str]) -> str:
    """Call of a face on a device, where a static array is the copy in `lent`."""
    given = ["self%device", kind_of]
    lent = {array.name: k for k, array in enumerate(op.arrays, 1)}
    for name in op.arguments:
        if name == "graph":
            given.append("self%graph_on_device")
        elif name in lent:
            given.append(f"lent({lent[name]})")
        elif kind(op, name) == "integers":
            given.append(f"address_of(self%{name})")
        else:
            given.append(f"self%{name}")
    given += _addresses(op, face, groups)
    return f"device_{op.name}_{face}({', '.join(given)})"


def has_cuda_kernels(op: Operator) -> bool:
    """True if the CUDA library has the operator for float32 and float64."""
    line = re.search(rf"^@{op.name} (.*)@$", CUDA_HEADER.read_text(), re.MULTILINE)
    return line is not None and {"f32", "f64"} <= set(line[1].split())


def device_arguments(op: Operator) -> list[str]:
    """Declarations of arguments before the arrays, of calls on a device."""
    lines = ["type(gnograd_cuda_graph), intent(in) :: graph"] if op.has_graph else []
    by_type: dict[str, list[str]] = {}
    for argument in op.arguments:
        if argument != "graph":
            by_type.setdefault(C_TYPES[kind(op, argument)], []).append(argument)
    return [*lines, *(f"{type_}, intent(in) :: {', '.join(a)}" for type_, a in by_type.items())]


def _addresses(op: Operator, face: str, groups: dict[str, str]) -> list[str]:
    """The arrays of a face in their order; groups are the names of the arrays of addresses.

    A saved output is where the outputs are.
    """
    outputs = [array.name for array in op.outputs]
    places = {
        "outputs": outputs,
        "cotangents": outputs,
        "saved": [array.name for array in op.own_saved],
    }
    inputs = [array.name for array in op.inputs]
    given = []
    for group, declared_name in op.declaration.operands(face):
        name = declared_name.lower()
        if group == "saved" and name in outputs:
            group = "outputs"
        given.append(f"{groups[group]}({places.get(group, inputs).index(name) + 1})")
    return given


def checks(op: Operator) -> list[str]:
    """Statements that find the sizes of an operation, and refuse what does not fit to them."""
    known = {*(GRAPH_SIZES if op.has_graph else ()), *op.statics} - set(op.sizes_from_arrays)
    lines = [line for array in op.lists for line in _fit_static(op, array, known)]
    given = [f"operator%{s.c_name}" for s in of_kind(op, "integers", "array", "integer")]
    hook = [sizes_hook(op, given)] if computed(op) else []
    early = set(computed(op)) & {name for array in op.inputs for name in array.names}
    if early:
        lines += hook
        known |= {*computed(op)}
    for k, array in enumerate(op.inputs, 1):
        block = _fit_input(op, k, array, known)
        if array.optional:
            block = [f"if (associated(x({k})%node)) then", *indented(block), "end if"]
        else:
            known |= array.names
        lines += block
    for array in op.arrays:
        block = _fit_static(op, array, known)
        if array.optional:
            block = [f"if (allocated(operator%{array.name})) then", *indented(block), "end if"]
        lines += block
    lines.append("if (failed(store)) return")
    if not early:
        lines += hook
    for name, text in op.defaults_from_sizes.items():
        test = f"operator%default_{name}" if kind(op, name) == "number" else f"{name} == unknown"
        lines.append(f"if ({test}) {name} = {expression(op, text, 'graph')}")
    for name in sizes(op):
        if name not in op.statics:
            lines.append(f"if ({name} == unknown) {name} = {int(name == BATCH)}")
    for when, changes in op.renamed.items():
        for name, text in changes.items():
            lines.append(f"if ({condition(op, when)}) {name} = {expression(op, text, 'graph')}")
    for static in of_kind(op, "code"):
        # entry points on the CPU refuse the same, by check_codes
        values, last = ", ".join(static.codes), max(static.codes.values())
        lines += [
            "if (operator%device%active .and. "
            f"({static.c_name} < 0 .or. {static.c_name} > {last})) "
            f'call fail(store, code_value, "{op.name}: {static.name} must be one of {values}")'
        ]
    return lines


def check_codes(op: Operator) -> list[str]:
    """Statements that refuse codes that no value of a static argument has."""
    return [
        f'call check_code("{op.name}", "{static.name}", {static.c_name}, '
        f'{max(static.codes.values())}, "{", ".join(static.codes)}", error)'
        for static in of_kind(op, "code")
    ]


def computed(op: Operator) -> list[str]:
    """Sizes that follow from static arguments alone, by the Fortran `<family>_sizes`."""
    known = {*op.statics, *GRAPH_SIZES, *(name for array in op.inputs for name in array.names)}
    of_outputs = dict.fromkeys(name for array in op.outputs for dim in array.dims
                               for name in names_in(dim) if name not in known)  # fmt: skip
    return free_sizes(op) or list(of_outputs)


def sizes_hook(op: Operator, given: Sequence[str]) -> str:
    """Call of the family's procedure that computes sizes from static arguments."""
    results = [f"{name}={name}" for name in computed(op)]
    return f"call {op.family}_sizes({', '.join([*given, *results])})"


def _fit_input(op: Operator, k: int, array: Array, known: set[str]) -> list[str]:
    """Learn from the shape of an input, and check it."""

    def fit(dims: Sequence[str]) -> list[str]:
        own = dims[array.batched :]
        extents = [f"x({k})%node%shape({axis})" for axis in range(len(own), 0, -1)]
        needed = [expression(op, dim, "graph") for dim in reversed(own)]
        rank = str(len(own))
        lines: list[str] = []
        if array.batched:
            lines = [f"call learn_batch(batch, x({k})%node, {rank}, {BATCH})"]
            rank += " + batch%rank"
            needed.append("batch%shape(:batch%rank)")
        check = f'call check_shape(store, "{op.name}", "{array.name}", x({k})%node, {rank}, ' \
                f"[{', '.join(needed)}])"  # fmt: skip
        return [*lines, *_learned(op, own, extents, known), check]

    if not array.otherwise:
        return fit(array.dims)
    lines = []
    for when, dims in array.otherwise.items():
        lines += [f"{'else ' if lines else ''}if ({condition(op, when)}) then"]
        lines += indented(fit(dims))
    return [*lines, "else", *indented(fit(array.dims)), "end if"]


def _fit_static(op: Operator, array: Array, known: set[str]) -> list[str]:
    """Statements that check the shape of a static array, or take sizes from it."""
    it = f"operator%{array.name}"
    rank = len(array.dims)
    extents = [f"size({it}, {axis}, c_int64_t)" for axis in range(rank, 0, -1)]
    needed = ", ".join(expression(op, dim, "graph") for dim in reversed(array.dims))
    return [
        *_learned(op, array.dims, extents, known),
        f"if (any(shape({it}, c_int64_t) /= [{needed}])) call fail(store, code_value, "
        f'"{op.name}: {array.name} does not fit to the other arguments")',
    ]


def _learned(
    op: Operator, dims: Sequence[str], extents: Sequence[str], known: set[str]
) -> list[str]:
    """Statements that find a size still unknown from an extent."""
    lines = []
    for dim, extent in zip(dims, extents, strict=False):
        unknown = [name for name in names_in(dim) if name not in known]
        if unknown == [dim]:
            lines.append(f"call learn({dim}, {extent})")
        elif unknown:
            at = [expression(op, re.sub(rf"\b{unknown[-1]}\b", n, dim), "graph") for n in "01"]
            lines.append(f"call solve({unknown[-1]}, {extent}, {at[0]}, {at[1]})")
    return lines


def indented(lines: Iterable[str]) -> list[str]:
    """Lines inside of a block."""
    return [f"  {line}" for line in lines]


def counts(op: Operator) -> list[str]:
    """Numbers of items that forward saves besides outputs; 0 where it saves none."""
    found = []
    for array in op.own_saved:
        n = "*".join(f"({expression(op, dim, 'graph')})" for dim in array.dims)
        if "" in array.unless:
            n = "0_c_int64_t"
        elif array.unless:
            never = " .or. ".join(condition(op, when) for when in array.unless)
            n = f"merge(0_c_int64_t, {n}, {never})"
        found.append(n)
    return found


def result_shape(op: Operator, array: Array) -> str:
    """Extents of an output on the tape without leading axes, 1 beyond its rank."""
    first = int(array.batched)
    extents = [expression(op, dim, "graph") for dim in reversed(array.dims[first:])]
    for when, dims in array.otherwise.items():
        for k, dim in enumerate(reversed(dims[first:])):
            other = expression(op, dim, "graph")
            if other != extents[k]:
                extents[k] = f"merge({other}, {extents[k]}, {condition(op, when)})"
    return ", ".join(extents + ["1_c_int64_t"] * (4 - len(extents)))


def shape_comment(array: Array) -> str:
    """Extents in Fortran's order, for a comment."""
    text = f"[{', '.join(reversed(array.dims))}]"
    for when, dims in array.otherwise.items():
        text += f"; {when}: [{', '.join(reversed(dims))}]"
    return text
