#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The kernels of one operator after another, counted: small cases of which times scale.

    PTX_COUNT=counts.json PTX_QUICK=1 PTX_ARCH=90 GNOGRAD_CUDA_LIBRARY=libgnograd_cuda_ptx_90.so \
        python baseline.py [CASE...]

The cases are those of ``benchmarks/cases.py``; ``all`` names every one, none the usual ones, and
``gat*`` the usual ones that begin so. Every call is counted under a label of its own, as gat/vjp;
the table of model.py scales it to the full size. A case that is counted again loses its earlier
counts, and the file keeps those of the others. ``--times 2`` counts cases of twice the size, to
see whether the times are in proportion.
"""

import argparse
import ctypes
import dataclasses
import fnmatch
import functools
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from gnograd.backends import cuda

HERE = Path(__file__).resolve()
sys.path.insert(0, os.environ.get("GNOGRAD_BENCHMARKS", str(HERE.parents[3] / "benchmarks")))

from case import Case, normal  # noqa: E402
from cases import CASES  # noqa: E402


@functools.cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(os.environ["GNOGRAD_CUDA_LIBRARY"])


def done(label: str) -> None:
    """Put what was counted since the last label under this one; "-" leaves it out."""
    library().ptx_count(label.encode())


def begin(path: Path, case: Case) -> None:
    """Remove earlier counts of a case from the file, and describe its labels there."""
    told = dict(case.described())
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    with path.open("w") as file:
        for line in lines:
            entry = json.loads(line)
            if entry.get("case", entry.get("label")) not in {"-", *told}:
                file.write(line)
        for label, entry in told.items():
            file.write(json.dumps({"case": label, **entry}) + "\n")


def device(x):
    if isinstance(x, tuple):
        return tuple(map(device, x))
    return cuda.to_device(x) if isinstance(x, np.ndarray) else x


def count(case: Case) -> None:
    """The faces of a case at its small size, each under its label."""
    rng = np.random.default_rng(0)
    operator, inputs, static = case.make(case.small, rng)
    inputs, static = device(inputs), {k: device(v) for k, v in static.items()}
    if "vjp" not in case.faces:
        operator(*inputs, **static)  # the first call may prepare something
        done("-")
        operator(*inputs, **static)
        done(f"{case.name}/{case.faces[0]}")
        return
    out, saved = operator.forward(*inputs, return_saved=True, **static)
    done("-")
    operator(*inputs, **static)
    done(f"{case.name}/forward")
    outs = out if isinstance(out, tuple) else (out,)
    cotangents = tuple(device(normal(rng, *o.shape, dtype=str(o.dtype))) for o in outs)
    cotangent = cotangents if isinstance(out, tuple) else cotangents[0]
    done("-")
    operator.vjp(cotangent, inputs, saved=saved, **static)
    done(f"{case.name}/vjp")


def meant(word: str) -> set[str]:
    """The cases that a word of the command line stands for."""
    if word == "all":
        return {*CASES}
    if word in CASES:
        return {word}
    return {name for name, case in CASES.items() if case.usual and fnmatch.fnmatch(name, word)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="all: every one; gat*: these")
    parser.add_argument("--times", type=int, default=1, help="so many times the small size")
    parser.add_argument("--list", action="store_true", help="the names of all cases")
    options = parser.parse_args()
    if options.list:
        print("\n".join(c.name + " (usual)" * c.usual for c in CASES.values()))
        return
    chosen = {word: meant(word) for word in options.cases or ["*"]}
    if unknown := [word for word, names in chosen.items() if not names]:
        parser.error(f"no such case: {', '.join(unknown)}; --list has them")
    named = set().union(*chosen.values())
    cases = [
        dataclasses.replace(c, small=min(options.times * c.small, c.full))
        for c in CASES.values()
        if c.name in named
    ]
    path, failed = os.environ.get("PTX_COUNT"), []
    for case in cases:
        start = time.perf_counter()
        if path:
            begin(Path(path), case)
        try:
            count(case)
        except Exception as problem:  # the others shall be counted all the same
            failed.append(case.name)
            done("-")
            print(f"{case.name}: {type(problem).__name__}: {problem}", flush=True)
            continue
        print(f"{case.name}: {time.perf_counter() - start:.1f} s", flush=True)
    if failed:
        sys.exit(f"not counted: {', '.join(failed)}")


if __name__ == "__main__":
    main()
