# SPDX-License-Identifier: MIT
"""Short ways through PyTorch's dispatcher for custom operators on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gnograd.torch.eager import is_plain, leave_to_python

try:
    from torch._library.autograd import make_autograd_impl
except ImportError:  # a private function, which a later PyTorch may not have
    make_autograd_impl = None  # type: ignore[assignment]

__all__ = ["kernels", "without_gradients"]

kernels = torch.library.Library("gnograd", "FRAGMENT")
"""Where kernels are registered without PyTorch's wrapper around each call."""


def without_gradients(operator: Any, known: Callable[..., list[Tensor] | None]) -> None:
    """Let a custom operator compute at once where nothing records gradients.

    The passes of a compiled program are such places. PyTorch's rule would send the call through
    the dispatcher a second time, with all arguments.

    Parameters
    ----------
    operator : CustomOpDef
    known : callable
        Results for the arguments of the operator, None if it has to be called.
    """
    if make_autograd_impl is None:
        return
    rule = make_autograd_impl
    in_full: Callable[..., Any] | None = None

    def at_once(keys: Any, *args: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled() and not named and is_plain():
            results = known(*args)
            if results is not None:
                return results
        nonlocal in_full
        if in_full is None:  # not at import, which dozens of these would slow down
            in_full = rule(operator._opoverload, operator)
        return in_full(keys, *args, **named)

    name = operator._qualname.partition("::")[2]
    kernels.impl(name, leave_to_python(at_once), "AutogradCPU", with_keyset=True)
