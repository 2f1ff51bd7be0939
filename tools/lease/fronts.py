# SPDX-License-Identifier: MIT
"""Check what users call on a GPU: tensors of PyTorch, arrays of CuPy and JAX, streams, captures.

    fronts.py GROUP [--device cuda] [--json FILE] [--from N]

Groups: torch, streams, capture, compile, cupy, jax, large. Each check gives a line of JSON before
it begins and one when it has ended. Exit status 3: the device is lost, and --from N goes on behind
the check that did it. With --device host the checks that need no GPU are run on the host's build of
the kernels, with tensors in host memory that say they are on a GPU (tests/host_tensors.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import front
import fronts_arrays  # noqa: F401
import fronts_torch  # noqa: F401
from front import GPU_ONLY, GROUPS


def lost() -> bool:
    """Whether nothing can be done in this process any more."""
    if front.DEVICE == "cpu":
        return False
    try:
        import torch

        torch.cuda.synchronize()
        return bool((torch.ones(3, device="cuda").sum().item()) != 3)
    except Exception:
        return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--from", type=int, default=0, dest="first")
    given = parser.parse_args()
    if given.device != "host":
        front.DEVICE = given.device
        return run(given)
    front.DEVICE = "cpu"
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
    import gnograd.torch  # noqa: F401  (before tensors change)
    from host_tensors import tensors_on_gpu

    with tensors_on_gpu():
        return run(given)


def run(given: argparse.Namespace) -> int:
    out = given.json.open("a") if given.json else sys.stdout
    bad = 0
    for k, function in enumerate(GROUPS[given.group]):
        if k < given.first or (front.DEVICE == "cpu" and function.__name__ in GPU_ONLY):
            continue
        entry = {"check": function.__name__, "group": given.group, "number": k}
        # what a crash leaves says where it was
        print(json.dumps(entry | {"ended": "began"}), file=out, flush=True)
        start = time.perf_counter()
        try:
            function()
            entry["ended"] = "well"
        except BaseException as problem:
            bad += 1
            entry["ended"] = f"{type(problem).__name__}: {problem}"[:800]
        entry["seconds"] = round(time.perf_counter() - start, 2)
        print(json.dumps(entry), file=out, flush=True)
        if entry["ended"] != "well" and lost():
            return 3
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
