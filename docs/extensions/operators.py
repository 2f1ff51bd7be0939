# SPDX-License-Identifier: MIT
"""A page an operator, and the support matrix: all from the declarations."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

from sphinx.util import logging

import gnograd.autodiff
import gnograd.jax
import gnograd.torch
from gnograd.faces.fronts import operators
from gnograd.faces.operator import Function, Operator
from gnograd.notation.shapes import parse

LOG = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[2]
FORMULAS = tomllib.loads((ROOT / "docs/reference/formulas.toml").read_text())
TAPE_TO_ANY_ORDER = {"gno_aggregate"}
"""Operators with derivatives of any order on the tape."""
DTYPES = {"": "of the inputs", "real": "of the inputs; float32 for half precision"}
"""Dtypes of shapes in words."""
GPU_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


@dataclass(frozen=True)
class Facts:
    """Facts of an operator that are read off the sources: types and languages that have it."""

    op: Function[Any, Any]
    gpu: tuple[str, ...]
    """Types with CUDA kernels."""
    tape: bool
    torch: bool
    jax: bool
    fortran: bool
    c: bool

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def differentiable(self) -> bool:
        return isinstance(self.op, Operator)

    @property
    def tape_order(self) -> str:
        if not self.tape:
            return "–"
        return "any" if self.name in TAPE_TO_ANY_ORDER else "2"

    @property
    def on_graph(self) -> bool:
        return "graph" in self.op.static


def all_facts() -> list[Facts]:
    """Facts of all operators, family by family."""
    fortran = (ROOT / "fortran/gnograd.f90").read_text()
    header = (Path(gnograd.get_include()) / "gnograd.h").read_text()
    cuda = dict(
        re.findall(r"^@(\w+) ([\w ]+)@$", (ROOT / "cuda/gnograd_cuda.h.in").read_text(), re.M)
    )

    def of(op: Function[Any, Any]) -> Facts:
        return Facts(
            op=op,
            gpu=tuple(GPU_TYPES[kind] for kind in cuda.get(op.name, "").split()),
            tape=op.name in gnograd.autodiff.__all__,
            torch=op.name in gnograd.torch.__all__,
            jax=op.name in gnograd.jax.__all__,
            fortran=bool(re.search(rf"use gnograd_autodiff_.*\b{op.name}\b", joined(fortran))),
            c=f"gnograd_{op.name}_forward_r32(" in header,
        )

    return sorted(map(of, operators()), key=lambda facts: (facts.op.__module__, facts.name))


def joined(source: str) -> str:
    """Fortran with every statement on one line."""
    return re.sub(r"&\s*\n\s*&?", " ", source)


def family_title(op: Function[Any, Any]) -> str:
    """First line of the module that declares an operator: the title of its family."""
    module = sys.modules[op.__module__]
    return (module.__doc__ or op.__module__).split("\n")[0].rstrip(".")


def summary(value: Any) -> str:
    """First line of a docstring."""
    return first_line(inspect.getdoc(value) or "")


def first_line(text: str) -> str:
    """First line of a text without its references, which have no place in a table."""
    return re.sub(r" \[\d+\]_", "", text.split("\n")[0])


# ---- pages ----


def pages() -> Iterator[tuple[str, str]]:
    """Paths in the reference, without suffix, and contents."""
    facts = all_facts()
    yield "operators/index", index(facts)
    yield "support", support(facts)
    for one in facts:
        yield f"operators/{one.name}", page(one)


def title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n"


def table(header: list[str], rows: list[list[str]], widths: str = "auto") -> str:
    """A list table; without a header where that is empty."""
    lines = [".. list-table::", f"   :widths: {widths}"]
    lines += ["   :header-rows: 1", ""] if header else [""]
    for row in [header, *rows] if header else rows:
        lines += [f"   {'*' if k == 0 else ' '} - {cell}" for k, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def index(facts: list[Facts]) -> str:
    parts = [
        title("Operators"),
        "Every operator has a page with its formula, shapes, cost and memory. "
        ":doc:`/reference/generated/support` says where each runs.\n",
    ]
    for family, members in itertools.groupby(facts, key=lambda one: family_title(one.op)):
        group = list(members)
        parts.append(title(family, "-"))
        rows = [[f":py:obj:`gnograd.{one.name}`", summary(one.op)] for one in group]
        parts.append(table([], rows, "30 70"))
        toctree = [".. toctree::", "   :hidden:", "", *(f"   {one.name}" for one in group)]
        parts.append("\n".join(toctree) + "\n")
    return "\n".join(parts)


def page(one: Facts) -> str:
    op = one.op
    return "\n".join([
        title(op.name),
        badges(one),
        *formula(op),
        f".. autofunction:: gnograd.{op.name}\n",
        title("Arrays", "-"),
        arrays(op),
        *faces(one),
        title("Where", "-"),
        *fronts(one),
    ])  # fmt: skip


def formula(op: Function[Any, Any]) -> Iterator[str]:
    """Equations that an operator computes, each on its own line."""
    if op.name not in FORMULAS:
        LOG.warning("%s has no formula in docs/reference/formulas.toml", op.name)
    for equation in FORMULAS.get(op.name, "").split(r"\qquad"):
        text = equation.strip().rstrip(",")
        yield f".. math::\n\n{textwrap.indent(text, '   ')}\n"


def badges(one: Facts) -> str:
    """Line of dtypes by processor, and of the order of derivatives."""
    cpu = " ".join(f":bdg-primary:`{kind}`" for kind in ("float32", "float64"))
    gpu = " ".join(f":bdg-success:`{kind}`" for kind in one.gpu)
    order = "derivatives to second order" if one.differentiable else "no derivatives"
    return f"CPU {cpu}  GPU {gpu}  ·  {order}\n"


def shape_text(spec: str) -> tuple[str, str, bool]:
    """Shape, dtype, and whether it may be absent."""
    shape = parse(spec)
    words = ["..."] * shape.leading + list(shape.dims)
    text = f"({', '.join(words)}{',' if len(words) == 1 else ''})"
    return text, DTYPES.get(shape.dtype, shape.dtype), shape.optional


def condition_text(name: str, spec: str, is_array: bool) -> str:
    """Array or size under a condition on static arguments."""
    if spec == "None":
        return f"no ``{name}``"
    if not is_array:
        return f"``{name}`` is ``{spec}``"
    shape, _, optional = shape_text(spec)
    return f"``{name}`` is ``{shape}``" + ", or left out" * optional


def arrays(op: Function[Any, Any]) -> str:
    declared = op.declaration
    rows = []

    def add(kind: str, specs: Mapping[str, str]) -> None:
        for name, spec in specs.items():
            shape, dtype, optional = shape_text(spec)
            note = "may be left out" if optional else ""
            rows.append([f"``{name}``", kind, f"``{shape}``", dtype, note])

    add("input", declared.inputs)
    add("static", declared.arrays)
    add("output", declared.outputs)
    kept = {k: v for k, v in declared.saved.items() if k not in declared.saved_only_in_c}
    add("saved for vjp", kept)
    text = table(["array", "", "shape", "dtype", ""], rows)
    if not kept and isinstance(op, Operator):
        text += "\nNothing is saved for the way back.\n"
    if declared.when:
        named = {*declared.inputs, *declared.arrays, *declared.outputs, *declared.saved}
        text += "\n" + "\n".join(
            f"- with ``{condition}``: "
            + "; ".join(condition_text(n, spec, n in named) for n, spec in changes.items())
            for condition, changes in declared.when.items()
        ) + "\n"  # fmt: skip
    return text


def faces(one: Facts) -> list[str]:
    """The calls of the four faces."""
    if not one.differentiable:
        return []
    op = one.op
    inputs = ", ".join(op.inputs)
    given = ", graph=graph, ..." if one.on_graph else ", ..."
    several = len(op.declaration.outputs) > 1
    c = f"({', '.join('c_' + y for y in op.declaration.outputs)})" if several else "c"
    return [
        title("Faces", "-"),
        ".. code-block:: python\n",
        f"   inputs = ({inputs}{',' if len(op.inputs) == 1 else ''})",
        f"   y         = gg.{op.name}(*inputs{given})",
        f"   gradients = gg.{op.name}.vjp({c}, inputs{given})",
        f"   tangent   = gg.{op.name}.jvp(inputs, tangents{given})",
        f"   along     = gg.{op.name}.hvp({c}, inputs, tangents{given})\n",
        "Arguments of the faces are those of :py:obj:`gnograd.Operator`.\n",
    ]


def fronts(one: Facts) -> list[str]:
    """Entries for PyTorch, JAX and the tape, and a table of other languages."""
    parts = []
    for there, module, what in (
        (one.torch, gnograd.torch, "on tensors of PyTorch"),
        (one.jax, gnograd.jax, "on arrays of JAX"),
        (one.tape, gnograd.autodiff, "on the tape"),
    ):
        if there:
            path = f"{module.__name__}.{one.name}"
            parts.append(f".. py:function:: {path}{signature(getattr(module, one.name))}\n")
            parts.append(f"   `gnograd.{one.name}` {what}.\n")
    rows = []
    if one.fortran:
        rows.append(["Fortran", f"``use gnograd, only: {one.name}``"])
    if one.c:
        rows.append(
            ["C", f"``gnograd_{one.name}_forward_r32`` and so on, :doc:`/reference/generated/c`"]
        )
    where = ", ".join(one.gpu) if one.gpu else "none"
    rows.append(["CUDA kernels", where])
    family = one.op.__module__.rpartition(".")[2]
    rows.append(["declared in", f":repo:`python/gnograd/operators/{family}.py`"])
    parts.append(table([], rows, "25 75"))
    return parts


def signature(function: Any) -> str:
    """Arguments without their types, which the operator's documentation has."""
    declared = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in declared.parameters.values()]
    return str(declared.replace(parameters=bare, return_annotation=declared.empty))


def support(facts: list[Facts]) -> str:
    yes, no = "●", "–"

    def mark(there: bool) -> str:
        return yes if there else no

    order = ["float64", "float32", "bfloat16", "float16"]
    rows = [
        [
            f":py:obj:`{one.name} <gnograd.{one.name}>`",
            yes, yes,
            *(mark(kind in one.gpu) for kind in order),
            "2" if one.differentiable else "0",
            one.tape_order,
            "2" if one.torch and one.differentiable else "0" if one.torch else no,
            "2" if one.jax and one.differentiable else "0" if one.jax else no,
            mark(one.fortran), mark(one.c),
            mark(one.on_graph),
        ]
        for one in facts
    ]  # fmt: skip
    header = ["operator", "CPU f64", "CPU f32", "GPU f64", "GPU f32", "GPU bf16", "GPU f16",
              "NumPy", "tape", "PyTorch", "JAX", "Fortran", "C", "in parts"]  # fmt: skip
    parts = [
        title("Support matrix"),
        "Operator by type and device, then by front. It is made from the declarations, the headers "
        "and the lists of the fronts when this page is built.\n",
        ".. rst-class:: support\n",
        table(header, rows),
        "Types: f64, f32, bf16, f16 are float64, float32, bfloat16, float16. PyTorch computes half "
        "precision where there is no kernel for it in float32 copies; the other fronts refuse it. "
        "Sums of half precision are in float32.\n",
        "NumPy, tape, PyTorch, JAX: the order to which the operator is differentiable there; 0 is "
        "a function without derivatives, – means that it is not there. First order is by `vjp` "
        "(reverse) and `jvp` (forward), second order by `hvp`, in every combination of reverse and "
        "forward. Fortran has the tape. C has the four faces and the tape. GPU: kernels in CUDA.\n",
        "In parts: takes a :py:obj:`gnograd.DistributedGraph` for a graph.\n",
    ]
    return "\n".join(parts)
