# SPDX-License-Identifier: MIT
"""Names, signatures and documentation of the operators in other frameworks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gnograd
from gnograd.faces.operator import Function

__all__ = ["operators", "present"]


def operators() -> list[Function[Any, Any]]:
    """All operators that the package exports, by name."""
    exported = {name: value for name, value in vars(gnograd).items() if isinstance(value, Function)}
    return [exported[name] for name in sorted(exported)]


def present(function: Callable[..., Any], op: Function[Any, Any], module: str, array: str) -> None:
    """Copy name, signature and docstring of an operator to a framework's function.

    Parameters
    ----------
    function : callable
    op : Function
    module : str
        Module in which users, and pickle, find the function under the name of the operator.
    array : str
        Name of the framework's array type, in place of "Array".
    """
    declared = inspect.signature(op)

    def in_framework(annotation: Any) -> str:
        return str(annotation).replace("Array", array)

    function.__name__ = function.__qualname__ = op.name
    function.__module__ = module
    function.__doc__ = f"`gnograd.{op.name}` with {array} for arrays.\n\n{op.__doc__}"
    function.__signature__ = declared.replace(  # type: ignore[attr-defined]
        parameters=[
            p.replace(annotation=in_framework(p.annotation)) for p in declared.parameters.values()
        ],
        return_annotation=in_framework(declared.return_annotation),
    )
