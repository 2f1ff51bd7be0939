# SPDX-License-Identifier: MIT
"""Native sparse attention with the interface of Ascend's operators, and their error codes.

`nsa_selected_attention` and `nsa_selected_attention_grad` take the arguments of
aclnnNsaSelectedAttention and aclnnNsaSelectedAttentionGrad and check the same limits. The functions
``npu_nsa_*`` have the names and arguments of torch_npu, in its order.

Arrays are float16, bfloat16, float32 or float64: NumPy's, PyTorch tensors on any device and, in
the first two functions, any array that shares its memory. Results are tensors for tensors, with
first derivatives. The CPU computes 16-bit numbers in float32, a GPU multiplies them on tensor
cores. Beyond the limits, and for second derivatives, use `gnograd.selected_attention` and related
operators.
"""

from gnograd.compat.ascend.compress import (
    npu_nsa_compress,
    npu_nsa_compress_grad,
    npu_nsa_compress_infer,
)
from gnograd.compat.ascend.compress_attention import (
    npu_nsa_compress_attention,
    npu_nsa_compress_attention_infer,
)
from gnograd.compat.ascend.errors import InvalidParameterError, NullPointerError
from gnograd.compat.ascend.select_attention import (
    npu_nsa_select_attention,
    npu_nsa_select_attention_grad,
    npu_nsa_select_attention_infer,
)
from gnograd.compat.ascend.selected import nsa_selected_attention, nsa_selected_attention_grad

__all__ = [
    "InvalidParameterError",
    "NullPointerError",
    "npu_nsa_compress",
    "npu_nsa_compress_attention",
    "npu_nsa_compress_attention_infer",
    "npu_nsa_compress_grad",
    "npu_nsa_compress_infer",
    "npu_nsa_select_attention",
    "npu_nsa_select_attention_grad",
    "npu_nsa_select_attention_infer",
    "nsa_selected_attention",
    "nsa_selected_attention_grad",
]
