# SPDX-License-Identifier: MIT
"""A tape, the arrays on it, and operations on them.

One file, since each of the three is made of the others: arrays have operations as methods, and
operations give arrays of a tape.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import index
from typing import Any, ClassVar, NoReturn, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from gnograd import _core
from gnograd.autodiff.callbacks import LinearMaps
from gnograd.backends.cpu import address, check_status, native, refuse_mask
from gnograd.notation.static import exact_integers, integer

__all__ = [
    "Array",
    "Tape",
    "concatenate",
    "cos",
    "exp",
    "gelu",
    "grad",
    "log",
    "matmul",
    "mean",
    "norm",
    "relu",
    "reshape",
    "sigmoid",
    "silu",
    "sin",
    "softmax",
    "sqrt",
    "sum",
    "tanh",
    "transpose",
]

Operand: TypeAlias = "Array | ArrayLike"

_DTYPES: dict[int, np.dtype[Any]] = {32: np.dtype(np.float32), 64: np.dtype(np.float64)}
_KINDS = {dtype: kind for kind, dtype in _DTYPES.items()}
_MAX_RANK = 4
_MAX_NODES = 2**24 - 1


class Handle:
    """Base of handles on Fortran objects, which have one owner in one process."""

    __slots__ = ()
    _instead: ClassVar[str]
    """Advice for the error of copying: what to do instead."""

    # copy, deepcopy and pickle all come here
    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"{name}: belongs to a tape of this process and has no copy; {self._instead}"
        )


class Tape(Handle):
    """Arrays in the order of their computation; one thread at a time may use it.

    Memory of arrays that are freed is kept for the next ones, and goes back to the system with
    the tape. A tape, its arrays and optimizers cannot be copied or pickled, which is a TypeError.

    Parameters
    ----------
    dtype : {"float32", "float64"}
        Type that lists, integers and booleans are converted to. Arrays of float32 and float64, of
        NumPy or what it reads (pandas, xarray, tensors of a CPU), keep theirs.

    Examples
    --------
    >>> import gnograd.autodiff as ad
    >>> tape = ad.Tape("float64")
    >>> x = tape.parameter([1.0, 2.0, 3.0])
    >>> y = ad.sum(x**3)
    >>> (dy,) = ad.grad(y, [x], create_graph=True)
    >>> dy.value
    array([ 3., 12., 27.])
    >>> ad.grad(ad.sum(dy), [x])[0].value
    array([ 6., 12., 18.])
    """

    __slots__ = ("__weakref__", "_address", "_handle", "_maps", "_scratch", "dtype")
    _instead = "make another Tape, and its parameters from the values of these (array.value)"

    def __init__(self, dtype: DTypeLike = "float32") -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype not in _KINDS:
            raise TypeError(f"tape: dtype is {self.dtype}, needs float32 or float64")
        # integers on their way to and from Fortran
        self._scratch = np.zeros(3 * _MAX_RANK, np.int64)
        self._address = address(self._scratch)
        self._maps = LinearMaps()
        check_status(_core.gnograd_tape_create(self._address))
        self._handle = int(self._scratch[0])
        weakref.finalize(self, _core.gnograd_tape_free, self._handle).atexit = False

    def parameter(self, values: ArrayLike) -> Array:
        """Array whose gradient is wanted; the values are copied."""
        return self._leaf(values, True)

    def constant(self, values: ArrayLike) -> Array:
        """Array without gradient; the values are copied."""
        return self._leaf(values, False)

    def mark(self) -> int:
        """Present end of the tape, for `rewind`."""
        return int(_core.gnograd_tape_mark(self._handle))

    def rewind(self, mark: int) -> None:
        """Free all arrays made since `mark`; to use one of them then is an IndexError.

        Nothing happens if the tape is shorter.
        """
        if mark < 0:
            raise ValueError(f"tape: the mark is {mark}, not the length of a tape")
        self._maps.refuse_use()
        _core.gnograd_tape_rewind(self._handle, min(index(mark), _MAX_NODES))
        self._maps.rewind(mark)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Free all arrays made inside, at the end: ``with tape.step(): ...``."""
        mark = self.mark()
        try:
            yield
        finally:
            self.rewind(mark)

    def __len__(self) -> int:
        return self.mark()

    def __repr__(self) -> str:
        return f"Tape({self.dtype.name!r}, {len(self)} arrays)"

    def _leaf(self, values: ArrayLike, requires_grad: bool) -> Array:
        refuse_mask("tape", "the array", values)
        array = native(np.asarray(values))
        kind = _KINDS.get(array.dtype)
        given = _has_type(values)
        if kind is None or not given:
            if array.dtype.kind not in "iub" and (given or array.dtype.kind != "f"):
                raise TypeError(f"tape: needs float32 or float64 numbers, got {array.dtype}")
            array = array.astype(self.dtype)
            kind = _KINDS[self.dtype]
        if array.ndim > _MAX_RANK:
            raise ValueError(f"tape: shape {array.shape} has more than {_MAX_RANK} axes")
        if not array.flags.c_contiguous:
            array = np.array(array, order="C")
        self._scratch[: array.ndim] = array.shape
        return self._wrap(
            _core.gnograd_array_leaf(
                self._handle, kind, int(requires_grad), array.ndim, self._address, address(array)
            )
        )

    def _wrap(self, handle: int) -> Array:
        """Make the array of a handle from Fortran, or raise the error of the operation."""
        if handle == 0:
            check_status(_core.gnograd_tape_error(self._handle))
            raise RuntimeError("tape: an operation failed")
        return Array(self, handle)

    def _check(self, status: int) -> None:
        """Raise the exception of a linear map that the call has run, else its own error."""
        if status != 0:
            self._maps.raise_again()
        check_status(status)

    def _integers(self, *parts: Sequence[int]) -> int:
        """Address of integers for Fortran, each part in a row of its own."""
        for k, part in enumerate(parts):
            self._scratch[k * len(part) : (k + 1) * len(part)] = part
        return self._address


class Array(Handle):
    """A value on a tape.

    Made by `Tape.parameter`, `Tape.constant` and operations. The operators ``+ - * / ** @``,
    indexing by integers, slices, ``...``, ``None`` and one array of row numbers, and the
    functions of this module work on it; the other operand may be a number or a NumPy array.

    Examples
    --------
    >>> import gnograd.autodiff as ad
    >>> tape = ad.Tape()
    >>> x = tape.parameter([[1, 2, 3], [4, 5, 6]])
    >>> y = ad.sum(2 * x[:, ::2])
    >>> y.backward()
    >>> x.grad
    array([[2., 0., 2.],
           [2., 0., 2.]], dtype=float32)
    """

    __slots__ = ("_handle", "tape")
    _instead = "take its value (array.value) and make a parameter or constant of another tape"
    # NumPy arrays on the left leave the operation to this class
    __array_ufunc__ = None

    def __init__(self, tape: Tape, handle: int) -> None:
        self.tape = tape
        self._handle = handle

    # ---- properties ----

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return self._info()[2]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self._info()[0]

    @property
    def requires_grad(self) -> bool:
        """True if this is a parameter or was computed from one."""
        return self._info()[1]

    @property
    def value(self) -> NDArray[Any]:
        """Copy of the value; may be set on parameters and constants.

        Arrays computed from this one before its value was set, or moved by an optimizer, have no
        gradients any more: `backward` and `grad` raise a ValueError.
        """
        return self._copy(_core.gnograd_array_value)

    @value.setter
    def value(self, values: ArrayLike) -> None:
        self._set("value", _core.gnograd_array_set_value, values)

    @property
    def grad(self) -> NDArray[Any]:
        """Copy of the gradient of the last `backward`; zeros without one.

        May be set on parameters, before a step of an optimizer: to clip it, or to sum it over
        processes.
        """
        return self._copy(_core.gnograd_array_grad)

    @grad.setter
    def grad(self, values: ArrayLike) -> None:
        self._set("grad", _core.gnograd_array_set_grad, values)

    def item(self) -> float:
        """Value of an array with one element as a number."""
        return float(self.value.item())

    def __float__(self) -> float:
        return self.item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("array: the value on the tape can only be copied")
        return self.value if dtype is None else self.value.astype(dtype)

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"array: shape {self.shape} is neither true nor false; use its value")
        return bool(self.item())

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of an array without axes")
        return shape[0]

    def __repr__(self) -> str:
        return f"Array({self.value!r})"

    def _info(self) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
        tape = self.tape
        check_status(_core.gnograd_array_info(tape._handle, self._handle, tape._address))
        kind, requires_grad, rank, *extents = tape._scratch.tolist()
        return _DTYPES[kind], bool(requires_grad), tuple(extents[:rank])

    def _set(self, name: str, function: Callable[[int, int, int], int], values: ArrayLike) -> None:
        dtype, _, shape = self._info()
        refuse_mask(name, "the array", values)
        array = np.asarray(values)
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise TypeError(f"{name}: needs real numbers, got {array.dtype}")
        if array.shape != shape:
            raise ValueError(f"{name}: the array has shape {shape}, the values {array.shape}")
        array = np.ascontiguousarray(array, dtype)
        check_status(function(self.tape._handle, self._handle, address(array)))

    def _copy(self, function: Callable[[int, int, int], int]) -> NDArray[Any]:
        dtype, _, shape = self._info()
        values: NDArray[Any] = np.empty(shape, dtype)
        check_status(function(self.tape._handle, self._handle, address(values)))
        return values

    # ---- gradients ----

    def backward(self, add: bool = False) -> None:
        """Gradients of this array, which has one element, to ``.grad`` of all parameters.

        Parameters
        ----------
        add : bool, optional
            Add to the present gradients instead of replacing them.
        """
        tape = self.tape
        tape._maps.refuse_use()
        tape._check(_core.gnograd_tape_backward(tape._handle, self._handle, int(add)))

    # ---- operators ----

    def _binary(self, function: Callable[[int, int, int], int], other: Operand) -> Array:
        return self.tape._wrap(function(self.tape._handle, self._handle, operand(self, other)))

    def _reflected(self, function: Callable[[int, int, int], int], other: Operand) -> Array:
        return self.tape._wrap(function(self.tape._handle, operand(self, other), self._handle))

    def __add__(self, other: Operand) -> Array:
        return self._binary(_core.gnograd_array_add, other)

    def __radd__(self, other: Operand) -> Array:
        return self._reflected(_core.gnograd_array_add, other)

    def __sub__(self, other: Operand) -> Array:
        return self._binary(_core.gnograd_array_subtract, other)

    def __rsub__(self, other: Operand) -> Array:
        return self._reflected(_core.gnograd_array_subtract, other)

    def __mul__(self, other: Operand) -> Array:
        return self._binary(_core.gnograd_array_multiply, other)

    def __rmul__(self, other: Operand) -> Array:
        return self._reflected(_core.gnograd_array_multiply, other)

    def __truediv__(self, other: Operand) -> Array:
        return self._binary(_core.gnograd_array_divide, other)

    def __rtruediv__(self, other: Operand) -> Array:
        return self._reflected(_core.gnograd_array_divide, other)

    def __matmul__(self, other: Operand) -> Array:
        return self._binary(_core.gnograd_array_matmul, other)

    def __rmatmul__(self, other: Operand) -> Array:
        return self._reflected(_core.gnograd_array_matmul, other)

    def __pow__(self, other: Operand) -> Array:
        if _is_number(other):
            return self.tape._wrap(
                _core.gnograd_array_monomial(self.tape._handle, self._handle, other)
            )
        return self._binary(_core.gnograd_array_power, other)

    def __rpow__(self, other: Operand) -> Array:
        return self._reflected(_core.gnograd_array_power, other)

    def __neg__(self) -> Array:
        return self.tape._wrap(_core.gnograd_array_negative(self.tape._handle, self._handle))

    def __pos__(self) -> Array:
        return self

    # ---- shape ----

    @property
    def T(self) -> Array:
        """Axes in reverse order."""
        return transpose(self)

    def reshape(self, *shape: int | Sequence[int]) -> Array:
        """Call the function `reshape`."""
        return reshape(self, shape[0] if len(shape) == 1 else shape)  # type: ignore[arg-type]

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
        """Call the function `sum`."""
        return sum(self, axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
        """Call the function `mean`."""
        return mean(self, axis, keepdims)

    def __iter__(self) -> Iterator[Array]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, key: Any) -> Array:
        if isinstance(key, list | np.ndarray):
            refuse_mask("gather", "the array of rows", key)
            return self._rows(np.asarray(key))
        keys = key if isinstance(key, tuple) else (key,)
        shape = self.shape
        missing = len(shape) - len([k for k in keys if k is not None and k is not Ellipsis])
        if missing < 0:
            raise IndexError(f"slice: {len(shape) - missing} indices for shape {shape}")
        if len([k for k in keys if k is Ellipsis]) > 1:
            raise IndexError("slice: an index has one ... at most")
        if not any(k is Ellipsis for k in keys):
            keys = (*keys, Ellipsis)
        first: list[int] = []
        count: list[int] = []
        step: list[int] = []
        result: list[int] = []
        for k in keys:
            if k is None:
                result.append(1)
                continue
            for one in [slice(None)] * missing if k is Ellipsis else [k]:
                extent = shape[len(first)]
                if isinstance(one, slice):
                    taken = range(*one.indices(extent))
                    result.append(len(taken))
                elif isinstance(one, int | np.integer) and not isinstance(one, bool):
                    if not -extent <= one < extent:
                        raise IndexError(f"slice: index {one} for axis {len(first)} of {shape}")
                    taken = range(int(one) % extent, int(one) % extent + 1)
                else:
                    raise TypeError(
                        "slice: an array is indexed by integers, slices, ..., None, "
                        f"or one array of rows, not by {type(one).__name__}"
                    )
                first.append(taken.start)
                count.append(len(taken))
                step.append(taken.step)
        part = self
        if tuple(count) != shape or any(s != 1 for s in step):
            rank, where = len(shape), self.tape._integers(first, count, step)
            part = self.tape._wrap(
                _core.gnograd_array_slice(
                    self.tape._handle, self._handle, rank, where, where + 8 * rank,
                    where + 16 * rank,
                )
            )  # fmt: skip
        return part if result == count else reshape(part, result)

    def _rows(self, rows: NDArray[Any]) -> Array:
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise TypeError("gather: rows are a vector of integers")
        rows = exact_integers("gather: rows", rows, np.int64)
        numbers = np.where(rows < 0, rows + len(self), rows)
        return self.tape._wrap(
            _core.gnograd_array_gather(
                self.tape._handle, self._handle, numbers.size, address(numbers)
            )
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)


def operand(like: Array, value: Operand) -> int:
    """Handle of an operand beside `like`; numbers and NumPy arrays become constants."""
    if isinstance(value, Array):
        if value.tape is not like.tape:
            raise ValueError("the operands are on different tapes")
        return value._handle
    if _is_number(value):
        return int(_core.gnograd_array_scalar(like.tape._handle, like._handle, value))
    if _holds_arrays(value):
        raise TypeError(
            "tape: an operand is a list of Arrays, which would be a constant; concatenate them"
        )
    return like.tape.constant(value)._handle


def _holds_arrays(value: object) -> bool:
    """True for a list, or a list of lists, of which an entry is an Array."""
    return isinstance(value, list | tuple) and any(
        isinstance(entry, Array) or _holds_arrays(entry) for entry in value
    )


def _has_type(values: object) -> bool:
    """True for numbers whose type is not that of Python's numbers, and so is kept."""
    plain = isinstance(values, list | tuple | range | int | float)
    return isinstance(values, np.generic) or not plain


def _refuse_others(name: str, x: object) -> None:
    """Raise TypeError for anything else than an Array."""
    if not isinstance(x, Array):
        raise TypeError(f"{name}: needs an Array of a tape, got {type(x).__name__}")


def _unary(function: Callable[[int, int], int], x: Array) -> Array:
    _refuse_others("tape", x)
    return x.tape._wrap(function(x.tape._handle, x._handle))


def exp(x: Array) -> Array:
    """Exponential, element by element."""
    return _unary(_core.gnograd_array_exp, x)


def log(x: Array) -> Array:
    """Natural logarithm, element by element."""
    return _unary(_core.gnograd_array_log, x)


def sqrt(x: Array) -> Array:
    """Square root, element by element."""
    return _unary(_core.gnograd_array_sqrt, x)


def sin(x: Array) -> Array:
    """Sine, element by element."""
    return _unary(_core.gnograd_array_sin, x)


def cos(x: Array) -> Array:
    """Cosine, element by element."""
    return _unary(_core.gnograd_array_cos, x)


def tanh(x: Array) -> Array:
    """Hyperbolic tangent, element by element."""
    return _unary(_core.gnograd_array_tanh, x)


def relu(x: Array) -> Array:
    """``max(x, 0)``; its derivative at 0 is 0."""
    return _unary(_core.gnograd_array_relu, x)


def gelu(x: Array) -> Array:
    """``x * Phi(x)`` with the distribution function of the normal distribution (erf form)."""
    return _unary(_core.gnograd_array_gelu, x)


def silu(x: Array) -> Array:
    """``x * sigmoid(x)``."""
    return _unary(_core.gnograd_array_silu, x)


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``."""
    return _unary(_core.gnograd_array_sigmoid, x)


def matmul(a: Operand, b: Operand) -> Array:
    """Product of two matrices, or of a matrix and a vector; as ``a @ b``.

    Parameters
    ----------
    a, b : Array or array, (n, k) and (k, m)
        At least one of them on a tape. Either, not both, may be a vector (k,).
    """
    if isinstance(a, Array):
        return a @ b
    if isinstance(b, Array):
        return b.__rmatmul__(a)
    raise TypeError("matmul: needs an Array")


def sum(x: Array, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """Sum of all elements, or along axes.

    Parameters
    ----------
    x : Array
    axis : int or tuple of int, optional
        Axes to sum along, all when left out. Negative ones count from the end.
    keepdims : bool, optional
        Keep the summed axes, with extent 1.
    """
    return _reduce("sum", _core.gnograd_array_sum, _core.gnograd_array_sum_axis, x, axis, keepdims)


def mean(x: Array, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """Mean of all elements, or along axes; arguments as for `sum`."""
    return _reduce(
        "mean", _core.gnograd_array_mean, _core.gnograd_array_mean_axis, x, axis, keepdims
    )


def norm(x: Array, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """Euclidean norm ``sqrt(sum(x**2))`` of all elements, or along axes.

    Where it is 0 its gradient is taken as 0. Arguments as for `sum`.
    """
    return _reduce(
        "norm", _core.gnograd_array_norm, _core.gnograd_array_norm_axis, x, axis, keepdims
    )


def _reduce(
    name: str,
    everything: Callable[[int, int], int],
    along: Callable[[int, int, int, int], int],
    x: Array,
    axis: int | Sequence[int] | None,
    keepdims: bool,
) -> Array:
    _refuse_others(name, x)
    if axis is None and not keepdims:
        return _unary(everything, x)
    axes = [*range(x.ndim)] if axis is None else _whole(f"{name}: axis", axis)
    if len(axes) > 1:
        rank = x.ndim
        numbers = {k % rank if -rank <= k < rank else k for k in axes}
        if len(numbers) < len(axes):
            raise ValueError(f"{name}: axis is {tuple(axes)}, which names one twice")
        axes = sorted(numbers, reverse=True)
    # from the last axis on, so that the others keep their numbers
    for k in axes:
        x = x.tape._wrap(along(x.tape._handle, x._handle, k, int(keepdims)))
    return x


def _whole(label: str, values: int | Sequence[int]) -> list[int]:
    """One integer or several as a list of exact integers."""
    if isinstance(values, list | tuple | range) or (type(values) is not int and np.ndim(values)):
        return [integer(label, value) for value in values]  # type: ignore[union-attr]
    return [integer(label, values)]


def softmax(x: Array, axis: int = -1) -> Array:
    """``exp(x) / sum(exp(x))`` along an axis."""
    _refuse_others("softmax", x)
    along = integer("softmax: axis", axis)
    return x.tape._wrap(_core.gnograd_array_softmax(x.tape._handle, x._handle, along))


def reshape(x: Array, shape: int | Sequence[int]) -> Array:
    """Array with the same elements and other extents, one of which may be -1: it is computed.

    Examples
    --------
    >>> import gnograd.autodiff as ad
    >>> x = ad.Tape().constant([[1, 2, 3], [4, 5, 6]])
    >>> ad.reshape(x, (3, -1)).shape
    (3, 2)
    """
    _refuse_others("reshape", x)
    extents = _whole("reshape: shape", shape)
    if extents.count(-1) == 1:
        known = -math.prod(extents)
        extents[extents.index(-1)] = x.size // known if known else 0
    if len(extents) > _MAX_RANK:
        raise ValueError(f"reshape: shape {tuple(extents)} has more than {_MAX_RANK} axes")
    where = x.tape._integers(extents)
    return x.tape._wrap(_core.gnograd_array_reshape(x.tape._handle, x._handle, len(extents), where))


def transpose(x: Array, axes: Sequence[int] | None = None) -> Array:
    """Axes in another order: axis k of the result is ``axes[k]`` of `x`; left out: reversed."""
    _refuse_others("transpose", x)
    rank = x.ndim
    order = [*range(rank)[::-1]] if axes is None else _whole("transpose: axes", axes)
    if len(order) != rank:
        raise ValueError(f"transpose: {len(order)} axes for an array with {rank}")
    order = [k + rank if k < 0 else k for k in order]
    where = x.tape._integers(order)
    return x.tape._wrap(_core.gnograd_array_transpose(x.tape._handle, x._handle, rank, where))


def concatenate(arrays: Sequence[Operand], axis: int = 0) -> Array:
    """Join arrays along an axis; at least one of them is on a tape."""
    like = next((array for array in arrays if isinstance(array, Array)), None)
    if like is None:
        raise TypeError("concatenate: needs an Array")
    along = integer("concatenate: axis", axis)
    handles = np.array([operand(like, array) for array in arrays], np.int64)
    return like.tape._wrap(
        _core.gnograd_array_concatenate(like.tape._handle, handles.size, address(handles), along)
    )


def grad(loss: Array, arrays: Sequence[Array], create_graph: bool = False) -> tuple[Array, ...]:
    """Gradients of a loss with respect to some arrays, as arrays on the tape.

    Parameters
    ----------
    loss : Array
        Array with one element.
    arrays : sequence of Array
        Parameters, or anything computed from them; zeros come out for those on which the loss
        does not depend.
    create_graph : bool, optional
        Keep how the gradients were computed, so that they can be differentiated again.

    Returns
    -------
    tuple of Array
    """
    if isinstance(arrays, Array):  # which would be taken as a sequence of its rows
        raise TypeError("grad: arrays is an Array, needs a list of Arrays")
    for array in (loss, *arrays):
        _refuse_others("grad", array)
    tape = loss.tape
    handles = np.array([array._handle for array in arrays], np.int64)
    if any(array.tape is not tape for array in arrays):
        raise ValueError("grad: an array is on another tape than the loss")
    tape._maps.refuse_use()
    tape._check(
        _core.gnograd_tape_gradient(
            tape._handle, loss._handle, handles.size, address(handles), int(create_graph),
            address(handles),
        )
    )  # fmt: skip
    return tuple(Array(tape, handle) for handle in handles.tolist())
