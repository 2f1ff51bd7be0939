# SPDX-License-Identifier: MIT
"""What XLA is to do: one face of one operator, on the buffers of a call.

XLA's programs name a task by a number, which is valid as long as the task lives: whoever compiles
a program keeps its tasks. Numbers begin anywhere, so that a program that another process compiled
and stored does not find a task of this one.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import secrets
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gnograd import shapes
from gnograd.backends import cpu
from gnograd.jax import xla
from gnograd.operator import Function, Signature

__all__ = ["TARGET", "Parts", "Task", "number_of", "spread"]

TARGET = "gnograd"
"""What XLA calls, on the CPU and on CUDA; its one attribute is the number of the task."""

Mask = tuple[bool, ...]


class Parts(NamedTuple):
    """The arrays a face takes, by groups, with None for those that are absent."""

    operands: Sequence[Any]
    """The inputs of the operator, then its static arguments that are arrays."""
    cotangents: Sequence[Any] = ()
    """One an output"""
    tangents: Sequence[Any] = ()
    """One an input"""
    others: Sequence[Any] = ()
    """A second tangent, one an input"""
    saved: Sequence[Any] = ()
    """What forward kept for the vjp, without those that these static arguments do not need"""


@dataclass(frozen=True)
class Task:
    """One face of an operator with its static arguments; equal where all of these are.

    Attributes
    ----------
    op : Function
    static : tuple of (str, object)
        Static arguments that are no arrays; hashable.
    face : {"forward", "jvp", "vjp", "hvp", "curve"}
    there : Parts of tuple of bool
        Which arrays it takes.
    wrt : tuple of bool
        For which inputs it gives gradients, for those faces that do.
    keeps : bool
        Whether forward gives what the vjp would like to have.
    """

    op: Function[Any]
    static: tuple[tuple[str, Any], ...]
    face: str
    there: Parts
    wrt: Mask = ()
    keeps: bool = False

    def __repr__(self) -> str:
        return self.op.name

    def parts(self, arrays: Iterable[Any]) -> Parts:
        """Sort the arrays that are there into groups."""
        rest = iter(arrays)
        return Parts(*(spread(mask, rest) for mask in self.there))

    @functools.cached_property
    def signature(self) -> Signature:
        """Shapes under these static arguments, of which the arrays matter by being there alone."""
        arrays = zip(self.op.arrays, self.there.operands[len(self.op.inputs) :], strict=True)
        return self.op.signature(
            **self.arguments, **{name: True if there else None for name, there in arrays}
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """Static arguments that are no arrays, as operators take them."""
        return {n: list(v) if isinstance(v, tuple) else v for n, v in self.static}

    @property
    def saved_names(self) -> list[str]:
        """Names of what the vjp would like to have, in its order."""
        return [name for name, spec in self.signature.saved.items() if spec != "None"]

    def run(self, backend: ModuleType, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        """Compute, and write the results."""
        at = self.parts(arrays)
        n = len(self.op.inputs)
        inputs = tuple(at.operands[:n])
        static = self.arguments
        for name, array in zip(self.op.arrays, at.operands[n:], strict=True):
            static[name] = array if array is None else self._integers(backend, name, array)
        cotangents = at.cotangents[0] if len(at.cotangents) == 1 else tuple(at.cotangents)
        wrt = [name for name, wanted in zip(self.op.inputs, self.wrt, strict=False) if wanted]
        op: Any = self.op
        if self.face == "forward":
            op.forward(*inputs, return_saved=self.keeps, out=results, **static)
        elif self.face == "jvp":
            op.jvp(inputs, at.tangents, out=results, **static)
        elif self.face == "vjp":
            needed = [spec != "None" for spec in self.signature.saved.values()]
            saved = spread(needed, at.saved) if at.saved else None
            out = spread(self.wrt, results)
            op.vjp(cotangents, inputs, wrt=wrt, saved=saved, out=out, **static)
        else:
            out = spread(self.wrt, results)
            op.hvp(cotangents, inputs, at.tangents, wrt=wrt, out=out, **static)

    def _integers(self, backend: ModuleType, name: str, array: Any) -> Any:
        """The array in the integer type that the operator needs; JAX may have but 32 bits."""
        shape, dtype = backend.describe(array)
        needed = shapes.parse(self.signature.arrays[name]).dtype
        if dtype == needed or not dtype.startswith("int"):
            return array
        converted = backend.empty(shape, needed, array)
        backend.assign(converted, array)
        return converted


def spread(mask: Sequence[bool], values: Iterable[Any]) -> list[Any]:
    """One entry for every one of the mask, None where it is false."""
    rest = iter(values)
    return [next(rest) if there else None for there in mask]


# ---- tasks by number ----

_numbers = itertools.count(secrets.randbits(62))
_tasks: weakref.WeakValueDictionary[int, Task] = weakref.WeakValueDictionary()


def number_of(task: Task) -> int:
    """A number for a task, valid as long as this very object lives."""
    number = next(_numbers)
    _tasks[number] = task
    return number


def _task_of(call: xla.Call) -> Task:
    task = _tasks.get(call.attribute)
    if task is None:
        raise RuntimeError("this program was compiled in another process")
    return task


# ---- buffers as arrays ----


def _host_array(buffer: xla.Buffer) -> Any:
    dtype = np.dtype(buffer.dtype)
    memory = ctypes.c_char * (math.prod(buffer.shape) * dtype.itemsize)
    return np.ndarray(buffer.shape, dtype, memory.from_address(buffer.address))


def run_on_cpu(call: xla.Call) -> None:
    """Do what XLA asks for, in memory of the host."""
    _task_of(call).run(
        cpu, list(map(_host_array, call.operands)), list(map(_host_array, call.results))
    )


def run_on_cuda(call: xla.Call) -> None:
    """Do what XLA asks for, on its stream and in its memory."""
    from gnograd.backends import cuda
    from gnograd.backends.cuda_arrays import DeviceArray, Memory, item_size

    # memory that is not ours to free, and in use on this one stream: nothing to wait for
    theirs = Memory(0, 0, 0, shared=True)
    scratch: list[tuple[int, int]] = []

    def array(buffer: xla.Buffer) -> DeviceArray:
        return DeviceArray(buffer.shape, buffer.dtype, theirs, buffer.address)

    def empty(shape: shapes.Shape, dtype: str) -> DeviceArray:
        size = math.prod(shape) * item_size(dtype)
        address = call.allocate(size) if size else 0
        if size:
            scratch.append((address, size))
        return DeviceArray(shape, dtype, theirs, address)

    try:
        with cuda.using(call.stream, empty):
            _task_of(call).run(
                cuda, list(map(array, call.operands)), list(map(array, call.results))
            )
    finally:
        for address, size in scratch:
            call.free(address, size)


xla.register(TARGET, "cpu", run_on_cpu)
xla.register(TARGET, "CUDA", run_on_cuda)
