# SPDX-License-Identifier: MIT
"""Operators, halos and sums on tensors, for graphs distributed over processes.

The rules of differentiation are those of `gnograd.torch.derivatives`. Faces are called past the
dispatcher, which knows nothing of other processes, so `torch.compile` breaks its graph here.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from gnograd.backends.cpu import dtype_name
from gnograd.distributed import reductions
from gnograd.distributed.communicator import Communicator
from gnograd.distributed.graph import DistributedGraph
from gnograd.distributed.halo import halo as exchange
from gnograd.faces.call import TypeOfCall
from gnograd.faces.operator import Function, Operator
from gnograd.torch.adapter import check_tensors
from gnograd.torch.batches import rows_of_batch
from gnograd.torch.custom_operators import Faces
from gnograd.torch.derivatives import functions
from gnograd.torch.eager import not_compiled
from gnograd.torch.half_precision import HALF, autocast, widened

__all__ = ["halo", "mean", "norm", "on_parts", "shared", "sum", "sum_gradients"]

# Its default arguments are the default group at the time of this import. Imported later, by
# torch.optim for one, it keeps the group beyond destroy_process_group, whose threads may then abort
# the interpreter at its exit.
if torch.distributed.is_available():
    import torch.distributed.nn.functional


def on_parts(op: Function[Any, Any]) -> Callable[..., Any] | None:
    """A PyTorch function of an operator for a `DistributedGraph`; None if it takes no graph.

    Returns
    -------
    callable
        Takes inputs and static arguments by name. Half precision is computed in float32 copies.
    """
    if not isinstance(op, Operator) or "graph" not in op.static:
        return None
    apply, _ = functions(_Faces(op))

    @not_compiled
    def function(inputs: tuple[Any, ...], arguments: Mapping[str, Any]) -> Any:
        operands, static = op.arrange(inputs, arguments)
        static["graph"] = arguments["graph"]
        check_tensors(op, operands)
        operands = autocast(op, operands, static)
        half = next((x.dtype for x in operands if x is not None and x.dtype in HALF), None)
        if half is not None:
            _check_types(op, operands, static)
            operands = [x.float() if x is not None and x.dtype is half else x for x in operands]
        outputs = apply(operands, list(static.values()))
        if half is not None:
            outputs = tuple(y.to(half) for y in outputs)
        return op.returned(outputs, arguments)

    return function


def _check_types(op: Operator[Any, Any], operands: list[Any], static: dict[str, Any]) -> None:
    """Raise TypeError for inputs in several types, before half precision is made float32."""
    types = TypeOfCall(op.name)
    specs = op.signature(**static).inputs.items()
    for (name, spec), x in zip(specs, widened(op, operands, static), strict=False):
        if x is not None:
            types.check(name, dtype_name(x.dtype), spec)


class _Faces(Faces):
    """The faces of an operator, called without custom operators, with the graph itself."""

    def _define(
        self, face: str, arguments: list[str], run: Callable[..., Any], fake: Callable[..., Any]
    ) -> Any:
        def compute(*args: Any) -> list[Tensor]:
            _refuse_numberless(self.op.name, args)
            computed: list[Tensor] = run(*args)
            return computed

        return compute

    def _register_rules(self) -> None:
        """Register nothing: the dispatcher does not see these faces."""

    def in_copies(self, args: Sequence[Any]) -> bool:
        return False  # copies are made before

    def static(
        self, operands: Sequence[Tensor | None], static: Sequence[Any], lent: bool = False
    ) -> dict[str, Any]:
        arrays = operands[self.n : self.n_operands]
        return dict(zip((*self.plain, *self.op.arrays), (*static, *arrays), strict=True))

    def kept(
        self, outputs: Sequence[Tensor], operands: Sequence[Tensor | None], static: Sequence[Any]
    ) -> list[Tensor]:
        n = self._n_results(self.op.signature(**self.static(operands, static)))
        return [*super().kept(outputs[:n], operands, static), *outputs[n:]]

    def saved(self, read: Sequence[bool], kept: Sequence[Tensor]) -> list[Tensor | None]:
        # rows of the halo follow the tensors that the operator saves
        n = builtins.sum(read)
        return [*super().saved(read, kept[:n]), *kept[n:]]

    def _n_results(self, signature: Any) -> int:
        """Number of results of the operator itself: outputs and further saved arrays."""
        own = [
            needed and name not in signature.outputs
            for name, needed in zip(signature.saved, signature.needed, strict=True)
        ]
        return len(signature.outputs) + builtins.sum(own)


def _refuse_numberless(doing: str, args: Sequence[Any]) -> None:
    """Raise NotImplementedError for tensors that no process could send."""
    fake = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
    for x in args:
        if isinstance(x, list | tuple):
            _refuse_numberless(doing, x)
        elif isinstance(x, Tensor) and (x.is_meta or isinstance(x, fake)):
            raise NotImplementedError(
                f"{doing}: on many processes there are no tensors without numbers, as torch.export "
                "and the device 'meta' have them"
            )


class _Exchange(torch.autograd.Function):
    """The exchange of a halo, or its adjoint."""

    @staticmethod
    def forward(graph: DistributedGraph, back: bool, rows: Tensor) -> Tensor:
        _refuse_numberless("halo", [rows])
        if back:
            (out,) = exchange.vjp(rows, graph=graph)
        else:
            out = exchange.forward(rows, graph=graph)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.graph, ctx.back, _ = inputs

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Any, ...]:
        return None, None, _Exchange.apply(ctx.graph, not ctx.back, cotangent)

    @staticmethod
    def jvp(ctx: Any, graph: None, back: None, tangent: Tensor) -> Tensor:
        out: Tensor = _Exchange.apply(ctx.graph, ctx.back, tangent)
        return out

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        return rows_of_batch(_Exchange.apply, info.batch_size, in_dims, arguments)


class _Total(torch.autograd.Function):
    """Sum over the processes; its adjoint gives every process the same cotangent."""

    @staticmethod
    def forward(comm: Communicator, back: bool, local: Tensor) -> Tensor:
        if back:
            return local.clone()
        _refuse_numberless("sum", [local])
        error = None
        if local.dtype is torch.bool:
            error = TypeError(f"sum: needs an array of numbers, got bool{list(local.shape)}")
        (total,) = _packed(comm, [local], error, "sum of {}")
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.comm, ctx.back, _ = inputs

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Any, ...]:
        return None, None, _Total.apply(ctx.comm, not ctx.back, cotangent)

    @staticmethod
    def jvp(ctx: Any, comm: None, back: None, tangent: Tensor) -> Tensor:
        out: Tensor = _Total.apply(ctx.comm, ctx.back, tangent)
        return out

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        return rows_of_batch(_Total.apply, info.batch_size, in_dims, arguments)


@not_compiled
def halo(h_own: Tensor, *, graph: DistributedGraph) -> Tensor:
    """`gnograd.halo` on tensors: own rows, followed by those of the halo.

    Differentiable any number of times, and in forward mode.

    Parameters
    ----------
    h_own : Tensor, (n_own, ...)
    graph : DistributedGraph

    Returns
    -------
    Tensor, (n_own + n_halo, ...)
    """
    out: Tensor = _Exchange.apply(graph, False, h_own)
    return out


@not_compiled
def sum(comm: Communicator, local: Tensor) -> Tensor:
    """`gnograd.distributed.sum` of a tensor."""
    out: Tensor = _Total.apply(comm, False, local)
    return out


@not_compiled
def shared(comm: Communicator, array: Tensor) -> Tensor:
    """`gnograd.distributed.shared` of a tensor."""
    out: Tensor = _Total.apply(comm, True, array)
    return out


def mean(comm: Communicator, rows: Tensor) -> Tensor:
    """`gnograd.distributed.mean` of a tensor."""
    n = reductions.total_rows(comm, "mean", rows)
    return _as_given(sum(comm, _wide(rows).sum(0)) / n, rows)


def norm(comm: Communicator, rows: Tensor) -> Tensor:
    """`gnograd.distributed.norm` of a tensor."""
    return _as_given(sum(comm, _wide(rows).square().sum()).sqrt(), rows)


def _wide(rows: Tensor) -> Tensor:
    """Rows in a type in which neither sums over all of them nor squares overflow."""
    if rows.dtype in HALF:
        return rows.float()
    return rows if rows.is_floating_point() else rows.double()


def _as_given(result: Tensor, rows: Tensor) -> Tensor:
    return result.to(rows.dtype) if rows.is_floating_point() else result


def sum_gradients(comm: Communicator, gradients: Any) -> Any:
    """`gnograd.distributed.sum_gradients` of tensors, of a module, or of an optimizer."""
    if isinstance(gradients, torch.nn.Module | torch.optim.Optimizer):
        every = (
            gradients.parameters()
            if isinstance(gradients, torch.nn.Module)
            else [p for group in gradients.param_groups for p in group["params"]]
        )
        parameters = [p for p in every if p.requires_grad]
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        for parameter, total in zip(parameters, _packed(comm, parts), strict=True):
            parameter.grad = total
        return gradients
    if isinstance(gradients, Tensor):
        return sum_gradients(comm, [gradients])[0]
    names, tensors = _named(gradients)
    error: Exception | None = None
    for name, x in zip(names, tensors, strict=True):
        if isinstance(x, torch.nn.Parameter):
            error = TypeError(
                f"sum_gradients: gradients[{name!r}] is a parameter, needs its gradient; give the "
                "module or the optimizer to sum those of all parameters"
            )
        elif x is not None and not isinstance(x, Tensor):
            error = TypeError(
                f"sum_gradients: gradients[{name!r}] is of type {type(x).__name__}, needs a tensor"
            )
    sums = _packed(comm, [] if error else tensors, error)
    if isinstance(gradients, Mapping):
        return dict(zip(names, sums, strict=True))
    return tuple(sums) if isinstance(gradients, tuple) else sums


def _named(gradients: Any) -> tuple[Sequence[Any], list[Any]]:
    if isinstance(gradients, Mapping):
        return list(gradients), list(gradients.values())
    return range(len(gradients)), list(gradients)


def _packed(
    comm: Communicator,
    tensors: Sequence[Tensor | None],
    error: Exception | None = None,
    doing: str = "sum_gradients({})",
) -> list[Any]:
    """Sums of tensors, in one message; through the host if messages cannot lie on a GPU."""
    given = [None if x is None else x.detach() for x in tensors]
    device = next((x.device for x in given if x is not None), torch.device("cpu"))
    through_host = device.type != "cpu" and not comm.takes_gpu
    if through_host:
        given = [None if x is None else x.cpu() for x in given]
    sums = reductions.packed(comm, given, torch.cat, torch.empty_like, error, doing)
    return [None if x is None else x.to(device) for x in sums] if through_host else sums
