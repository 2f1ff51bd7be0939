# SPDX-License-Identifier: MIT
"""Tensors in host memory that say they are on a GPU, for the host's build of the kernels.

To PyTorch itself they are CPU tensors: storage, views, autograd and custom operators work, while
gnograd takes them the way of CUDA tensors. What gnograd makes is in memory of the library, which
tells it from other memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Iterator
from types import SimpleNamespace
from unittest.mock import patch

import torch

from gnograd.backends import cuda_arrays

DEVICE = torch.device("cuda", 0)


@contextlib.contextmanager
def tensors_on_gpu(stream: int = 0, computed: bool = True) -> Iterator[SimpleNamespace]:
    """Have all tensors say so inside the block; the number of the current stream can be set.

    If nothing is computed, as where launches are left out, memory is PyTorch's.
    """
    current = SimpleNamespace(cuda_stream=stream)
    empty = torch.empty

    def in_memory_of_the_library(*shape, dtype=None, device=None, **more):
        ours = computed and device == DEVICE and not more
        size = math.prod(shape[0]) * dtype.itemsize if ours else 0
        if not size:
            return empty(*shape, dtype=dtype, **more)
        memory = cuda_arrays.Memory.allocate(size, 0, current.cuda_stream)
        buffer = (ctypes.c_char * size).from_address(memory.address)
        buffer.memory = memory  # as long as the tensor
        return torch.frombuffer(buffer, dtype=dtype).view(shape[0])

    changes = {
        "is_cuda": True,
        "is_cpu": False,
        "device": property(lambda self: DEVICE),
        "get_device": lambda self: 0,
    }
    with contextlib.ExitStack() as stack:
        for name, value in changes.items():
            stack.enter_context(patch.object(torch.Tensor, name, value))
        stack.enter_context(patch.object(torch, "empty", in_memory_of_the_library))
        for name, function in {
            "current_stream": lambda device=None: current,
            "current_device": lambda: 0,
            "device": lambda device: contextlib.nullcontext(),
        }.items():
            stack.enter_context(patch.object(torch.cuda, name, function))
        yield current
