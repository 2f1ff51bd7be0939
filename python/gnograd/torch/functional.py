# SPDX-License-Identifier: MIT
"""The operators of gnograd on tensors."""

from gnograd.faces.fronts import operators
from gnograd.torch.adapter import torch_operator
from gnograd.torch.distributed import on_parts

__all__: list[str] = []

for _op in operators():
    globals()[_op.name] = torch_operator(_op, on_parts(_op))
    __all__.append(_op.name)
