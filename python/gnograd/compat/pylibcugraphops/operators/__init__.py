# SPDX-License-Identifier: MIT
"""``pylibcugraphops.operators``: aggregation, graph attention, updates of edges.

Each function takes its outputs first, then its inputs, the graph and the static arguments, as
pylibcugraphops 24.12 does. ``fwd`` functions are forward faces, ``bwd`` functions vjp faces of
`gnograd.agg_weighted`, `gnograd.agg_simple`, `gnograd.agg_concat`, `gnograd.agg_relational`,
`gnograd.update_edges`, `gnograd.mha_gat` and `gnograd.mha_gat_v2`, whose documentation has the
formulas and shapes.

All arrays of a call are float32, float64, float16 or bfloat16, except where a function's name says
more. The arithmetic of both half precisions is float32. Results do not depend on the
number of threads, so that the workspaces that make them deterministic are accepted, but not used.

Raises
------
ValueError
    An array that is missing, misshapen, read-only or, as an output, not contiguous; named.
TypeError
    No array, or one of another dtype or device.
"""

from gnograd.compat.pylibcugraphops.operators import (
    aggregation,
    directed,
    edge_updates,
    gat,
    gat_v2,
    kinds,
    relational,
)
from gnograd.compat.pylibcugraphops.operators.aggregation import *
from gnograd.compat.pylibcugraphops.operators.directed import *
from gnograd.compat.pylibcugraphops.operators.edge_updates import *
from gnograd.compat.pylibcugraphops.operators.gat import *
from gnograd.compat.pylibcugraphops.operators.gat_v2 import *
from gnograd.compat.pylibcugraphops.operators.kinds import *
from gnograd.compat.pylibcugraphops.operators.relational import *

__all__ = [
    *aggregation.__all__,
    *directed.__all__,
    *edge_updates.__all__,
    *gat.__all__,
    *gat_v2.__all__,
    *kinds.__all__,
    *relational.__all__,
]
