# SPDX-License-Identifier: MIT
"""Operations of the tape, forward and backward, beside an addition and beside PyTorch.

Every operation is timed on arrays too large for the cache, float32: its value, and its value with
the gradients to all operands. An addition is what memory allows; "of add" is the time of an
addition (with as many gradients) as a fraction of the time taken, so that 100 % is as quick as
memory. Products are given as a fraction of the rate of sgemm, measured in the same run. PyTorch
does the same in the same process if it is there, and values and gradients are compared first.

    python benchmarks/tape.py [--threads 1 2] [--runs 9] [--no-peers]
                              [--clock processor] [--json FILE]
"""

import argparse
import importlib.util
import statistics
from collections.abc import Callable

import numpy as np
from gno import sgemm
from results import CLOCKS, Results, add_clock, add_option

import gnograd as gg
from gnograd import autodiff as ad

ROWS, WIDTH = 100_000, 64
PRODUCTS = {
    "512 x 512 x 512": (512, 512, 512),
    "1024 x 1024 x 1024": (1024, 1024, 1024),
    "100,000 x 64 x 64": (100_000, 64, 64),
}
N_INDICES = 300_000


def operations() -> dict[str, tuple[int, Callable, Callable]]:
    """Number of operands, on the tape, and in PyTorch; both take the module and the operands."""
    rows = np.random.default_rng(0).integers(0, ROWS, N_INDICES)

    def take(t, x):
        return x[t.from_numpy(rows)]

    return {
        "add": (2, lambda t, x, y: x + y, lambda t, x, y: x + y),
        "multiply": (2, lambda t, x, y: x * y, lambda t, x, y: x * y),
        "x * x": (1, lambda t, x: x * x, lambda t, x: x * x),
        "x ** 2": (1, lambda t, x: x**2, lambda t, x: x**2),
        "1 / x": (1, lambda t, x: 1 / x, lambda t, x: 1 / x),
        "sqrt": (1, lambda t, x: ad.sqrt(x), lambda t, x: x.sqrt()),
        "exp": (1, lambda t, x: ad.exp(x), lambda t, x: x.exp()),
        "log": (1, lambda t, x: ad.log(x), lambda t, x: x.log()),
        "sin": (1, lambda t, x: ad.sin(x), lambda t, x: x.sin()),
        "cos": (1, lambda t, x: ad.cos(x), lambda t, x: x.cos()),
        "tanh": (1, lambda t, x: ad.tanh(x), lambda t, x: x.tanh()),
        "gelu": (1, lambda t, x: ad.gelu(x), lambda t, x: t.nn.functional.gelu(x)),
        "softmax": (1, lambda t, x: ad.softmax(x, -1), lambda t, x: x.softmax(-1)),
        "sum over rows": (1, lambda t, x: ad.sum(x, 0), lambda t, x: x.sum(0)),
        "sum over columns": (1, lambda t, x: ad.sum(x, 1), lambda t, x: x.sum(1)),
        "transpose": (1, lambda t, x: ad.transpose(x), lambda t, x: x.T.contiguous()),
        "slice": (1, lambda t, x: x[:, 8:40], lambda t, x: x[:, 8:40].contiguous()),
        "gather": (1, lambda t, x: x[rows], take),
    }


Clock = Callable[[], float]


def medians(calls: dict[str, Callable], runs: int, clock: Clock) -> dict[str, float]:
    """Seconds of calls, which take turns; one of each comes before those that are timed."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(runs + 1):
        for name, call in calls.items():
            start = clock()
            call()
            times[name].append(clock() - start)
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def timed(
    found: dict[str, dict[str, Callable]], runs: int, clock: Clock
) -> dict[str, dict[str, float]]:
    """Times by contestant and face."""
    seconds: dict[str, dict[str, float]] = {who: {} for who in found}
    for face in ("forward", "training"):
        taken = medians({who: calls[face] for who, calls in found.items()}, runs, clock)
        for who in found:
            seconds[who][face] = taken[who]
    return seconds


def keep(
    results: Results,
    case: str,
    threads: int,
    seconds: dict[str, dict[str, float]],
    least: float | None = None,
) -> None:
    """Records, of products with `least`, what sgemm takes for one of them."""
    for who, taken in seconds.items():
        for face, time_of_one in taken.items():
            products_of = 1 if face == "forward" else 3
            results.add(
                case, face, who, threads=threads, seconds=time_of_one,
                ratio=time_of_one / seconds["gnograd"][face],
                share=least and products_of * least / time_of_one,
            )  # fmt: skip


def faces(operation, operands: list[np.ndarray], cotangent: np.ndarray) -> dict[str, Callable]:
    """Value, and value with gradients, on the tape; nothing of a call stays there."""
    tape = ad.Tape()
    parameters = [tape.parameter(x) for x in operands]
    constants = [tape.constant(x) for x in operands]
    weight = tape.constant(cotangent)

    def value():
        with tape.step():
            operation(None, *constants)

    def training():
        with tape.step():
            ad.sum(operation(None, *parameters) * weight).backward()

    def results():
        with tape.step():
            y = operation(None, *parameters)
            ad.sum(y * weight).backward()
            return [y.value, *(p.grad for p in parameters)]

    return {"forward": value, "training": training, "results": results}


def torch_faces(
    operation, operands: list[np.ndarray], cotangent: np.ndarray
) -> dict[str, Callable]:
    import torch

    leaves = [torch.from_numpy(x.copy()).requires_grad_() for x in operands]
    weight = torch.from_numpy(cotangent)

    def value():
        with torch.no_grad():
            return operation(torch, *leaves)

    def training():
        return torch.autograd.grad((operation(torch, *leaves) * weight).sum(), leaves)

    def results():
        return [operation(torch, *leaves).detach().numpy(), *(g.numpy() for g in training())]

    return {"forward": value, "training": training, "results": results}


def contestants(ours, theirs, operands, peers: bool) -> dict[str, dict[str, Callable]]:
    tape = ad.Tape()
    with tape.step():
        shape = ours(None, *map(tape.constant, operands)).shape
    cotangent = np.random.default_rng(2).random(shape, dtype=np.float32)
    found = {"gnograd": faces(ours, operands, cotangent)}
    if peers:
        found["PyTorch"] = torch_faces(theirs, operands, cotangent)
        results = (found[name]["results"]() for name in found)
        for a, b in zip(*results, strict=True):
            error = np.linalg.norm(a - b) / np.linalg.norm(b)
            if not error < 1e-5:
                raise SystemExit(f"PyTorch and gnograd differ by {error:.1e}")
    return found


def elementwise(threads: int, runs: int, peers: bool, clock: Clock, results: Results) -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.random((ROWS, WIDTH), dtype=np.float32) + np.float32(0.5) for _ in range(2)]
    print(
        f"\n{ROWS} x {WIDTH} float32, {threads} threads\n{'':18} {'forward':>10} {'of add':>7} "
        f"{'training':>10} {'of add':>7} {'PyTorch':>16}"
    )
    add: dict[str, float] = {}
    for name, (n, ours, theirs) in operations().items():
        found = contestants(ours, theirs, arrays[:n], peers)
        seconds = timed(found, runs, clock)
        keep(results, name, threads, seconds)
        mine = seconds["gnograd"]
        add = add or mine
        cells = " ".join(
            f"{1e3 * mine[face]:7.1f} ms {100 * add[face] / mine[face]:5.0f} %" for face in mine
        )
        print(f"{name:18} {cells}{beside(seconds)}", flush=True)


def beside(seconds: dict[str, dict[str, float]]) -> str:
    """PyTorch's times as multiples of the tape's."""
    if "PyTorch" not in seconds:
        return ""
    return "".join(
        f"{seconds['PyTorch'][face] / taken:7.2f}x" for face, taken in seconds["gnograd"].items()
    )


def products(threads: int, runs: int, peers: bool, clock: Clock, results: Results) -> None:
    rate = 2 * 1024**3 / medians({"sgemm": sgemm(threads)}, runs, clock)["sgemm"]
    print(
        f"\n{'matmul, float32':20} {'forward':>9} {'training':>9}  "
        f"of sgemm, {rate / 1e9:.0f} GFLOP/s"
    )
    rng = np.random.default_rng(1)
    for label, (m, k, n) in PRODUCTS.items():
        a, b = (rng.random(shape, dtype=np.float32) for shape in ((m, k), (k, n)))
        least = 2 * m * k * n / rate
        found = contestants(lambda t, x, y: x @ y, lambda t, x, y: x @ y, [a, b], peers)
        seconds = timed(found, runs, clock)
        keep(results, f"matmul, {label}", threads, seconds, least)
        mine = seconds["gnograd"]
        print(
            f"{label:20} {100 * least / mine['forward']:7.0f} % "
            f"{300 * least / mine['training']:7.0f} % {beside(seconds)}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    add_clock(parser)
    add_option(parser)
    options = parser.parse_args()
    clock, results = CLOCKS[options.clock], Results(options.json, "sgemm")
    peers = options.peers and importlib.util.find_spec("torch") is not None
    for threads in options.threads:
        gg.set_num_threads(threads)
        if peers:
            import torch

            torch.set_num_threads(threads)
        elementwise(threads, options.runs, peers, clock, results)
        products(threads, options.runs, peers, clock, results)


if __name__ == "__main__":
    main()
