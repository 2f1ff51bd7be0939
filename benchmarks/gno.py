# SPDX-License-Identifier: MIT
"""The GNO sum beside its peers.

full        PyG's NNConv and the same formula in plain PyTorch, which form the kernel matrix of
            every edge
diagonal    neuraloperator's IntegralTransform with torch_scatter, and where there are few queries
            with its own loop over them, whose time is quadratic in their number; beside
            gnograd.torch.IntegralTransform

The same inputs go through all, values and gradients are compared, and then timed:

forward     the output
training    output, and gradients to h, coords, U, b_u, V, b_v (NNConv: not to coords); to the
            function and the parameters of IntegralTransform
second      tangents of these gradients (hvp); the peers' backward of their backward

Rates count the multiplications of the factorised sum: an outer product of F_in by H+1 an edge and
a product with V a node, and as many on the way back as that needs. They are given as a fraction of
the rate of sgemm, measured in the same run. Memory is what a call takes at its peak beside
inputs, in a process of its own, with and without its results.

    python benchmarks/gno.py [--cases small wide large diagonal ...] [--threads 1 2]
                             [--repeats 7] [--activation relu] [--no-peers]

PyTorch, torch_geometric, neuraloperator and torch_scatter are optional.
"""

import argparse
import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from alone import installed, median, peak_bytes, set_threads
from results import Results, add_option

import gnograd as gg

INPUTS = ("h", "coords", "U", "b_u", "V", "b_v")
PEERS = {
    "NNConv": ["torch", "torch_geometric"],
    "PyTorch": ["torch"],
    "torch_scatter": ["torch", "neuralop", "torch_scatter"],
    "loop": ["torch", "neuralop"],
}


@dataclass(frozen=True)
class Case:
    """Points of a grid, with edges from all within a radius."""

    grid: int
    radius: float
    """Radius in cells of the grid"""
    nodes: int
    """Number of points, drawn at random from the grid, or all of it"""
    width: int
    hidden: int

    peers = ("NNConv", "PyTorch")

    @property
    def label(self) -> str:
        return f"F {self.width}, H {self.hidden}"

    def small(self) -> "Case":
        """A case of the same kind, to start libraries and threads with."""
        return Case(grid=8, radius=1, nodes=64, width=4, hidden=4)

    def contestants(self, activation: str, peers) -> tuple[gg.Graph, dict[str, dict]]:
        """Every contestant on the same arrays."""
        graph, inputs = self.build()
        rng = np.random.default_rng(1)
        tangents = tuple(rng.standard_normal(x.shape, dtype=np.float32) for x in inputs)
        cotangent = rng.standard_normal((graph.n_dst, self.width), dtype=np.float32)
        arguments = (graph, inputs, cotangent, tangents, activation)
        faces = {"gnograd": gnograd_faces(*arguments)}
        for peer in peers:
            faces[peer] = torch_faces(peer, *arguments)
        return graph, faces

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


@dataclass(frozen=True)
class Transform:
    """IntegralTransform from a grid to itself, with edges from all points within a radius."""

    grid: int
    radius: float
    """Radius in cells of the grid"""
    width: int
    hidden: tuple[int, ...]

    @property
    def peers(self) -> tuple[str, ...]:
        return ("torch_scatter", "loop") if self.grid <= 64 else ("torch_scatter",)

    @property
    def label(self) -> str:
        return f"F {self.width}, hidden layers {', '.join(map(str, self.hidden))}"

    def small(self) -> "Transform":
        return replace(self, grid=8)

    def contestants(self, activation: str, peers) -> tuple[gg.Graph, dict[str, dict]]:
        import torch

        import gnograd.torch as gt

        points = torch.cartesian_prod(*2 * [torch.linspace(0, 1, self.grid)])
        radius = (self.radius + 1e-3) / (self.grid - 1)
        neighbors = gt.neighbor_search(points, points, radius)
        rng = np.random.default_rng(0)
        shape = (len(points), self.width)
        f = torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)).requires_grad_()
        cotangent = torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))
        torch.manual_seed(0)
        layer = gt.IntegralTransform(
            channel_mlp_layers=[4, *self.hidden, self.width],
            channel_mlp_non_linearity=torch_activation(activation),
            reduction="mean",
        )
        layers = {"gnograd": layer}
        for peer in peers:
            from neuralop.layers.integral_transform import IntegralTransform

            layers[peer] = IntegralTransform(
                layer.channel_mlp, reduction="mean", use_torch_scatter=peer == "torch_scatter"
            )

        def faces(layer):
            def value():
                with torch.no_grad():
                    return layer(points, neighbors, f_y=f)

            def training():
                leaves = {"f": f, **dict(layer.named_parameters())}
                out = layer(points, neighbors, f_y=f)
                gradients = torch.autograd.grad(out, list(leaves.values()), cotangent)
                named = zip(leaves, gradients, strict=True)
                return out.detach().numpy(), {name: g.numpy() for name, g in named}

            return {"forward": value, "training": training}

        graph = gg.Graph(
            neighbors["neighbors_row_splits"].numpy(), neighbors["neighbors_index"].numpy()
        )
        return graph, {name: faces(layer) for name, layer in layers.items()}

    def operations(self, graph: gg.Graph) -> dict[str, int]:
        return {}


CASES = {
    "small": Case(grid=61, radius=3, nodes=61**2, width=32, hidden=64),
    "wide": Case(grid=61, radius=3, nodes=61**2, width=64, hidden=256),
    "large": Case(grid=241, radius=5, nodes=19_360, width=32, hidden=128),
    "diagonal": Transform(grid=512, radius=0, width=32, hidden=(128,)),
    "diagonal-near": Transform(grid=512, radius=1, width=32, hidden=(128,)),
    "diagonal-wide": Transform(grid=512, radius=1.5, width=16, hidden=(128,)),
    "diagonal-small": Transform(grid=64, radius=2, width=32, hidden=(128,)),
    "diagonal-deep": Transform(grid=512, radius=0, width=32, hidden=(128, 256, 128)),
}


# ---- the contestants: face -> function without arguments ----


def gnograd_faces(graph, inputs, cotangent, tangents, activation) -> dict[str, Callable]:
    static = {"graph": graph, "activation": activation, "reduction": "mean"}

    def training():
        gradients = gg.gno.vjp(cotangent, inputs, **static)
        return gg.gno(*inputs, **static), dict(zip(INPUTS, gradients, strict=False))

    return {
        "forward": lambda: gg.gno(*inputs, **static),
        "training": training,
        "second": lambda: gg.gno.hvp(cotangent, inputs, tangents, **static),
    }


def torch_faces(peer, graph, inputs, cotangent, tangents, activation) -> dict[str, Callable]:
    import torch

    act = torch_activation(activation)
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

    names = [name for name in INPUTS if name in wanted]
    leaves = [x[name] for name in names]
    t = [torch.from_numpy(a) for name, a in zip(INPUTS, tangents, strict=True) if name in wanted]

    def value():
        with torch.no_grad():
            return forward()

    def training():
        out = forward()
        gradients = torch.autograd.grad(out, leaves, g)
        return out.detach().numpy(), {
            name: gradient.numpy() for name, gradient in zip(names, gradients, strict=True)
        }

    def second():
        grads = torch.autograd.grad(forward(), leaves, g, create_graph=True)
        inner = sum((a * b).sum() for a, b in zip(grads, t, strict=True))
        return torch.autograd.grad(inner, leaves, allow_unused=True)

    return {"forward": value, "training": training, "second": second}


def torch_activation(name: str) -> Callable:
    import torch

    return {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "tanh": torch.tanh}[name]


# ---- what is measured ----


def validate(faces: dict[str, dict]) -> None:
    """Same values and gradients, or stop."""
    out, grads = faces["gnograd"]["training"]()
    for peer in faces.keys() - {"gnograd"}:
        theirs, their_grads = faces[peer]["training"]()
        for a, b in [(out, theirs), *((grads[name], g) for name, g in their_grads.items())]:
            error = np.abs(a - b).max() / np.abs(a).max()
            if not error < 1e-4:
                raise SystemExit(f"{peer} and gnograd differ by {error:.1e}")


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


def make_call(case, activation, name, face, small):
    """The call of a contestant, on small inputs or its own."""
    _, faces = (case.small() if small else case).contestants(
        activation, [] if name == "gnograd" else [name]
    )
    return faces[name][face]


# ---- the table ----


def run(label: str, case: Case | Transform, threads: int, options: argparse.Namespace) -> None:
    set_threads(threads)
    peers = [peer for peer in case.peers if peer in options.peers]
    graph, faces = case.contestants(options.activation, peers)
    print(
        f"\n{label}: {graph.n_dst} nodes, {graph.n_edges} edges, {case.label}, "
        f"{options.activation}, {threads} thread{'s' * (threads > 1)}"
    )
    validate(faces)
    operations = case.operations(graph)
    headings = ["median", "ratio", "of sgemm", "peak memory", "but results"]
    print(" " * 24 + " ".join(map(str.rjust, headings, [10, 7, 9, 13, 13])))
    for face in faces["gnograd"]:
        calls = {name: f[face] for name, f in faces.items()}
        calls["sgemm"] = sgemm(threads)
        seconds = {name: median(call, options.repeats) for name, call in calls.items()}
        rate = 2 * 1024**3 / seconds["sgemm"]
        for name in faces:
            ratio = seconds[name] / seconds["gnograd"]
            counted = name == "gnograd" and face in operations
            share = operations[face] / seconds[name] / rate if counted else None
            make = partial(make_call, case, options.activation, name, face)
            peak, temporary = peak_bytes(make, threads)
            print(
                f"{face:9} {name:13} {1e3 * seconds[name]:7.1f} ms {ratio:6.1f}x "
                f"{f'{100 * share:7.0f} %' if share else '':>9} "
                f"{peak / 2**20:9.0f} MiB {temporary / 2**20:9.0f} MiB",
                flush=True,
            )
            options.results.add(
                label, face, name, threads=threads, seconds=seconds[name], ratio=ratio, share=share,
                memory=peak,
            )  # fmt: skip
    print(f"sgemm {rate / 1e9:.0f} GFLOP/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--activation", choices=["relu", "gelu", "tanh"], default="relu")
    parser.add_argument("--no-peers", dest="peers", action="store_const", const=[])
    add_option(parser)
    options = parser.parse_args()
    options.results = Results(options.json, "sgemm")
    if options.peers is None:
        options.peers = [peer for peer, modules in PEERS.items() if all(map(installed, modules))]
    for label in options.cases:
        if isinstance(CASES[label], Transform) and not installed("torch"):
            print(f"\n{label}: needs PyTorch")
            continue
        for threads in options.threads:
            run(label, CASES[label], threads, options)


if __name__ == "__main__":
    main()
