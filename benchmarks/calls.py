# SPDX-License-Identifier: MIT
"""Cost of a call whose kernel takes hardly any time: small operators, small graphs.

numpy   a NumPy call of every operator on a graph of 8 nodes beside its kernel alone, which is the
        compiled function called with the same addresses
torch   the same through `gnograd.torch`, forward alone and with backward, beside the kernels alone;
        beside that an autograd function that computes nothing; and in a fresh process the import
        of gnograd.torch and a first call: their time, and what they import beside torch

A time is the median of runs of many calls each; contestants take turns, so that what disturbs one
disturbs all.

    python benchmarks/calls.py [--parts numpy torch] [--runs 15] [--clock processor] [--json FILE]

PyTorch is optional. Layers are timed by torch_layers.py.
"""

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from results import CLOCKS, Results, add_clock, add_option

import gnograd as gg
from gnograd import _core
from gnograd.backends import cpu


def microseconds(
    calls: dict[str, Callable[[], object]],
    runs: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median time of each call; the runs of all are interleaved."""
    counts = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        counts[name] = max(1, min(500, int(0.005 / (time.perf_counter() - start + 1e-9))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            start = clock()
            for _ in range(counts[name]):
                call()
            times[name].append((clock() - start) / counts[name])
    return {name: 1e6 * statistics.median(taken) for name, taken in times.items()}


# ---- operators ----


def small_calls() -> dict[str, tuple[tuple[np.ndarray | None, ...], dict[str, object]]]:
    """Inputs and static arguments of operators, small enough to cost next to nothing."""
    rng = np.random.default_rng(0)
    n, edges, heads, width = 8, 16, 2, 8
    graph = gg.Graph.from_edges(rng.integers(0, n, edges), rng.integers(0, n, edges), n, n)

    def real(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    x, tokens = real(n, width), [real(n, heads, 4) for _ in range(3)]
    return {
        "agg_weighted": ((x, real(edges)), {"graph": graph}),
        "agg_simple": ((x,), {"graph": graph}),
        "mha_gat": ((x, x, real(2 * width)), {"graph": graph, "num_heads": heads}),
        "mha_gat_v2": ((x, x, real(width)), {"graph": graph, "num_heads": heads}),
        "mha_simple": ((x, x, x), {"graph": graph, "num_heads": heads}),
        "gno": (
            (x, real(edges, 2), real(2, 4), real(4), real(4, width, 4), real(width, 4)),
            {"graph": graph},
        ),
        "window_attention": (tuple(tokens), {"window": 3}),
    }


def kernel_of(call: Callable[[], object]) -> Callable[[], None]:
    """The compiled functions that a call ends in, with the arguments it gives them."""
    found = []
    run, run_prepared = cpu.run, cpu.Prepared.run

    # the arrays are kept as long as their addresses
    def record(operator: str, face: str, dtype: str, arguments, stream=None) -> None:
        function = getattr(_core, f"gnograd_{operator}_{face}_{cpu.SUFFIXES[dtype]}")
        found.append((function, tuple(map(cpu._pass, arguments)), list(arguments)))
        run(operator, face, dtype, arguments)

    def record_prepared(known, graph, addresses) -> list:
        results = run_prepared(known, graph, addresses)
        head = (graph.handle, *known.head) if known.on_graph else known.head
        arguments = *head, *addresses, *known.absent, *map(cpu.address, results)
        found.append((getattr(_core, known.function), arguments, (results, graph)))
        return results

    cpu.run, cpu.Prepared.run = record, record_prepared
    try:
        kept = call()
    finally:
        cpu.run, cpu.Prepared.run = run, run_prepared

    def kernels(kept=kept) -> None:
        for function, addresses, _ in found:
            function(*addresses)

    return kernels


def numpy_calls(runs: int, clock: Callable[[], float], results: Results) -> None:
    print(f"\n{'NumPy':20} {'call':>9} {'kernel':>9} {'beyond':>9}")
    for name, (inputs, static) in small_calls().items():
        operator = getattr(gg, name)

        def call(operator=operator, inputs=inputs, static=static):
            return operator(*inputs, **static)

        taken = microseconds({"call": call, "kernel": kernel_of(call)}, runs, clock)
        keep(results, name, "NumPy", taken)
        print_row(name, taken)


def torch_calls(runs: int, clock: Callable[[], float], results: Results) -> None:
    import torch

    import gnograd.torch as gt

    torch.set_num_threads(1)
    print(f"\n{'PyTorch':20} {'call':>9} {'kernel':>9} {'beyond':>9}")
    for name, (inputs, static) in small_calls().items():
        operator = getattr(gt, name)
        tensors = [torch.from_numpy(x) for x in inputs]
        leaves = [t.clone().requires_grad_() for t in tensors]
        with torch.no_grad():
            cotangent = torch.ones_like(operator(*tensors, **static))

        def forward(operator=operator, tensors=tensors, static=static):
            return operator(*tensors, **static)

        def training(operator=operator, leaves=leaves, static=static, cotangent=cotangent):
            return torch.autograd.grad(operator(*leaves, **static), leaves, cotangent)

        for face, call in (("forward", forward), ("with backward", training)):
            taken = microseconds({"call": call, "kernel": kernel_of(call)}, runs, clock)
            keep(results, name, f"PyTorch, {face}", taken)
            print_row(f"{name}{' +' if face != 'forward' else ''}", taken)
    print("(+: forward and backward)")
    taken = microseconds(nothing(), runs, clock)
    print(
        f"an autograd function that computes nothing: {taken['forward']:.1f} us, "
        f"{taken['backward']:.1f} us with backward"
    )
    print(first_call())


def nothing() -> dict[str, Callable[[], object]]:
    """Forward and backward of a custom function of three inputs that computes nothing."""
    import torch

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return inputs[0].detach()

        @staticmethod
        def backward(ctx, cotangent):
            return ctx.saved_tensors

    leaves = [torch.ones(8, 8, requires_grad=True) for _ in range(3)]
    cotangent = torch.ones(8, 8)
    return {
        "forward": lambda: Nothing.apply(*leaves),
        "backward": lambda: torch.autograd.grad(Nothing.apply(*leaves), leaves, cotangent),
    }


def keep(results: Results, name: str, face: str, taken: dict[str, float]) -> None:
    results.add(
        name, face, "gnograd", threads=1, seconds=1e-6 * taken["call"],
        share=taken["kernel"] / taken["call"],
    )  # fmt: skip


def print_row(name: str, taken: dict[str, float]) -> None:
    beyond = taken["call"] - taken["kernel"]
    print(
        f"{name:20} {taken['call']:6.1f} us {taken['kernel']:6.1f} us {beyond:6.1f} us", flush=True
    )


FIRST_CALL = """
import sys, time
import torch
before, start = set(sys.modules), time.perf_counter()
import gnograd as gg, gnograd.torch as gt
imported = time.perf_counter()
graph, x = gg.Graph([0, 1, 2], [1, 0]), torch.ones(2, 3, requires_grad=True)
gt.agg_simple(x, graph=graph).sum().backward()
called = time.perf_counter()
new = set(sys.modules) - before
known = {"gnograd", "numpy", "torch"} | sys.stdlib_module_names
parts = {m.split(".")[0] for m in new} - known
parts = sorted({p for p in parts if not p.startswith("_")} | ({"torch._dynamo"} & new))
print(f"import gnograd.torch after torch: {1e3 * (imported - start):.0f} ms; first call: "
      f"{1e3 * (called - imported):.0f} ms; imports besides:", ", ".join(parts) or "nothing")
"""


def first_call() -> str:
    result = subprocess.run(
        [sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True
    )
    line = result.stdout.strip()
    return line if len(line) < 200 else line[:200] + " ..."


PARTS = {
    "numpy": (numpy_calls, ()),
    "torch": (torch_calls, ("torch",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--runs", type=int, default=15)
    add_clock(parser)
    add_option(parser)
    options = parser.parse_args()
    results = Results(options.json, "the kernel alone")
    gg.set_num_threads(1)
    for part in options.parts:
        run, needs = PARTS[part]
        missing = [name for name in needs if not importlib.util.find_spec(name)]
        if missing:
            print(f"\n{part}: left out, {' and '.join(missing)} cannot be imported")
        else:
            run(options.runs, CLOCKS[options.clock], results)


if __name__ == "__main__":
    main()
