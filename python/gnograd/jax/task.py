# SPDX-License-Identifier: MIT
"""What XLA is to do: one face of one operator, on the buffers of a call.

XLA's programs name a task by a number. A program may run, and be running, when all of Python's
objects that belong to it are gone; so tasks stay for ever (they are small), and a task has but the
number of its graph. While that graph lives it is used as it is. For the rest of the time its
arrays are operands of the program, of which the graph is made again.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gnograd import shapes
from gnograd.backends import cpu
from gnograd.declaration import Signature
from gnograd.graph import Graph, graph_by_number
from gnograd.jax import xla
from gnograd.operator import Function, spread
from gnograd.shapes import Shape

__all__ = ["TARGET", "GraphKey", "Parts", "Problem", "Task", "number_of"]

TARGET = "gnograd"
"""What XLA calls, on the CPU and on CUDA; its one attribute is the number of the task."""

Mask = tuple[bool, ...]


class GraphKey(NamedTuple):
    """A graph without its arrays, which are operands: offsets, indices and edge_ids."""

    number: int
    n_src: int


class Parts(NamedTuple):
    """The arrays a face takes, by groups, with None for those that are absent."""

    operands: Sequence[Any]
    """The inputs of the operator, its static arguments that are arrays, the arrays of the graph."""
    cotangents: Sequence[Any] = ()
    """One an output"""
    tangents: Sequence[Any] = ()
    """One an input"""
    others: Sequence[Any] = ()
    """A second tangent, one an input"""
    saved: Sequence[Any] = ()
    """What forward kept for the vjp"""


@dataclass(frozen=True)
class Problem:
    """What all faces of one call of an operator have in common.

    Attributes
    ----------
    op : Function
    static : tuple of (str, object)
        Static arguments that are no arrays; hashable. A graph is a `GraphKey`.
    signature : Signature
    results : tuple of (tuple of int, str)
        Shapes and dtypes of the outputs, then of what else is saved.
    """

    op: Function[Any]
    static: tuple[tuple[str, Any], ...]
    signature: Signature = field(compare=False)
    results: tuple[tuple[Shape, str], ...]


@dataclass(frozen=True)
class Task:
    """One face of an operator; equal where all of it is.

    Attributes
    ----------
    problem : Problem
    face : {"forward", "jvp", "vjp", "hvp", "curve"}
    there : Parts of tuple of bool
        Which arrays it takes.
    wrt : tuple of bool
        For which inputs it gives gradients, for those faces that do.
    keeps : bool
        Whether forward gives what is saved, besides the outputs.
    """

    problem: Problem
    face: str
    there: Parts
    wrt: Mask = ()
    keeps: bool = False

    def __repr__(self) -> str:
        return self.problem.op.name

    def parts(self, arrays: Iterable[Any]) -> Parts:
        """Sort the arrays that are there into groups."""
        rest = iter(arrays)
        return Parts(*(spread(mask, rest) for mask in self.there))

    def run(
        self,
        backend: ModuleType,
        arrays: Sequence[Any],
        results: Sequence[Any],
        host: Callable[[Any], Any],
    ) -> None:
        """Compute, and write the results; `host` brings an array to the host."""
        op: Any = self.problem.op
        signature = self.problem.signature
        at = self.parts(arrays)
        n, n_arrays = len(op.inputs), len(op.arrays)
        inputs = tuple(at.operands[:n])
        static = dict(self.problem.static)
        if "graph" in static:
            static["graph"] = _graph(static["graph"], at.operands[n + n_arrays :], host)
        for name, array in zip(op.arrays, at.operands[n : n + n_arrays], strict=True):
            dtype = shapes.parse(signature.arrays[name]).dtype
            static[name] = None if array is None else _integers(backend, array, dtype)
        wrt = list(itertools.compress(op.inputs, self.wrt))
        if self.face == "forward":
            op.forward(*inputs, return_saved=self.keeps, out=results, **static)
        elif self.face == "jvp":
            op.jvp(inputs, at.tangents, out=results, **static)
        elif self.face == "vjp":
            saved = spread(signature.needed, at.saved) if at.saved else None
            out = spread(self.wrt, results)
            op.vjp(at.cotangents, inputs, wrt=wrt, saved=saved, out=out, **static)
        else:
            out = spread(self.wrt, results)
            op.hvp(at.cotangents, inputs, at.tangents, wrt=wrt, out=out, **static)


def _integers(backend: ModuleType, array: Any, needed: str) -> Any:
    """The array in the integer type that the operator needs; JAX may have but 32 bits."""
    shape, dtype = backend.describe(array)
    if dtype == needed or not dtype.startswith("int"):
        return array
    converted = backend.empty(shape, needed, array)
    backend.assign(converted, array)
    return converted


_again: dict[int, Graph] = {}
"""Graphs made again, the last few."""


def _graph(key: GraphKey, arrays: Sequence[Any], host: Callable[[Any], Any]) -> Graph:
    try:
        return graph_by_number(key.number)
    except LookupError:
        pass
    graph = _again.get(key.number)
    if graph is None:
        offsets, indices, edge_ids = arrays
        ids = None if edge_ids is None else host(edge_ids)
        graph = Graph(host(offsets), host(indices), key.n_src, ids)
        for number in list(_again)[:-7]:
            _again.pop(number, None)
        _again[key.number] = graph
    return graph


# ---- tasks by number ----

_count = itertools.count(secrets.randbits(62))
"""From anywhere, so that a program which another process has compiled finds no task here."""
_numbers: dict[Task, int] = {}
_tasks: dict[int, Task] = {}


def number_of(task: Task) -> int:
    """The number by which XLA knows a task."""
    if task not in _numbers:
        number = _numbers[task] = next(_count)
        _tasks[number] = task
    return _numbers[task]


def _task_of(call: xla.Call) -> Task:
    task = _tasks.get(call.attribute)
    if task is None:
        raise RuntimeError("gnograd: this program was compiled in another process")
    return task


# ---- buffers as arrays ----


def _host_array(buffer: xla.Buffer) -> Any:
    dtype = np.dtype(buffer.dtype)
    size = math.prod(buffer.shape) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(buffer.address)
    return np.ndarray(buffer.shape, dtype, memory)


def run_on_cpu(call: xla.Call) -> None:
    """Do what XLA asks for, in memory of the host."""
    operands, results = list(map(_host_array, call.operands)), list(map(_host_array, call.results))
    _task_of(call).run(cpu, operands, results, lambda array: array)


def run_on_cuda(call: xla.Call) -> None:
    """Do what XLA asks for, on its stream and in its memory."""
    from gnograd.backends import cuda
    from gnograd.backends.cuda_arrays import DeviceArray, Memory, address, item_size
    from gnograd.backends.cuda_library import library

    # memory that is not ours to free, and in use on this one stream: nothing to wait for
    theirs = Memory(0, 0, None)
    scratch: list[tuple[int, int]] = []
    stream = call.stream

    def array(buffer: xla.Buffer) -> DeviceArray:
        return DeviceArray(buffer.shape, buffer.dtype, theirs, buffer.address)

    def empty(shape: shapes.Shape, dtype: str) -> DeviceArray:
        size = math.prod(shape) * item_size(dtype)
        block = call.allocate(size) if size else 0
        if size:
            scratch.append((block, size))
        return DeviceArray(shape, dtype, theirs, block)

    def host(array: DeviceArray) -> Any:
        values = np.empty(array.shape, array.dtype)
        library().copy(values.ctypes.data, address(array), values.nbytes, stream)
        library().synchronize(stream)
        return values

    operands, results = list(map(array, call.operands)), list(map(array, call.results))
    try:
        with cuda.using(stream, empty):
            _task_of(call).run(cuda, operands, results, host)
    finally:
        for block, size in scratch:
            call.free(block, size)


xla.register(TARGET, "cpu", run_on_cpu)
xla.register(TARGET, "CUDA", run_on_cuda)
