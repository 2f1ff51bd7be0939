# SPDX-License-Identifier: MIT
"""Saved arrays: the vjp of every backend reads those that its declaration does not call unread."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import calls
import gnograd as gg
from gnograd.notation import shapes
from gpus import GPUS, needs_gpu
from table import FRONT

if GPUS:
    from gnograd.backends import cuda

TYPES = {
    ("cpu", "float32"): "r32", ("cpu", "float64"): "r64", ("cuda", "float32"): "f32",
    ("cuda", "float64"): "f64", ("cuda", "float16"): "f16", ("cuda", "bfloat16"): "bf16",
}  # fmt: skip
SAVING = [name for name in sorted(calls.calls()) if getattr(gg, name).declaration.saved]


def call_of(name):
    """A call, of attention with more keys than gradients without the saved output have at once."""
    if name != "attention":
        return calls.call_of(name, calls.graph())
    case = FRONT[name].change(Tk=300, cu_k=np.array([0, 4, 6, 300]))
    return case.inputs(None, np.random.default_rng(0)), case.arguments()


def with_all_saved(op):
    """The operator with what kernels write and read for callers in C, too."""
    declaration = op.declaration
    when = {
        condition: {
            name: spec
            for name, spec in changes.items()
            if spec != "None" or name not in declaration.unread.get(condition, "").split()
        }
        for condition, changes in declaration.when.items()
    }
    declaration = dataclasses.replace(declaration, saved_only_in_c=(), when=when)
    return type(op)(op.__wrapped__, declaration, op._choices, {})


def variants(op, static):
    """The call, and others for every value of what its declaration has conditions on."""
    conditions = [word for where in op.declaration.unread for word in where.split()]
    conditions += [*op.declaration.when]
    named = {word.partition("=")[0].rstrip("!") for word in conditions if "=" in word}
    yield static
    for name in sorted(named):
        choices = [*op._choices.get(name, ())]
        choices = choices or ([True, False] if isinstance(op.static[name], bool) else [])
        for value in choices:
            yield static | {name: value}


def spoil(array):
    """Array of other numbers in the same shape."""
    if array.dtype.kind == "i":
        return np.zeros_like(array)
    return (array.astype(float) * 2 + 1).astype(array.dtype)


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [pytest.param(*key, marks=needs_gpu if key[0] == "cuda" else ()) for key in TYPES],
)
@pytest.mark.parametrize("name", SAVING)
def test_what_is_called_unread_is_not_read_and_all_else_is(name, backend, dtype):
    there = backend == "cuda"
    kind = np.dtype(pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)

    def put(array):
        return cuda.to_device(array) if there and isinstance(array, np.ndarray) else array

    def get(array):
        return array.get() if there else array

    if there and f"{name}_vjp_{TYPES[backend, dtype]}" not in cuda.library().faces:
        pytest.skip("there is no kernel for this type")
    op = with_all_saved(getattr(gg, name))
    inputs, given = call_of(name)
    specs = op.signature(**given).inputs.values()
    half = kind.itemsize == 2
    arrays = tuple(
        put(
            np.ascontiguousarray(x).astype(
                np.float32 if half and shapes.parse(spec).dtype else kind
            )
        )
        for x, spec in zip(inputs, specs, strict=False)
    )
    for static in variants(op, given):
        unread = op.signature(**static).not_read(backend, dtype)
        static = {key: put(value) for key, value in static.items()}
        outputs, saved = op.forward(*arrays, return_saved=True, **static)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        rng = np.random.default_rng(1)
        cotangents = tuple(
            put(rng.normal(size=tuple(y.shape)).astype(get(y).dtype)) for y in outputs
        )

        def gradients(saved, cotangents=cotangents, static=static):
            found = op.vjp(cotangents, arrays, saved=saved, **static)
            return [None if g is None else get(g).tobytes() for g in found]

        right = gradients(saved)
        for k, label in enumerate(op.declaration.saved):
            if saved[k] is None:
                continue
            spoiled = [*saved]
            spoiled[k] = put(spoil(get(saved[k])))
            same = gradients(spoiled) == right
            assert same == (label in unread), (label, static)
        read = zip(saved, op.declaration.saved, strict=True)
        assert gradients([None if label in unread else x for x, label in read]) == right


@pytest.mark.parametrize("name", SAVING)
def test_what_no_backend_reads_is_not_saved(name):
    op = getattr(gg, name)
    inputs, given = call_of(name)
    for static in variants(op, given):
        signature = op.signature(**static)
        unread = [signature.not_read(*key) for key in TYPES]
        _, saved = op.forward(*inputs, return_saved=True, **static)
        by_name = dict(zip(op.declaration.saved, saved, strict=True))
        for label in set.intersection(*unread) - {*op.declaration.outputs}:
            assert by_name[label] is None, (label, static)


def test_unread_arrays_are_saved_ones():
    for name in SAVING:
        declaration = getattr(gg, name).declaration
        named = {label for names in declaration.unread.values() for label in names.split()}
        assert named <= set(declaration.saved), name
        for where in declaration.unread:
            for word in where.split():
                known = {word for key in TYPES for word in key}
                assert "=" in word or set(word.split("|")) <= known, (name, word)
