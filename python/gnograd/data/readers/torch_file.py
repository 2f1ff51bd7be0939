# SPDX-License-Identifier: MIT
"""Tensors of a PyTorch file, by its loader that makes nothing but tensors and containers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, numeric, reason
from gnograd.data.readers.library import EXPANSION, library


def contents(path: Path) -> Contents:
    """All tensors of a file: a dictionary, in which others may be, or one tensor.

    Those of a dictionary in a dictionary are called ``outer.inner``, those of a list ``list.0``.

    Raises
    ------
    DataError
        Also where the file asks for anything else to be made of it.
    """
    torch = library("torch", path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({reason(error)})") from error
    except Exception as error:
        # PyTorch's message would advise to load it without care
        raise DataError(
            f"{path}: cannot be read (damaged, or it holds other things than tensors, which are "
            "never loaded; store a dictionary of tensors)"
        ) from error
    size = path.stat().st_size
    arrays: dict[str, NDArray[Any]] = {}
    unused: dict[str, str] = {}

    def take(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                take(f"{name}.{key}" if name else str(key), item)
        elif isinstance(value, list | tuple):
            for k, item in enumerate(value):
                take(f"{name}.{k}" if name else str(k), item)
        elif isinstance(value, torch.Tensor):
            # views may claim more numbers than there are in the file
            if value.layout != torch.strided or value.is_quantized:
                unused[name or "tensor"] = "it is sparse or quantized; store it dense"
                return
            if value.nelement() * value.element_size() > EXPANSION * size:
                unused[name or "tensor"] = "it claims to be larger than the file can hold"
                return
            dense = value.detach().float() if value.dtype is torch.bfloat16 else value.detach()
            array = dense.resolve_conj().resolve_neg().numpy()
            if why := numeric(array):
                unused[name or "tensor"] = why
            else:
                arrays[name or "tensor"] = array
        elif isinstance(value, bool | int | float):
            arrays[name or "number"] = np.array(value)
        else:
            unused[name] = f"it is of type {type(value).__name__}"

    take("", found)
    return Contents(path, "PyTorch", arrays, unused)
