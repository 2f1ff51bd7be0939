# SPDX-License-Identifier: MIT
"""Arguments that are given by name only, and were given by position in an earlier release."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["named_now"]

F = TypeVar("F", bound=Callable[..., Any])


def named_now(*names: str) -> Callable[[F], F]:
    """Refuse arguments by position that have to be named now, with their names.

    A position that meant one thing in NumPy's front and another in PyTorch's made another graph
    without a word; the error says what to write instead.

    Parameters
    ----------
    *names : str
        The arguments behind the last one by position, as they followed it in 0.1.
    """

    def decorate(function: F) -> F:
        parameters = inspect.signature(function).parameters.values()
        most = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            given = len(args) - most
            if 0 < given <= len(names):
                wrong = names[:given]
                raise TypeError(
                    f"{_label(function, args)}: {' and '.join(wrong)} by position, needs "
                    f"{', '.join(f'{name}=...' for name in wrong)}"
                )
            return function(*args, **kwargs)

        return cast(F, checked)

    return decorate


def _label(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    owner = args[0] if args and isinstance(args[0], type) else None
    return function.__name__ if owner is None else f"{owner.__name__}.{function.__name__}"
