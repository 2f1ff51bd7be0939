# SPDX-License-Identifier: MIT
"""The CUDA kernels on a GPU, alone and beside PyTorch and PyG (sparse attention: nsa.py, too).

about     rates of this GPU that the time model takes for granted: copy, L2, gathers, products
calls     the host's time of a call (gpu_calls.py)
kernels   every case of cases.py, the most telling first, under the names that the model gives them
          (docs/gpu.md): times, whether two calls give the same bits, numbers that are not finite,
          workspace
peers     the same tensors through gnograd and others, values and gradients compared; forward, or
          training: output and all gradients

A time is that of the GPU, between two events. Calls are queued before the first one starts, behind
a kernel that sleeps, so that the host's time is not in it. Cold: the median of calls each between
events of its own, with the L2 cache overwritten before; warm: calls between two events; host: what
a call takes the host. Searches, whose results the host waits for, have one time, with that wait.

GB/s counts every array read or written once, and a row of features for every edge that gathers
one; its fraction is of the bandwidth of a copy, measured in the same run. Large arrays are drawn on
the GPU, where the host would take minutes. With --json every entry is a line, written at once;
behind --seconds nothing new begins.

    python benchmarks/gpu.py [--parts about calls kernels peers] [--repeats 20] [--seconds 90]
                             [--cases agg_sum_128 gat ...] [--json FILE]
                             [--peers power-law attention gno edges mesh triplets physics compiled]

--try runs the faces of the cases once, at a size that the SIMT library computes in seconds, and
compares them with the CPU in place of timing anything. --once runs each once, for a profiler.
"""

import argparse
import contextlib
import gc
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from case import Case, normal
from cases import CASES
from gpu_clock import Clock, OnGpu, waiting
from gpu_contests import OPERATIONS, PEERS

import gnograd as gg

FORWARD_ONLY = {"CSR product"}  # its gradient to the weights is a dense product first
OTHERS = {"flash", "cudnn"}  # dense attention: another result
PARTS = ("about", "calls", "kernels", "peers")
FIRST = [
    "agg_sum_128", "agg_sum_128_bf16", "gat", "gat_bf16", "mha_simple", "gno_64", "gno_64_bf16",
    "nsa", "window", "icosahedron_h_to_h", "edge_mlp", "edge_to_edge", "neighbors", "knn",
    "laplacian", "compressed", "select_blocks", "nsa_points", "agg_max_128", "agg_sum_64_mesh",
    "gat_v2", "gno_diagonal", "icosahedron_era_to_h", "icosahedron_h_to_era", "relational",
    "edge_updates", "agg_sum_128_hubs", "nsa_mha", "gno_kernel", "edge_softmax", "radial",
    "neighbor_list",
]  # fmt: skip
"""Cases that decide most; the others follow in their order."""


def about(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rates that the time model takes for granted."""
    import torch

    clock, properties = Clock(options.repeats), torch.cuda.get_device_properties(0)
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    cached = source[: 16 << 20].view(torch.float32)
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    rows, picked = torch.randn(100_000, 128, device="cuda"), 2_000_000
    index = torch.randint(0, len(rows), (picked,), device="cuda")

    def rate(work: float, call: Callable) -> float:
        return round(work / clock(call)["warm"] / 1e9, 3)

    yield {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "L2, bytes": getattr(properties, "L2_cache_size", 0),
        "torch": torch.__version__,
        "copy, TB/s": rate(2 * source.numel(), lambda: target.copy_(source)),
        "read of L2, TB/s": rate(4 * cached.numel(), cached.sum),
        "products of bfloat16, TFLOP/s": rate(2 * 8192**3, lambda: matrix @ matrix),
        "gather of 512 bytes, TB/s": rate(512 * picked, lambda: rows[index]),
    }


def calls(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The host's time of calls, as multiples of the CPU's eager call."""
    import gpu_calls

    yield gpu_calls.measure()


# ---- the cases of the model ----


def on_device(x: Any) -> Any:
    """Copies on the device, in arrays of gnograd's own."""
    from gnograd.backends import cuda

    if isinstance(x, tuple):
        return tuple(map(on_device, x))
    return cuda.to_device(x) if isinstance(x, np.ndarray) else x


def as_tensor(x: Any) -> Any:
    """A tensor on the GPU of an array of NumPy; tensors stay."""
    import torch

    if isinstance(x, tuple):
        return tuple(map(as_tensor, x))
    if not isinstance(x, np.ndarray):
        return x
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.astype(np.float32)).to("cuda", torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(x)).to("cuda")


class Memory:
    """PyTorch's memory on its current stream, as users of gnograd.torch have it."""

    def __init__(self) -> None:
        self.workspace = 0
        """Bytes of the largest workspace since it was set to 0."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        import torch

        if dtype == "uint8":
            self.workspace = max(self.workspace, math.prod(shape))
        return torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")

    def using(self) -> contextlib.AbstractContextManager[None]:
        import torch

        from gnograd.backends import cuda

        return cuda.using(torch.cuda.current_stream().cuda_stream, self.empty)


def faces_of(
    case: Case, size: int, move: Callable, rng: np.random.Generator
) -> dict[str, Callable]:
    """The faces of a case as calls without arguments, its arrays moved to the device."""
    operator, inputs, static = case.make(size, rng)
    # a cotangent is drawn before it is moved, the same for all devices
    inputs, static = move(tuple(inputs)), {k: move(v) for k, v in static.items()}
    calls = {case.faces[0]: lambda: operator(*inputs, **static)}
    if "vjp" not in case.faces:
        return calls
    out, saved = operator.forward(*inputs, return_saved=True, **static)
    outs = out if isinstance(out, tuple) else (out,)
    kinds = [(o.shape, str(o.dtype).removeprefix("torch.")) for o in outs]
    drawn = tuple(move(normal(rng, *shape, dtype=dtype)) for shape, dtype in kinds)
    cotangent = drawn if isinstance(out, tuple) else drawn[0]
    calls["vjp"] = lambda: operator.vjp(cotangent, inputs, saved=saved, **static)
    return calls


def chosen(options: argparse.Namespace) -> list[Case]:
    """Cases that were named, in that order, or all usual ones."""
    if options.cases:
        return [CASES[name] for name in options.cases]
    usual = [c.name for c in CASES.values() if c.usual]
    return [CASES[name] for name in dict.fromkeys([*FIRST, *usual]) if CASES[name].usual]


def checked(call: Callable) -> dict[str, Any]:
    """True for the same bits in two calls, and the count of numbers that are not finite."""
    import torch

    first, second = (
        [x for x in flat(call()) if isinstance(x, torch.Tensor) and x.numel()] for _ in range(2)
    )
    pairs = zip(first, second, strict=True)
    return {
        "same_bits": all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in pairs),
        "not_finite": sum(int((~torch.isfinite(x)).sum()) for x in first if x.is_floating_point()),
    }


def kernels(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Entries of the cases of the model, timed at full size."""
    import torch

    clock, memory = Clock(options.repeats), Memory()
    for case in chosen(options):
        if options.left() < 0:
            yield {"label": case.name, "ended": "no time was left"}
            continue
        try:
            with memory.using():
                calls = faces_of(case, case.full, as_tensor, OnGpu(0))
                for face, call in calls.items():
                    entry = {"label": f"{case.name}/{face}", "what": case.what}
                    memory.workspace = 0
                    entry |= checked(call) | {"workspace": memory.workspace}
                    search = case.faces == ("search",)
                    entry["ms"] = waiting(call, options.repeats) if search else clock(call)
                    if face in case.useful:
                        entry["flops" if case.type else "bytes"] = case.useful[face]
                    yield entry
        except Exception as problem:  # the others shall be timed all the same
            yield failure(case.name, problem)
            torch.cuda.synchronize()  # raises if the device is lost
        calls = call = None
        gc.collect()
        torch.cuda.empty_cache()


def failure(label: str, problem: Exception) -> dict[str, Any]:
    return {"label": label, "ended": f"{type(problem).__name__}: {problem}"[:400]}


TRIED = 24  # times as small as what the model counts, about


def tried(options: argparse.Namespace) -> Iterator[str]:
    """Every face at a tiny size, held against the CPU."""

    def stay(x: Any) -> Any:
        # the CPU has float32 and float64
        if isinstance(x, tuple):
            return tuple(map(stay, x))
        half = isinstance(x, np.ndarray) and x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
        return x.astype(np.float32) if half else x

    for case in chosen(options):
        size = case.small if case.small <= 400 else max(case.small // TRIED, 128)
        if case.name.startswith("icosahedron"):
            size = 42
        elif "mesh" in case.name:
            size = round(size**0.5) ** 2
        worst = 0.0
        for (face, ours), theirs in zip(
            faces_of(case, size, on_device, np.random.default_rng(0)).items(),
            faces_of(case, size, stay, np.random.default_rng(0)).values(),
            strict=True,
        ):
            for a, b in zip(flat(ours()), flat(theirs()), strict=True):
                a, b = np.asarray(a.get() if hasattr(a, "get") else a, float), np.asarray(b, float)
                if a.shape != b.shape:
                    raise SystemExit(f"{case.name}/{face}: shapes {a.shape} and {b.shape}")
                there = np.isfinite(b)
                if a.size:
                    scale = np.max(np.abs(b), where=there, initial=1e-30)
                    worst = max(worst, np.max(np.abs(a - b), where=there, initial=0) / scale)
        half = any(t in case.what + case.name for t in ("bf16", "bfloat16", "float16"))
        if not worst < (0.1 if half else 1e-3):
            raise SystemExit(f"{case.name}: {worst:.1e} from the CPU's results")
        yield f"{case.name}: size {size}, within {worst:.1e} of the CPU"


def flat(x: Any) -> list[Any]:
    """Arrays of a result, without what is None."""
    if isinstance(x, tuple):
        return [a for y in x for a in flat(y)]
    return [] if x is None else [x]


# ---- peers ----


def faces(function: Callable, inputs, cotangent) -> dict[str, Callable]:
    import torch

    def forward():
        with torch.no_grad():
            return function(*inputs)

    def training():
        out = function(*inputs)
        return out, *torch.autograd.grad(out, inputs, cotangent)

    return {"forward": forward, "training": training}


def difference(calls: dict[str, dict[str, Callable]], peer: str) -> float:
    """Largest error of values and gradients beside gnograd's."""
    if peer in OTHERS:
        calls[peer]["forward"]()
        return 0.0
    if peer in FORWARD_ONLY:
        pairs = [(calls["gnograd"]["forward"](), calls[peer]["forward"]())]
    else:
        pairs = zip(calls["gnograd"]["training"](), calls[peer]["training"](), strict=True)
    return max(
        float((ours.float() - theirs.float()).abs().max() / theirs.float().abs().max())
        for ours, theirs in pairs
    )


def peers(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Contestants on the same tensors."""
    import torch

    clock, device = Clock(options.repeats), torch.device("cuda")
    for contest in options.peers:
        if options.left() < 0:
            yield {"label": contest, "ms": {}, "failed": {"all": "no time was left"}}
            continue
        try:
            for name, inputs, *work, functions in PEERS[contest](device):
                yield from contest_of(options, clock, contest, name, inputs, work, functions)
        except Exception as problem:
            yield {"label": contest, "ms": {}, "failed": {"all": f"{problem}"[:300]}}


def contest_of(options, clock, contest, name, inputs, work, functions) -> Iterator[dict[str, Any]]:
    """Two entries, forward and training; contestants that fail or differ have no time."""
    import torch

    cotangent = torch.randn_like(functions["gnograd"](*inputs))
    calls = {peer: faces(f, inputs, cotangent) for peer, f in functions.items()}
    failed = {}
    most = 3e-2 if inputs[0].dtype == torch.bfloat16 else 1e-3
    for peer in functions.keys() - {"gnograd"}:
        try:
            error = difference(calls, peer)
            if not error < most:
                failed[peer] = f"differs by {error:.1e}"
        except Exception as problem:
            failed[peer] = f"{type(problem).__name__}: {problem}"[:300]
    for face, amount in zip(("forward", "training"), work, strict=True):
        left_out = failed.keys() | (FORWARD_ONLY | OTHERS if face != "forward" else set())
        ms = {p: clock(calls[p][face], 0.6) for p in functions if p not in left_out}
        entry = {"label": f"{name}, {contest}, {face}", "ms": ms, "failed": failed}
        operations = contest in OPERATIONS
        yield entry | {"flops" if operations else "bytes": amount * (1 if operations else 4)}


# ---- the program ----


def shown(entry: dict[str, Any], copy: float) -> str:
    """Row of the table; `copy` is the bandwidth of a copy in TB/s, 0 if it is not known."""
    if "ms" not in entry:
        return f"| {entry['label']} | | | | | {entry['ended']} |"
    ms = entry["ms"]
    peers = {}
    if "failed" in entry:
        peers, ms = ms, ms.get("gnograd", {})
    if not ms:
        return f"| {entry['label']} | | | | | {entry['failed']} |"
    speed = share = ""
    if "bytes" in entry:
        # cold: from memory, not from the cache
        rate = entry["bytes"] / (1e-3 * ms["cold"])
        speed, share = f"{rate / 1e9:.0f} GB/s", f"{rate / copy / 1e12:.0%}" if copy else ""
    elif "flops" in entry:
        speed = f"{entry['flops'] / (1e-3 * ms['warm']) / 1e12:.3g} TFLOP/s"
    notes = [f"{p} {t['warm'] / ms['warm']:.1f}x" for p, t in peers.items() if p != "gnograd"]
    notes += [f"{p}: {why}" for p, why in entry.get("failed", {}).items()]
    if entry.get("same_bits") is False or entry.get("not_finite"):
        notes.append(f"same bits: {entry['same_bits']}, not finite: {entry['not_finite']}")
    times = f"{ms['cold']:.3f} | {ms['warm']:.3f}"
    return f"| {entry['label']} | {times} | {speed} | {share} | {', '.join(notes)} |"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="CASE", help="of cases.py")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--repeats", type=int, default=20, help="calls timed, at most")
    parser.add_argument("--seconds", type=float, default=math.inf, help="behind which none begins")
    parser.add_argument("--json", type=Path, help="file to which every entry is added as a line")
    parser.add_argument("--try", action="store_true", dest="tried", help="tiny sizes, no times")
    parser.add_argument("--once", action="store_true", help="full size, no times")
    options = parser.parse_args(arguments)
    end = time.perf_counter() + options.seconds
    options.left = lambda: end - time.perf_counter()
    return options


def main() -> None:
    options = parse()
    if not gg.get_config()["cuda"]:
        sys.exit("gnograd was built without CUDA kernels")
    if options.tried:
        for text in tried(options):
            print(text, flush=True)
        return
    if not importlib.util.find_spec("torch"):
        sys.exit("benchmarks/gpu.py compares with PyTorch: install torch with CUDA")
    import torch

    if not torch.cuda.is_available():
        print("no GPU that this PyTorch can use; nothing was timed")
        return
    if options.once:
        for case in chosen(options):
            with Memory().using():
                for call in faces_of(case, case.full, as_tensor, OnGpu(0)).values():
                    call()
        torch.cuda.synchronize()
        return
    print("| case | cold, ms | warm, ms | rate | of copy | others |")
    print("| --- | --: | --: | --: | --: | --- |")
    parts, copy = {"about": about, "calls": calls, "kernels": kernels, "peers": peers}, 0.0
    for part in options.parts:
        for entry in parts[part](options):
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps({"part": part} | entry) + "\n")
            copy = entry.get("copy, TB/s", copy)
            text = shown(entry, copy) if "label" in entry else json.dumps(entry)
            print(text, flush=True)


if __name__ == "__main__":
    main()
