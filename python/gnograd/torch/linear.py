# SPDX-License-Identifier: MIT
"""A linear layer that may learn the width of its input from the first one."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

__all__ = ["Linear", "glorot_"]


class Linear(nn.Linear):
    """`torch.nn.Linear` with two things that layers of PyG need.

    Parameters
    ----------
    in_features : int
        Width of the input; -1 leaves the weight uninitialised until the first input, or a state
        dict with the weight.
    out_features : int
    bias : bool
    glorot : bool
        Draw the weight by Glorot's rule.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, glorot: bool = False
    ) -> None:
        nn.Module.__init__(self)  # nn.Linear's needs the width
        self.in_features, self.out_features, self.glorot = in_features, out_features, glorot
        self.weight = (
            UninitializedParameter()
            if in_features < 0
            else nn.Parameter(torch.empty(out_features, in_features))
        )
        self.register_parameter("bias", nn.Parameter(torch.empty(out_features)) if bias else None)
        self.reset_parameters()

    @property
    def lazy(self) -> bool:
        """True while the width of the input is unknown."""
        return isinstance(self.weight, UninitializedParameter)

    def reset_parameters(self) -> None:
        """Draw new parameters, in the order and from the distributions of PyG."""
        if self.lazy:
            return
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        if self.glorot:
            glorot_(self.weight)
        else:
            nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer to (..., in_features)."""
        if self.lazy:
            self._materialize(input.shape[-1])
            self.reset_parameters()
        return super().forward(input)

    def _materialize(self, in_features: int) -> None:
        self.in_features = in_features
        if isinstance(self.weight, UninitializedParameter):
            self.weight.materialize((self.out_features, in_features))

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        if not self.lazy:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            return
        destination[prefix + "weight"] = self.weight  # there is nothing to detach yet
        if self.bias is not None:
            destination[prefix + "bias"] = self.bias if keep_vars else self.bias.detach()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *arguments: Any
    ) -> None:
        weight = state_dict.get(prefix + "weight")
        if isinstance(weight, UninitializedParameter):
            dtype, device = self.weight.dtype, self.weight.device
            self.in_features = -1
            self.weight = UninitializedParameter(device=device, dtype=dtype)  # type: ignore[call-arg]
        elif weight is not None and self.lazy:
            self._materialize(weight.shape[-1])
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def glorot_(parameter: Tensor) -> None:
    """Draw a parameter by Glorot's rule; the last two axes are fan-in and fan-out."""
    bound = math.sqrt(6 / (parameter.shape[-2] + parameter.shape[-1]))
    nn.init.uniform_(parameter, -bound, bound)
