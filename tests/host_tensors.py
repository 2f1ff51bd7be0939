# SPDX-License-Identifier: MIT
"""Tensors in host memory that say they are on a GPU, for the host's build of the kernels.

To PyTorch itself they are CPU tensors: storage, views, autograd and custom operators work, while
gnograd takes them the way of CUDA tensors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from unittest.mock import patch

import torch

DEVICE = torch.device("cuda", 0)


@contextlib.contextmanager
def tensors_on_gpu(stream: int = 0) -> Iterator[SimpleNamespace]:
    """Have all tensors say so inside the block; the number of the current stream can be set."""
    current = SimpleNamespace(cuda_stream=stream)
    empty = torch.empty

    def in_host_memory(*shape, device=None, **more):
        return empty(*shape, **more)

    changes = {
        "is_cuda": True,
        "is_cpu": False,
        "device": property(lambda self: DEVICE),
        "get_device": lambda self: 0,
    }
    with contextlib.ExitStack() as stack:
        for name, value in changes.items():
            stack.enter_context(patch.object(torch.Tensor, name, value))
        stack.enter_context(patch.object(torch, "empty", in_host_memory))
        for name, function in {
            "current_stream": lambda device=None: current,
            "current_device": lambda: 0,
            "device": lambda device: contextlib.nullcontext(),
        }.items():
            stack.enter_context(patch.object(torch.cuda, name, function))
        yield current
