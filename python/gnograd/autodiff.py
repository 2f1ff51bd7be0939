# SPDX-License-Identifier: MIT
"""Reverse-mode automatic differentiation on the Fortran tape.

A `Tape` keeps arrays and how they were computed; an `Array` is a handle on one of them. The
gradient of a loss is one sweep back over the tape. Gradients can themselves be differentiated
(``create_graph=True``), as often as wanted, through all operations; through `gno` and its parts,
aggregation, graph attention and native sparse attention once.

Arrays are float32 or float64, have up to four axes, and follow NumPy's broadcasting.

Examples
--------
Least squares by gradient descent; nothing of a step stays on the tape:

>>> import numpy as np
>>> import gnograd.autodiff as ad
>>> tape = ad.Tape("float64")
>>> x = np.linspace(0, 1, 20)[:, None]
>>> w, b = tape.parameter([[0.0]]), tape.parameter([0.0])
>>> descent = ad.SGD([w, b], lr=0.1, momentum=0.9)
>>> for _ in range(300):
...     with tape.step():
...         loss = ad.mean((x @ w + b - (3 * x + 1)) ** 2)
...         loss.backward()
...     descent.step()
>>> w.value.round(3), b.value.round(3)
(array([[3.]]), array([1.]))
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import index
from typing import Any, ClassVar, NoReturn, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

import gnograd
from gnograd import _core
from gnograd.backends.cpu import address, check_status, refuse_mask
from gnograd.graph import Graph
from gnograd.operator import Function
from gnograd.static import integer

__all__ = [
    "SGD",
    "Adam",
    "Array",
    "Tape",
    "agg_concat",
    "agg_simple",
    "agg_weighted",
    "compress",
    "compressed_attention",
    "concatenate",
    "cos",
    "exp",
    "gelu",
    "gno",
    "gno_aggregate",
    "gno_contract",
    "gno_kernel",
    "gno_with_gradient",
    "gno_with_hessian",
    "gno_with_laplacian",
    "grad",
    "log",
    "matmul",
    "mean",
    "mha_gat",
    "mha_gat_v2",
    "mha_simple",
    "norm",
    "relu",
    "reshape",
    "selected_attention",
    "sigmoid",
    "silu",
    "sin",
    "softmax",
    "sqrt",
    "sum",
    "tanh",
    "transpose",
    "window_attention",
]

Operand: TypeAlias = "Array | ArrayLike"

_DTYPES: dict[int, np.dtype[Any]] = {32: np.dtype(np.float32), 64: np.dtype(np.float64)}
_KINDS = {dtype: kind for kind, dtype in _DTYPES.items()}
_MAX_RANK = 4
_MAX_NODES = 2**24 - 1


class _Handle:
    """A handle on what Fortran keeps, which has one owner in one process."""

    __slots__ = ()
    _instead: ClassVar[str]
    """What to do instead of copying it."""

    # copy, deepcopy and pickle all come here
    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"{name}: belongs to a tape of this process and has no copy; {self._instead}"
        )


class Tape(_Handle):
    """Arrays in the order of their computation; one thread at a time may use it.

    Memory of arrays that are freed is kept for the next ones, and goes back to the system with
    the tape. A tape, its arrays and optimizers cannot be copied or pickled, which is a TypeError.

    Parameters
    ----------
    dtype : {"float32", "float64"}
        What lists, integers and booleans become. NumPy arrays of float32 and float64 stay what
        they are.

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

    __slots__ = ("__weakref__", "_address", "_handle", "_scratch", "dtype")
    _instead = "make another Tape, and its parameters from the values of these (array.value)"

    def __init__(self, dtype: DTypeLike = "float32") -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype not in _KINDS:
            raise TypeError(f"tape: dtype is {self.dtype}, needs float32 or float64")
        # integers on their way to and from Fortran
        self._scratch = np.zeros(3 * _MAX_RANK, np.int64)
        self._address = address(self._scratch)
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

        Nothing happens where the tape is shorter.
        """
        if mark < 0:
            raise ValueError(f"tape: the mark is {mark}, not the length of a tape")
        _core.gnograd_tape_rewind(self._handle, min(index(mark), _MAX_NODES))

    @contextmanager
    def step(self) -> Iterator[None]:
        """Free what was made inside, at the end: ``with tape.step(): ...``."""
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
        array = np.asarray(values)
        kind = _KINDS.get(array.dtype)
        given = isinstance(values, np.ndarray | np.generic)
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
        """The array of a handle from Fortran, or the exception of the operation that failed."""
        if handle == 0:
            check_status(_core.gnograd_tape_error(self._handle))
            raise RuntimeError("tape: an operation failed")
        return Array(self, handle)

    def _integers(self, *parts: Sequence[int]) -> int:
        """Address of integers for Fortran, each part in a row of its own."""
        for k, part in enumerate(parts):
            self._scratch[k * len(part) : (k + 1) * len(part)] = part
        return self._address


class Array(_Handle):
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

    # ---- what it is ----

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
        """Whether it is a parameter or was computed from one."""
        return self._info()[1]

    @property
    def value(self) -> NDArray[Any]:
        """Copy of the value; may be set on parameters and constants.

        What was computed from an array before its value was set, or moved by an optimizer, has no
        gradient any more: `backward` and `grad` raise a ValueError.
        """
        return self._copy(_core.gnograd_array_value)

    @value.setter
    def value(self, values: ArrayLike) -> None:
        dtype, _, shape = self._info()
        refuse_mask("value", "the array", values)
        array = np.asarray(values)
        if array.shape != shape:
            raise ValueError(f"value: the array has shape {shape}, the values {array.shape}")
        array = np.ascontiguousarray(array, dtype)
        check_status(_core.gnograd_array_set_value(self.tape._handle, self._handle, address(array)))

    @property
    def grad(self) -> NDArray[Any]:
        """Copy of the gradient of the last `backward`; zeros without one."""
        return self._copy(_core.gnograd_array_grad)

    def item(self) -> float:
        """Value of an array with one element as a number."""
        return float(self.value.item())

    def __float__(self) -> float:
        return self.item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("array: the value on the tape can only be copied")
        return self.value if dtype is None else self.value.astype(dtype)

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
            Add to the gradients that are there instead of replacing them.
        """
        check_status(_core.gnograd_tape_backward(self.tape._handle, self._handle, int(add)))

    # ---- operators ----

    def _binary(self, function: Callable[[int, int, int], int], other: Operand) -> Array:
        return self.tape._wrap(function(self.tape._handle, self._handle, _operand(self, other)))

    def _reflected(self, function: Callable[[int, int, int], int], other: Operand) -> Array:
        return self.tape._wrap(function(self.tape._handle, _operand(self, other), self._handle))

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
        """As the function `reshape`."""
        return reshape(self, shape[0] if len(shape) == 1 else shape)  # type: ignore[arg-type]

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
        """As the function `sum`."""
        return sum(self, axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Array:
        """As the function `mean`."""
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
                elif isinstance(one, int | np.integer):
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
        numbers = np.where(rows < 0, rows + len(self), rows).astype(np.int64)
        return self.tape._wrap(
            _core.gnograd_array_gather(
                self.tape._handle, self._handle, numbers.size, address(numbers)
            )
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)


def _operand(like: Array, value: Operand) -> int:
    """Handle of an operand beside `like`; numbers and NumPy arrays become constants."""
    if isinstance(value, Array):
        if value.tape is not like.tape:
            raise ValueError("the operands are on different tapes")
        return value._handle
    if _is_number(value):
        return int(_core.gnograd_array_scalar(like.tape._handle, like._handle, value))
    return like.tape.constant(value)._handle


def _unary(function: Callable[[int, int], int], x: Array) -> Array:
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
        Negative ones count from the end.
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
    if axis is None and not keepdims:
        return _unary(everything, x)
    axes = [*range(x.ndim)] if axis is None else _whole(f"{name}: axis", axis)
    if len(axes) > 1:
        rank = x.ndim
        axes = sorted({k % rank if -rank <= k < rank else k for k in axes}, reverse=True)
    # from the last axis on, so that the others keep their numbers
    for k in axes:
        x = x.tape._wrap(along(x.tape._handle, x._handle, k, int(keepdims)))
    return x


def _whole(label: str, values: int | Sequence[int]) -> list[int]:
    """One integer or several, exactly."""
    if isinstance(values, list | tuple | range) or (type(values) is not int and np.ndim(values)):
        return [integer(label, value) for value in values]  # type: ignore[union-attr]
    return [integer(label, values)]


def softmax(x: Array, axis: int = -1) -> Array:
    """``exp(x) / sum(exp(x))`` along an axis."""
    along = integer("softmax: axis", axis)
    return x.tape._wrap(_core.gnograd_array_softmax(x.tape._handle, x._handle, along))


def reshape(x: Array, shape: int | Sequence[int]) -> Array:
    """The same elements with other extents, one of which may be -1: whatever is left.

    Examples
    --------
    >>> import gnograd.autodiff as ad
    >>> x = ad.Tape().constant([[1, 2, 3], [4, 5, 6]])
    >>> ad.reshape(x, (3, -1)).shape
    (3, 2)
    """
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
    rank = x.ndim
    order = [*range(rank)[::-1]] if axes is None else _whole("transpose: axes", axes)
    if len(order) != rank:
        raise ValueError(f"transpose: {len(order)} axes for an array with {rank}")
    order = [k + rank if k < 0 else k for k in order]
    where = x.tape._integers(order)
    return x.tape._wrap(_core.gnograd_array_transpose(x.tape._handle, x._handle, rank, where))


def concatenate(arrays: Sequence[Operand], axis: int = 0) -> Array:
    """Arrays one behind the other along an axis; at least one of them is on a tape."""
    like = next((array for array in arrays if isinstance(array, Array)), None)
    if like is None:
        raise TypeError("concatenate: needs an Array")
    along = integer("concatenate: axis", axis)
    handles = np.array([_operand(like, array) for array in arrays], np.int64)
    return like.tape._wrap(
        _core.gnograd_array_concatenate(like.tape._handle, handles.size, address(handles), along)
    )


def gno(
    h: Operand | None,
    coords: Operand,
    U: Operand,
    b_u: Operand,
    V: Operand,
    b_v: Operand,
    edge_weight: Operand | None = None,
    *,
    graph: Graph,
    activation: str = "relu",
    reduction: str = "sum",
    kernel: str = "full",
) -> Array:
    """Graph neural operator, as `gnograd.gno`; at least one of the inputs is on a tape.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> import gnograd.autodiff as ad
    >>> graph = gg.Graph.from_edges(src=[0, 1, 2], dst=[1, 0, 1])
    >>> tape = ad.Tape("float64")
    >>> V = tape.parameter(np.ones((4, 2, 2)))
    >>> h, coords = np.ones((3, 2)), np.ones((3, 1))
    >>> y = ad.gno(h, coords, np.ones((1, 4)), np.zeros(4), V, np.zeros((2, 2)), graph=graph)
    >>> y.value
    array([[ 8.,  8.],
           [16., 16.],
           [ 0.,  0.]])
    >>> ad.grad(ad.sum(y), [V])[0].value[0]
    array([[3., 3.],
           [3., 3.]])
    """
    return _apply(
        _core.gnograd_array_gno, gnograd.gno, (h, coords, U, b_u, V, b_v, edge_weight),
        graph=graph, activation=activation, reduction=reduction, kernel=kernel,
    )  # fmt: skip


def gno_contract(
    h: Operand | None,
    hid: Operand,
    V: Operand,
    b_v: Operand,
    edge_weight: Operand | None = None,
    *,
    graph: Graph,
    reduction: str = "sum",
    kernel: str = "full",
) -> Array:
    """Graph neural operator from the last hidden features, as `gnograd.gno_contract`.

    At least one of the inputs is on a tape.
    """
    return _apply(
        _core.gnograd_array_gno_contract, gnograd.gno_contract, (h, hid, V, b_v, edge_weight),
        graph=graph, reduction=reduction, kernel=kernel,
    )  # fmt: skip


def gno_kernel(
    coords: Operand, U: Operand, b_u: Operand, V: Operand, b_v: Operand, *, activation: str = "relu"
) -> Array:
    """Kernel matrix of every edge, as `gnograd.gno_kernel`; one of the inputs is on a tape."""
    return _apply(
        _core.gnograd_array_gno_kernel, gnograd.gno_kernel, (coords, U, b_u, V, b_v),
        activation=activation,
    )  # fmt: skip


def gno_aggregate(h: Operand, kappa: Operand, *, graph: Graph, reduction: str = "sum") -> Array:
    """Sum with a kernel matrix an edge, as `gnograd.gno_aggregate`; an input is on a tape."""
    return _apply(
        _core.gnograd_array_gno_aggregate, gnograd.gno_aggregate, (h, kappa),
        graph=graph, reduction=reduction,
    )  # fmt: skip


def gno_with_gradient(
    h: Operand | None,
    x: Operand,
    y: Operand,
    layers: Operand,
    V: Operand,
    b_v: Operand,
    edge_weight: Operand | None = None,
    weight_derivatives: Operand | None = None,
    **static: Any,
) -> tuple[Array, Array]:
    """Graph neural operator with its gradient, as `gnograd.gno_with_gradient`.

    At least one of the inputs is on a tape.
    """
    inputs = (h, x, y, layers, V, b_v, edge_weight, weight_derivatives)
    return _with_derivatives(gnograd.gno_with_gradient, 0, inputs, static)[:2]


def gno_with_laplacian(
    h: Operand | None,
    x: Operand,
    y: Operand,
    layers: Operand,
    V: Operand,
    b_v: Operand,
    edge_weight: Operand | None = None,
    weight_derivatives: Operand | None = None,
    **static: Any,
) -> tuple[Array, Array, Array]:
    """Graph neural operator with gradient and Laplacian, as `gnograd.gno_with_laplacian`.

    At least one of the inputs is on a tape.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> import gnograd.autodiff as ad
    >>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2, n_dst=1)
    >>> tape = ad.Tape("float64")
    >>> layers = tape.parameter(gg.gno_pack_layers([(np.ones((2, 3)), np.zeros(3))]))
    >>> inputs = np.ones((2, 1)), np.ones((1, 2)), np.eye(2), layers, np.ones((3, 1, 1))
    >>> u, gradient, laplacian = ad.gno_with_laplacian(
    ...     *inputs, np.zeros((1, 1)), graph=graph, widths=[3], activation="tanh"
    ... )
    >>> ad.mean(laplacian**2).backward()
    >>> layers.grad.shape
    (9,)
    """
    inputs = (h, x, y, layers, V, b_v, edge_weight, weight_derivatives)
    return _with_derivatives(gnograd.gno_with_laplacian, 1, inputs, static)


def gno_with_hessian(
    h: Operand | None,
    x: Operand,
    y: Operand,
    layers: Operand,
    V: Operand,
    b_v: Operand,
    edge_weight: Operand | None = None,
    weight_derivatives: Operand | None = None,
    **static: Any,
) -> tuple[Array, Array, Array]:
    """Graph neural operator with gradient and Hessian, as `gnograd.gno_with_hessian`.

    At least one of the inputs is on a tape.
    """
    inputs = (h, x, y, layers, V, b_v, edge_weight, weight_derivatives)
    return _with_derivatives(gnograd.gno_with_hessian, 2, inputs, static)


def _with_derivatives(
    operator: Function[Any],
    order: int,
    inputs: Sequence[Operand | None],
    given: Mapping[str, Any],
) -> tuple[Array, Array, Array]:
    """Value, gradient and second derivatives; the last is the value again without them."""
    tape, arrays = _handles(operator.name, inputs)
    codes = _codes(operator, **given)
    graph, widths = codes.pop("graph"), np.array(codes.pop("widths"), np.int64)
    out = tape._wrap(
        _core.gnograd_array_gno_with_derivatives(
            tape._handle, graph.handle, order, widths.size, address(widths),
            *codes.values(), *_numbers(arrays), tape._address,
        )
    )  # fmt: skip
    gradient, second = tape._scratch[:2].tolist()
    return out, tape._wrap(gradient), tape._wrap(second) if order else out


def agg_weighted(x: Operand, w: Operand, *, graph: Graph, aggregation: str = "sum") -> Array:
    """Aggregation with a weight an edge, as `gnograd.agg_weighted`; an input is on a tape.

    Examples
    --------
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
    return _apply(
        _core.gnograd_array_agg_weighted, gnograd.agg_weighted, (x, w),
        graph=graph, aggregation=aggregation,
    )  # fmt: skip


def agg_simple(
    x: Operand | None, e: Operand | None = None, *, graph: Graph, aggregation: str = "sum"
) -> Array:
    """Aggregation without weights, as `gnograd.agg_simple`; one of the inputs is on a tape."""
    return _apply(
        _core.gnograd_array_agg_simple, gnograd.agg_simple, (x, e),
        graph=graph, aggregation=aggregation,
    )  # fmt: skip


def agg_concat(
    x: Operand | None,
    w: Operand | None = None,
    e: Operand | None = None,
    own: Operand | None = None,
    *,
    graph: Graph,
    aggregation: str = "sum",
) -> Array:
    """Aggregates and own features, as `gnograd.agg_concat`; one of the inputs is on a tape."""
    return _apply(
        _core.gnograd_array_agg_concat, gnograd.agg_concat, (x, w, e, own),
        graph=graph, aggregation=aggregation,
    )  # fmt: skip


def mha_gat(
    x_src: Operand,
    x_dst: Operand,
    a: Operand,
    e: Operand | None = None,
    *,
    graph: Graph,
    num_heads: int = 1,
    concat_heads: bool = True,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
) -> Array:
    """Graph attention, as `gnograd.mha_gat`; at least one of the inputs is on a tape."""
    return _apply(
        _core.gnograd_array_mha_gat, gnograd.mha_gat, (x_src, x_dst, a, e),
        graph=graph, num_heads=num_heads, concat_heads=concat_heads, activation=activation,
        negative_slope=negative_slope,
    )  # fmt: skip


def mha_gat_v2(
    x_src: Operand,
    x_dst: Operand,
    a: Operand,
    e: Operand | None = None,
    *,
    graph: Graph,
    num_heads: int = 1,
    concat_heads: bool = True,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
) -> Array:
    """Graph attention with the activation inside, as `gnograd.mha_gat_v2`.

    At least one of the inputs is on a tape.
    """
    return _apply(
        _core.gnograd_array_mha_gat_v2, gnograd.mha_gat_v2, (x_src, x_dst, a, e),
        graph=graph, num_heads=num_heads, concat_heads=concat_heads, activation=activation,
        negative_slope=negative_slope,
    )  # fmt: skip


def mha_simple(
    q: Operand,
    k: Operand,
    v: Operand,
    e: Operand | None = None,
    *,
    graph: Graph,
    num_heads: int = 1,
    concat_heads: bool = True,
    norm_by_dim: bool = True,
) -> Array:
    """Attention with queries and keys, as `gnograd.mha_simple`; an input is on a tape."""
    return _apply(
        _core.gnograd_array_mha_simple, gnograd.mha_simple, (q, k, v, e),
        graph=graph, num_heads=num_heads, concat_heads=concat_heads, norm_by_dim=norm_by_dim,
    )  # fmt: skip


def selected_attention(
    q: Operand,
    k: Operand,
    v: Operand,
    slot_gate: Operand | None = None,
    *,
    block_index: NDArray[Any],
    block_size: int,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: NDArray[Any] | None = None,
    cu_k: NDArray[Any] | None = None,
    query_block: int = 1,
    duplicates: str = "ignore",
) -> Array:
    """Attention to selected blocks, as `gnograd.selected_attention`; an input is on a tape.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd.autodiff as ad
    >>> tape = ad.Tape("float64")
    >>> q = tape.parameter(np.ones((3, 1, 2)))
    >>> keys = np.arange(8.0).reshape(4, 1, 2)
    >>> blocks = np.array([[[0]], [[1]], [[-1]]], np.int32)
    >>> out = ad.selected_attention(q, keys, keys, block_index=blocks, block_size=2, scale=0.0)
    >>> out.value[:, 0]
    array([[1., 2.],
           [5., 6.],
           [0., 0.]])
    """
    name = "selected_attention"
    tape, handles = _handles(name, (q, k, v, slot_gate))
    codes = _codes(
        gnograd.selected_attention, block_index=block_index, block_size=block_size, scale=scale,
        causal=causal, q_offset=q_offset, query_block=query_block, duplicates=duplicates,
    )  # fmt: skip
    blocks = _integers(name, "block_index", block_index, np.int32, 3)
    (n, first_q, first_k), _kept = _sequences(name, cu_q=cu_q, cu_k=cu_k)
    n_selections, n_heads, n_slots = blocks.shape
    return tape._wrap(
        _core.gnograd_array_selected_attention(
            tape._handle, n_slots, n_heads, n_selections, n, address(blocks), first_q, first_k,
            codes["block_size"], _scale(handles[0], codes), codes["causal"], codes["q_offset"],
            codes["query_block"], codes["duplicates"], *_numbers(handles),
        )
    )  # fmt: skip


def compressed_attention(
    q: Operand,
    k: Operand,
    v: Operand,
    *,
    block: int,
    stride: int,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: NDArray[Any] | None = None,
    cu_k: NDArray[Any] | None = None,
) -> tuple[Array, Array]:
    """Attention to compressed tokens and its log-sum-exp, as `gnograd.compressed_attention`.

    At least one of the inputs is on a tape.
    """
    name = "compressed_attention"
    tape, handles = _handles(name, (q, k, v))
    codes = _codes(
        gnograd.compressed_attention, block=block, stride=stride, scale=scale, causal=causal,
        q_offset=q_offset,
    )  # fmt: skip
    (n, first_q, first_k), _kept = _sequences(name, cu_q=cu_q, cu_k=cu_k)
    out = _core.gnograd_array_compressed_attention(
        tape._handle, n, first_q, first_k, codes["block"], codes["stride"],
        _scale(handles[0], codes), codes["causal"], codes["q_offset"], *_numbers(handles),
        tape._address,
    )  # fmt: skip
    lse = int(tape._scratch[0])
    return tape._wrap(out), tape._wrap(lse)


def window_attention(
    q: Operand,
    k: Operand,
    v: Operand,
    *,
    window: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: NDArray[Any] | None = None,
    cu_k: NDArray[Any] | None = None,
) -> Array:
    """Attention to a neighbourhood, as `gnograd.window_attention`; an input is on a tape."""
    name = "window_attention"
    tape, handles = _handles(name, (q, k, v))
    codes = _codes(
        gnograd.window_attention, window=window, scale=scale, causal=causal, q_offset=q_offset
    )
    (n, first_q, first_k), _kept = _sequences(name, cu_q=cu_q, cu_k=cu_k)
    return tape._wrap(
        _core.gnograd_array_window_attention(
            tape._handle, n, first_q, first_k, codes["window"] or 0, _scale(handles[0], codes),
            codes["causal"], codes["q_offset"], *_numbers(handles),
        )
    )  # fmt: skip


def compress(
    x: Operand, w: Operand, *, block: int, stride: int, cu: NDArray[Any] | None = None
) -> Array:
    """Weighted sums of stretches of a sequence, as `gnograd.compress`; an input is on a tape."""
    tape, handles = _handles("compress", (x, w))
    codes = _codes(gnograd.compress, block=block, stride=stride)
    if handles[1].shape[:1] != (codes["block"],):
        raise ValueError(f"compress: w has shape {handles[1].shape}, needs (block={block}, H)")
    (n, first), _kept = _sequences("compress", cu=cu)
    return tape._wrap(
        _core.gnograd_array_compress(tape._handle, n, first, codes["stride"], *_numbers(handles))
    )


def _handles(name: str, inputs: Sequence[Operand | None]) -> tuple[Tape, list[Any]]:
    """The tape of the inputs, and all of them on it."""
    like = next((array for array in inputs if isinstance(array, Array)), None)
    if like is None:
        raise TypeError(f"{name}: needs an Array among its inputs")
    tape = like.tape
    return tape, [None if x is None else Array(tape, _operand(like, x)) for x in inputs]


def _numbers(arrays: Sequence[Array | None]) -> list[int]:
    return [0 if array is None else array._handle for array in arrays]


def _codes(operator: Function[Any], **given: Any) -> dict[str, Any]:
    """Static arguments of an operator, checked, as the numbers that C takes."""
    return operator.codes(operator.complete(given))


def _scale(q: Array, codes: Mapping[str, Any]) -> float:
    """Scale of the logits; left out, that of the features."""
    scale: float | None = codes["scale"]
    return float(max(q.shape[-1:], default=1)) ** -0.5 if scale is None else scale


def _integers(
    name: str, label: str, values: NDArray[Any], dtype: DTypeLike, rank: int
) -> NDArray[Any]:
    """An integer array in the form that kernels read."""
    refuse_mask(name, label, values)
    array = np.asarray(values)
    if array.dtype != dtype:
        raise TypeError(f"{name}: {label} is {array.dtype}, needs {np.dtype(dtype)}")
    if array.ndim != rank:
        raise ValueError(f"{name}: {label} has {array.ndim} axes, needs {rank}")
    return np.ascontiguousarray(array)


def _sequences(
    name: str, **borders: NDArray[Any] | None
) -> tuple[tuple[int, ...], list[NDArray[Any]]]:
    """Number of sequences, addresses of their borders (0: one sequence), and what lies there."""
    kept, addresses, sizes = [], [], set()
    for label, cu in borders.items():
        if cu is None:
            addresses.append(0)
            continue
        kept.append(_integers(name, label, cu, np.int64, 1))
        addresses.append(address(kept[-1]))
        sizes.add(kept[-1].size - 1)
    if len(sizes) > 1:
        raise ValueError(f"{name}: {' and '.join(borders)} have different numbers of sequences")
    return (max(sizes, default=1), *addresses), kept


def _apply(
    function: Callable[..., int],
    operator: Function[Any],
    inputs: Sequence[Operand | None],
    **given: Any,
) -> Array:
    """Call an operator: tape, graph if it has one, the other static arguments, arrays."""
    like = next((array for array in inputs if isinstance(array, Array)), None)
    if like is None:
        raise TypeError(f"{operator.name}: needs an Array among its inputs")
    tape, codes = like.tape, _codes(operator, **given)
    graph = codes.pop("graph", None)
    handles = [0 if array is None else _operand(like, array) for array in inputs]
    if graph is None:
        return tape._wrap(function(tape._handle, *codes.values(), *handles))
    return tape._wrap(function(tape._handle, graph.handle, *codes.values(), *handles))


def grad(loss: Array, arrays: Sequence[Array], create_graph: bool = False) -> tuple[Array, ...]:
    """Gradients of a loss with respect to some arrays, as arrays on the tape.

    Parameters
    ----------
    loss : Array
        With one element.
    arrays : sequence of Array
        Parameters, or anything computed from them; zeros come out for those on which the loss
        does not depend.
    create_graph : bool, optional
        Keep how the gradients were computed, so that they can be differentiated again.

    Returns
    -------
    tuple of Array
    """
    tape = loss.tape
    handles = np.array([array._handle for array in arrays], np.int64)
    if any(array.tape is not tape for array in arrays):
        raise ValueError("grad: an array is on another tape than the loss")
    check_status(
        _core.gnograd_tape_gradient(
            tape._handle, loss._handle, handles.size, address(handles), int(create_graph),
            address(handles),
        )
    )  # fmt: skip
    return tuple(Array(tape, handle) for handle in handles.tolist())


class _Optimizer(_Handle):
    """What `Adam` and `SGD` have in common."""

    _instead = "keep its state_dict and load that into another optimizer"

    lr: float
    """Learning rate; may be changed between steps."""
    _slots: tuple[str, ...]

    def __init__(self, params: Sequence[Array], lr: float) -> None:
        self.lr = lr
        self.params = tuple(params)
        if not self.params:
            raise ValueError("optimizer: needs at least one parameter")
        tape = self.params[0].tape
        if any(array.tape is not tape for array in self.params):
            raise ValueError("optimizer: the parameters are on different tapes")
        handles = np.array([array._handle for array in self.params], np.int64)
        check_status(self._create(tape._handle, handles, tape._address))
        self._handle = int(tape._scratch[0])
        weakref.finalize(self, _core.gnograd_optimizer_free, self._handle).atexit = False

    def _create(self, tape: int, handles: NDArray[np.int64], result: int) -> int:
        raise NotImplementedError

    def step(self) -> None:
        """Move the parameters along the gradients of the last `Array.backward`."""
        check_status(_core.gnograd_optimizer_step(self._handle, self.lr))

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on later: learning rate, steps taken, running averages."""
        state: dict[str, Any] = {
            "lr": self.lr,
            "steps": int(_core.gnograd_optimizer_steps(self._handle)),
        }
        for slot, name in enumerate(self._slots):
            state[name] = [np.empty(array.shape, array.dtype) for array in self.params]
            self._exchange(slot, state[name], write=False)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict`."""
        loaded = {}
        for name in self._slots:
            loaded[name] = [
                np.ascontiguousarray(values, array.dtype)
                for values, array in zip(state[name], self.params, strict=True)
            ]
            for k, (values, array) in enumerate(zip(loaded[name], self.params, strict=True)):
                if values.shape != array.shape:
                    raise ValueError(
                        f"optimizer: {name}[{k}] has shape {values.shape}, "
                        f"its parameter {array.shape}"
                    )
        for slot, name in enumerate(self._slots):
            self._exchange(slot, loaded[name], write=True)
        self.lr = float(state["lr"])
        _core.gnograd_optimizer_set_steps(self._handle, int(state["steps"]))

    def _exchange(self, slot: int, arrays: Sequence[NDArray[Any]], write: bool) -> None:
        for k, values in enumerate(arrays):
            check_status(
                _core.gnograd_optimizer_slot(self._handle, slot, k, int(write), address(values))
            )


class Adam(_Optimizer):
    """Adam: steps of the running mean of the gradient over its root mean square.

    Parameters
    ----------
    params : sequence of Array
        Parameters of one tape.
    lr : float
        Learning rate.
    betas : tuple of float
        Decay of the running averages of the gradient and of its square.
    eps : float
        Added to the root mean square.
    weight_decay : float
        Times the parameter, added to the gradient.

    References
    ----------
    Kingma and Ba, Adam: A Method for Stochastic Optimization, ICLR 2015.
    """

    _slots = ("mean", "mean_square")

    def __init__(
        self,
        params: Sequence[Array],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self._settings = (*betas, eps, weight_decay)
        super().__init__(params, lr)

    def _create(self, tape: int, handles: NDArray[np.int64], result: int) -> int:
        return int(
            _core.gnograd_adam_create(
                tape, handles.size, address(handles), self.lr, *self._settings, result
            )
        )


class SGD(_Optimizer):
    """Gradient descent; with momentum along the decaying sum of gradients.

    Parameters
    ----------
    params : sequence of Array
        Parameters of one tape.
    lr : float
        Learning rate.
    momentum : float
        Decay of the sum.
    """

    _slots = ("momentum",)

    def __init__(self, params: Sequence[Array], lr: float, momentum: float = 0.0) -> None:
        self._momentum = momentum
        super().__init__(params, lr)

    def _create(self, tape: int, handles: NDArray[np.int64], result: int) -> int:
        return int(
            _core.gnograd_sgd_create(
                tape, handles.size, address(handles), self.lr, self._momentum, result
            )
        )
