# SPDX-License-Identifier: MIT
"""Attention over points: dense beside PyTorch's, and selection beside the attention it feeds.

Dense are slices, few queries, few keys, and many of both.

A case is a forward pass or a training step (forward, and backward to all inputs) in float32. Values
and gradients are compared before anything is timed; contestants take turns, so that what disturbs
one disturbs all, each with a call before that is not timed, and a time is the median of runs. The
contestants:

gnograd       attention and attention_pool, or scaled_dot_product_attention
PyTorch       Transolver's slice attention written plainly; torch's scaled_dot_product_attention
compiled      the same through torch.compile
products      the products of the plain formula at the rate of a large sgemm (a bound, not a run)

Of a training step it also measures what is kept for the backward pass, inputs included, and the
peak of the step with its results.

    python benchmarks/attention.py [--cases slices latents anchors dense tree] [--points 50000 ...]
                                   [--peers PyTorch compiled] [--runs 5] [--threads 1]
                                   [--clock processor] [--json FILE]

Attention to 64 slices, of 64 latent points and to 64 anchors is of all points; dense attention is
of a sixteenth of them.

The tree has balls of 64 points that share a selection, and compressed tokens of 8; 16 balls are
kept on every level, and 8 selected. `compared` selects among all balls, of up to 50,000 points.

Needs PyTorch; compiling needs a C++ compiler.
"""

import argparse
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import torch
from alone import peak_memory
from results import CLOCKS, Results, add_clock, add_option
from torch.nn import functional

import gnograd as gg
import gnograd.torch as gt

HEADS, WIDTH, SLICES = 8, 32, 64
PEERS = "PyTorch", "compiled"
Step = Callable[..., torch.Tensor]


def plain_slices(x, content, keys, temperature, project):
    """Slice attention with an array of points times slices."""
    w = functional.softmax(torch.einsum("nhd,sd->nhs", x, keys) / temperature, dim=-1)
    tokens = torch.einsum("nhs,nhd->hsd", w / (w.sum(0) + 1e-2), content)
    q, k, v = (tokens @ project).chunk(3, -1)
    tokens = functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
    return torch.einsum("nhs,hsd->nhd", w, tokens)


def our_slices(x, content, keys, temperature, project):
    """Slice attention of `SliceAttention`, without its projections."""
    keys, temperature = keys[:, None].expand(-1, HEADS, -1), temperature.t()
    content = torch.cat([content, content.new_ones(*content.shape[:2], 1)], dim=-1)
    pooled = gt.attention_pool(x, keys, content, None, temperature, scale=1.0)
    tokens = pooled[..., :-1] / (pooled[..., -1:] + 1e-2)
    q, k, v = (tokens @ project).chunk(3, -1)
    return gt.attention(x, keys, gt.attention(q, k, v), None, temperature, scale=1.0)


def slices(n: int) -> tuple[tuple[torch.Tensor, ...], dict[str, Step], float]:
    """Inputs, contestants, and operations of the plain formula's products forward."""
    points = [torch.randn(n, HEADS, WIDTH) for _ in range(2)]
    more = (
        torch.randn(SLICES, WIDTH),
        torch.full((HEADS, 1), 0.5),
        torch.randn(WIDTH, 3 * WIDTH) / 6,
    )
    found = {"gnograd": our_slices, "PyTorch": plain_slices}
    return (*points, *more), found, 6.0 * n * HEADS * WIDTH * SLICES


def scaled(n_q: int, n_k: int) -> tuple[tuple[torch.Tensor, ...], dict[str, Step], float]:
    """Inputs, contestants and operations for attention of n_q points to n_k."""
    arrays = [torch.randn(1, HEADS, n, WIDTH) for n in (n_q, n_k, n_k)]
    found: dict[str, Step] = {
        "gnograd": gt.scaled_dot_product_attention,
        "PyTorch": functional.scaled_dot_product_attention,
    }
    return tuple(arrays), found, 4.0 * n_q * n_k * HEADS * WIDTH


CASES = {
    "slices": slices,
    "latents": lambda n: scaled(SLICES, n),
    "anchors": lambda n: scaled(n, SLICES),
    "dense": lambda n: scaled(max(n // 16, 1), max(n // 16, 1)),
}


def tree(n: int) -> dict[str, Callable[[], object]]:
    """Calls of selections and of the attention that they feed; values are not compared."""
    q, k, v = torch.randn(3, n, HEADS, WIDTH)
    step = {"block": 8, "stride": 8}
    tokens = gt.compress(k, torch.full((8, HEADS), 1 / 8), **step)
    balls = {"block_size": 64, "query_block": 64}
    chosen = {"n_blocks": 8, "exclude_own": True, "n_keys": n, **step, **balls}
    blocks = gt.select_blocks(q, tokens, keep=16, **chosen)
    calls: dict[str, Callable[[], object]] = {
        "gnograd": lambda: gt.select_blocks(q, tokens, keep=16, **chosen),
        "attention": lambda: gt.selected_attention(q, k, v, block_index=blocks, **balls),
    }
    if n <= 50_000:
        lse = gt.compressed_attention(q, tokens, tokens, **step)[1]
        calls["compared"] = lambda: gt.select_blocks(q, tokens, lse, **chosen)
    return calls


def training(step: Step, inputs: tuple[torch.Tensor, ...], c: torch.Tensor) -> Callable:
    inputs = tuple(x.clone().requires_grad_() for x in inputs)
    return lambda: torch.autograd.grad(step(*inputs), inputs, c)


def forward(step: Step, inputs: tuple[torch.Tensor, ...]) -> Callable:
    def call() -> torch.Tensor:
        with torch.no_grad():
            return step(*inputs)

    return call


def sgemm_rate(seconds: Callable[[], float]) -> float:
    """Operations of a large product in a second."""
    a, b = torch.randn(20_000, 256), torch.randn(256, 256)
    times = []
    for _ in range(5):
        start = seconds()
        a @ b
        times.append(seconds() - start)
    return 2.0 * a.numel() * b.shape[1] / min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    every = [*CASES, "tree"]
    parser.add_argument("--cases", nargs="+", choices=every, default=every)
    parser.add_argument("--points", type=int, nargs="+", default=[50_000])
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    add_clock(parser)
    add_option(parser)
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(given.threads)
    gg.set_num_threads(given.threads)
    results = Results(given.json, share_of="sgemm")
    for name in given.cases:
        for n in given.points:
            if name == "tree":
                run_tree(n, given, results)
            else:
                run(name, n, given, results)


def run_tree(n: int, given: argparse.Namespace, results: Results) -> None:
    """Times of selections from n points, and of what they feed."""
    middle = taken_in_turns(tree(n), given.runs, CLOCKS[given.clock])
    label = f"tree, {n:,} points"
    print(f"{label}, forward:", *(f"{who} {1e3 * t:.1f} ms" for who, t in middle.items()))
    for who, t in middle.items():
        results.add(
            label, "forward", who, threads=given.threads, seconds=t, ratio=t / middle["gnograd"]
        )


def run(name: str, n: int, given: argparse.Namespace, results: Results) -> None:
    """Times, and memory of training, of a case with n points."""
    inputs, steps, operations = CASES[name](n)
    seconds = CLOCKS[given.clock]
    label = f"{name}, {inputs[0].shape[-2] if name == 'dense' else n:,} points"
    steps["compiled"] = torch.compile(steps["PyTorch"])
    steps = {who: step for who, step in steps.items() if who in ("gnograd", *given.peers)}
    c = torch.randn_like(steps["gnograd"](*inputs))
    for face, factor in ("forward", 1), ("training", 3):
        calls = {
            who: forward(step, inputs) if factor == 1 else training(step, inputs, c)
            for who, step in steps.items()
        }
        check(calls)
        times: dict[str, list[float]] = {who: [] for who in (*calls, "products")}
        for _ in range(given.runs):
            for who, call in calls.items():
                call()  # finds what another left of the memory
                start = seconds()
                call()
                times[who].append(seconds() - start)
            times["products"].append(factor * operations / sgemm_rate(seconds))
        middle = {who: sorted(t)[len(t) // 2] for who, t in times.items()}
        for who in calls:
            memory: dict[str, float] = {}
            if face == "training":
                memory = {
                    "kept": kept(steps[who], inputs), "memory": peak(name, n, who, given.threads)
                }  # fmt: skip
            print(
                f"{label}, {face}: {who} {1e3 * middle[who]:.1f} ms",
                *(f"{what} {size / 2**20:.1f} MiB" for what, size in memory.items()),
            )
            results.add(
                label, face, who, threads=given.threads, seconds=middle[who],
                ratio=middle[who] / middle["gnograd"], share=middle["products"] / middle[who],
                **memory,
            )  # fmt: skip


def kept(step: Step, inputs: tuple[torch.Tensor, ...]) -> int:
    """Bytes that are kept for the backward pass, each memory once."""
    sizes: dict[int, int] = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        out = step(*(x.clone().requires_grad_() for x in inputs))
    del out
    return sum(sizes.values())


def peak(name: str, n: int, who: str, threads: int) -> int:
    """Peak bytes of a training step with its results."""
    # a new process gives back what it frees, which a step would otherwise use again unseen
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "131072"
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_peak, name, n, who, threads).result()


def _peak(name: str, n: int, who: str, threads: int) -> int:
    torch.set_num_threads(threads)
    gg.set_num_threads(threads)
    inputs, steps, _ = CASES[name](n)
    steps["compiled"] = torch.compile(steps["PyTorch"])
    call = training(steps[who], inputs, torch.ones_like(steps["gnograd"](*inputs)))
    call()
    return peak_memory(call)[0]


def taken_in_turns(
    calls: dict[str, Callable[[], object]], runs: int, seconds: Callable[[], float]
) -> dict[str, float]:
    """Median of the times of every call."""
    times: dict[str, list[float]] = {who: [] for who in calls}
    for _ in range(runs):
        for who, call in calls.items():
            start = seconds()
            call()
            times[who].append(seconds() - start)
    return {who: sorted(t)[len(t) // 2] for who, t in times.items()}


def check(calls: dict[str, Callable]) -> None:
    def flat(found: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return found if isinstance(found, tuple) else (found,)

    ours, *others = (flat(call()) for call in calls.values())
    for other in others:
        for a, b in zip(ours, other, strict=True):
            assert (a - b).norm() <= 1e-4 * b.norm()


if __name__ == "__main__":
    main()
