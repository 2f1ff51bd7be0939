# SPDX-License-Identifier: MIT
"""Say whether there is an NVIDIA GPU that can be used; the exit status is 1 if there is none."""

import ctypes
import sys

try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit("no GPU: there is no NVIDIA driver here; nothing was run")
count = ctypes.c_int()
status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
if status or not count.value:
    sys.exit(f"no GPU: the NVIDIA driver finds none (status {status}); nothing was run")
print(f"{count.value} GPU{'s' * (count.value > 1)}")
