# SPDX-License-Identifier: MIT
"""PyTorch's activations, and their names in gnograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Sin", "activation_module", "activation_name"]


class Sin(nn.Module):
    """``sin(x)``, element by element."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the sine."""
        return x.sin()


_FUNCTIONS: dict[Any, str] = {
    F.gelu: "gelu",
    F.relu: "relu",
    F.silu: "silu",
    torch.relu: "relu",
    torch.sin: "sin",
    torch.tanh: "tanh",
    F.tanh: "tanh",
}
_MODULES: dict[type[nn.Module], str] = {
    nn.GELU: "gelu",
    nn.Identity: "identity",
    nn.ReLU: "relu",
    nn.SiLU: "silu",
    nn.Tanh: "tanh",
    Sin: "sin",
}
_BY_NAME: dict[str, type[nn.Module]] = {
    **{name: module for module, name in _MODULES.items()},
    "elu": nn.ELU,
    "leaky_relu": nn.LeakyReLU,
    "prelu": nn.PReLU,
    "selu": nn.SELU,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
}


def activation_name(activation: Any) -> str | None:
    """Name of a module or function among the activations of gnograd's operators, or None."""
    if isinstance(activation, nn.Module):
        if getattr(activation, "approximate", "none") != "none":
            return None
        return _MODULES.get(type(activation))
    return _FUNCTIONS.get(activation)


def activation_module(label: str, name: str) -> nn.Module:
    """Make a module of an activation from its name.

    Raises
    ------
    ValueError
        Unknown name; the message begins with `label`.
    """
    kind = _BY_NAME.get(name.lower())
    if kind is None:
        names = ", ".join(map(repr, sorted(_BY_NAME)))
        raise ValueError(f"{label} is {name!r}, needs one of {names}")
    return kind(0.1) if kind is nn.LeakyReLU else kind()
