# SPDX-License-Identifier: MIT
"""The GNO sum beside PyG's NNConv and the same formula in plain PyTorch.

Both peers form the kernel matrix of every edge. The same inputs go through all, values and
gradients are compared, and then timed:

forward     the output
training    output, and gradients to h, coords, U, b_u, V, b_v (NNConv: not to coords)
second      tangents of these gradients (hvp); the peers' backward of their backward

Rates count the multiplications of the factorised sum: an outer product of F_in by H+1 an edge and
a product with V a node, and as many on the way back as that needs. They are given as a fraction of
the rate of sgemm, measured in the same run. Memory is what a call takes at its peak beside
inputs, in a process of its own, results included.

    python benchmarks/gno.py [--cases small wide large] [--threads 1 2] [--repeats 7]
                             [--activation relu] [--no-peers]

PyTorch and torch_geometric are optional.
"""

import argparse
import ctypes
import importlib.util
import multiprocessing
import re
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gnograd as gg

INPUTS = ("h", "coords", "U", "b_u", "V", "b_v")
FACES = ("forward", "training", "second")
PEERS = {"NNConv": "torch_geometric", "PyTorch": "torch"}


@dataclass(frozen=True)
class Case:
    """Points of a grid, with edges from all within a radius."""

    grid: int
    radius: float
    """In cells of the grid"""
    nodes: int
    """As many points, drawn at random; or all"""
    width: int
    hidden: int

    def build(self) -> tuple[gg.Graph, tuple[np.ndarray, ...]]:
        rng = np.random.default_rng(0)
        chosen = np.sort(rng.choice(self.grid**2, self.nodes, replace=False))
        points = np.stack([chosen // self.grid, chosen % self.grid], axis=1) / (self.grid - 1)
        graph = gg.Graph.radius(points, (self.radius + 1e-6) / (self.grid - 1))
        coords = (points[graph.dst] - points[graph.src]) * self.grid / self.radius
        F, H = self.width, self.hidden
        arrays = (
            rng.standard_normal((self.nodes, F)),
            coords,
            rng.standard_normal((2, H)),
            rng.standard_normal(H),
            rng.standard_normal((H, F, F)) / np.sqrt(H * F),
            rng.standard_normal((F, F)) / np.sqrt(F),
        )
        return graph, tuple(np.ascontiguousarray(x, dtype=np.float32) for x in arrays)

    def operations(self, graph: gg.Graph) -> dict[str, int]:
        """Floating point operations of the factorised sum and its derivatives."""
        outer = 2 * graph.n_edges * self.width * (self.hidden + 1)
        product = 2 * graph.n_dst * self.width**2 * (self.hidden + 1)
        return {
            "forward": outer + product,
            "training": 3 * outer + 4 * product,
            "second": 4 * outer + 7 * product,
        }


CASES = {
    "small": Case(grid=61, radius=3, nodes=61**2, width=32, hidden=64),
    "wide": Case(grid=61, radius=3, nodes=61**2, width=64, hidden=256),
    "large": Case(grid=241, radius=5, nodes=19_360, width=32, hidden=128),
}


# ---- the contestants: face -> function without arguments ----


def gnograd_faces(graph, inputs, cotangent, tangents, activation) -> dict[str, Callable]:
    static = {"graph": graph, "activation": activation, "reduction": "mean"}

    def training():
        return gg.gno(*inputs, **static), gg.gno.vjp(cotangent, inputs, **static)

    return {
        "forward": lambda: gg.gno(*inputs, **static),
        "training": training,
        "second": lambda: gg.gno.hvp(cotangent, inputs, tangents, **static),
    }


def torch_faces(peer, graph, inputs, cotangent, tangents, activation) -> dict[str, Callable]:
    import torch

    act = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "tanh": torch.tanh}[activation]
    src = torch.from_numpy(np.asarray(graph.src, dtype=np.int64))
    dst = torch.from_numpy(np.asarray(graph.dst, dtype=np.int64))
    g = torch.from_numpy(cotangent)
    F, H = inputs[0].shape[1], len(inputs[3])
    wanted = {"h", "coords", "U", "b_u", "V", "b_v"} - ({"coords"} if peer == "NNConv" else set())
    x = {
        name: torch.from_numpy(a).requires_grad_(name in wanted)
        for name, a in zip(INPUTS, inputs, strict=True)
    }

    if peer == "NNConv":
        from torch_geometric.nn import NNConv

        class Kernel(torch.nn.Module):
            def forward(self, coords):
                return act(coords @ x["U"] + x["b_u"]) @ x["V"].view(H, -1) + x["b_v"].view(-1)

        layer = NNConv(F, F, Kernel(), aggr="mean", root_weight=False, bias=False)
        edges = torch.stack([src, dst])

        def forward():
            return layer(x["h"], edges, x["coords"])

    else:
        degree = torch.bincount(dst, minlength=graph.n_dst).clamp(min=1)[:, None]

        def forward():
            hid = act(x["coords"] @ x["U"] + x["b_u"])
            kappa = (hid @ x["V"].view(H, -1) + x["b_v"].view(-1)).view(-1, F, F)
            message = torch.bmm(x["h"][src][:, None], kappa)[:, 0]
            return torch.zeros(graph.n_dst, F).index_add(0, dst, message) / degree

    leaves = [x[name] for name in INPUTS if name in wanted]
    t = [torch.from_numpy(a) for name, a in zip(INPUTS, tangents, strict=True) if name in wanted]

    def value():
        with torch.no_grad():
            return forward()

    def training():
        out = forward()
        return out.detach(), torch.autograd.grad(out, leaves, g)

    def second():
        grads = torch.autograd.grad(forward(), leaves, g, create_graph=True)
        inner = sum((a * b).sum() for a, b in zip(grads, t, strict=True))
        return torch.autograd.grad(inner, leaves, allow_unused=True)

    return {"forward": value, "training": training, "second": second}


def contestants(case: Case, activation: str, peers) -> tuple[gg.Graph, dict[str, dict]]:
    """Every contestant on the same arrays."""
    graph, inputs = case.build()
    rng = np.random.default_rng(1)
    tangents = tuple(rng.standard_normal(x.shape, dtype=np.float32) for x in inputs)
    cotangent = rng.standard_normal((graph.n_dst, case.width), dtype=np.float32)
    arguments = (graph, inputs, cotangent, tangents, activation)
    faces = {"gnograd": gnograd_faces(*arguments)}
    for peer in peers:
        faces[peer] = torch_faces(peer, *arguments)
    return graph, faces


# ---- what is measured ----


def validate(faces: dict[str, dict]) -> None:
    """Same values and gradients, or stop."""
    out, grads = faces["gnograd"]["training"]()
    for peer in faces.keys() - {"gnograd"}:
        theirs, their_grads = faces[peer]["training"]()
        ours = [g for name, g in zip(INPUTS, grads, strict=False) if _wanted(peer, name)]
        pairs = [(out, theirs), *zip(ours, their_grads, strict=True)]
        for a, b in pairs:
            error = np.abs(a - b.numpy()).max() / np.abs(a).max()
            if not error < 1e-4:
                raise SystemExit(f"{peer} and gnograd differ by {error:.1e}")


def _wanted(peer: str, name: str) -> bool:
    return peer != "NNConv" or name != "coords"


def sgemm(threads: int) -> Callable[[], None]:
    """A product of 1024 x 1024 matrices by the BLAS that gnograd comes with."""
    import scipy_openblas32

    library = ctypes.CDLL(str(Path(scipy_openblas32.get_lib_dir()) / "libscipy_openblas.so"))
    matrices = [np.ones((1024, 1024), np.float32) for _ in range(3)]
    n, one, zero = ctypes.c_int(1024), ctypes.c_float(1), ctypes.c_float(0)
    no = ctypes.c_char_p(b"N")

    def multiply():
        library.scipy_openblas_set_num_threads(threads)
        a, b, c = (ctypes.c_void_p(matrix.ctypes.data) for matrix in matrices)
        size, scale, keep = (ctypes.byref(x) for x in (n, one, zero))
        library.scipy_sgemm_(no, no, size, size, size, scale, a, size, b, size, keep, c, size)

    return multiply


def medians(calls: dict[str, Callable], repeats: int) -> dict[str, float]:
    """Seconds of each call, as in a program that makes no others.

    Two calls come before those that are timed: threads are awake then, and memory is at hand.
    """
    seconds = {}
    for name, call in calls.items():
        times = []
        for _ in range(repeats + 2):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        seconds[name] = statistics.median(times[2:])
    return seconds


def peak_bytes(case: Case, activation: str, name: str, face: str, threads: int) -> int:
    """Memory that one call takes beside its inputs."""
    if not Path("/proc/self/clear_refs").exists():
        return 0
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_peak_bytes, case, activation, name, face, threads).result()


def _peak_bytes(case, activation, name, face, threads) -> int:
    set_threads(threads)
    small = Case(grid=8, radius=1, nodes=64, width=4, hidden=4)
    for each in (small, case):  # libraries and threads start with the small one
        _, faces = contestants(each, activation, [] if name == "gnograd" else [name])
        if each is small:
            faces[name][face]()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    result = faces[name][face]()
    peak = _status("VmHWM") - before
    del result
    return peak


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"{name}:\s+(\d+)", text)[1])


def set_threads(threads: int) -> None:
    gg.set_num_threads(threads)
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(threads)


# ---- the table ----


def run(label: str, case: Case, threads: int, options: argparse.Namespace) -> None:
    set_threads(threads)
    graph, faces = contestants(case, options.activation, options.peers)
    print(
        f"\n{label}: {graph.n_dst} nodes, {graph.n_edges} edges, F {case.width}, H {case.hidden}, "
        f"{options.activation}, {threads} thread{'s' * (threads > 1)}"
    )
    validate(faces)
    operations = case.operations(graph)
    print(f"{'':18} {'median':>10} {'ratio':>7} {'of sgemm':>9} {'peak memory':>12}")
    for face in FACES:
        calls = {name: f[face] for name, f in faces.items()}
        seconds = medians({**calls, "sgemm": sgemm(threads)}, options.repeats)
        rate = 2 * 1024**3 / seconds["sgemm"]
        for name in faces:
            ratio = seconds[name] / seconds["gnograd"]
            share = operations[face] / seconds[name] / rate if name == "gnograd" else None
            memory = peak_bytes(case, options.activation, name, face, threads) / 2**20
            print(
                f"{face:9} {name:8} {1e3 * seconds[name]:7.1f} ms {ratio:6.1f}x "
                f"{f'{100 * share:7.0f} %' if share else '':>9} {memory:9.0f} MiB",
                flush=True,
            )
    print(f"sgemm {rate / 1e9:.0f} GFLOP/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--activation", choices=["relu", "gelu", "tanh"], default="relu")
    parser.add_argument("--no-peers", dest="peers", action="store_const", const=[])
    options = parser.parse_args()
    if options.peers is None:
        options.peers = [peer for peer, module in PEERS.items() if importlib.util.find_spec(module)]
    for label in options.cases:
        for threads in options.threads:
            run(label, CASES[label], threads, options)


if __name__ == "__main__":
    main()
