# SPDX-License-Identifier: MIT
"""``pylibcugraphops.torch``, the interface for PyTorch up to 23.02."""

from gnograd.compat.pylibcugraphops.torch import autograd

__all__ = ["autograd"]
