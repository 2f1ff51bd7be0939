# SPDX-License-Identifier: MIT
"""Pieces of Fortran around kernels, for templates: their records, and what fills these.

A kernel is two procedures, `<operator>_evaluate` and `<operator>_reverse`, which get arrays and
static arguments in records. An entry point makes these of addresses and sizes; a face on plain
arrays reads the sizes off the arrays, and checks all shapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from declarations import BATCH, NOTHING, Array, Operator, Static, c_name, names_in

from fortran import (
    GRAPH_SIZES,
    check_codes,
    condition,
    expression,
    extents,
    free_sizes,
    indented,
    kind,
    shape_comment,
    shared_gradient,
    sizes_hook,
    static_arrays,
    view,
)

KERNELS = Path(__file__).resolve().parents[2] / "fortran" / "kernels"
RECORD_TYPES = {
    "integer": "integer(int64)", "size": "integer(int64)", "code": "integer",
    "logical": "logical", "number": "real(dp)",
}  # fmt: skip
"""Types of static arguments in records, by kind."""
FACE_COMMENTS = {
    "forward": "Outputs", "vjp": "Gradients for cotangents of the outputs",
    "jvp": "Tangents of the outputs for tangents of the inputs",
    "hvp": "Tangents of the gradients of vjp, the cotangents held fixed",
}  # fmt: skip
UNKNOWN = -1
"""Size that no array has given yet."""


def kernel_file(op: Operator) -> Path:
    """Source of the kernels in the family's folder: of the operator's name, or of the family's."""
    own = KERNELS / op.family / f"{op.name}.fypp"
    return own if own.exists() else own.with_stem(op.family)


def workers(op: Operator) -> list[str]:
    """The operator's kernels without the suffix of their kind."""
    return [f"{op.name}_evaluate", *([f"{op.name}_reverse"] if op.differentiable else [])]


def use_workers(op: Operator, kinds: Iterable[str]) -> str:
    """Use statement of the operator's kernels."""
    listed = ", ".join(f"{name}_{k}" for k in kinds for name in workers(op))
    return f"use gnograd_kernels_{kernel_file(op).stem}, only: {listed}"


def record_type(array: Array, real: str) -> str:
    """Type of an array in a record or a face, without its shape."""
    return {"int32": "integer(int32)", "int64": "integer(int64)"}.get(array.dtype, f"real({real})")


def colons(array: Array) -> str:
    """Axes of an array whose extents are assumed."""
    return ", ".join(":" * len(array.dims))


def shared_flag(op: Operator) -> str:
    """Name of the flag that two inputs' gradients are one array; "" if they never are."""
    names = [array.name for array in op.inputs if array.name in op.declaration.shared_gradient]
    return "{1}_is_{0}".format(*names) if names else ""


def static_fields(op: Operator) -> list[str]:
    """Declarations of the scalars in the record of sizes and static arguments."""
    by_type: dict[str, list[str]] = {}
    for name in op.arguments:
        type_ = RECORD_TYPES.get(kind(op, name))
        if type_:
            by_type.setdefault(type_, []).append(name)
    flag = shared_flag(op)
    if flag:
        by_type.setdefault("logical", []).append(flag)
    empty = {"logical": ".false."}
    return [
        f"{type_} :: {', '.join(f'{name} = {empty.get(type_, 0)}' for name in found)}"
        for type_, found in by_type.items()
    ]


def records(op: Operator, face: str, kind_: str) -> list[str]:
    """Declarations of the records that a face gives to the kernels."""
    inputs, outputs = ["in_"], ["out_"]
    if face in ("jvp", "hvp"):
        inputs.append("tan_")
    if face in ("vjp", "hvp"):
        inputs.append("grad_")
        outputs = ["cotangent_", *(["saved_"] if op.saved else [])]
    return [
        f"type({op.name}_static) :: static_",
        f"type({op.name}_inputs_{kind_}) :: {', '.join(inputs)}",
        f"type({op.name}_outputs_{kind_}) :: {', '.join(outputs)}",
    ]


def operands(op: Operator, face: str) -> list[tuple[str, Array]]:
    """The arrays of a face with their groups; optional are also those that C may leave out."""
    groups = ("outputs", *(("inputs",) if face in ("vjp", "hvp") else ()))
    own = [name for _, name in op.declaration.operands(face)]
    return [
        (group, replace(array, optional=True))
        if group in groups and name in op.declaration.optional_in_c
        else (group, array)
        for (group, array), name in zip(op.operands(face), own, strict=True)
    ]


def places(op: Operator, face: str) -> list[tuple[Array, str]]:
    """The arrays of a face, each with its place in the records."""
    record = {
        "inputs": "in_", "tangents": "tan_", "gradients": "grad_", "cotangents": "cotangent_",
        "outputs": "out_", "saved": "out_" if face == "forward" else "saved_",
    }  # fmt: skip
    declared_names = [name.lower() for _, name in op.declaration.operands(face)]
    return [
        (array, f"{record[group]}%{name}")
        for (group, array), name in zip(operands(op, face), declared_names, strict=True)
    ]


def worker_call(op: Operator, face: str, kind_: str, graph: str) -> str:
    """Call of the kernel that serves a face."""
    given = [graph] if op.has_graph else []
    if face in ("forward", "jvp"):
        given += ["static_", "in_", "out_", "error"]
    else:
        saved = ["saved_"] if op.saved else []
        given += ["static_", "cotangent_", "in_", *saved, "grad_", "error"]
    if face in ("jvp", "hvp"):
        given.append("tan_")
    worker = workers(op)[face in ("vjp", "hvp")]
    return f"call {worker}_{kind_}({', '.join(given)})"


def set_static(op: Operator) -> list[str]:
    """Statements of an entry point that set the scalars of the record of static arguments."""
    convert = {
        "integer": "{}", "size": "{}", "number": "{}", "code": "int({})", "logical": "{} /= 0",
    }  # fmt: skip
    kinds = {name: kind(op, name) for name in op.arguments}
    return [
        f"static_%{name} = {convert[kinds[name]].format(name)}"
        for name in op.arguments
        if kinds[name] in convert
    ]


def record_views(op: Operator, face: str) -> list[str]:
    """Statements of an entry point that make the arrays in the records of addresses."""
    lines = [view(op, array, f"static_%{array.name}") for array in static_arrays(op)]
    if free_sizes(op):
        lines.append(sizes_hook(op, [f"static_%{array.name}" for array in op.lists]))
    for when, changes in op.renamed.items():
        lines += [f"if ({condition(op, when)}) static_%{name} = {expression(op, text)}"
                  for name, text in changes.items()]  # fmt: skip
    return [*lines, *(view(op, array, place) for array, place in places(op, face))]


def face_statics(op: Operator) -> list[Static | str]:
    """Arguments of a face before the arrays: static arguments, and sizes that are in no shape.

    A static argument that is an extent of an output is read off that.
    """
    results = {dim for array in op.outputs for dim in array.dims}
    in_shapes = {n for a in [*op.inputs, *op.outputs, *static_arrays(op)] for n in a.names}
    found: list[Static | str] = []
    for name in op.arguments:
        if name in op.statics and name not in results and op.statics[name].kind != "graph":
            found.append(op.statics[name])
        elif name not in op.statics and name not in in_shapes:
            found.append(name)
    return found


def face_arguments(op: Operator, face: str) -> list[str]:
    """Names of the arguments of a face."""
    statics = [static if isinstance(static, str) else static.name for static in face_statics(op)]
    arrays = [array.name for _, array in operands(op, face)]
    flag = [shared_flag(op)] if shared_gradient(op, face) else []
    sizes = [name for _, name in optional_sizes(op, face)]
    return [*(["graph"] if op.has_graph else []), *sizes, *statics, *arrays, *flag, "error"]


def optional_sizes(op: Operator, face: str) -> list[tuple[str, str]]:
    """Sizes that a face may get, where gradients are shared and inputs may be absent."""
    if not shared_gradient(op, face):
        return []
    words = op.declaration.arguments.split()
    return [(c_name(word), word.lower()) for word in words if kind(op, c_name(word)) == "size"]


def face_declarations(op: Operator, face: str, real: str) -> list[str]:
    """Declarations of the arguments of a face, with comments."""
    lines = []
    for static in face_statics(op):
        if isinstance(static, str):
            lines.append(f"integer(int64), intent(in) :: {static}")
        elif static.kind in ("array", "integers"):
            array = next(a for a in static_arrays(op) if a.name == static.c_name)
            lines += _declared_array(op, array, real, "in", static.name)
        else:
            codes = f"!> {', '.join(f'{n}: {v}' for n, v in static.codes.items())}"
            lines += [codes] * bool(static.codes)
            lines.append(f"{RECORD_TYPES[static.kind]}, intent(in) :: {static.name}")
    for _, array in operands(op, face):
        lines += _declared_array(op, array, real, "inout" if array.written else "in", array.name)
    return lines


def _declared_array(op: Operator, array: Array, real: str, intent: str, name: str) -> list[str]:
    optional = ", optional" if array.optional else ""
    return [
        f"!> {shape_comment(array)}",
        f"{record_type(array, real)}, intent({intent}), target, contiguous{optional} :: "
        f"{name}({colons(array)})",
    ]


def face_sizes(op: Operator) -> list[str]:
    """Sizes that a face reads off its arrays."""
    given = {static for static in face_statics(op) if isinstance(static, str)}
    given |= {s.c_name for s in face_statics(op) if isinstance(s, Static) and s.name == s.c_name}
    own = [name for name in op.arguments if kind(op, name) in ("size", "integer")]
    return [name for name in [*own, *free_sizes(op)] if name not in given]


def read_sizes(op: Operator, face: str) -> list[str]:
    """Statements of a face that read sizes off its arrays, those that must be there first."""
    lines, known = [], {*(GRAPH_SIZES if op.has_graph else ())}
    for static in face_statics(op):
        if isinstance(static, str):
            known.add(static)
        elif static.kind in RECORD_TYPES:
            known.add(static.c_name)
            if static.name != static.c_name:
                lines.append(f"{static.c_name} = {static.name}")
    unknown = [name for name in face_sizes(op) if name not in known]
    lines += [f"{name} = {UNKNOWN}" for name in unknown]
    given = optional_sizes(op, face)
    lines += [f"if (present({name})) {size} = {name}" for size, name in given]

    static_names = {a.name: s.name for a in static_arrays(op)
                    for s in op.statics.values() if s.c_name == a.name}  # fmt: skip
    inputs = {array.name for array in op.inputs}
    arrays = [array for _, array in operands(op, face)]
    order = [*op.lists, *(a for a in arrays if a.name in inputs), *op.arrays,
             *(a for a in arrays if a.name not in inputs)]  # fmt: skip
    order = sorted(order, key=lambda a: a.optional or bool(given))
    hook = (
        [sizes_hook(op, [static_names[array.name] for array in op.lists])] if free_sizes(op) else []
    )
    for array in order:
        if not array.optional and array in op.lists:
            known |= array.names
        name = static_names.get(array.name, array.name)
        plain = _sizes_from(
            op, array.dims, range(len(array.dims), 0, -1), name, known, array.optional
        )
        block = plain
        for when, dims in array.otherwise.items():
            if dims == (NOTHING,):
                continue
            missing = len(array.dims) - len(dims)
            axes = [*range(len(array.dims), missing + 1, -1), 1]
            other = _sizes_from(op, dims, axes, name, known, array.optional)
            if other != plain:
                block = [f"if ({condition(op, when, in_c=False)}) then", *indented(other), "else",
                         *indented(block), "end if"]  # fmt: skip
        if array.optional and block:
            block = [f"if (present({name})) then", *indented(block), "end if"]
        elif not array.optional:
            known |= {n for dim in array.dims for n in _learnable(dim, known)}
        lines += block
        if array in op.lists:
            lines += hook
            known |= {*free_sizes(op)}
            hook = []
    if given:
        same, size = (array.dims[-1] for array in shared_gradient(op, face))
        flag = shared_flag(op)
        lines += [f"if (present({flag})) then",
                  f"  if ({flag} .and. {size} == {UNKNOWN}) {size} = {same}", "end if"]  # fmt: skip
    lines += _completed(arrays, {*unknown} - known)
    for name, text in op.defaults_from_sizes.items():
        if name in unknown:
            lines.append(f"if ({name} == {UNKNOWN}) {name} = {expression(op, text, 'graph')}")
    lines += [
        f"if ({name} == {UNKNOWN}) {name} = {int(name == BATCH)}"
        for name in unknown
        if name not in known
    ]
    for when, changes in op.renamed.items():
        for name, text in changes.items():
            lines.append(
                f"if ({condition(op, when, in_c=False)}) {name} = {expression(op, text, 'graph')}"
            )
    return lines


def _completed(arrays: Sequence[Array], unknown: set[str]) -> list[str]:
    """Statements that find the size of an absent array from a sum of sizes."""
    lines = []
    for array in sorted(arrays, key=lambda array: not array.optional):
        for axis, dim in enumerate(reversed(array.dims), 1):
            names_ = dim.split("+")
            if not array.otherwise and len(names_) > 1 and {*names_} <= unknown:
                guard = f"if (present({array.name})) " if array.optional else ""
                extent = f"size({array.name}, {axis}, int64)"
                lines.append(f"{guard}call complete({extent}, {', '.join(names_)})")
    return lines


def _learnable(dim: str, known: set[str]) -> list[str]:
    """The size that is alone unknown in an extent from which it can be found."""
    unknown = [name for name in names_in(dim) if name not in known]
    return unknown if len(unknown) == 1 and "max(" not in dim else []


def _sizes_from(
    op: Operator, dims: Sequence[str], axes: Sequence[int], name: str, known: set[str], maybe: bool
) -> list[str]:
    """Statements that take sizes still unknown from an array."""
    lines: list[str] = []
    seen = {*known}
    for dim, axis in zip(dims, axes, strict=True):
        for unknown in _learnable(dim, seen):
            extent = f"size({name}, {axis}, int64)"
            guard = f"if ({unknown} == {UNKNOWN}) " if maybe else ""
            if unknown != dim:
                at = [expression(op, re.sub(rf"\b{unknown}\b", n, dim), "graph") for n in "01"]
                extent = f"({extent} - ({at[0]}))/max(1_int64, {at[1]} - ({at[0]}))"
                extent = f"max(0_int64, {extent})"
            lines.append(f"{guard}{unknown} = {extent}")
            seen.add(unknown)
    return lines


def check_values(op: Operator) -> list[str]:
    """Statements of a face that refuse codes, and other values on which shapes depend."""
    in_shapes = {n for a in [*op.inputs, *op.outputs, *op.arrays] for n in a.names}
    lines = check_codes(op)
    for static in op.statics.values():
        where = f'"{op.name}", "{static.name}"'
        least, most = static.limits
        value = static.name
        if static.kind == "integers" and least is not None:
            lines.append(f'if (size({value}) < 1) call fail(error, code_value, '
                         f'"{op.name}: {value} is empty")')  # fmt: skip
            lines.append(f"call check_least({where}, minval({value}), {least}, error)")
        elif static.kind == "integer" and static.c_name in in_shapes & {*_given(op)} and least:
            lines.append(
                f"call check_least({where}, {value}, {least}, error)"
                if most is None
                else f"call check_range({where}, {value}, {least}, {most}, error)"
            )
    return [*lines, *["if (allocated(error)) return"] * bool(lines)]


def _given(op: Operator) -> list[str]:
    return [static.c_name for static in face_statics(op) if isinstance(static, Static)]


def check_shapes(op: Operator, face: str) -> list[str]:
    """Statements of a face that refuse arrays of other shapes."""
    static_names = {s.c_name: s.name for s in op.statics.values()}
    inputs = {array.name for array in op.inputs}
    arrays = [array for _, array in operands(op, face)]
    arrays = sorted(arrays, key=lambda array: array.name not in inputs)
    lines = []
    for array in [*arrays, *op.arrays]:
        name = static_names.get(array.name, array.name) if array in op.arrays else array.name
        needed = [f"present({name})"] if array.optional else []
        absent = [when for when, dims in array.otherwise.items() if dims == (NOTHING,)]
        needed += [f".not. ({condition(op, when, in_c=False)})" for when in absent]
        others = {when: dims for when, dims in array.otherwise.items() if when not in absent}
        there = replace(array, otherwise=others)
        guard = f"if ({' .and. '.join(needed)}) " if needed else ""
        pairs = [
            f"size({name}, {axis}, int64), {extent}"
            for axis, extent in enumerate(extents(op, there, "graph", in_c=False), 1)
        ]
        lines.append(f'{guard}call check_extents("{op.name}", "{name}", error, {", ".join(pairs)})')
    return lines


def face_records(op: Operator, face: str) -> list[str]:
    """Statements of a face that fill the records."""
    lines = []
    for name in op.arguments:
        if kind(op, name) in ("size", "integer"):
            lines.append(f"static_%{name} = {name}")
        elif kind(op, name) in RECORD_TYPES:
            lines.append(f"static_%{name} = {op.statics[name].name}")
    named = {s.c_name: s.name for s in op.statics.values()}
    pairs = [(a, named[a.name], f"static_%{a.name}") for a in static_arrays(op)]
    pairs += [(array, array.name, place) for array, place in places(op, face)]
    for array, name, place in pairs:
        lines.append(f"{f'if (present({name})) ' if array.optional else ''}{place} => {name}")
    if shared_gradient(op, face):
        flag = shared_flag(op)
        lines.append(f"if (present({flag})) static_%{flag} = {flag}")
    return lines
