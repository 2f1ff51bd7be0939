# SPDX-License-Identifier: MIT
"""The operators of gnograd on JAX arrays."""

from gnograd.faces.fronts import operators
from gnograd.jax.adapter import jax_operator

__all__: list[str] = []

for _op in operators():
    globals()[_op.name] = jax_operator(_op)
    __all__.append(_op.name)
