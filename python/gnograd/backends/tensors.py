# SPDX-License-Identifier: MIT
"""NumPy arrays in the memory of PyTorch's tensors, without an import of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["numpy_of"]


def numpy_of(tensor: Any) -> NDArray[Any]:
    """NumPy array in the memory of a tensor on the CPU.

    ``Tensor.numpy`` forbids that the tensor's memory is resized, for good. FSDP resizes that of
    parameters on every pass.

    Parameters
    ----------
    tensor : torch.Tensor

    Returns
    -------
    ndarray
        Of the tensor's shape and type; writable.

    Raises
    ------
    TypeError, RuntimeError
        PyTorch's, for tensors without memory of their own or of a type that NumPy does not have.
    """
    tensor = tensor.detach()
    # wrappers of other tensors, and zeros without memory, are left for Tensor.numpy to refuse
    if type(tensor).__module__ == "torch" and not (tensor.is_meta or tensor._is_zerotensor()):
        try:
            array = np.from_dlpack(tensor.resolve_neg())
        except (BufferError, RuntimeError):
            pass  # a type that DLPack or NumPy does not know
        else:
            if array.flags.writeable:  # from NumPy 2.1 on
                return array
    found: NDArray[Any] = tensor.numpy()
    return found
