# SPDX-License-Identifier: MIT
"""Value, gradient and Laplacian of a graph neural operator, and a training step with a Laplacian.

The contestants compute the same function of the same arrays in float32,

    u(x_i) = mean over neighbours j of h_j . kappa([x_i, y_j]),   loss = mean((lap u + u - f)^2)

with a kernel network of two hidden layers:

- gnograd: `gno_with_laplacian`, and its vjp;
- PyTorch: gather, MLP, index_add, and nested calls of torch.autograd.grad;
- neuraloperator: `IntegralTransform` and the same nested calls, with torch_scatter, or with its own
  loop over the query points, for those that are installed.

Before it is timed, each is compared with central differences in float64: the Laplacian at every
point, and the derivative of the loss along a direction in the space of all parameters. The last two
columns are these relative errors.

usage: python benchmarks/physics.py [--cases NAME ...] [--threads N ...] [--repeats N]
"""

from __future__ import annotations

import argparse
import importlib.util
from dataclasses import dataclass

import numpy as np
import torch
from alone import median
from results import Results, add_option
from scipy.special import erf

import gnograd as gg

PARAMETERS = ("U_1", "b_1", "U_2", "b_2", "V", "b_v")
D = 2


@dataclass(frozen=True)
class Case:
    """Random points in the unit square, with so many neighbours on average."""

    points: int
    neighbours: int
    width: int
    features: int

    def build(self) -> tuple[gg.Graph, dict[str, np.ndarray]]:
        rng = np.random.default_rng(0)
        x, y = rng.random((2, self.points, D))
        graph = gg.Graph.radius(y, np.sqrt(self.neighbours / self.points / np.pi), x)
        H, F = self.width, self.features
        shapes = {"U_1": (2 * D, H), "b_1": (H,), "U_2": (H, H), "b_2": (H,), "V": (H, F)}
        arrays = {name: rng.normal(size=shape) for name, shape in shapes.items()}
        arrays["U_2"] /= np.sqrt(H)
        arrays["V"] /= np.sqrt(H * F)
        rest = {"b_v": np.zeros(F), "h": rng.normal(size=(self.points, F)), "x": x, "y": y}
        return graph, {**arrays, **rest, "f": rng.normal(size=self.points)}


CASES = {
    "small": Case(points=1000, neighbours=12, width=64, features=16),
    "large": Case(points=16_384, neighbours=16, width=64, features=16),
    "wide": Case(points=4096, neighbours=16, width=128, features=64),
}


# ---- contestants: value, gradient, Laplacian; loss and its gradients ----


class Gnograd:
    def __init__(self, graph: gg.Graph, arrays: dict[str, np.ndarray], dtype=np.float32) -> None:
        a = {name: array.astype(dtype) for name, array in arrays.items()}
        layers = gg.gno_pack_layers([(a["U_1"], a["b_1"]), (a["U_2"], a["b_2"])])
        H = len(a["b_1"])
        self.inputs = (a["h"], a["x"], a["y"], layers, a["V"][:, :, None], a["b_v"][:, None])
        self.f, self.shapes = a["f"][:, None], [a[name].shape for name in PARAMETERS]
        self.static = dict(graph=graph, widths=[H, H], geometry="pair", reduction="mean")

    def derivatives(self) -> tuple[np.ndarray, ...]:
        return gg.gno_with_laplacian(*self.inputs, **self.static)

    def training(self) -> list[np.ndarray]:
        u, _, laplacian = self.derivatives()
        residual = (2 / len(u)) * (laplacian + u - self.f)
        wrt = {"layers", "V", "b_v"}
        cotangents = (residual, None, residual)
        gradients = gg.gno_with_laplacian.vjp(cotangents, self.inputs, wrt, **self.static)
        layers = gg.gno_unpack_layers(gradients[3], 2 * D, self.static["widths"])
        flat = [part for layer in layers for part in layer] + list(gradients[4:6])
        return [g.reshape(shape) for g, shape in zip(flat, self.shapes, strict=True)]


class PyTorch:
    """Nested autograd; subclasses say what u is."""

    def __init__(self, graph: gg.Graph, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = {
            name: torch.tensor(array, dtype=torch.float32, requires_grad=name in PARAMETERS)
            for name, array in arrays.items()
        }
        self.x = self.arrays["x"].requires_grad_()
        self.src = torch.tensor(graph.src, dtype=torch.int64)
        self.dst = torch.tensor(graph.dst, dtype=torch.int64)
        self.degree = torch.bincount(self.dst, minlength=graph.n_dst).clamp(min=1)

    def value(self) -> torch.Tensor:
        a = self.arrays
        hidden = torch.cat([self.x[self.dst], a["y"][self.src]], 1)
        for U, b in (("U_1", "b_1"), ("U_2", "b_2")):
            hidden = torch.nn.functional.gelu(hidden @ a[U] + a[b])
        kappa = hidden @ a["V"] + a["b_v"]
        message = (a["h"][self.src] * kappa).sum(1)
        return torch.zeros(len(self.x)).index_add(0, self.dst, message) / self.degree

    def derivatives(self, train: bool = False) -> tuple[torch.Tensor, ...]:
        u = self.value()
        (gradient,) = torch.autograd.grad(u.sum(), self.x, create_graph=True)
        laplacian = torch.zeros_like(u)
        for a in range(D):
            (second,) = torch.autograd.grad(
                gradient[:, a].sum(), self.x, create_graph=train, retain_graph=True
            )
            laplacian = laplacian + second[:, a]
        return u, gradient, laplacian

    def training(self) -> list[torch.Tensor]:
        u, _, laplacian = self.derivatives(train=True)
        loss = (laplacian + u - self.arrays["f"]).square().mean()
        # b_v has no part in the second derivatives, where a contestant forgets the value
        wanted = [self.arrays[name] for name in PARAMETERS]
        gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
        return [
            torch.zeros_like(x) if g is None else g for x, g in zip(wanted, gradients, strict=True)
        ]


class NeuralOperator(PyTorch):
    """`IntegralTransform`, whose network sees [y_j, x_i] and whose kernel is diagonal."""

    scatter = False

    def __init__(self, graph: gg.Graph, arrays: dict[str, np.ndarray]) -> None:
        from neuralop.layers.integral_transform import IntegralTransform

        super().__init__(graph, arrays)
        H, F = arrays["V"].shape
        self.neighbors = {
            "neighbors_index": torch.tensor(graph.indices, dtype=torch.int64),
            "neighbors_row_splits": torch.tensor(graph.offsets, dtype=torch.int64),
        }
        self.transform = IntegralTransform(
            channel_mlp_layers=[2 * D, H, H, F], reduction="mean", use_torch_scatter=self.scatter
        )
        weights = dict(zip(PARAMETERS, self.transform.channel_mlp.parameters(), strict=True))
        with torch.no_grad():
            for name, parameter in weights.items():
                value = self.arrays[name]
                value = torch.cat([value[D:], value[:D]]) if name == "U_1" else value
                parameter.copy_(value.T if value.ndim == 2 else value)
        self.arrays.update(weights)

    def value(self) -> torch.Tensor:
        out = self.transform(self.arrays["y"], self.neighbors, self.x, f_y=self.arrays["h"])
        return out.sum(1)

    def training(self) -> list[torch.Tensor]:
        gradients = super().training()
        gradients = [g.T if g.ndim == 2 else g for g in gradients]
        gradients[0] = torch.cat([gradients[0][D:], gradients[0][:D]])
        return gradients


class NeuralOperatorScatter(NeuralOperator):
    scatter = True


# ---- float64 central differences of the plain formula ----


def plain_value(graph: gg.Graph, a: dict[str, np.ndarray], shift: np.ndarray) -> np.ndarray:
    hidden = np.concatenate([a["x"][graph.dst] + shift, a["y"][graph.src]], 1)
    for U, b in (("U_1", "b_1"), ("U_2", "b_2")):
        pre = hidden @ a[U] + a[b]
        hidden = pre / 2 * (1 + erf(pre / np.sqrt(2)))
    message = (a["h"][graph.src] * (hidden @ a["V"] + a["b_v"])).sum(1)
    return np.bincount(graph.dst, message, graph.n_dst) / np.maximum(graph.in_degree, 1)


def plain_laplacian(graph: gg.Graph, a: dict[str, np.ndarray], step: float = 3e-3) -> np.ndarray:
    """Second differences of sixth order."""
    weights = {0: -49 / 18, 1: 3 / 2, 2: -3 / 20, 3: 1 / 90}
    total = D * weights[0] * plain_value(graph, a, np.zeros(D))
    for unit in np.eye(D) * step:
        for k in (1, 2, 3):
            sides = plain_value(graph, a, k * unit) + plain_value(graph, a, -k * unit)
            total = total + weights[k] * sides
    return total / step**2


def plain_loss(graph: gg.Graph, a: dict[str, np.ndarray]) -> float:
    residual = plain_laplacian(graph, a) + plain_value(graph, a, np.zeros(D)) - a["f"]
    return float(np.mean(residual**2))


def plain_slope(graph, arrays, direction, step: float = 1e-3) -> float:
    """Derivative of the loss along a direction, by differences of fourth order."""

    def at(t: float) -> float:
        moved = {name: arrays[name] + t * v for name, v in direction.items()}
        return plain_loss(graph, {**arrays, **moved})

    return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)


def errors(contestant, graph, arrays, laplacian, direction, slope) -> tuple[float, float]:
    """Relative errors of the Laplacian and of the gradient of the loss along the direction."""
    found = np.ravel(_array(contestant.derivatives()[2]))
    gradients = dict(zip(PARAMETERS, map(_array, contestant.training()), strict=True))
    along = sum(np.sum(gradients[name].astype(float) * v) for name, v in direction.items())
    return (
        float(np.linalg.norm(found - laplacian) / np.linalg.norm(laplacian)),
        abs(along - slope) / abs(slope),
    )


def _array(x) -> np.ndarray:
    return x.detach().numpy() if isinstance(x, torch.Tensor) else x


# ---- the table ----


def contestants(case: Case) -> dict[str, type]:
    found: dict[str, type] = {"gnograd": Gnograd, "PyTorch": PyTorch}
    if importlib.util.find_spec("neuralop"):
        if importlib.util.find_spec("torch_scatter"):
            found["neuralop, torch_scatter"] = NeuralOperatorScatter
        if case.points <= 1000:  # its backward pass is quadratic in the points
            found["neuralop, loop"] = NeuralOperator
    return found


def run(label: str, case: Case, threads: int, repeats: int, results: Results) -> None:
    gg.set_num_threads(threads)
    torch.set_num_threads(threads)
    graph, arrays = case.build()
    rng = np.random.default_rng(1)
    direction = {name: rng.normal(size=arrays[name].shape) for name in PARAMETERS}
    exact = plain_laplacian(graph, arrays), direction, plain_slope(graph, arrays, direction)
    print(
        f"\n{label}: {graph.n_dst} queries, {graph.n_edges} edges, widths {case.width}, "
        f"F {case.features}, {threads} thread{'s' * (threads > 1)}"
    )
    heads = ["derivatives", "ratio", "training", "ratio", "Laplacian", "gradient"]
    widths = [12, 7, 10, 7, 10, 10]
    print(" " * 24, *(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)))
    ours: tuple[float, ...] = ()
    for name, kind in contestants(case).items():
        contestant = kind(graph, arrays)
        try:
            wrong = errors(contestant, graph, arrays, *exact)
        except RuntimeError as error:
            print(f"{name:24} fails: {str(error).splitlines()[0]}")
            continue
        slow = 1 if name == "neuralop, loop" else repeats
        seconds = (median(contestant.derivatives, slow), median(contestant.training, slow))
        ours = ours or seconds
        print(
            f"{name:24} {1e3 * seconds[0]:9.1f} ms {seconds[0] / ours[0]:6.1f}x "
            f"{1e3 * seconds[1]:7.1f} ms {seconds[1] / ours[1]:6.1f}x "
            f"{wrong[0]:10.1e} {wrong[1]:10.1e}",
            flush=True,
        )
        for face, taken, our in zip(("derivatives", "training"), seconds, ours, strict=True):
            results.add(label, face, name, threads=threads, seconds=taken, ratio=taken / our)
    wrong = errors(Gnograd(graph, arrays, np.float64), graph, arrays, *exact)
    print(f"{'gnograd in float64':24} {'':38} {wrong[0]:10.1e} {wrong[1]:10.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    add_option(parser)
    options = parser.parse_args()
    results = Results(options.json)
    for label in options.cases:
        for threads in options.threads:
            run(label, CASES[label], threads, options.repeats, results)


if __name__ == "__main__":
    main()
