# SPDX-License-Identifier: MIT
"""Operators on tensors in eager mode, past PyTorch's dispatcher.

The dispatcher makes custom operators work under `torch.compile`, `torch.func`, `torch.autocast` and
other modes, and costs more time than many a kernel. If no such mode is active, kernels are called
with the addresses of the tensors, and checks are only made for the first call with given static
arguments, types and shapes. Values and derivatives are those of the custom operators.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from gnograd.backends import cpu
from gnograd.backends.cpu import dtype_name
from gnograd.faces.operator import Function, Operator, spread
from gnograd.faces.recent import key_of
from gnograd.graphs.graph import Graph, LentForACall, lend
from gnograd.notation.graph_arrays import GraphArrays, GraphSizes
from gnograd.torch.arrays import as_arrays
from gnograd.torch.batches import is_batch

try:  # private names, which another PyTorch may not have
    from torch._C._dynamo import eval_frame

    _LEAVE = eval_frame._FrameExecStrategy(
        eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP
    )
except (ImportError, AttributeError):
    _LEAVE = None  # type: ignore[assignment]
"""Mark for functions that the compiler is to leave to Python, with all that they call."""

__all__ = [
    "AnyFunction",
    "KnownCalls",
    "eager",
    "eager_function",
    "in_transform",
    "is_eager",
    "is_plain",
    "leave_to_python",
    "not_compiled",
    "read_by_vjp",
]

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
Tensors: TypeAlias = Sequence[Tensor | None]
_PLAIN = frozenset({Tensor, Parameter})
_NARROW = tuple(name.endswith("indices") for name in GraphArrays._fields)
"""True for the arrays of a graph that are int32; the others are int64."""
_CPU = -1
"""Number of the CPU where others are those of GPUs."""
_SOMEWHERE = torch.zeros(1, device="cpu")
"""Memory whose address stands for tensors without elements."""
_CAN_TELL = hasattr(forward_ad, "_current_level") and all(
    hasattr(torch._C, query)
    for query in (
        "_are_functorch_transforms_active", "_get_tracing_state", "_is_any_autocast_enabled",
        "_len_torch_dispatch_stack", "_len_torch_function_stack",
    )
)  # fmt: skip
"""True if PyTorch has the private functions that report active modes."""


class _Kind(NamedTuple):
    """Prepared call for given static arguments and given types and shapes of inputs."""

    forward: Any
    static: dict[str, Any]
    """Static arguments, complete, without arrays and the graph."""
    of_static: tuple[Any, ...]
    """Key of the static arguments."""
    kept: tuple[int | None, ...]
    """Positions of the results to keep for the vjp, in its order; None for one it does not read."""

    def with_graph(self, graph: Graph | None) -> dict[str, Any]:
        """Static arguments of a call with this graph."""
        return self.static if graph is None else {**self.static, "graph": graph}


_Seen: TypeAlias = "tuple[tuple[Any, ...], tuple[int, ...], bool, list[Tensor]]"
"""Device, types and shapes; addresses; whether a tensor requires a gradient; copies to keep."""


def eager_function(op: Function[Any, Any]) -> Callable[..., tuple[Any, ...] | None]:
    """Function that calls a function without derivatives in eager mode.

    Returns
    -------
    callable
        Takes inputs, static arguments by name, and whether their graph is one of tensors; returns
        None if custom operators have to be called.
    """
    return _forward_of(op, None)


def eager(
    op: Operator[Any, Any], vjp: Callable[..., Sequence[Tensor | None]]
) -> Callable[..., tuple[Any, ...] | None]:
    """Differentiable function that calls an operator in eager mode; see `eager_function`.

    Parameters
    ----------
    op : Operator
    vjp : callable
        A differentiable vjp, called where its derivatives may be needed. It takes saved tensors,
        flags of wanted gradients, static arguments by name, cotangents and inputs, and returns a
        gradient or None for every input.
    """
    n, n_outputs = len(op.inputs), op.n_outputs

    class Eager(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, call: Any, *inputs: Any) -> Any:
            kind, graph, addresses = call
            ctx.kind, ctx.graph = kind, graph
            results = _run(kind.forward, graph, addresses)
            ctx.set_materialize_grads(False)
            kept = [None if k is None else results[k] for k in kind.kept]
            ctx.save_for_backward(*inputs, *kept)
            outputs = results[:n_outputs]
            return tuple(outputs) if n_outputs > 1 else outputs[0]

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            wrt = ctx.needs_input_grad[1:]
            if not any(wrt) or all(c is None for c in cotangents):
                return (None,) * (1 + n)
            arrays = *cotangents, *ctx.saved_tensors  # in the order of the face
            # gradients that may be differentiated come from the rules of the custom operators
            if not torch.is_grad_enabled() and not torch.compiler.is_compiling() and is_plain():
                seen = _see(arrays)
                if seen is not None:
                    layout, addresses, _, _copies = seen
                    key = "eager vjp", ctx.kind.of_static, layout, wrt
                    known = op.known.get(key)
                    if known is None:
                        static = ctx.kind.with_graph(ctx.graph)
                        known = _prepared_vjp(op, arrays, wrt, static) or False
                        op.known.put(key, known)
                    if known is not False:
                        return None, *_run(known, ctx.graph, addresses)
            kept = [x for x in arrays[n_outputs + n :] if x is not None]
            inputs = arrays[n_outputs : n_outputs + n]
            return None, *vjp(kept, wrt, ctx.kind.with_graph(ctx.graph), cotangents, inputs)

    # the name of the class appears in results: grad_fn=<mha_gatBackward>
    named: type[torch.autograd.Function] = type(op.name, (Eager,), {})
    return _forward_of(op, named.apply)


def _forward_of(
    op: Function[Any, Any], apply: Callable[..., Any] | None
) -> Callable[..., tuple[Any, ...] | None]:
    """Forward, through `apply` of the autograd function if a gradient may be needed."""
    n, n_outputs = len(op.inputs), op.n_outputs
    absent = (None,) * n

    def forward(
        inputs: tuple[Any, ...], static: Mapping[str, Any], of_tensors: bool
    ) -> tuple[Any, ...] | None:
        if len(inputs) > n:
            return None
        inputs += absent[len(inputs) :]
        of_static, seen = key_of(static), _see(inputs)
        if of_static is None or seen is None:
            return None
        layout, addresses, wants_gradient, _copies = seen
        key = "eager", of_static, layout
        kind = op.known.get(key)
        if kind is None:
            kind = _kind(op, inputs, static, of_static)
            if kind is None:
                return None
            op.known.put(key, kind)
        graph: Any = static.get("graph")
        if of_tensors and graph.is_remote != (layout[0] != _CPU):
            return None  # the graph is elsewhere, which is an error
        if wants_gradient and apply is not None and torch.is_grad_enabled():
            outputs = apply((kind, graph, addresses), *inputs)
            return outputs if n_outputs > 1 else (outputs,)
        return tuple(_run(kind.forward, graph, addresses)[:n_outputs])

    return leave_to_python(forward)


def leave_to_python(function: AnyFunction) -> AnyFunction:
    """Keep `torch.compile` from compiling a function, and what it calls, on their own.

    The compiler leaves what breaks a graph to Python, and compiles each function that is called
    from there. Those that read addresses or turn tensors into arrays are no programs: it takes
    seconds to find that, and mistakes arrays for tensors.
    """
    if _LEAVE is not None:
        eval_frame.set_code_exec_strategy(function.__code__, _LEAVE)
    return function


def not_compiled(function: AnyFunction) -> AnyFunction:
    """Make `torch.compile` break its graph at a function that reads the values of tensors."""
    # torch.compiler.disable would import the compiler, which takes longer than all of gnograd
    disabled = torch._disable_dynamo(function)  # type: ignore[attr-defined]
    leave_to_python(function)

    @functools.wraps(function)
    def call(*inputs: Any, **arguments: Any) -> Any:
        if torch.compiler.is_compiling():
            return disabled(*inputs, **arguments)
        return function(*inputs, **arguments)

    return cast(AnyFunction, call)


class KnownCalls:
    """Calls of a custom operator on plain CPU tensors, of kinds that were called before.

    The dispatcher calls kernels with all their arguments, in compiled programs above all. Checks
    are made for the first call of a kind, as in eager mode; functions return None where it has
    errors, or each call needs checks of its own.

    Parameters
    ----------
    op : Function or Operator
    static : sequence of str
        Names of the static arguments that are no arrays, in the order of calls.
    """

    def __init__(self, op: Function[Any, Any], static: Sequence[str]) -> None:
        self.op = op
        self.static = static

    def forward(self, *args: Any) -> list[Tensor] | None:
        """Outputs and what is saved besides, from inputs and static arguments."""
        op, (inputs, static) = self.op, self._operands(args)
        if inputs is None:
            return None
        seen, given = _see(inputs), self._given(static)
        if seen is None or given is None:
            return None
        (layout, addresses, _, _copies), (of_static, graph) = seen, given
        key = "custom", of_static, layout
        known = op.known.get(key)
        if known is None:
            known = _kind(op, inputs, self._complete(static), of_static) or False
            op.known.put(key, known)
        if known is False:
            return None
        results = self._run(known.forward, of_static[-1], graph, addresses)
        like = next(x for x in inputs if x is not None)
        outputs = [like.new_empty(0) if y is None else y for y in results[: op.n_outputs]]
        return [*outputs, *[y for y in results[op.n_outputs :] if y is not None]]

    def vjp(self, cotangents: Tensors, *args: Any) -> list[Tensor] | None:
        """Wanted gradients, from cotangents, inputs, saved arrays, flags and static arguments."""
        inputs, (kept, wrt, *static) = self._operands(args)
        if inputs is None or not any(wrt):
            return None
        seen, given = _see([*cotangents, *inputs, *kept]), self._given(static)
        if seen is None or given is None:
            return None
        (layout, addresses, _, _copies), (of_static, graph) = seen, given
        key = "custom vjp", of_static, layout, tuple(wrt)
        known = self.op.known.get(key)
        if known is None:
            known = self._prepare_vjp(cotangents, inputs, kept, wrt, static) or False
            self.op.known.put(key, known)
        if known is False:
            return None
        call, needed = known
        before = len(cotangents) + len(inputs)
        saved = [address or 0 for address in spread(needed, addresses[before:])]
        gradients = self._run(call, of_static[-1], graph, (*addresses[:before], *saved))
        return [gradient for gradient in gradients if gradient is not None]

    def _prepare_vjp(
        self, cotangents: Tensors, inputs: Tensors, kept: Tensors, wrt: Any, static: Sequence[Any]
    ) -> tuple[cpu.Prepared, list[bool]] | None:
        """Prepared call, and which of the saved arrays it takes; None if each needs checks."""
        op, values = cast("Operator[Any, Any]", self.op), self._complete(static)
        needed = read_by_vjp(op, inputs, values)
        if not kept:
            needed = [False] * len(needed)
        elif len(kept) != sum(needed):
            return None
        arrays = [*cotangents, *inputs, *spread(needed, kept)]
        call = _prepared_vjp(op, arrays, wrt, values)
        return None if call is None else (call, needed)

    def _operands(self, args: Sequence[Any]) -> tuple[Any, Any]:
        """Inputs, and what follows the operands; None for inputs if there are static arrays."""
        n = len(self.op.inputs)
        rest = n + len(self.op.arrays)
        return args[:n] if all(x is None for x in args[n:rest]) else None, args[rest:]

    def _given(self, static: Sequence[Any]) -> tuple[tuple[Any, ...], Tensors] | None:
        """Key of static arguments, which ends with the graph's sizes, and its tensors; or None."""
        values = dict(zip(self.static, static, strict=True))
        graph: Tensors = values.pop("graph", None) or ()
        of_static = key_of(values)
        if of_static is None:
            return None
        for x, narrow in zip(graph, _NARROW, strict=False):
            dtype = torch.int32 if narrow else torch.int64
            if x is not None and (x.dtype is not dtype or not x.is_cpu or not x.is_contiguous()):
                return None
        return (*of_static, GraphArrays(*graph).sizes if graph else None), graph

    def _complete(self, static: Sequence[Any]) -> dict[str, Any]:
        values = dict(zip(self.static, static, strict=True))
        if values.get("graph"):
            arrays = (None if x is None else x.numpy() for x in values["graph"])
            values["graph"] = lend(GraphArrays(*arrays))
        elif "graph" in values:
            values["graph"] = None
        return values

    @staticmethod
    def _run(
        call: cpu.Prepared, sizes: GraphSizes, graph: Tensors, addresses: tuple[int, ...]
    ) -> list[Tensor | None]:
        if not call.on_graph:
            return _run(call, None, addresses)
        where = [0 if x is None else x.data_ptr() or _SOMEWHERE.data_ptr() for x in graph]
        with LentForACall(sizes, where) as body:
            return _run(call, body, addresses)


def is_eager(*tensors: Tensor | None) -> bool:
    """True if the function of a custom operator may be called directly on these tensors."""
    plain = all(x is None or type(x) in _PLAIN for x in tensors)
    return plain and not torch.compiler.is_compiling() and is_plain()


def is_plain() -> bool:
    """True if no mode is active that has to see custom operators."""
    return (
        _CAN_TELL
        and forward_ad._current_level < 0
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._len_torch_function_stack()
        and not torch._C._is_any_autocast_enabled()
        and torch._C._get_tracing_state() is None
    )


def in_transform() -> bool:
    """True if tensors may be wrappers of others, as in `torch.func` and ``FakeTensorMode``."""
    if torch.compiler.is_compiling():  # compilers see to that themselves
        return False
    return not _CAN_TELL or bool(
        torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack()
    )


def _see(tensors: Tensors) -> _Seen | None:
    """Device, types, shapes and addresses; None unless all are plain tensors in one memory."""
    layout: list[Any] = [None]
    addresses: list[int] = []
    copies: list[Tensor] = []
    wants_gradient = False
    device = None
    for x in tensors:
        if x is None:
            layout.append(None)
            addresses.append(0)
            continue
        if type(x) not in _PLAIN or x.layout is not torch.strided or x.is_neg() or x.is_nested:
            return None
        where = _CPU if x.is_cpu else x.get_device() if x.is_cuda else None
        if where != device:
            if device is not None:
                return None
            device = where
        if x.requires_grad:
            wants_gradient = True
        if not x.is_contiguous():
            if is_batch(x):
                return None
            x = x.detach().contiguous()
            copies.append(x)
        try:
            address = x.data_ptr()
        except RuntimeError:  # a wrapper of others, such as a batch
            return None
        if address & 7 and address % x.element_size():
            return None  # in the middle of a number
        if not address:
            if x.numel():
                return None  # zeros that have no memory
            if device == _CPU:
                address = _SOMEWHERE.data_ptr()  # kernels take 0 for an absent array
        layout.append(x.dtype)
        layout.append(x.shape)
        addresses.append(address)
    if device is None:
        return None
    layout[0] = device
    return tuple(layout), tuple(addresses), wants_gradient, copies


def _kind(
    op: Function[Any, Any],
    inputs: tuple[Any, ...],
    given: Mapping[str, Any],
    of_static: tuple[Any, ...],
) -> _Kind | None:
    """Check a call of a new kind and prepare later ones; None if it has errors."""
    try:
        with as_arrays(inputs) as (array, _):
            forward = op.prepare(tuple(map(array, inputs)), given)
        static = op.complete(given)
    except Exception:  # custom operators raise it again
        return None
    for name in ("graph", *op.arrays):
        static.pop(name, None)
    if forward is None:
        return None
    read = read_by_vjp(op, inputs, given) if forward.saved else ()
    kept = tuple(k if is_read else None for k, is_read in zip(forward.saved, read, strict=True))
    return _Kind(forward, static, of_static, kept)


def read_by_vjp(op: Function[Any, Any], inputs: Tensors, static: Mapping[str, Any]) -> list[bool]:
    """Flag for every saved array: true if the vjp reads it where these inputs are."""
    there = [x for x in inputs if x is not None]
    backend = "cuda" if there[0].device.type == "cuda" else "cpu"
    return op.signature(**static).read(backend, [dtype_name(x.dtype) for x in there])


def _prepared_vjp(
    op: Operator[Any, Any], arrays: Tensors, wrt: Sequence[bool], static: Mapping[str, Any]
) -> Any:
    """Prepared vjp of cotangents, inputs and saved arrays; None if each call needs checks."""
    n_outputs, end = op.n_outputs, op.n_outputs + len(op.inputs)
    try:
        with as_arrays(arrays) as (array, _):
            given = tuple(map(array, arrays))
            names = list(compress(op.inputs, wrt))
            return op.prepare_vjp(
                given[:n_outputs], given[n_outputs:end], names, given[end:], static
            )
    except Exception:  # raised again by the call with all checks
        return None


def _run(
    call: Any, graph: Graph | LentForACall | None, addresses: tuple[int, ...]
) -> list[Tensor | None]:
    """Make a prepared call; its results are new tensors, on a GPU of the current stream."""
    if type(call) is cpu.Prepared:
        results = call.run(graph, addresses)
        return [None if y is None else torch.from_numpy(y) for y in results]
    device: int = call.device
    if torch.cuda.current_device() != device:
        with torch.cuda.device(device):
            return _run(call, graph, addresses)
    stream = torch.cuda.current_stream(device).cuda_stream
    made: list[Tensor | None] = call.launch(graph, addresses, stream, _empty[device], _address)
    return made


class _Memory(dict[int, Callable[[Sequence[int], str], Tensor]]):
    """Functions that make tensors on a GPU, by its number."""

    def __missing__(self, device: int) -> Callable[[Sequence[int], str], Tensor]:
        place = torch.device("cuda", device)

        def empty(shape: Sequence[int], dtype: str) -> Tensor:
            return torch.empty(shape, dtype=getattr(torch, dtype), device=place)

        self[device] = empty
        return empty


_empty = _Memory()
_address = Tensor.data_ptr
