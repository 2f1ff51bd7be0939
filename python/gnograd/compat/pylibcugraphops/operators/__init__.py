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

from gnograd.compat.pylibcugraphops.operators.aggregation import (
    agg_concat_e2n_bwd,
    agg_concat_e2n_fwd,
    agg_concat_n2n_bwd,
    agg_concat_n2n_e2n_bwd,
    agg_concat_n2n_e2n_fwd,
    agg_concat_n2n_fwd,
    agg_concat_weighted_n2n_bwd,
    agg_concat_weighted_n2n_fwd,
    agg_simple_e2n_bwd,
    agg_simple_e2n_fwd,
    agg_simple_n2n_bwd,
    agg_simple_n2n_e2n_bwd,
    agg_simple_n2n_e2n_fwd,
    agg_simple_n2n_fwd,
    agg_weighted_n2n_bwd,
    agg_weighted_n2n_fwd,
)
from gnograd.compat.pylibcugraphops.operators.directed import (
    agg_dmpnn_e2e_bwd,
    agg_dmpnn_e2e_fwd,
)
from gnograd.compat.pylibcugraphops.operators.edge_updates import (
    update_efeat_e2e_concat_bwd,
    update_efeat_e2e_concat_fwd,
    update_efeat_e2e_sum_bwd,
    update_efeat_e2e_sum_fwd,
)
from gnograd.compat.pylibcugraphops.operators.gat import (
    mha_gat_n2n_bwd_bf16_bf16_bf16_fp32,
    mha_gat_n2n_bwd_bf16_bf16_fp32_fp32,
    mha_gat_n2n_bwd_bf16_fp32_fp32_fp32,
    mha_gat_n2n_bwd_fp16_fp16_fp16_fp32,
    mha_gat_n2n_bwd_fp16_fp16_fp32_fp32,
    mha_gat_n2n_bwd_fp16_fp32_fp32_fp32,
    mha_gat_n2n_bwd_fp32_fp32_fp32_fp32,
    mha_gat_n2n_efeat_bwd_bf16_bf16_bf16_fp32,
    mha_gat_n2n_efeat_bwd_bf16_bf16_fp32_fp32,
    mha_gat_n2n_efeat_bwd_bf16_fp32_fp32_fp32,
    mha_gat_n2n_efeat_bwd_fp16_fp16_fp16_fp32,
    mha_gat_n2n_efeat_bwd_fp16_fp16_fp32_fp32,
    mha_gat_n2n_efeat_bwd_fp16_fp32_fp32_fp32,
    mha_gat_n2n_efeat_bwd_fp32_fp32_fp32_fp32,
    mha_gat_n2n_efeat_fwd_bf16_fp32,
    mha_gat_n2n_efeat_fwd_fp16_fp32,
    mha_gat_n2n_efeat_fwd_fp32_fp32,
    mha_gat_n2n_fwd_bf16_fp32,
    mha_gat_n2n_fwd_fp16_fp32,
    mha_gat_n2n_fwd_fp32_fp32,
)
from gnograd.compat.pylibcugraphops.operators.gat_v2 import (
    mha_gat_v2_n2n_bwd,
    mha_gat_v2_n2n_efeat_bwd,
    mha_gat_v2_n2n_efeat_fwd,
    mha_gat_v2_n2n_fwd,
)
from gnograd.compat.pylibcugraphops.operators.kinds import (
    ActivationKind,
    AggOp,
    mha_params,
)
from gnograd.compat.pylibcugraphops.operators.relational import (
    agg_hg_basis_mfg_n2n_post_bwd,
    agg_hg_basis_mfg_n2n_post_fwd,
    agg_hg_basis_n2n_post_bwd,
    agg_hg_basis_n2n_post_fwd,
)

__all__ = [
    "ActivationKind",
    "AggOp",
    "agg_concat_e2n_bwd",
    "agg_concat_e2n_fwd",
    "agg_concat_n2n_bwd",
    "agg_concat_n2n_e2n_bwd",
    "agg_concat_n2n_e2n_fwd",
    "agg_concat_n2n_fwd",
    "agg_concat_weighted_n2n_bwd",
    "agg_concat_weighted_n2n_fwd",
    "agg_dmpnn_e2e_bwd",
    "agg_dmpnn_e2e_fwd",
    "agg_hg_basis_mfg_n2n_post_bwd",
    "agg_hg_basis_mfg_n2n_post_fwd",
    "agg_hg_basis_n2n_post_bwd",
    "agg_hg_basis_n2n_post_fwd",
    "agg_simple_e2n_bwd",
    "agg_simple_e2n_fwd",
    "agg_simple_n2n_bwd",
    "agg_simple_n2n_e2n_bwd",
    "agg_simple_n2n_e2n_fwd",
    "agg_simple_n2n_fwd",
    "agg_weighted_n2n_bwd",
    "agg_weighted_n2n_fwd",
    "mha_gat_n2n_bwd_bf16_bf16_bf16_fp32",
    "mha_gat_n2n_bwd_bf16_bf16_fp32_fp32",
    "mha_gat_n2n_bwd_bf16_fp32_fp32_fp32",
    "mha_gat_n2n_bwd_fp16_fp16_fp16_fp32",
    "mha_gat_n2n_bwd_fp16_fp16_fp32_fp32",
    "mha_gat_n2n_bwd_fp16_fp32_fp32_fp32",
    "mha_gat_n2n_bwd_fp32_fp32_fp32_fp32",
    "mha_gat_n2n_efeat_bwd_bf16_bf16_bf16_fp32",
    "mha_gat_n2n_efeat_bwd_bf16_bf16_fp32_fp32",
    "mha_gat_n2n_efeat_bwd_bf16_fp32_fp32_fp32",
    "mha_gat_n2n_efeat_bwd_fp16_fp16_fp16_fp32",
    "mha_gat_n2n_efeat_bwd_fp16_fp16_fp32_fp32",
    "mha_gat_n2n_efeat_bwd_fp16_fp32_fp32_fp32",
    "mha_gat_n2n_efeat_bwd_fp32_fp32_fp32_fp32",
    "mha_gat_n2n_efeat_fwd_bf16_fp32",
    "mha_gat_n2n_efeat_fwd_fp16_fp32",
    "mha_gat_n2n_efeat_fwd_fp32_fp32",
    "mha_gat_n2n_fwd_bf16_fp32",
    "mha_gat_n2n_fwd_fp16_fp32",
    "mha_gat_n2n_fwd_fp32_fp32",
    "mha_gat_v2_n2n_bwd",
    "mha_gat_v2_n2n_efeat_bwd",
    "mha_gat_v2_n2n_efeat_fwd",
    "mha_gat_v2_n2n_fwd",
    "mha_params",
    "update_efeat_e2e_concat_bwd",
    "update_efeat_e2e_concat_fwd",
    "update_efeat_e2e_sum_bwd",
    "update_efeat_e2e_sum_fwd",
]
