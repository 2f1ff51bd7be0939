# SPDX-License-Identifier: MIT
"""The GPUs that tests can use: real ones, or the host's SIMT build of the kernels.

``make test`` names the SIMT build in GNOGRAD_CUDA_LIBRARY. A library that is named and has no
device is a mistake, which must not pass for a machine without a GPU: this is then no module.
"""

import os

import pytest

from gnograd.backends import cuda_library, has_cuda

GPUS, _WHY = cuda_library.devices()
if os.environ.get("GNOGRAD_CUDA_LIBRARY") and not GPUS:
    raise RuntimeError(
        f"GNOGRAD_CUDA_LIBRARY is {os.environ['GNOGRAD_CUDA_LIBRARY']}, which has no device: {_WHY}"
    )
needs_gpu = pytest.mark.skipif(
    not GPUS,
    reason="no GPU" if has_cuda() else "no CUDA kernels in this build, and no GNOGRAD_CUDA_LIBRARY",
)
on_host = pytest.mark.skipif("host (SIMT)" not in GPUS, reason="needs the SIMT build")
