# SPDX-License-Identifier: MIT
"""Pieces of C that both headers have."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from declarations import NOTHING, Array, Operator, Static

WIDTH = 100
SCALARS = {
    "size": "int64_t {}", "integer": "int64_t {}", "code": "int {}", "logical": "int {}",
    "number": "double {}", "integers": "const int64_t *{}", "array": "const {dtype} *{}",
}  # fmt: skip
INTEGERS = {"int32": "int32_t", "int64": "int64_t"}


def before_arrays(op: Operator, graph: str) -> list[tuple[str, str]]:
    """Parameters before the arrays, each with its shape if it is an array."""
    static_arrays = {array.name: array for array in op.arrays}
    length = {after: before for before, after in pairwise(op.arguments)}
    parameters = []
    for name in op.arguments:
        static: Static | None = op.statics.get(name)
        kind = "size" if static is None else static.kind
        if kind == "graph":
            parameters.append((f"const {graph} *graph", ""))
        elif kind == "array":
            array = static_arrays[name]
            parameters.append((f"const {INTEGERS[array.dtype]} *{name}", shape(array)))
        else:
            extent = f"[{length[name]}]" if kind == "integers" else ""
            parameters.append((SCALARS[kind].format(name), extent))
    return parameters


def shape(array: Array) -> str:
    """Extents, and whether it may be null, for a comment."""
    text = _extents(array.dims)
    for condition, dims in array.otherwise.items():
        if not (array.optional and dims == (NOTHING,)):
            text += f"; {condition}: {_extents(dims)}"
    return text + (" or null" if array.optional else "")


def _extents(dims: Sequence[str]) -> str:
    if dims == (NOTHING,):
        return "null"
    return f"[{', '.join(dims)}]"


def unread(op: Operator, backend: str) -> str:
    """A comment that names saved arrays vjp does not read; empty if it reads all."""
    parts = []
    for where, names in op.declaration.unread.items():
        words = [word for word in where.split() if word != backend]
        if {"cpu", "cuda"} & {*words}:
            continue
        part = ", ".join(names.split())
        for word in words:
            part += f" where {word}" if "=" in word else f" in {' and '.join(word.split('|'))}"
        parts.append(part)
    text = f"/* vjp of {op.name} does not read: {'; '.join(parts)}. */"
    return textwrap.fill(text, WIDTH, subsequent_indent=" * ") if parts else ""


def pointer(array: Array, real: str, wide: str) -> str:
    """Parameter of an array."""
    type_ = {**INTEGERS, "real": real, "wide": wide}[array.dtype]
    return f"{'' if array.written else 'const '}{type_} *{array.name}"


def function(head: str, parameters: Sequence[tuple[str, str]], width: int = WIDTH) -> str:
    """A declaration: parameters with a comment one a line, others as many as fit."""
    lines, line = [], "   "
    ends = [","] * (len(parameters) - 1) + [");"]
    column = max(
        (len(p + e) for (p, comment), e in zip(parameters, ends, strict=False) if comment),
        default=0,
    )
    for (parameter, comment), end in zip(parameters, ends, strict=False):
        ended = parameter + end
        if comment:
            if line.strip():
                lines.append(line)
            lines.append(f"    {ended:{column}} /* {comment} */")
            line = "   "
        else:
            if len(line) + 1 + len(ended) > width:
                lines.append(line)
                line = "   "
            line += " " + ended
    if line.strip():
        lines.append(line)
    return "\n".join([f"{head}(", *lines])


def fill(template: Path, sections: dict[str, str], text: str = "") -> str:
    """A header from its template, in which a line ``@name@`` stands for a section.

    Every section must have its line, and every line its section. `text` is in place of the file's.
    """
    places = [
        (line, line[1:-1] if line.startswith("@") and line.endswith("@") else "")
        for line in (text or template.read_text()).splitlines()
    ]
    named = {name for _, name in places if name}
    for name in sorted(sections.keys() ^ named):
        what = "there is no such operator" if name in named else "the line is missing"
        raise SystemExit(f"{template.name}: @{name}@: {what}")
    return "\n".join(sections.get(name, line) for line, name in places) + "\n"


def write(target: Path, text: str) -> None:
    """Write a file; one that has this text is not touched, so that nothing is compiled again."""
    if not target.exists() or target.read_text() != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
