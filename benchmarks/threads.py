# SPDX-License-Identifier: MIT
"""Cost of the default number of threads beside other work, and on a quiet machine.

A step is two operators on a small or a larger graph, with as much work of Python's between as the
operators take. Contestants are fresh processes that take turns:

default   neither OMP_NUM_THREADS nor OMP_WAIT_POLICY is set
passive   OMP_WAIT_POLICY=passive
one       OMP_NUM_THREADS=1

A row's `busy` is how many busy processes a processor there are meanwhile. Times are medians of
`--runs` runs of three seconds; the first half second of each is left out.

    python benchmarks/threads.py [--busy 0 2] [--runs 5]
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

CONTESTANTS = {
    "default": {},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "one": {"OMP_NUM_THREADS": "1"},
}
STEPS = """
import sys, time
import numpy as np
import gnograd as gg

n, radius = int(sys.argv[1]), float(sys.argv[2])
rng = np.random.default_rng(0)
graph = gg.Graph.radius(rng.random((n, 2)), radius)
x = rng.standard_normal((n, 32), dtype=np.float32)
w = rng.standard_normal(graph.n_edges, dtype=np.float32)

def step():
    gg.agg_weighted(x, w, graph=graph)
    gg.agg_simple(x, graph=graph, aggregation="mean")
    sum(range(n))

def steps(seconds):
    start, n = time.perf_counter(), 0
    while (taken := time.perf_counter() - start) < seconds:
        step()
        n += 1
    return taken / n

steps(0.5)
print(1e6 * steps(3.0))
"""


def microseconds(n: int, radius: float, environment: dict[str, str]) -> float:
    """Time of a step in a process of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    command = [sys.executable, "-c", STEPS, str(n), str(radius)]
    done = subprocess.run(
        command, env=kept | environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


@contextlib.contextmanager
def busy_processes(n: int) -> Iterator[None]:
    """Work that has nothing to do with us."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    print(f"{'busy':>4} {'nodes':>6} " + " ".join(f"{name + ', us':>12}" for name in CONTESTANTS))
    for busy in given.busy:
        with busy_processes(busy * (os.cpu_count() or 1)):
            for n, radius in ((2000, 0.05), (20000, 0.02)):
                taken: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
                for _ in range(given.runs):
                    for name, environment in CONTESTANTS.items():
                        taken[name].append(microseconds(n, radius, environment))
                row = {name: statistics.median(times) for name, times in taken.items()}
                print(f"{busy:>4} {n:>6} " + " ".join(f"{t:12.0f}" for t in row.values()))


if __name__ == "__main__":
    main()
