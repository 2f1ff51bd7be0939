# SPDX-License-Identifier: MIT
"""Tasks of XLA: one face of one operator, on the buffers of a call.

A program stores a task as text: names, numbers and flags of present arrays. Sizes are those of the
buffers, which include the arrays of graphs, so one text serves all sizes, in any process that has
imported `gnograd.jax`: programs may be stored in files and loaded again.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gnograd.backends import cpu
from gnograd.faces.operator import Function, spread
from gnograd.graphs.graph import Graph, LentForACall, lend, remote
from gnograd.jax import xla
from gnograd.notation import shapes
from gnograd.notation.declaration import FACES, Signature
from gnograd.notation.graph_arrays import GraphArrays
from gnograd.notation.shapes import Shape

__all__ = ["TARGET", "Parts", "Task", "know"]

TARGET = "gnograd"
"""Name of XLA's target, on the CPU and on CUDA; its only attribute is the text of the task."""

Mask = tuple[bool, ...]


class Parts(NamedTuple):
    """The arrays a face takes, by groups, with None for those that are absent."""

    operands: Sequence[Any]
    """The inputs of the operator, its static arguments that are arrays, the arrays of the graph."""
    cotangents: Sequence[Any] = ()
    """One for each output"""
    tangents: Sequence[Any] = ()
    """One for each input"""
    others: Sequence[Any] = ()
    """Second tangents, one for each input"""
    saved: Sequence[Any] = ()
    """Arrays that forward saved for the vjp, one for each declared name"""


_NOTHING = Parts(())


class _Shaped(NamedTuple):
    """Stand-in for a static array whose shape alone is needed; sizes may be symbolic."""

    shape: tuple[Any, ...]


@dataclass(frozen=True)
class Task:
    """One face of an operator with its static arguments; compares by value.

    Attributes
    ----------
    op : Function
    static : tuple of (str, object)
        Static arguments that are neither arrays nor graphs; hashable.
    face : {"forward", "jvp", "vjp", "hvp", "curve"}
    there : Parts of tuple of bool
        Flags of the arrays that are present.
    wrt : tuple of bool
        Flags of the inputs whose gradients are results, for vjp and hvp.
    keeps : bool
        True if forward returns the saved arrays, besides the outputs.
    """

    op: Function[Any, Any]
    static: tuple[tuple[str, Any], ...]
    face: str = "forward"
    there: Parts = _NOTHING
    wrt: Mask = ()
    keeps: bool = False

    def __repr__(self) -> str:
        return self.op.name

    @functools.cached_property
    def text(self) -> str:
        """The task as text, for programs."""
        return json.dumps(
            {
                "operator": self.op.name,
                "face": self.face,
                "static": dict(self.static),
                "there": {
                    group: _bits(mask) for group, mask in self.there._asdict().items() if mask
                },
                "wrt": _bits(self.wrt),
                "keeps": self.keeps,
            }
        )

    @staticmethod
    @functools.lru_cache(maxsize=1024)
    def read(text: bytes) -> Task:
        """Make the task from the text in a program."""
        stored = json.loads(text)
        op = _operators.get(stored["operator"])
        if op is None:
            raise RuntimeError(
                f"gnograd: this program needs the operator {stored['operator']}, which there is not"
            )
        static = tuple(stored["static"].items())
        there = Parts(*(_mask(stored["there"].get(group, "")) for group in Parts._fields))
        return Task(op, static, stored["face"], there, _mask(stored["wrt"]), stored["keeps"])

    def parts(self, arrays: Iterable[Any]) -> Parts:
        """Sort the present arrays into groups."""
        rest = iter(arrays)
        return Parts(*(spread(mask, rest) for mask in self.there))

    def signature(self, operands: Sequence[Any]) -> Signature:
        """Signature of the operator, for operands of which only shapes and dtypes matter."""
        return self.op.signature(**self._shaped(operands))

    def results(self, operands: Sequence[Any]) -> list[tuple[Shape, str]]:
        """Shapes and dtypes of the outputs, then of the other saved arrays, from such operands."""
        inputs = operands[: len(self.op.inputs)]
        given = [None if x is None else (x.shape, str(x.dtype)) for x in inputs]
        return [*self.op.results(given, **self._shaped(operands)).values()]

    def _shaped(self, operands: Sequence[Any]) -> dict[str, Any]:
        """All static arguments, with shapes for arrays: signatures work without their values."""
        n = len(self.op.inputs)
        m = n + len(self.op.arrays)
        given = dict(self.static)
        for name, array in zip(self.op.arrays, operands[n:m], strict=True):
            given[name] = None if array is None else _Shaped(tuple(array.shape))
        if operands[m:]:
            given["graph"] = GraphArrays(*operands[m:]).sizes
        return given

    def run(
        self,
        backend: ModuleType,
        arrays: Sequence[Any],
        results: Sequence[Any],
        lent: Callable[[GraphArrays], Graph],
    ) -> None:
        """Compute, and write the results; `lent` makes a graph of XLA's arrays."""
        op: Any = self.op
        at = self.parts(arrays)
        n = len(op.inputs)
        m = n + len(op.arrays)
        inputs = tuple(at.operands[:n])
        static = dict(self.static)
        for name, array in zip(op.arrays, at.operands[n:m], strict=True):
            dtype = shapes.parse(op.declaration.arrays[name]).dtype
            static[name] = None if array is None else _integers(backend, array, dtype)
        if at.operands[m:]:
            static["graph"] = lent(GraphArrays(*at.operands[m:]))
        wrt = list(itertools.compress(op.inputs, self.wrt))
        if self.face == "forward":
            op.forward(*inputs, return_saved=self.keeps, out=results, **static)
        elif self.face == "jvp":
            op.jvp(inputs, at.tangents, out=results, **static)
        elif self.face == "vjp":
            saved = at.saved if any(self.there.saved) else None
            out = spread(self.wrt, results)
            op.vjp(at.cotangents, inputs, wrt=wrt, saved=saved, out=out, **static)
        else:
            out = spread(self.wrt, results)
            op.hvp(at.cotangents, inputs, at.tangents, wrt=wrt, out=out, **static)

    def prepare(self, arrays: Sequence[Any], graph: Graph | None) -> Any:
        """Prepared call for buffers of these shapes; None where each call needs its own checks."""
        op: Any = self.op
        at = self.parts(arrays)
        n = len(op.inputs)
        if any(self.there.operands[n : n + len(op.arrays)]):
            return None
        inputs, static = tuple(at.operands[:n]), dict(self.static)
        if graph is not None:
            static["graph"] = graph
        if self.face == "forward":
            prepared: Any = op.prepare(inputs, static)
        elif self.face == "vjp" and len(at.saved) == len(self.signature(at.operands).saved):
            wrt = list(itertools.compress(op.inputs, self.wrt))
            prepared = op.prepare_vjp(at.cotangents, inputs, wrt, at.saved, static)
        else:
            prepared = None
        return prepared

    def repeat(
        self,
        call: Any,
        operands: Sequence[xla.Buffer],
        results: Sequence[xla.Buffer],
        run: Callable[[GraphArrays | None, list[int], list[int]], None],
    ) -> None:
        """Make a prepared call on other buffers, by `run` with graph, arrays and results."""
        at = self.parts(operands)
        n = len(self.op.inputs)
        groups = {"inputs": at.operands[:n], "cotangents": at.cotangents, "saved": at.saved}
        arrays = [array for group in FACES[self.face] for array in groups.get(group, ())]
        theirs = (result.address for result in results)
        into = [0 if like is None else next(theirs, 0) for like in call.results]
        graph = at.operands[n + len(self.op.arrays) :]
        run(GraphArrays(*graph) if graph else None, list(map(_address, arrays)), into)


def _address(buffer: xla.Buffer | None) -> int:
    return 0 if buffer is None else buffer.address


def _bits(mask: Iterable[bool]) -> str:
    return "".join("01"[there] for there in mask)


def _mask(bits: str) -> Mask:
    return tuple(bit == "1" for bit in bits)


def _integers(backend: ModuleType, array: Any, needed: str) -> Any:
    """Convert integers to the dtype that the operator needs; JAX may only have 32 bits."""
    shape, dtype = backend.describe(array)
    if dtype == needed or not dtype.startswith("int"):
        return array
    converted = backend.empty(shape, needed, array)
    backend.assign(converted, array)
    return converted


_operators: dict[str, Function[Any, Any]] = {}


def know(op: Function[Any, Any]) -> None:
    """Register an operator by its name, for `Task.read`."""
    _operators[op.name] = op


# ---- buffers as arrays ----


def _host_array(buffer: xla.Buffer) -> Any:
    dtype = np.dtype(buffer.dtype)
    size = math.prod(buffer.shape) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(buffer.address)
    return np.ndarray(buffer.shape, dtype, memory)


def _lent_on_cpu(arrays: GraphArrays) -> Graph:
    return lend(GraphArrays(*(x.view(np.int64)[:, 0] if _is_pairs(x) else x for x in arrays)))


def _is_pairs(array: Any) -> bool:
    return array is not None and len(array.shape) == 2


def run_on_cpu(call: xla.Call) -> None:
    """Run a call of XLA in host memory."""
    task = Task.read(call.attribute)
    key = call.attribute, *((operand.shape, operand.dtype) for operand in call.operands)
    known = task.op.known.get(key)
    if known is not None:

        def into(graph: GraphArrays | None, addresses: list[int], results: list[int]) -> None:
            if graph is None:
                known.run_into(0, addresses, results)
                return
            with LentForACall(graph.sizes, map(_address, graph)) as borrowed:
                known.run_into(borrowed.handle, addresses, results)

        task.repeat(known, call.operands, call.results, into)
        return
    lent: list[Graph] = []
    operands, results = list(map(_host_array, call.operands)), list(map(_host_array, call.results))

    def lend_once(arrays: GraphArrays) -> Graph:
        lent.append(_lent_on_cpu(arrays))
        return lent[-1]

    task.run(cpu, operands, results, lend_once)
    prepared = task.prepare(operands, lent[0] if lent else None)
    if prepared is not None:
        task.op.known.put(key, prepared)


def run_on_cuda(call: xla.Call) -> None:
    """Run a call of XLA on its stream and in its memory."""
    from gnograd.backends import cuda, cuda_library
    from gnograd.backends.cuda_arrays import DeviceArray, Memory, item_size

    # memory that XLA owns and uses on this stream only: nothing to free or to wait for
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

    def workspace(size: int) -> int:
        return empty((size,), "uint8")._address

    def into(graph: GraphArrays | None, addresses: list[int], results: list[int]) -> None:
        reference = graph and cuda.reference(GraphArrays(*(x and array(x) for x in graph)))
        known.launch_into(reference, addresses, results, stream, workspace)

    def lend_once(arrays: GraphArrays) -> Graph:
        lent.append(remote(arrays))
        cuda.lend(lent[0])
        return lent[0]

    task = Task.read(call.attribute)
    lent: list[Graph] = []
    device = cuda_library.library().integer("current_device")
    key = device, call.attribute, *((operand.shape, operand.dtype) for operand in call.operands)
    known = task.op.known.get(key)
    try:
        if known is not None:
            task.repeat(known, call.operands, call.results, into)
            return
        operands, results = list(map(array, call.operands)), list(map(array, call.results))
        with cuda.using(stream, empty):
            task.run(cuda, operands, results, lend_once)
            prepared = task.prepare(operands, lent[0] if lent else None)
        if prepared is not None:
            task.op.known.put(key, prepared)
    finally:
        for block, size in scratch:
            call.free(block, size)


xla.register(TARGET, "cpu", run_on_cpu)
xla.register(TARGET, "CUDA", run_on_cuda)
