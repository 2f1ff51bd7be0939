# SPDX-License-Identifier: MIT
"""``pylibcugraphops.pytorch``: graphs of tensors, and operators on them with autograd.

Importing this package imports torch.
"""

from gnograd.compat.pylibcugraphops.pytorch import graph, operators
from gnograd.compat.pylibcugraphops.pytorch.graph import (
    CSC,
    BipartiteCSC,
    HeteroCSC,
    SampledCSC,
    SampledHeteroCSC,
    StaticCSC,
    StaticHeteroCSC,
)

__all__ = [
    "CSC",
    "BipartiteCSC",
    "HeteroCSC",
    "SampledCSC",
    "SampledHeteroCSC",
    "StaticCSC",
    "StaticHeteroCSC",
    "graph",
    "operators",
]
