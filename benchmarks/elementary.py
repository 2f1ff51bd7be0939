# SPDX-License-Identifier: MIT
"""Elementary functions of the tape beside NumPy and PyTorch: time, and error beside it.

Arrays of 32,768 numbers, which stay in the cache; all make a new array of the result. Contestants
take turns, a time is the median of runs of many calls. NumPy has no gelu and silu: there it stands
for x Phi(x) and x expit(x) with SciPy.

The error is the largest that was seen, in units in the last place of the result, against a wider
type: long double, and mpmath for gelu.

    python benchmarks/elementary.py [--runs 25] [--clock processor] [--json FILE]

Needs PyTorch, SciPy and mpmath, which PyTorch brings.
"""

import argparse
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import torch
from results import CLOCKS, Results, add_clock, add_option
from scipy import special

import gnograd as gg
from calls import microseconds
from gnograd import autodiff as ad

N = 32_768
Function = Callable[[Any], Any]


def exact_gelu(x: np.ndarray) -> np.ndarray:
    with mpmath.workdps(40):
        products = (t * mpmath.ncdf(t) for t in map(mpmath.mpf, x.astype(float)))
        return np.array([np.longdouble(mpmath.nstr(product, 25)) for product in products])


# least and greatest argument; in a wider type, the tape's, NumPy's, PyTorch's
FUNCTIONS: dict[str, tuple[float, float, Function, Function, Function, Function]] = {
    "exp": (-80, 80, np.exp, ad.exp, np.exp, torch.exp),
    "log": (0, 100, np.log, ad.log, np.log, torch.log),
    "tanh": (-5, 5, np.tanh, ad.tanh, np.tanh, torch.tanh),
    "sin": (-20, 20, np.sin, ad.sin, np.sin, torch.sin),
    "cos": (-20, 20, np.cos, ad.cos, np.cos, torch.cos),
    "gelu": (
        -5, 5, exact_gelu, ad.gelu, lambda x: x * special.ndtr(x), torch.nn.functional.gelu
    ),
    "silu": (
        -20, 20, lambda x: x / (1 + np.exp(-x)), ad.silu, lambda x: x * special.expit(x),
        torch.nn.functional.silu,
    ),
}  # fmt: skip


def largest_error(result: np.ndarray, exact: np.ndarray) -> float:
    """Largest error in units in the last place."""
    last_place = np.spacing(np.abs(exact.astype(result.dtype)))
    return float(np.max(np.abs(result - exact) / last_place))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=25)
    add_clock(parser)
    add_option(parser)
    options = parser.parse_args()
    results = Results(options.json)
    torch.set_num_threads(1)
    gg.set_num_threads(1)
    print(f"{'':14} " + " ".join(f"{name:>20}" for name in ("gnograd", "NumPy", "PyTorch")))
    for dtype in ("float32", "float64"):
        tape = ad.Tape(dtype)
        for name, (low, high, wide, ours, numpy, pytorch) in FUNCTIONS.items():
            x = np.random.default_rng(0).uniform(low, high, N).astype(dtype)
            constant, tensor = tape.constant(x), torch.from_numpy(x)

            def on_tape(ours=ours, constant=constant, tape=tape):
                with tape.step():
                    return ours(constant)

            with tape.step():
                values = {
                    "gnograd": ours(constant).value,
                    "NumPy": numpy(x),
                    "PyTorch": pytorch(tensor).numpy(),
                }
            exact = wide(x.astype(np.longdouble))
            taken = microseconds(
                {
                    "gnograd": on_tape,
                    "NumPy": lambda x=x, numpy=numpy: numpy(x),
                    "PyTorch": lambda tensor=tensor, pytorch=pytorch: pytorch(tensor),
                },
                options.runs,
                CLOCKS[options.clock],
            )
            cells = []
            for who, time_of_one in taken.items():
                ulp, ratio = largest_error(values[who], exact), time_of_one / taken["gnograd"]
                cells.append(f"{1e3 * time_of_one / N:5.2f} ns {ratio:4.1f}x {ulp:6.1f}")
                results.add(
                    name, dtype, who, threads=1, seconds=1e-6 * time_of_one, ratio=ratio, ulp=ulp
                )
            print(f"{name:6} {dtype} " + " ".join(cells), flush=True)


if __name__ == "__main__":
    main()
