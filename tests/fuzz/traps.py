# SPDX-License-Identifier: MIT
"""Valid calls of operators at random, stopped at divisions by zero, overflows, invalid operations.

python tests/fuzz/traps.py N [OPERATOR ...]     N calls of each, or of those named
"""

import ctypes
import faulthandler
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import gnograd as gg

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
from trial import Trial  # noqa: E402

import operators  # noqa: E402

INVALID, DIVIDE_BY_ZERO, OVERFLOW = 0x01, 0x04, 0x08
"""FE_* of x86-64."""
SMALL = {"agg_concat", "agg_weighted", "radial_basis", "select_blocks", "selected_attention"}
"""Operators with inputs that have a sign or a range."""


def called_with_traps(libm, name, seed, dtype):
    """Call all faces: a SIGFPE ends the process."""
    trial = Trial(seed, name)
    trial.dtype = np.dtype(dtype)
    call = operators.make(trial, name)
    if call.ghost:
        return
    # exponentials of large numbers are infinite
    scale = 1 if name in SMALL else (1, 30, 300)[seed % 3]
    inputs = [None if x is None else np.asarray(scale * x, dtype) for x in call.inputs]
    call = replace(call, inputs=tuple(inputs))
    for face in call.faces:
        print(name, seed, dtype, face, call.static, flush=True)
        libm.feenableexcept(INVALID | DIVIDE_BY_ZERO | OVERFLOW)
        operators.invoke(trial, call, face, call.arguments(face))
        libm.fedisableexcept(INVALID | DIVIDE_BY_ZERO | OVERFLOW)


if __name__ == "__main__":
    faulthandler.enable()
    gg.set_num_threads(1)  # traps belong to a thread
    libm = ctypes.CDLL("libm.so.6")
    for name in sys.argv[2:] or operators.NAMES:
        for seed in range(int(sys.argv[1])):
            for dtype in ("float32", "float64"):
                called_with_traps(libm, name, seed, dtype)
