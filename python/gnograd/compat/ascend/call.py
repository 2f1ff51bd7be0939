# SPDX-License-Identifier: MIT
"""One call of selected attention: checks of its arrays, and the call of the kernel."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd import _core
from gnograd.backends import backend_of, cpu, cuda_arrays
from gnograd.backends.cpu import SUFFIXES, address, check_status
from gnograd.compat.arrays import array_of
from gnograd.compat.ascend.errors import ERRORS, InvalidParameterError, NullPointerError
from gnograd.faces.operator import Array
from gnograd.notation import shapes
from gnograd.notation.static import exact_integers, integer, number

__all__ = ["KEYS", "OUT", "QUERIES", "SOFTMAX", "VALUES", "Call"]

QUERIES, KEYS, VALUES = "T_q N_q D_k", "T_kv N_kv D_k", "T_kv N_kv D_v"
OUT, SOFTMAX, TOPK = "T_q N_q D_v", "real T_q N_q 8", "int32 T_q N_kv block_count"
_FLOATS = (*SUFFIXES, "float16", "bfloat16")


class Call:
    """One call: arrays in the form of kernels; the C interface checks the other arguments.

    It does so for a GPU too: its first step does not read arrays of numbers.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._first = ""
        self._like: Array = None
        self._backend: ModuleType = cpu
        self._given = ""
        self._dtype = ""
        self._sizes: dict[str, int] = {}

    def static(self, scale_value: float, **integers: int) -> list[Any]:
        """The scale and the integers, in order; sets the number of blocks."""
        values: list[Any] = [number(f"{self.name}: scale_value", scale_value)]
        for label, value in integers.items():
            try:
                values.append(integer(f"{self.name}: {label}", value))
            except ValueError as error:
                raise InvalidParameterError(str(error)) from None
            if label.endswith("block_count"):
                self._sizes["block_count"] = values[-1]
        return values

    def inputs(self, query: Array, key: Array, value: Array) -> list[Array]:
        """Check queries, keys and values, which have one dtype."""
        specs = {"query": QUERIES, "key": KEYS, "value": VALUES}
        return [
            self.array(label, array, spec)
            for (label, spec), array in zip(specs.items(), (query, key, value), strict=True)
        ]

    def array(self, label: str, value: Array, spec: str) -> Array:
        """Check a floating-point array, and convert it to the precision of the computation."""
        array = self._lent(label, value, spec)
        if self._backend is cpu:
            return np.ascontiguousarray(array, dtype=self._dtype)
        return self._backend.contiguous(array)

    def topk(self, value: Array) -> Array:
        """Check the selected blocks."""
        return self._backend.contiguous(self._lent("topk_indices", value, TOPK))

    def ends(self, of_queries: Sequence[int], of_keys: Sequence[int]) -> list[NDArray[np.int64]]:
        """Check cumulative lengths, as many for keys as for queries."""
        given = {"actual_seq_qlen": of_queries, "actual_seq_kvlen": of_keys}
        ends = []
        for label, values in given.items():
            if values is None:
                raise NullPointerError(f"{self.name}: {label} is None")
            cpu.refuse_mask(self.name, label, values)
            array = np.ascontiguousarray(values)
            if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
                self._refuse(f"{label} needs a sequence of integers")
            try:
                ends.append(exact_integers(f"{self.name}: {label}", array, np.int64))
            except IndexError as error:
                raise InvalidParameterError(str(error)) from None
        if ends[0].size != ends[1].size:
            self._refuse("actual_seq_kvlen and actual_seq_qlen have different lengths")
        return ends

    def layout(self, text: str) -> NDArray[np.uint8]:
        """Text as a C string."""
        if text is None:
            raise NullPointerError(f"{self.name}: input_layout is None")
        return np.frombuffer(str(text).encode() + b"\0\0\0\0", np.uint8)

    def refuse_mask(self, value: Any) -> None:
        """Raise an error for a mask, which is not supported."""
        if value is not None:
            self._refuse("atten_mask is not supported")

    def empty(self, spec: str) -> Array:
        """Memory for a result."""
        shape = shapes.shape_of(spec, self._sizes)
        return self._backend.empty(shape, shapes.dtype_of(spec, self._dtype), self._like)

    def as_given(self, array: Array) -> Array:
        """Convert a result to the dtype of the inputs."""
        return array.astype(self._like.dtype, copy=False) if self._backend is cpu else array

    def run(self, arguments: Sequence[Any], face: str, on_gpu: Sequence[Any]) -> None:
        """Take both steps: check limits and get the size of the workspace; compute.

        The arguments are those of the C interface, and those of a face of the CUDA library.
        """
        known = self._sizes
        sizes = [known[name] for name in ("T_q", "T_kv", "N_q", "N_kv", "D_k", "D_v")]
        _, q_ends, k_ends, *others = on_gpu
        sizes.append(q_ends.size)
        passed = [*sizes, *map(_pass, arguments)]
        size = np.zeros(1, np.int64)
        self._check(self._function("_get_workspace_size")(*passed, address(size)))
        if self._backend is cpu:
            workspace = np.empty(max(int(size[0]), 1), np.uint8)
            self._check(self._function("")(*passed, address(workspace), workspace.size, 0))
            return
        device = cuda_arrays.device_of(self._like)
        borders = [_borders(tuple(ends.tolist()), device) for ends in (q_ends, k_ends)]
        self._backend.run(
            "nsa_selected_attention", face, self._dtype, [*sizes, on_gpu[0], *borders, *others]
        )

    def _function(self, step: str) -> Any:
        suffix = SUFFIXES[shapes.dtype_of(SOFTMAX, self._dtype)]
        return getattr(_core, f"gnograd_{self.name}{step}_{suffix}")

    def _lent(self, label: str, value: Array, spec: str) -> Array:
        """Check an array of any library against its spec and the arrays before it."""
        if value is None:
            raise NullPointerError(f"{self.name}: {label} is None")
        array = array_of(value)
        backend = None if array is None else backend_of(array)
        if backend is None:
            raise TypeError(f"{self.name}: {label} is of type {type(value).__name__}, not an array")
        if backend is cpu:
            cpu.refuse_mask(self.name, label, array)
        shape, dtype = backend.describe(array)
        if not self._first:
            if dtype not in _FLOATS:
                self._refuse(f"{label} is {dtype}, needs a floating-point type")
            self._first, self._like, self._backend, self._given = label, array, backend, dtype
            self._dtype = dtype if dtype in backend.SUFFIXES else "float32"
        if backend is not self._backend:
            raise TypeError(
                f"{self.name}: {self._first} is on the {self._backend.DEVICE} "
                f"but {label} is on the {backend.DEVICE}"
            )
        needed = shapes.dtype_of(spec, self._given)
        if dtype != needed:
            self._refuse(f"{label} is {dtype}, needs {needed}")
        try:
            shapes.match(f"{self.name}: {label}", shape, spec, self._sizes)
        except ValueError as error:
            raise InvalidParameterError(str(error)) from None
        return array

    def _check(self, status: int) -> None:
        check_status(status, ERRORS)

    def _refuse(self, message: str) -> None:
        raise InvalidParameterError(f"{self.name}: {message}")


def _pass(argument: Any) -> Any:
    if argument is None or isinstance(argument, np.ndarray):
        return address(argument)
    # for an array on a GPU only its presence matters
    return 1 if hasattr(argument, "__cuda_array_interface__") else argument


@functools.lru_cache(maxsize=32)
def _borders(ends: tuple[int, ...], device: int) -> cuda_arrays.DeviceArray:
    """First token of every sequence, and the end; cached, since layers share them."""
    return cuda_arrays.hold(np.array([0, *ends], np.int64), device)
