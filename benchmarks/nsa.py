# SPDX-License-Identifier: MIT
"""Attention to selected blocks beside the same in PyTorch, and beside dense attention.

Contestants, all on the same arrays:

gnograd       `selected_attention`
gather        the selected keys and values of every query copied, then einsum, softmax, einsum
block-major   a loop over the blocks of keys, each against the queries that selected it, with the
              gradients by hand: the same order of work as gnograd's
dense         torch's scaled_dot_product_attention over all keys: another result, for comparison
flex          torch's FlexAttention with the selection as its mask, compiled; where it runs

forward is the output, training the output and the gradients to q, k, v. Values and gradients are
compared on a short sequence first. Rates are useful ones: products with selected, visible keys
alone, 2 forward and 5 backward. They are given as a fraction of the rate of sgemm in the same run,
measured before and after, the higher of the two. Memory is what a call takes at its peak beside
inputs and outputs, as a multiple of these, in a process of its own.

    python benchmarks/nsa.py [--cases mha points language] [--threads 1 2] [--repeats 5]
                             [--peers gather block-major dense flex] [--no-peers] [--seconds 20]

With --device cuda the cases are larger, in bfloat16 or float32, and gnograd is called through
gnograd.torch; this needs a build with CUDA kernels.
"""

import argparse
import importlib.util
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

# gnograd and torch have an OpenMP each; threads of one that wait actively would slow the other
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from alone import peak_memory, set_threads
from gno import sgemm
from results import Results, add_option

import gnograd as gg

FACES = ("forward", "training")
PEERS = ("gather", "block-major", "dense", "flex")


@dataclass(frozen=True)
class Case:
    """A sequence and a selection drawn at random."""

    tokens: int
    heads: int
    kv_heads: int
    d_k: int
    d_v: int
    slots: int = 16
    block: int = 64
    causal: bool = False
    dtype: str = "float32"

    @cached_property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Queries, keys, values, cotangent."""
        rng = np.random.default_rng(0)
        shapes = (
            (self.tokens, self.heads, self.d_k),
            (self.tokens, self.kv_heads, self.d_k),
            (self.tokens, self.kv_heads, self.d_v),
            (self.tokens, self.heads, self.d_v),
        )
        return tuple(rng.standard_normal(shape, np.float32) for shape in shapes)

    @cached_property
    def selection(self) -> np.ndarray:
        """Blocks without repetition; where it is causal the own block and earlier ones."""
        rng = np.random.default_rng(1)
        n = self.tokens // self.block
        score = rng.random((self.tokens, self.kv_heads, n), np.float32)
        if self.causal:
            own = np.arange(self.tokens)[:, None, None] // self.block
            score = np.where(np.arange(n) > own, -1, np.where(np.arange(n) == own, 2, score))
        slots = min(self.slots, n)
        chosen = np.argpartition(-score, slots - 1, axis=2)[..., :slots].astype(np.int32)
        return np.where(np.take_along_axis(score, chosen, 2) < 0, -1, chosen).astype(np.int32)

    @property
    def static(self) -> dict:
        return {
            "block_index": self.selection, "block_size": self.block, "causal": self.causal
        }  # fmt: skip

    def operations(self) -> dict[str, int]:
        """Useful floating point operations."""
        last = self.selection.astype(np.int64) * self.block + self.block - 1
        t = np.arange(self.tokens)[:, None, None]
        keys = np.clip(t - last + self.block, 0, self.block) if self.causal else self.block
        pairs = int(np.sum(np.where(self.selection < 0, 0, keys))) * self.heads // self.kv_heads
        forward = 2 * pairs * (self.d_k + self.d_v)
        return {"forward": forward, "training": forward + 2 * pairs * (3 * self.d_k + 2 * self.d_v)}


CASES = {
    "cpu": {
        "mha": Case(4096, 16, 16, 64, 64),
        "points": Case(3584, 8, 8, 32, 32),
        "language": Case(8192, 64, 4, 128, 128, causal=True),
    },
    "cuda": {
        "language": Case(65536, 64, 4, 128, 128, causal=True, dtype="bfloat16"),
        "language-192": Case(65536, 64, 4, 192, 128, causal=True, dtype="bfloat16"),
        "mha": Case(65536, 16, 16, 64, 64, dtype="bfloat16"),
        "mha-float32": Case(65536, 16, 16, 64, 64),
        "points": Case(131072, 8, 8, 32, 32),
    },
}


# ---- the contestants: face -> function without arguments ----


def gnograd_faces(case: Case, device: str) -> dict[str, Callable]:
    if device == "cuda":
        return autograd_faces(case, device, gnograd_on_tensors(case, device))
    *inputs, cotangent = case.arrays
    static = case.static

    def training():
        out, saved = gg.selected_attention.forward(*inputs, return_saved=True, **static)
        return out, gg.selected_attention.vjp(cotangent, inputs, saved=saved, **static)[:3]

    return {
        "forward": lambda: gg.selected_attention(*inputs, **static),
        "training": training,
    }


def gnograd_on_tensors(case: Case, device: str) -> Callable:
    import torch

    import gnograd.torch as gt

    static = case.static | {"block_index": torch.from_numpy(case.selection).to(device)}
    return lambda q, k, v: gt.selected_attention(q, k, v, **static)


def tensors(case: Case, device: str) -> list:
    import torch

    dtype = getattr(torch, case.dtype)
    return [torch.from_numpy(x).to(device, dtype) for x in case.arrays]


def autograd_faces(case: Case, device: str, attend: Callable) -> dict[str, Callable]:
    """Faces of a function of q, k, v on tensors."""
    import torch

    *inputs, cotangent = tensors(case, device)
    inputs = [x.requires_grad_() for x in inputs]

    def forward():
        with torch.no_grad():
            return attend(*inputs)

    def training():
        out = attend(*inputs)
        return out.detach(), torch.autograd.grad(out, inputs, cotangent)

    return {"forward": forward, "training": training}


def gather_faces(case: Case, device: str) -> dict[str, Callable]:
    """Attention in chunks of queries, each with its own backward pass, to fit into memory."""
    import torch

    q, k, v, cotangent = tensors(case, device)
    blocks = torch.from_numpy(case.selection).to(device).long()
    head = torch.arange(case.kv_heads, device=device)[None, :, None]
    group = case.heads // case.kv_heads
    scale = case.d_k**-0.5
    bytes_a_query = 4 * case.kv_heads * case.slots * case.block * (case.d_k + case.d_v + 2 * group)
    chunk = max(1, 2**28 // bytes_a_query)

    def attend(q, k, v, first):
        index = blocks[first : first + chunk]
        keys = index[..., None] * case.block + torch.arange(case.block, device=device)
        keys = keys.flatten(2)
        hidden = (index < 0).repeat_interleave(case.block, 2)
        if case.causal:
            t = torch.arange(first, first + len(index), device=device)[:, None, None]
            hidden = hidden | (keys > t)
        keys = keys.clamp(min=0)
        rows = q.unflatten(1, (case.kv_heads, group))
        x = scale * torch.einsum("thgd,thld->thgl", rows, k[keys, head])
        p = x.masked_fill(hidden[:, :, None], -torch.inf).softmax(-1)
        return torch.einsum("thgl,thld->thgd", p, v[keys, head]).flatten(1, 2)

    def forward():
        with torch.no_grad():
            parts = range(0, case.tokens, chunk)
            return torch.cat([attend(q[t : t + chunk], k, v, t) for t in parts])

    def training():
        keys, values = k.detach().requires_grad_(), v.detach().requires_grad_()
        outs, grads_q = [], []
        grad_k, grad_v = torch.zeros_like(k), torch.zeros_like(v)
        for t in range(0, case.tokens, chunk):
            rows = q[t : t + chunk].detach().requires_grad_()
            out = attend(rows, keys, values, t)
            gradients = torch.autograd.grad(out, (rows, keys, values), cotangent[t : t + chunk])
            outs.append(out.detach())
            grads_q.append(gradients[0])
            grad_k += gradients[1]
            grad_v += gradients[2]
        return torch.cat(outs), (torch.cat(grads_q), grad_k, grad_v)

    return {"forward": forward, "training": training}


def block_major_faces(case: Case, device: str) -> dict[str, Callable]:
    """Every block of keys against the queries that selected it."""
    import torch

    q, k, v, cotangent = tensors(case, device)
    group, scale, block = case.heads // case.kv_heads, case.d_k**-0.5, case.block
    n_blocks = case.tokens // block
    blocks = torch.from_numpy(case.selection).to(device).long()
    position = torch.arange(case.tokens, device=device)

    def lists():
        """Queries that selected a block, for every head and block."""
        for h in range(case.kv_heads):
            named, order = torch.sort(blocks[:, h].flatten(), stable=True)
            borders = torch.searchsorted(named, torch.arange(n_blocks + 1, device=device)).tolist()
            for b in range(n_blocks):
                if borders[b] < borders[b + 1]:
                    yield h, b, order[borders[b] : borders[b + 1]] // case.slots

    def logits(rows, h, b, queries):
        keys = k[b * block : (b + 1) * block, h]
        x = (scale * rows @ keys.T).unflatten(0, (len(queries), group))
        if case.causal:
            offset = position[b * block : (b + 1) * block]
            x = x.masked_fill((offset > queries[:, None])[:, None], -torch.inf)
        return x, keys

    def heads_of(x, h, queries):
        return x[queries, h * group : (h + 1) * group]

    def attend():
        out = torch.zeros_like(cotangent)
        top = torch.full(q.shape[:2], -torch.inf, device=device, dtype=q.dtype)
        total = torch.zeros_like(top)
        for h, b, queries in lists():
            heads = slice(h * group, (h + 1) * group)
            x, _ = logits(heads_of(q, h, queries).flatten(0, 1), h, b, queries)
            before = top[queries, heads]
            now = torch.maximum(before, x.amax(-1))
            factor = torch.exp(before - now)
            p = torch.exp(x - now[..., None])
            top[queries, heads] = now
            total[queries, heads] = factor * total[queries, heads] + p.sum(-1)
            y = p.flatten(0, 1) @ v[b * block : (b + 1) * block, h]
            old = factor[..., None] * out[queries, heads]
            out[queries, heads] = old + y.view_as(old)
        return out / total[..., None], top + torch.log(total)

    def forward():
        with torch.no_grad():
            return attend()[0]

    def training():
        with torch.no_grad():
            out, lse = attend()
            delta = (out * cotangent).sum(-1)
            grad_q, grad_k, grad_v = (torch.zeros_like(x) for x in (q, k, v))
            for h, b, queries in lists():
                heads, tokens = slice(h * group, (h + 1) * group), slice(b * block, (b + 1) * block)
                rows = heads_of(q, h, queries).flatten(0, 1)
                g = heads_of(cotangent, h, queries).flatten(0, 1)
                x, keys = logits(rows, h, b, queries)
                p = torch.exp(x - lse[queries, heads][..., None]).flatten(0, 1)
                dp = g @ v[tokens, h].T
                ds = scale * p * (dp - delta[queries, heads].flatten()[:, None])
                grad_v[tokens, h] += p.T @ g
                grad_k[tokens, h] += ds.T @ rows
                grad_q[queries, heads] += (ds @ keys).unflatten(0, (len(queries), group))
            return out, (grad_q, grad_k, grad_v)

    return {"forward": forward, "training": training}


def dense_faces(case: Case, device: str) -> dict[str, Callable]:
    from torch.nn.functional import scaled_dot_product_attention

    def attend(q, k, v):
        rows, keys, values = (x.transpose(0, 1)[None] for x in (q, k, v))
        out = scaled_dot_product_attention(
            rows, keys, values, is_causal=case.causal, enable_gqa=case.heads != case.kv_heads
        )
        return out[0].transpose(0, 1)

    return autograd_faces(case, device, attend)


def flex_faces(case: Case, device: str) -> dict[str, Callable]:
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    group, n_blocks = case.heads // case.kv_heads, case.tokens // case.block
    named = torch.from_numpy(case.selection).to(device).long()
    table = torch.zeros(case.tokens, case.kv_heads, n_blocks + 1, dtype=torch.bool, device=device)
    table.scatter_(2, torch.where(named < 0, n_blocks, named), True)

    def sees(_, h, t, key):
        selected = table[t, h // group, key // case.block]
        return selected & (key <= t) if case.causal else selected

    n = case.tokens
    # uncompiled, it would make a mask of heads x tokens x tokens before that of the blocks
    mask = create_block_mask(sees, None, case.heads, n, n, device=device, _compile=device == "cuda")
    compiled = torch.compile(flex_attention, fullgraph=True)

    def attend(q, k, v):
        rows, keys, values = (x.transpose(0, 1)[None] for x in (q, k, v))
        out = compiled(rows, keys, values, block_mask=mask, enable_gqa=group > 1)
        return out[0].transpose(0, 1)

    if device == "cuda":
        return autograd_faces(case, device, attend)
    # on a CPU it refuses inputs that require gradients
    inputs = tensors(case, device)[:3]

    def forward():
        with torch.no_grad():
            return attend(*inputs)

    return {"forward": forward}


MAKERS = {
    "gnograd": gnograd_faces,
    "gather": gather_faces,
    "block-major": block_major_faces,
    "dense": dense_faces,
    "flex": flex_faces,
}


# ---- what is measured ----


def validate(case: Case, names: list[str], device: str) -> None:
    """Same values and gradients on a short sequence, or stop."""
    short = replace(case, tokens=8 * case.block, slots=4)
    out, gradients = gnograd_faces(short, device)["training"]()
    tolerance = 1e-4 if case.dtype == "float32" else 3e-2
    for name in names:
        if name in ("gnograd", "dense"):
            continue
        faces = MAKERS[name](short, device)
        theirs, their_gradients = faces["training"]() if "training" in faces else (None, ())
        theirs = faces["forward"]() if theirs is None else theirs
        for a, b in zip((out, *gradients), (theirs, *their_gradients), strict=False):
            a, b = (np.asarray(x.float().cpu() if hasattr(x, "cpu") else x) for x in (a, b))
            error = np.abs(a - b).max() / np.abs(a).max()
            if not error < tolerance:
                raise SystemExit(f"{name} and gnograd differ by {error:.1e}")


def median(call: Callable, repeats: int, seconds: float, device: str) -> float:
    """Seconds of a call. Two come before those that are timed, as far as there is time for them."""
    times: list[float] = []
    while len(times) < repeats + 2 and (not times or sum(times) + times[-1] < seconds):
        start = time.perf_counter()
        call()
        if device == "cuda":
            import torch

            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[min(2, len(times) - 1) :])


def extra_memory(case: Case, name: str, face: str, threads: int) -> float:
    """Peak memory of a call beside inputs and outputs, as a multiple of these."""
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")
    # a new process gives back what it frees, which a call would otherwise use again unseen
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "131072"
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_extra_memory, case, name, face, threads).result()


def _extra_memory(case, name, face, threads) -> float:
    set_threads(threads)
    MAKERS[name](replace(case, tokens=4 * case.block, slots=2), "cpu")[face]()  # start libraries
    call = MAKERS[name](case, "cpu")[face]
    arrays = [*case.arrays[:3], case.selection]
    peak, result = peak_memory(call)
    results = [result] if face == "forward" else [result[0], *result[1]]
    size = sum(x.nbytes for x in results)
    inputs = sum(x.nbytes for x in arrays) + (case.arrays[3].nbytes if face == "training" else 0)
    return max(peak - size, 0) / (inputs + size)


# ---- the table ----


def sgemm_rate(threads: int, options: argparse.Namespace) -> float:
    return 2 * 1024**3 / median(sgemm(threads), 20, options.seconds, "cpu")


def run(label: str, case: Case, threads: int, options: argparse.Namespace) -> None:
    set_threads(threads)
    device = options.device
    print(
        f"\n{label}: {case.tokens} tokens, {case.heads}/{case.kv_heads} heads, "
        f"{case.d_k}/{case.d_v} features, {case.slots} blocks of {case.block}, {case.dtype}, "
        f"{'causal, ' * case.causal}{threads} thread{'s' * (threads > 1)}"
    )
    faces = {"gnograd": MAKERS["gnograd"](case, device)}

    def left_out(peer: str, error: Exception) -> None:
        faces.pop(peer, None)
        reason = str(error).strip().partition("\n")[0]
        print(f"{peer} does not run: {type(error).__name__}: {reason}")

    for peer in options.peers:
        try:
            validate(case, ["gnograd", peer], device)
            faces[peer] = MAKERS[peer](case, device)
        except Exception as error:
            left_out(peer, error)
    operations = case.operations()
    print(
        f"{'':22} {'median':>10} {'ratio':>7} {'GFLOP/s':>9} {'of sgemm':>9} {'extra memory':>13}"
    )
    for face in FACES:
        rates = [sgemm_rate(threads, options)] if device == "cpu" else []
        seconds = {}
        for name in [name for name in faces if face in faces[name]]:
            try:
                call = faces[name][face]
                seconds[name] = median(call, options.repeats, options.seconds, device)
            except Exception as error:  # of memory: the others are timed all the same
                if name == "gnograd":
                    raise
                left_out(name, error)
        if rates:
            rates.append(sgemm_rate(threads, options))
        rate = max(rates, default=None)
        for name, time_taken in seconds.items():
            useful = operations[face] / time_taken
            part = useful / rate if rate and name != "dense" else None
            share = f"{100 * part:7.0f} %" if part else ""
            memory = ""
            if options.memory and device == "cpu":
                memory = f"{extra_memory(case, name, face, threads):11.2f} x"
            print(
                f"{face:9} {name:12} {1e3 * time_taken:7.1f} ms "
                f"{time_taken / seconds['gnograd']:6.1f}x "
                f"{'' if name == 'dense' else f'{useful / 1e9:.0f}':>9} {share:>9} {memory:>13}",
                flush=True,
            )
            ratio = time_taken / seconds["gnograd"]
            options.results.add(
                label, face, name, threads=threads, seconds=time_taken, ratio=ratio, share=part
            )
        if rate:
            print(f"{'sgemm':46} {rate / 1e9:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=CASES, default="cpu")
    parser.add_argument("--cases", nargs="+")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20, help="for one contestant and face")
    parser.add_argument("--peers", nargs="+", choices=PEERS)
    parser.add_argument("--no-peers", dest="peers", action="store_const", const=[])
    parser.add_argument("--no-memory", dest="memory", action="store_false")
    add_option(parser)
    options = parser.parse_args()
    options.results = Results(options.json, "sgemm")
    if options.peers is None:
        options.peers = PEERS if importlib.util.find_spec("torch") else []
    cases = CASES[options.device]
    for label in options.cases or cases:
        for threads in options.threads if options.device == "cpu" else [1]:
            run(label, cases[label], threads, options)


if __name__ == "__main__":
    main()
