"""Differentiable message passing and block-sparse attention for neural-operator PDE codes."""
