# SPDX-License-Identifier: MIT
"""Selected attention in the shape of Ascend's operators, with their limits and error codes.

`nsa_selected_attention` and `nsa_selected_attention_grad` take the arguments of
aclnnNsaSelectedAttention and aclnnNsaSelectedAttentionGrad and check the same limits. What
torch_npu's ``npu_nsa_select_attention`` takes by position is so taken here, in its order.

Arrays are float16, bfloat16, float32 or float64: NumPy's, anything that lends its memory (PyTorch
tensors), or arrays on a GPU, where kernels are put on the current stream as in all of gnograd. The
CPU computes 16 bits in float32, a GPU multiplies them on tensor cores. For what the limits forbid,
and for second derivatives, there is `gnograd.selected_attention`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd import _core, shapes
from gnograd.backends import backend_of, cpu, cuda_arrays
from gnograd.backends.cpu import SUFFIXES, address, check_status
from gnograd.compat.arrays import array_of
from gnograd.operator import Array
from gnograd.static import integer, number

__all__ = [
    "InvalidParameterError",
    "NullPointerError",
    "nsa_selected_attention",
    "nsa_selected_attention_grad",
]


class NullPointerError(ValueError):
    """An argument is None that must not be."""

    code = 161001


class InvalidParameterError(ValueError):
    """An argument is outside its limits, or not supported."""

    code = 161002


_ERRORS: dict[int, type[Exception]] = {
    error.code: error for error in (NullPointerError, InvalidParameterError)
}
_QUERIES, _KEYS, _VALUES = "T_q N_q D_k", "T_kv N_kv D_k", "T_kv N_kv D_v"
_OUT, _SOFTMAX, _TOPK = "T_q N_q D_v", "real T_q N_q 8", "int32 T_q N_kv block_count"
_FLOATS = (*SUFFIXES, "float16", "bfloat16")


def nsa_selected_attention(
    query: Array,
    key: Array,
    value: Array,
    topk_indices: Array,
    scale_value: float,
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    *,
    actual_seq_qlen: Sequence[int],
    actual_seq_kvlen: Sequence[int],
    sparse_mode: int = 0,
    input_layout: str = "TND",
    atten_mask: None = None,
) -> tuple[Array, Array, Array]:
    """Attention of every query to its selected blocks, with the statistics of its softmax.

    Parameters
    ----------
    query : array, (T_q, N_q, D_k)
        Queries of all sequences; N_q is a multiple of N_kv, at most 32 times N_kv and 128.
    key, value : array, (T_kv, N_kv, D_k), (T_kv, N_kv, D_v)
        Keys and values, D_v <= D_k <= 256.
    topk_indices : array of int32, (T_q, N_kv, select_block_count)
        Blocks of the query's sequence; one named twice counts twice. On a GPU a number that the
        sequence does not have is passed over, for the host would have to wait to find it.
    scale_value : float
        Factor of the logits.
    head_num : int
        N_q.
    select_block_size : int
        Keys in a block: 16, 32, ..., 128.
    select_block_count : int
        Blocks of a query, 1 to 128, with less than 8192 keys.
    actual_seq_qlen, actual_seq_kvlen : sequence of int
        Cumulative lengths of the sequences, without the leading 0. Those of keys are multiples of
        `select_block_size` and at least ``select_block_count * select_block_size``.
    sparse_mode : {0, 2}
        No mask, or causal: the query at position s sees the keys up to position s.
    input_layout : {"TND"}
        Order of the axes.
    atten_mask : None
        Not supported; a causal mask is computed.

    Returns
    -------
    attention_out : array, (T_q, N_q, D_v)
        In the dtype of `query`.
    softmax_max, softmax_sum : array, (T_q, N_q, 8)
        Largest logit, and sum of ``exp(logit - largest)``, each 8 times; float32, or float64 for
        float64 inputs.

    Raises
    ------
    NullPointerError
        Code 161001.
    InvalidParameterError
        Code 161002.

    Examples
    --------
    >>> import numpy as np
    >>> from gnograd.compat import ascend
    >>> q = np.ones((2, 2, 4), np.float32)
    >>> k = v = np.ones((32, 1, 4), np.float32)
    >>> out, largest, total = ascend.nsa_selected_attention(
    ...     q, k, v, np.array([[[0]], [[1]]], np.int32), scale_value=0.5, head_num=2,
    ...     select_block_size=16, select_block_count=1, actual_seq_qlen=[2], actual_seq_kvlen=[32])
    >>> float(out[0, 0, 0]), float(largest[0, 0, 0]), float(total[0, 0, 0])
    (1.0, 2.0, 16.0)
    """
    call = _Call("nsa_selected_attention")
    scale, heads, size, count, mode = call.static(
        scale_value=scale_value, head_num=head_num, select_block_size=select_block_size,
        select_block_count=select_block_count, sparse_mode=sparse_mode,
    )  # fmt: skip
    q, k, v = call.inputs(query, key, value)
    topk = call.topk(topk_indices)
    ends = call.ends(actual_seq_qlen, actual_seq_kvlen)
    layout = call.layout(input_layout)
    call.refuse_mask(atten_mask)
    out, largest, total = (call.empty(spec) for spec in (_OUT, _SOFTMAX, _SOFTMAX))
    call.run(
        (q, k, v, topk, None, *ends, scale, heads, size, count, layout, mode, out, largest, total),
        "forward",
        (topk, *ends, scale, size, count, mode, q, k, v, out, largest, total),
    )  # fmt: skip
    return call.as_given(out), largest, total


def nsa_selected_attention_grad(
    query: Array,
    key: Array,
    value: Array,
    attention_out: Array,
    attention_out_grad: Array,
    softmax_max: Array,
    softmax_sum: Array,
    topk_indices: Array,
    scale_value: float,
    head_num: int,
    selected_block_size: int,
    selected_block_count: int,
    *,
    actual_seq_qlen: Sequence[int],
    actual_seq_kvlen: Sequence[int],
    atten_mask: None = None,
    input_layout: str = "TND",
    sparse_mode: int = 0,
) -> tuple[Array, Array, Array]:
    """Gradients of ``sum(attention_out * attention_out_grad)``.

    Parameters
    ----------
    query, key, value, topk_indices : array
        As for `nsa_selected_attention`, and so are all parameters that are not named here.
    attention_out : array, (T_q, N_q, D_v)
        From `nsa_selected_attention`, with `softmax_max` and `softmax_sum`, (T_q, N_q, 8).
    attention_out_grad : array, (T_q, N_q, D_v)
        Cotangent, in the dtype of `query`.
    selected_block_size, selected_block_count : int
        `select_block_size` and `select_block_count` under the names of this operator.

    Returns
    -------
    dq, dk, dv : array
        In the shapes and the dtype of `query`, `key` and `value`.

    Raises
    ------
    NullPointerError
        Code 161001.
    InvalidParameterError
        Code 161002.
    """
    call = _Call("nsa_selected_attention_grad")
    scale, heads, size, count, mode = call.static(
        scale_value=scale_value, head_num=head_num, selected_block_size=selected_block_size,
        selected_block_count=selected_block_count, sparse_mode=sparse_mode,
    )  # fmt: skip
    q, k, v = call.inputs(query, key, value)
    out = call.array("attention_out", attention_out, _OUT)
    cotangent = call.array("attention_out_grad", attention_out_grad, _OUT)
    largest = call.array("softmax_max", softmax_max, _SOFTMAX)
    total = call.array("softmax_sum", softmax_sum, _SOFTMAX)
    topk = call.topk(topk_indices)
    ends = call.ends(actual_seq_qlen, actual_seq_kvlen)
    layout = call.layout(input_layout)
    call.refuse_mask(atten_mask)
    gradients = [call.empty(spec) for spec in (_QUERIES, _KEYS, _VALUES)]
    call.run(
        (q, k, v, out, cotangent, largest, total, topk, *ends, None, scale, size, count, heads,
         layout, mode, *gradients),
        "vjp",
        (topk, *ends, scale, size, count, mode, cotangent, q, k, v, out, largest, total,
         *gradients),
    )  # fmt: skip
    dq, dk, dv = map(call.as_given, gradients)
    return dq, dk, dv


class _Call:
    """One call: arrays in the form that kernels take, the rest checked by the C interface.

    That is so for a GPU too: the first step reads no array that may be there.
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
        """The scale and the integers, in their order; how many blocks there are is known then."""
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
        """Queries, keys and values, which are of one dtype."""
        specs = {"query": _QUERIES, "key": _KEYS, "value": _VALUES}
        return [
            self.array(label, array, spec)
            for (label, spec), array in zip(specs.items(), (query, key, value), strict=True)
        ]

    def array(self, label: str, value: Array, spec: str) -> Array:
        """A floating-point array in the precision of the computation."""
        array = self._lent(label, value, spec)
        if self._backend is cpu:
            return np.ascontiguousarray(array, dtype=self._dtype)
        return self._backend.contiguous(array)

    def topk(self, value: Array) -> Array:
        """Selected blocks."""
        return self._backend.contiguous(self._lent("topk_indices", value, _TOPK))

    def ends(self, of_queries: Sequence[int], of_keys: Sequence[int]) -> list[NDArray[np.int64]]:
        """Cumulative lengths, as many for keys as for queries."""
        given = {"actual_seq_qlen": of_queries, "actual_seq_kvlen": of_keys}
        ends = []
        for label, values in given.items():
            if values is None:
                raise NullPointerError(f"{self.name}: {label} is None")
            cpu.refuse_mask(self.name, label, values)
            array = np.ascontiguousarray(values)
            if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
                self._refuse(f"{label} needs a sequence of integers")
            ends.append(array.astype(np.int64))
        if ends[0].size != ends[1].size:
            self._refuse("actual_seq_kvlen and actual_seq_qlen have different lengths")
        return ends

    def layout(self, text: str) -> NDArray[np.uint8]:
        """The text as C has it."""
        if text is None:
            raise NullPointerError(f"{self.name}: input_layout is None")
        return np.frombuffer(str(text).encode() + b"\0\0\0\0", np.uint8)

    def refuse_mask(self, value: Any) -> None:
        """A mask is not supported."""
        if value is not None:
            self._refuse("atten_mask is not supported")

    def empty(self, spec: str) -> Array:
        """Memory for a result."""
        shape = shapes.shape_of(spec, self._sizes)
        return self._backend.empty(shape, shapes.dtype_of(spec, self._dtype), self._like)

    def as_given(self, array: Array) -> Array:
        """A result in the dtype of the inputs."""
        return array.astype(self._like.dtype, copy=False) if self._backend is cpu else array

    def run(self, arguments: Sequence[Any], face: str, on_gpu: Sequence[Any]) -> None:
        """Both steps: all limits and how much workspace, and the computation in it.

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
        suffix = SUFFIXES[shapes.dtype_of(_SOFTMAX, self._dtype)]
        return getattr(_core, f"gnograd_{self.name}{step}_{suffix}")

    def _lent(self, label: str, value: Array, spec: str) -> Array:
        """An array of any library, checked against its spec and those before it."""
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
        check_status(status, _ERRORS)

    def _refuse(self, message: str) -> None:
        raise InvalidParameterError(f"{self.name}: {message}")


def _pass(argument: Any) -> Any:
    if argument is None or isinstance(argument, np.ndarray):
        return address(argument)
    # of an array on a GPU it only matters that there is one
    return 1 if hasattr(argument, "__cuda_array_interface__") else argument


@functools.lru_cache(maxsize=32)
def _borders(ends: tuple[int, ...], device: int) -> cuda_arrays.DeviceArray:
    """First token of every sequence, and the end. All layers of a network ask for the same."""
    return cuda_arrays.hold(np.array([0, *ends], np.int64), device)
