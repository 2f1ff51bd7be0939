# SPDX-License-Identifier: MIT
"""Any gnograd operator as a PyTorch operator.

Each of the four faces becomes a custom operator ``gnograd::<name>_<face>`` on tensors, so that
`torch.compile` can put it into a graph without looking inside. Derivatives need no more than the
faces themselves: the gradient of forward is vjp; the gradient of vjp is jvp for the cotangent
and hvp for the inputs. The same two rules are given twice, to the dispatcher (for
`torch.compile`) and to `torch.autograd.Function` (for eager mode, where it brings forward-mode
differentiation and the transforms of `torch.func` besides).

Custom operators take tensors and plain numbers. A graph goes by its number.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
import torch.utils.dlpack
from torch import Tensor

from gnograd.graph import Graph, graph_by_number
from gnograd.operator import Operator

__all__ = ["torch_operator"]

Tensors: TypeAlias = Sequence[Tensor | None]

_SCHEMA_TYPES = {
    "Graph": "int",
    "Graph | None": "int",
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "int | None": "int?",
    "float | None": "float?",
}


def torch_operator(op: Operator[Any]) -> Callable[..., Any]:
    """Make a PyTorch function of a gnograd operator.

    Parameters
    ----------
    op : Operator

    Returns
    -------
    callable
        Takes tensors where `op` takes arrays, and the same static arguments. CPU tensors are
        not copied; CUDA tensors are computed on the current stream. Differentiable twice in
        reverse mode, once in forward mode; works under `torch.compile(fullgraph=True)`,
        `torch.vmap` (a loop over the batch) and `torch.autocast` (computes in float32).
    """
    faces = _Faces(op)

    def function(*inputs: Any, **arguments: Any) -> Any:
        named = [arguments.pop(name, None) for name in op.inputs[len(inputs) :]]
        # kept until the call is over: a graph made of edges is known by its number alone
        static = op.complete(arguments)
        outputs = faces.apply([*inputs, *named], _by_number(static))
        return outputs if len(outputs) > 1 else outputs[0]

    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = f"`gnograd.{op.name}` on tensors.\n\n{op.__doc__}"
    return function


class _Faces:
    """The custom operators of one gnograd operator, and their derivatives."""

    def __init__(self, op: Operator[Any]) -> None:
        self.op = op
        self.n = n = len(op.inputs)
        # the rest of what forward returns is saved for the vjp
        self.n_outputs = str(inspect.signature(op).return_annotation).count("Array")
        inputs = [f"Tensor? {name}" for name in op.inputs]
        tangents = [f"Tensor? t_{name}" for name in op.inputs]
        static = [
            f"{_schema_type(parameter)} {parameter.name}"
            for parameter in inspect.signature(op).parameters.values()
            if parameter.name in op.static
        ]
        cotangents = ["Tensor?[] cotangents"]
        self.forward = self._define("forward", inputs + static, self._forward, self._like_forward)
        self.vjp = self._define(
            "vjp",
            [*cotangents, *inputs, "Tensor[] saved", "bool[] wrt", *static],
            self._vjp,
            lambda _, *a: _like_wanted(a[:n], a[n + 1]),
        )
        self.jvp = self._define("jvp", inputs + tangents + static, self._jvp, self._like_jvp)
        self.hvp = self._define(
            "hvp",
            [*cotangents, *inputs, *tangents, "bool[] wrt", *static],
            self._hvp,
            lambda _, *a: _like_wanted(a[:n], a[2 * n]),
        )
        self.forward.register_autograd(self._backward, setup_context=self._keep)
        self.vjp.register_autograd(self._vjp_backward, setup_context=self._keep_vjp)
        self.apply = _functions(self)

    def _define(
        self, face: str, arguments: list[str], run: Callable[..., Any], fake: Callable[..., Any]
    ) -> Any:
        """Register one face: its kernel, its fake (shapes only), autocast and vmap."""
        operator = torch.library.custom_op(
            f"gnograd::{self.op.name}_{face}",
            run,
            mutates_args=(),
            schema=f"({', '.join(arguments)}) -> Tensor[]",
        )
        operator.register_fake(fake)
        operator.register_vmap(
            lambda info, in_dims, *args: _loop(operator, info.batch_size, in_dims, args)
        )
        for device in ("cpu", "cuda"):
            operator.register_autocast(device, torch.float32)
        return operator

    # ---- the four faces on tensors ----

    def static(self, values: Sequence[Any]) -> dict[str, Any]:
        """Static arguments of the gnograd operator from those of the custom operator."""
        return {
            name: graph_by_number(int(value)) if name == "graph" else value
            for name, value in zip(self.op.static, values, strict=True)
        }

    def _forward(self, *args: Any) -> list[Tensor]:
        inputs, static = args[: self.n], self.static(args[self.n :])
        with _arrays(inputs) as (array, tensor):
            outputs, saved = self.op.forward(*map(array, inputs), return_saved=True, **static)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            own = [a for a in saved if a is not None and all(a is not y for y in outputs)]
            return [tensor(a) for a in (*outputs, *own)]

    def _vjp(self, cotangents: Tensors, *args: Any) -> list[Tensor]:
        n = self.n
        inputs, saved, wrt, static = args[:n], args[n], args[n + 1], self.static(args[n + 2 :])
        specs = self.op.signature(**static).saved.values()
        kept = _spread([spec != "None" for spec in specs], saved) if saved else None
        with _arrays(inputs) as (array, tensor):
            return _present(
                tensor,
                self.op.vjp(
                    _one_or_all([array(c) for c in cotangents]),
                    tuple(map(array, inputs)),
                    wrt=self._names(wrt),
                    saved=kept and tuple(map(array, kept)),
                    **static,
                ),
            )

    def _jvp(self, *args: Any) -> list[Tensor]:
        n = self.n
        inputs, tangents, static = args[:n], args[n : 2 * n], self.static(args[2 * n :])
        with _arrays(inputs) as (array, tensor):
            outputs = self.op.jvp(tuple(map(array, inputs)), tuple(map(array, tangents)), **static)
            return [tensor(a) for a in (outputs if isinstance(outputs, tuple) else (outputs,))]

    def _hvp(self, cotangents: Tensors, *args: Any) -> list[Tensor]:
        n = self.n
        inputs, tangents = args[:n], args[n : 2 * n]
        wrt, static = args[2 * n], self.static(args[2 * n + 1 :])
        with _arrays(inputs) as (array, tensor):
            return _present(
                tensor,
                self.op.hvp(
                    _one_or_all([array(c) for c in cotangents]),
                    tuple(map(array, inputs)),
                    tuple(map(array, tangents)),
                    wrt=self._names(wrt),
                    **static,
                ),
            )

    def _names(self, wrt: Sequence[bool]) -> list[str]:
        return [name for name, wanted in zip(self.op.inputs, wrt, strict=True) if wanted]

    # ---- shapes without values ----

    def _like_forward(self, *args: Any) -> list[Tensor]:
        return self._like(args[: self.n], self.static(args[self.n :]))

    def _like_jvp(self, *args: Any) -> list[Tensor]:
        return self._like(args[: self.n], self.static(args[2 * self.n :]))[: self.n_outputs]

    def _like(self, inputs: Tensors, static: dict[str, Any]) -> list[Tensor]:
        first = next(x for x in inputs if x is not None)
        results = self.op.results(
            [None if x is None else tuple(x.shape) for x in inputs],
            str(first.dtype).removeprefix("torch."),
            **static,
        )
        return [
            first.new_empty(shape, dtype=getattr(torch, dtype)) for shape, dtype in results.values()
        ]

    def kept(self, outputs: Sequence[Tensor], static: Sequence[Any]) -> list[Tensor]:
        """What the vjp wants of the results of forward, in its order."""
        signature = self.op.signature(**self.static(static))
        saved = [name for name, spec in signature.saved.items() if spec != "None"]
        own = [name for name in saved if name not in signature.outputs]
        results = dict(zip([*signature.outputs, *own], outputs, strict=True))
        return [results[name] for name in saved]

    # ---- the two rules, for the dispatcher ----

    def _keep(self, ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
        ctx.static = inputs[self.n :]
        ctx.graph = self.static(ctx.static).get("graph")
        saved = self.kept(output, ctx.static)
        ctx.save_for_backward(*inputs[: self.n], *saved)

    def _backward(self, ctx: Any, cotangents: Tensors) -> tuple[Any, ...]:
        inputs, saved = ctx.saved_tensors[: self.n], ctx.saved_tensors[self.n :]
        wrt = _needed(inputs, ctx.needs_input_grad[: self.n])
        gradients = (
            self.vjp(cotangents[: self.n_outputs], *inputs, list(saved), wrt, *ctx.static)
            if any(wrt)
            else []
        )
        return (*_spread(wrt, gradients), *[None] * len(ctx.static))

    def _keep_vjp(self, ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
        cotangents, *operands = inputs[: self.n + 1]
        saved, ctx.wrt, *ctx.static = inputs[self.n + 1 :]
        ctx.n_cotangents, ctx.n_saved = len(cotangents), len(saved)
        ctx.graph = self.static(ctx.static).get("graph")
        ctx.save_for_backward(*cotangents, *operands)

    def _vjp_backward(self, ctx: Any, directions: Tensors) -> tuple[Any, ...]:
        cotangents = ctx.saved_tensors[: ctx.n_cotangents]
        inputs = ctx.saved_tensors[ctx.n_cotangents :]
        to_cotangents = self.jvp(*inputs, *_spread(ctx.wrt, directions), *ctx.static)
        wrt = _needed(inputs, ctx.needs_input_grad[1 : 1 + self.n])
        gradients = (
            self.hvp(cotangents, *inputs, *_spread(ctx.wrt, directions), wrt, *ctx.static)
            if any(wrt)
            else []
        )
        given = [None if c is None else g for c, g in zip(cotangents, to_cotangents, strict=True)]
        return (
            given,
            *_spread(wrt, gradients),
            [None] * ctx.n_saved,
            None,
            *[None] * len(ctx.static),
        )


def _functions(faces: _Faces) -> Callable[[Sequence[Any], list[Any]], tuple[Tensor, ...]]:
    """The same two rules for eager mode, with forward mode and vmap: how forward is applied."""
    n, n_outputs = faces.n, faces.n_outputs

    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(static: list[Any], *inputs: Tensor | None) -> tuple[Tensor, ...]:
            return tuple(faces.forward(*inputs, *static))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            ctx.static, *operands = inputs
            ctx.graph, ctx.n_results = faces.static(ctx.static).get("graph"), len(output)
            ctx.mark_non_differentiable(*output[n_outputs:])
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*operands, *faces.kept(output, ctx.static))
            ctx.save_for_forward(*operands)

        @staticmethod
        def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
            inputs, saved = ctx.saved_tensors[:n], ctx.saved_tensors[n:]
            wrt = _needed(inputs, ctx.needs_input_grad[1:])
            outputs = cotangents[:n_outputs]
            if not any(wrt) or all(c is None for c in outputs):
                return (None,) * (n + 1)
            gradients = Vjp.apply(list(saved), wrt, ctx.static, *outputs, *inputs)
            return (None, *_spread(wrt, gradients))

        @staticmethod
        def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
            outputs = faces.jvp(*ctx.saved_tensors[:n], *tangents, *ctx.static)
            return (*outputs, *[None] * (ctx.n_results - n_outputs))

        @staticmethod
        def vmap(info: Any, in_dims: Any, static: list[Any], *inputs: Any) -> Any:
            return _loop(
                lambda *batch: Forward.apply(static, *batch), info.batch_size, in_dims[1:], inputs
            )

    class Vjp(torch.autograd.Function):
        @staticmethod
        def forward(
            saved: list[Tensor], wrt: list[bool], static: list[Any], *arrays: Any
        ) -> tuple[Tensor, ...]:
            cotangents, inputs = arrays[:n_outputs], arrays[n_outputs:]
            return tuple(faces.vjp(list(cotangents), *inputs, saved, wrt, *static))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            _, ctx.wrt, ctx.static, *arrays = inputs
            ctx.graph = faces.static(ctx.static).get("graph")
            ctx.save_for_backward(*arrays)
            ctx.save_for_forward(*arrays)

        @staticmethod
        def backward(ctx: Any, *directions: Tensor) -> tuple[Any, ...]:
            cotangents = ctx.saved_tensors[:n_outputs]
            inputs = ctx.saved_tensors[n_outputs:]
            along = _spread(ctx.wrt, directions)
            needs = ctx.needs_input_grad[3:]
            to_cotangents: list[Tensor | None] = [None] * n_outputs
            if any(needs[:n_outputs]):
                every = faces.jvp(*inputs, *along, *ctx.static)
                # an output whose cotangent was absent needs none
                pairs = zip(every, needs, strict=False)
                to_cotangents = [y if need else None for y, need in pairs]
            wrt = _needed(inputs, needs[n_outputs:])
            gradients = (
                faces.hvp(list(cotangents), *inputs, *along, wrt, *ctx.static) if any(wrt) else []
            )
            return (None, None, None, *to_cotangents, *_spread(wrt, gradients))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> tuple[Tensor, ...]:
            cotangents = ctx.saved_tensors[:n_outputs]
            inputs = ctx.saved_tensors[n_outputs:]
            moved, along = tangents[3 : 3 + n_outputs], tangents[3 + n_outputs :]
            result = faces.hvp(list(cotangents), *inputs, *along, ctx.wrt, *ctx.static)
            if any(c is not None for c in moved):
                linear = faces.vjp(list(moved), *inputs, [], ctx.wrt, *ctx.static)
                result = [a + b for a, b in zip(result, linear, strict=True)]
            return tuple(result)

        @staticmethod
        def vmap(
            info: Any,
            in_dims: Any,
            saved: list[Tensor],
            wrt: list[bool],
            static: list[Any],
            *arrays: Any,
        ) -> Any:
            return _loop(
                lambda *batch: Vjp.apply([], wrt, static, *batch),
                info.batch_size,
                in_dims[3:],
                arrays,
            )

    def apply(inputs: Sequence[Any], static: list[Any]) -> tuple[Tensor, ...]:
        if torch.compiler.is_compiling():
            outputs = faces.forward(*inputs, *static)
        else:
            outputs = Forward.apply(static, *inputs)
        return tuple(outputs[:n_outputs])

    return apply


@contextlib.contextmanager
def _arrays(tensors: Tensors) -> Iterator[tuple[Callable[..., Any], Callable[..., Tensor]]]:
    """How tensors become arrays and arrays tensors, without a copy, on the device of the first."""
    device = next((x.device for x in tensors if x is not None), torch.device("cpu"))
    if device.type == "cpu":
        yield (lambda x: None if x is None else x.detach().numpy()), torch.from_numpy
        return
    import cupy

    stream = torch.cuda.current_stream(device).cuda_stream
    with cupy.cuda.Device(device.index), cupy.cuda.ExternalStream(stream, device.index):
        yield (
            (lambda x: None if x is None else cupy.from_dlpack(x.detach())),
            torch.utils.dlpack.from_dlpack,
        )


def _schema_type(parameter: inspect.Parameter) -> str:
    """Type of a static argument in the language of custom operators."""
    return _SCHEMA_TYPES[str(parameter.annotation)]


def _by_number(static: dict[str, Any]) -> list[Any]:
    """Static arguments as custom operators take them."""
    return [value.number if isinstance(value, Graph) else value for value in static.values()]


def _one_or_all(values: list[Any]) -> Any:
    """A gnograd operator with one output takes its cotangent bare."""
    return values[0] if len(values) == 1 else tuple(values)


def _present(tensor: Callable[..., Tensor], arrays: Sequence[Any]) -> list[Tensor]:
    return [tensor(a) for a in arrays if a is not None]


def _like_wanted(inputs: Tensors, wrt: Sequence[bool]) -> list[Tensor]:
    return [torch.empty_like(x) for x, w in zip(inputs, wrt, strict=True) if w and x is not None]


def _needed(inputs: Tensors, needs: Sequence[bool]) -> list[bool]:
    """Which inputs are there and want a gradient."""
    return [x is not None and bool(need) for x, need in zip(inputs, needs, strict=True)]


def _spread(wrt: Sequence[bool], values: Sequence[Any]) -> list[Any]:
    """One entry an input, None where not wanted."""
    rest = iter(values)
    return [next(rest) if wanted else None for wanted in wrt]


def _loop(function: Any, size: int, in_dims: Any, args: Any) -> tuple[Any, Any]:
    """Batch by a loop over the leading axis: kernels are long compared with their calls."""

    def pick(value: Any, dim: Any, k: int) -> Any:
        if isinstance(value, list | tuple) and isinstance(dim, list | tuple):
            return [pick(v, d, k) for v, d in zip(value, dim, strict=True)]
        return value if dim is None else value.select(dim, k)

    rows = [
        function(*(pick(value, dim, k) for value, dim in zip(args, in_dims, strict=True)))
        for k in range(size)
    ]
    stacked = [torch.stack(column) for column in zip(*rows, strict=True)]
    kind = type(rows[0])
    return kind(stacked), kind([0] * len(stacked))
