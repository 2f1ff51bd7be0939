# SPDX-License-Identifier: MIT
"""Any gnograd operator as a PyTorch operator.

Each of the four faces becomes a custom operator ``gnograd::<name>_<face>`` on tensors, so that
`torch.compile` can put it into a graph without looking inside. Derivatives need no more than the
faces themselves: the gradient of forward is vjp; the gradient of vjp is jvp for the cotangent
and hvp for the inputs. The same two rules are given twice, to the dispatcher (for
`torch.compile`, `custom_operators.py`) and to `torch.autograd.Function` (for eager mode, where it
brings forward-mode differentiation and the transforms of `torch.func` besides, `derivatives.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gnograd.faces.fronts import present
from gnograd.faces.operator import Function, Operator, spread
from gnograd.graphs.in_parts import GraphInParts
from gnograd.torch.custom_operators import Face, Faces, Tensors
from gnograd.torch.derivatives import functions
from gnograd.torch.eager import eager, eager_function, is_plain
from gnograd.torch.graph import Graph, arrays_of
from gnograd.torch.half_precision import autocast, widened

__all__ = ["check_tensors", "torch_operator"]

_DEVICES = ("cpu", "cuda", "meta")


def torch_operator(
    op: Function[Any, Any], in_parts: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Make a PyTorch function of a gnograd operator.

    Parameters
    ----------
    op : Function or Operator
        A function has no derivatives, and gives tensors without gradients.
    in_parts : callable, optional
        Function for graphs distributed over processes.

    Returns
    -------
    callable
        Takes tensors where `op` takes arrays, and the same static arguments; where it takes
        integers, tensors of any integer type. Tensors of the right type are not copied; those on a
        GPU are computed on the current stream. float16 and bfloat16 are computed in float32 copies
        and returned in their type where there are no kernels for them, which are on GPUs only.
        Differentiable twice in reverse mode, once in forward mode; works under
        `torch.compile(fullgraph=True)`, `torch.vmap` (a loop over the batch) and `torch.autocast`:
        there inputs of half precision make all inputs those of the region where there are kernels
        for them, else float32; float64 stays. Beside others in half precision, what an operator
        takes in the type of its arithmetic (positions, quadrature weights) is float32; if it is in
        half precision too, it is made so.
    """
    apply, directly = _ways(op)

    def function(*inputs: Any, **arguments: Any) -> Any:
        graph: Any = arguments.get("graph")
        if in_parts is not None and isinstance(graph, GraphInParts):
            if torch._C._get_tracing_state() is not None:
                _check_traced(op, arguments)
            return in_parts(inputs, arguments)
        of_tensors = isinstance(graph, Graph)
        if not torch.compiler.is_compiling() and is_plain():
            if of_tensors and graph.is_lendable:
                arguments["graph"] = graph.lent
            outputs = directly(inputs, arguments, of_tensors)
            if outputs is not None:
                return op.returned(outputs, arguments)
        if torch._C._get_tracing_state() is not None:
            _check_traced(op, arguments)
        if of_tensors:
            arguments["graph"] = graph.sizes
        operands, static = op.arrange(inputs, arguments)
        check_tensors(op, operands)
        operands = widened(op, autocast(op, operands, static), static)
        if "graph" in static:
            graph = graph if of_tensors else static["graph"]
            static["graph"] = [] if graph is None else _tensors(op, operands, graph)
        outputs = apply(operands, list(static.values()))
        return op.returned(outputs, arguments)

    present(function, op, "gnograd.torch", "Tensor")
    return function


def _check_traced(op: Function[Any, Any], arguments: dict[str, Any]) -> None:
    """Raise an error for arguments that `torch.jit.trace` cannot record: graphs, and sizes."""
    names = (*op.inputs, *op.arrays)
    sizes = (x for name, x in arguments.items() if name not in names)
    if arguments.get("graph") is not None or any(isinstance(x, Tensor) for x in sizes):
        raise NotImplementedError(
            f"{op.name}: torch.jit.trace cannot record it; torch.export and torch.compile can"
        )


def check_tensors(op: Function[Any, Any], operands: Sequence[Any]) -> None:
    """Raise TypeError for an operand that is no tensor, or on a device without kernels."""
    for name, x in zip((*op.inputs, *op.arrays), operands, strict=True):
        if x is not None and not isinstance(x, Tensor):
            raise TypeError(f"{op.name}: {name} is of type {type(x).__name__}, needs a tensor")
        if x is not None and x.device.type not in _DEVICES:
            raise TypeError(
                f"{op.name}: {name} is on {x.device}, needs a tensor on the CPU or an NVIDIA GPU"
            )


def _ways(op: Function[Any, Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Two functions that call an operator: through the dispatcher, and past it in eager mode."""
    if not isinstance(op, Operator):
        return Face(op).apply, eager_function(op)
    faces = Faces(op)
    apply, vjp = functions(faces)

    def vjp_of_inputs(
        kept: list[Tensor],
        wrt: Sequence[bool],
        static: dict[str, Any],
        cotangents: Tensors,
        inputs: Tensors,
    ) -> list[Tensor | None]:
        ordered = [static[name] for name in faces.plain]
        if "graph" in faces.plain:
            graph = static["graph"]
            device = next(x.device for x in inputs if x is not None)
            arrays = [] if graph is None else list(arrays_of(graph, device))
            ordered[faces.plain.index("graph")] = arrays
        operands = [*inputs, *[None] * len(op.arrays)]
        return spread(wrt, vjp(kept, wrt, ordered, cotangents, operands))

    return apply, eager(op, vjp_of_inputs)


def _tensors(op: Function[Any, Any], operands: Tensors, graph: Any) -> list[Tensor | None]:
    """Tensors of a graph for custom operators, on the device of the first operand."""
    device = next(x.device for x in operands if x is not None)
    if isinstance(graph, Graph) and graph.device != device:
        raise TypeError(
            f"{op.name}: graph is on {graph.device}, but the arrays are on {device}; "
            "graph.to(device) moves it"
        )
    return list(arrays_of(graph, device))
