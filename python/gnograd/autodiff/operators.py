# SPDX-License-Identifier: MIT
"""The operators of gnograd on the tape.

Each takes what the operator of the same name takes, with at least one input on a tape:

>>> import numpy as np
>>> import gnograd as gg
>>> import gnograd.autodiff as ad
>>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2)
>>> tape = ad.Tape("float64")
>>> x, w = tape.parameter([[1.0, 2.0], [3.0, -4.0]]), tape.parameter([1.0, 3.0])
>>> y = ad.agg_weighted(x, w, graph=graph, aggregation="mean")
>>> y.value
array([[ 2.5, -2.5],
       [ 0. ,  0. ]])
>>> ad.sum(y).backward()
>>> w.grad
array([ 0.75, -0.25])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd import _core
from gnograd.autodiff.arrays import Array, operand
from gnograd.autodiff.distributed import in_parts
from gnograd.backends.cpu import address, native, refuse_mask
from gnograd.faces.call import known_sizes, missing
from gnograd.faces.fronts import operators, present
from gnograd.faces.operator import Operator
from gnograd.graphs.in_parts import GraphInParts
from gnograd.notation import shapes
from gnograd.notation.declaration import Signature

__all__: list[str] = []


def on_tape(op: Operator[Any, Any]) -> Callable[..., Any]:
    """An operator as a function of arrays of a tape."""
    core = getattr(_core, f"gnograd_array_{op.name}")
    words = op.declaration.words_on_tape(op.static, op.lists)

    def function(*inputs: Any, **static: Any) -> Any:
        if isinstance(static.get("graph"), GraphInParts):
            return in_parts(op, function, inputs, static)
        operands, given = op.ordered(inputs, static)
        like = next((array for array in operands if isinstance(array, Array)), None)
        if like is None:
            raise TypeError(f"{op.name}: needs an Array among its inputs")
        values = op.complete(given)
        if any(x is None for x in operands):
            _refuse_missing(op, values, operands)
        tape = like.tape
        arrays = [None if x is None else Array(tape, operand(like, x)) for x in operands]
        before, _kept = _arguments(op, words, values, arrays)
        handles = [0 if array is None else array._handle for array in arrays]
        if op.n_outputs == 1:
            return tape._wrap(core(tape._handle, *before, *handles))
        first = tape._wrap(core(tape._handle, *before, *handles, tape._address))
        others = tape._scratch[: op.n_outputs - 1].tolist()
        return op.returned((first, *map(tape._wrap, others)), static)

    present(function, op, "gnograd.autodiff", "Array")
    return function


def _refuse_missing(
    op: Operator[Any, Any], static: Mapping[str, Any], operands: Sequence[Any]
) -> None:
    signature = op.declaration.signature(static)
    for (name, spec), x in zip(signature.inputs.items(), operands, strict=True):
        if x is None and not shapes.parse(spec).optional:
            raise ValueError(f"{op.name}: an operand has no value: {name} is missing")


def _arguments(
    op: Operator[Any, Any],
    words: Sequence[str],
    static: Mapping[str, Any],
    inputs: Sequence[Array | None],
) -> tuple[list[Any], list[NDArray[Any]]]:
    """Arguments of C before the arrays, and the arrays they point to, to keep alive."""
    signature = op.declaration.signature(static)
    instead = dict(zip(op.declaration.arguments.split(), signature.arguments.split(), strict=True))
    codes, kept = op.codes(static), []
    sizes: dict[str, int] = {}
    sized = any(
        static[name] is not None or not shapes.parse(spec).optional
        for name, spec in signature.arrays.items()
    )
    if sized or any(instead[word] not in codes for word in words):
        sizes = _sizes(op, signature, static, inputs)
    arguments = []
    for word in words:
        value = codes.get(instead[word])
        if word == "graph":
            value = value.handle
        elif word in op.lists or word in op.arrays:
            if value is not None:
                dtype = shapes.dtype_of(signature.arrays.get(word, "int64"), "")
                given = np.asarray(value)
                if given.dtype.kind not in "iu" and given.size:
                    raise TypeError(f"{op.name}: {word} is {given.dtype}, needs {dtype}")
                kept.append(np.ascontiguousarray(given, dtype))
            value = 0 if value is None else address(kept[-1])
        elif instead[word] not in codes:
            value = shapes.number(instead[word], sizes)
        arguments.append(value)
    return arguments, kept


def _sizes(
    op: Operator[Any, Any],
    signature: Signature,
    static: Mapping[str, Any],
    inputs: Sequence[Array | None],
) -> dict[str, int]:
    """All sizes, from the shapes of the inputs and of static arrays."""
    sizes = known_sizes(static, signature)
    for (name, spec), array in zip(signature.inputs.items(), inputs, strict=True):
        if array is not None:
            shapes.match(f"{op.name}: {name}", array.shape, spec, sizes)
    for name, spec in signature.arrays.items():
        if static[name] is None:
            if not shapes.parse(spec).optional:
                raise missing(op.name, name, spec, sizes)
            continue
        refuse_mask(op.name, name, static[name])
        array, needed = native(np.asarray(static[name])), shapes.dtype_of(spec, "")
        if array.dtype != needed:
            raise TypeError(f"{op.name}: {name} is {array.dtype}, needs {needed}")
        shapes.match(f"{op.name}: {name}", array.shape, spec, sizes)
    shapes.close(signature.inputs.values(), sizes)
    return sizes


for _op in operators():
    if isinstance(_op, Operator):
        globals()[_op.name] = on_tape(_op)
        __all__.append(_op.name)
