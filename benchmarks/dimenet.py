# SPDX-License-Identifier: MIT
"""DimeNet++ edge-to-edge aggregation beside PyG's formulation of it.

PyG gathers both ends of every triplet, multiplies, and scatters; its derivatives are PyTorch's.
Here the same inputs go through both, values and derivatives are compared, and then timed in turns:

forward     the output
backward    output and gradients to vector, rbf, embedding, weights
forces      output, gradients with a graph, and the gradient of their square sum to everything

    python benchmarks/dimenet.py [--edges 20000 200000] [--threads 1 2] [--repeats 7]

needs PyTorch.
"""

import argparse
import ctypes
import statistics
import time
from functools import partial

import numpy as np
import torch
from alone import peak_memory
from cases_network import N_EMB, N_MID, N_RADIAL, N_SPHERICAL, crystal
from results import Results, add_option

import gnograd as gg

FACES = ("forward", "backward", "forces")
INPUTS = ("vector", "rbf", "embedding", "weights")


class Gathered:
    """PyG's way: arrays over triplets, in PyTorch."""

    def __init__(self, graph: gg.Graph):
        edges_by_src = graph.transpose
        # k -> j -> i: every edge that ends in j with every edge that starts there, k /= i
        count = np.diff(edges_by_src.offsets)[graph.dst]
        kj = np.repeat(np.arange(graph.n_edges), count)
        first = np.repeat(edges_by_src.offsets[graph.dst], count)
        inside = np.arange(len(kj)) - np.repeat(np.cumsum(count) - count, count)
        ji = edges_by_src.edge[first + inside]
        keep = graph.src[kj] != graph.dst[ji]
        self.kj, self.ji = torch.from_numpy(kj[keep]), torch.from_numpy(ji[keep])

    def __call__(self, vector, rbf, embedding, weights):
        n_basis = N_SPHERICAL * N_RADIAL
        unit = vector / vector.norm(dim=1, keepdim=True)
        c = (unit[self.kj] * unit[self.ji]).sum(dim=1)
        legendre = [torch.ones_like(c), c]
        for degree in range(2, N_SPHERICAL):
            legendre.append(
                ((2 * degree - 1) * c * legendre[-1] - (degree - 1) * legendre[-2]) / degree
            )
        degrees = torch.arange(N_SPHERICAL, device=c.device)
        norm = ((2 * degrees + 1) / (4 * torch.pi)).sqrt()
        y = torch.stack(legendre, dim=1) * norm
        sbf = rbf[self.kj].view(-1, N_SPHERICAL, N_RADIAL) * y.unsqueeze(2)
        sbf = sbf.view(-1, n_basis) @ weights[:n_basis] @ weights[n_basis:].T
        message = embedding[self.kj] * sbf
        index = self.ji.unsqueeze(1).expand_as(message)
        return torch.zeros_like(embedding).scatter_add_(0, index, message)

    def forward(self, inputs, cotangent):
        with torch.no_grad():
            return (self(*map(torch.from_numpy, inputs)),)

    def backward(self, inputs, cotangent):
        tensors = [torch.from_numpy(array).requires_grad_() for array in inputs]
        out = self(*tensors)
        return out.detach(), *torch.autograd.grad(out, tensors, torch.from_numpy(cotangent))

    def forces(self, inputs, cotangent):
        tensors = [torch.from_numpy(array).requires_grad_() for array in inputs]
        c = torch.from_numpy(cotangent).requires_grad_()
        gradients = torch.autograd.grad(self(*tensors), tensors[:3], c, create_graph=True)
        loss = sum((gradient**2).sum() for gradient in gradients) / 2
        return torch.autograd.grad(loss, [c, *tensors])


class Fused:
    """The way of this package: node by node, without arrays over triplets."""

    def __init__(self, graph: gg.Graph):
        # there are no cells here: the same triplets as PyG's
        self.static = {"graph": graph, "exclude": "same_node"}

    def forward(self, inputs, cotangent):
        return (gg.agg_edge_to_edge(*inputs, **self.static),)

    def backward(self, inputs, cotangent):
        out = gg.agg_edge_to_edge(*inputs, **self.static)
        return out, *gg.agg_edge_to_edge.vjp(cotangent, inputs, **self.static)

    def forces(self, inputs, cotangent):
        gg.agg_edge_to_edge(*inputs, **self.static)
        gradients = gg.agg_edge_to_edge.vjp(cotangent, inputs, wrt=INPUTS[:3], **self.static)
        return (
            gg.agg_edge_to_edge.jvp(inputs, gradients, **self.static),
            *gg.agg_edge_to_edge.hvp(cotangent, inputs, gradients, **self.static),
        )


def validate(face: str, ours, theirs) -> None:
    """Check that both agree to what float32 sums over a million terms allow."""
    for a, b in zip(ours, theirs, strict=True):
        b = b.numpy()
        error = np.linalg.norm(a - b) / np.linalg.norm(b)
        if not error < 1e-4:
            raise SystemExit(f"{face}: results differ by {error:.1e}")


def gemm_rate() -> float:
    """Best rate of PyTorch's float32 matrix product on as many threads, flop/s."""
    a = torch.ones(2048, 2048)
    best = min(timed(lambda: a @ a) for _ in range(5))
    return 2 * 2048**3 / best


def flops(face: str, n_edges: int, n_triplets: int) -> int:
    """Operations in matrix products: n_spherical n_emb a triplet, n_radial times that an edge.

    Forward takes 1 and 1 of them, vjp 2 and 2, jvp 2 and 2, hvp 4 and 3; gradients to the weights
    take 1 an edge more in vjp and 2 in hvp.
    """
    triplet, edge = {"forward": (1, 1), "backward": (3, 4), "forces": (9, 10)}[face]
    return 2 * N_SPHERICAL * N_EMB * (triplet * n_triplets + edge * n_edges * N_RADIAL)


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def extra_mib(work) -> float:
    """Memory beyond what is there before and the results (Linux)."""
    ctypes.CDLL(None).malloc_trim(0)
    peak, results = peak_memory(work)
    return (peak - sum(x.nbytes for x in results)) / 2**20


def compare(
    n_edges: int, threads: list[int], faces: list[str], repeats: int, results: Results
) -> None:
    vector, graph = crystal(n_edges)
    rng = np.random.default_rng(1)
    inputs = [vector] + [
        rng.normal(size=shape).astype(np.float32)
        for shape in (
            (graph.n_edges, N_SPHERICAL * N_RADIAL),
            (graph.n_edges, N_EMB),
            (N_SPHERICAL * N_RADIAL + N_EMB, N_MID),
        )
    ]
    cotangent = rng.normal(size=(graph.n_edges, N_EMB)).astype(np.float32)
    peer, own = Gathered(graph), Fused(graph)
    n_triplets = len(peer.kj)
    print(f"\n{graph.n_edges} edges, {n_triplets} triplets, n_mid {N_MID}, n_emb {N_EMB}, float32")
    print("threads  face       PyG ms  gnograd ms  ratio   of gemm  extra MiB: PyG  gnograd")
    for n in threads:
        torch.set_num_threads(n)
        gg.set_num_threads(n)
        for face in faces:
            theirs = partial(getattr(peer, face), inputs, cotangent)
            ours = partial(getattr(own, face), inputs, cotangent)
            validate(face, ours(), theirs())
            rates, ours_s, theirs_s = [], [], []
            for _ in range(repeats):  # in turns: what else runs on the machine hits both
                theirs_s.append(timed(theirs))
                ours_s.append(timed(ours))
                rates.append(gemm_rate())
            a, b = statistics.median(ours_s), statistics.median(theirs_s)
            fraction = flops(face, graph.n_edges, n_triplets) / a / statistics.median(rates)
            extra = extra_mib(theirs), extra_mib(ours)
            print(
                f"{n:7}  {face:9} {1e3 * b:8.1f} {1e3 * a:10.2f} {b / a:7.1f} {fraction:8.0%}"
                f"     {extra[0]:10.0f} {extra[1]:12.1f}",
                flush=True,
            )
            case = f"{graph.n_edges:,} edges"
            results.add(
                case, face, "gnograd", threads=n, seconds=a, ratio=1, share=fraction,
                memory=extra[1] * 2**20,
            )  # fmt: skip
            results.add(
                case, face, "PyG", threads=n, seconds=b, ratio=b / a, memory=extra[0] * 2**20
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--faces", nargs="+", default=FACES, choices=FACES)
    parser.add_argument("--repeats", type=int, default=7)
    add_option(parser)
    arguments = parser.parse_args()
    results = Results(arguments.json, "sgemm")
    for n_edges in arguments.edges:
        compare(n_edges, arguments.threads, arguments.faces, arguments.repeats, results)


if __name__ == "__main__":
    main()
