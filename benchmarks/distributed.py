# SPDX-License-Identifier: MIT
"""Graphs over many processes: parts beside METIS's, plans, what is sent, and speed.

    partition   rows that all parts need of others (pairs of a part and a source that it does not
                own) and times, beside METIS, slabs along x and a random partition: the Delaunay
                mesh of random points in a square, and a radius graph in a cube. "METIS" is as
                pymetis calls it, which minimises cut edges; "volume" as gnograd calls it
    plan        from chunks of points on 4 processes to a graph on all of them: partition,
                redistribute, then from_local with the edges that a solver has, or radius
    volume      messages and bytes of a halo, a forward and a backward pass, as they are handed to
                the engine, beside what gathering all features on all processes would move
    scaling     a training step (values and all gradients) of GNO and of a mean over neighbours,
                64 features, as a fraction of the speed of one process with as many threads

    python benchmarks/distributed.py [--parts partition plan volume scaling] [--side 1000]
                                     [--processes 4] [--workers 2] [--repeats 5]
                                     [--clock processor] [--json FILE]

Meshes of the last three are grids of side x side nodes, shaken, with edges to six neighbours. Every
row of "plan" to "scaling" is a program of its own, which mpiexec starts: mpi4py and MPI are needed.
Times are of the slowest process. "processor" counts what its cores were busy for, which does not
change where processes are more than cores; "cores busy" is the sum of that over all processes,
with what they spend on waiting for each other. Fractions of speeds are by the least times, as other
work on a machine only adds to them. pymetis is optional. The clock and the file are for "partition"
alone.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from results import CLOCKS, Results, add_clock, add_option

import gnograd as gg

WIDTH, HIDDEN = 64, 8
PARTS = ("partition", "plan", "volume", "scaling")
STEPS = np.array([(-1, -1), (-1, 0), (0, -1), (0, 1), (1, 0), (1, 1)])
"""Steps to the neighbours of a node in the grid"""


# ---- parts of a graph that one process has ----


def delaunay(n: int) -> tuple[np.ndarray, gg.Graph]:
    from scipy.spatial import Delaunay

    x = np.random.default_rng(0).random((n, 2))
    offsets, indices = Delaunay(x).vertex_neighbor_vertices
    return x, gg.Graph(offsets.astype(np.int64), indices)


def cube(n: int) -> tuple[np.ndarray, gg.Graph]:
    """Some 16 neighbours a point."""
    x = np.random.default_rng(0).random((n, 3))
    return x, gg.Graph.radius(x, (16 / n / (4 / 3 * np.pi)) ** (1 / 3), include_self=False)


def foreign_rows(graph: gg.Graph, owner: np.ndarray) -> int:
    of_dst, of_src = owner[graph.dst], owner[graph.src]
    foreign = of_dst != of_src
    pairs = of_dst[foreign].astype(np.int64) * graph.n_src + graph.src[foreign]
    pairs.sort()
    return int(np.count_nonzero(np.diff(pairs))) + (len(pairs) > 0)


def metis_of_pymetis(graph: gg.Graph, n_parts: int) -> np.ndarray:
    """Edges in both directions, and no others, are what METIS takes."""
    import pymetis

    adjacency = pymetis.CSRAdjacency(graph.offsets, graph.indices)
    return np.asarray(pymetis.part_graph(n_parts, adjacency)[1])


def partition_part(side: int, repeats: int, clock: Callable[[], float], results: Results) -> None:
    print(
        "| mesh | parts | rows | of METIS | of volume | slabs | random | most less least nodes | "
        "time | METIS |\n|" + " --- |" * 10
    )
    for name, make in (("2-D Delaunay", delaunay), ("3-D radius", cube)):
        x, graph = make(side**2)
        for n_parts in (2, 3, 4, 8, 16):
            rows, seconds, uneven = compared(x, graph, n_parts, repeats, clock)
            for who, n_rows in rows.items():
                taken = seconds.get(who)
                results.add(
                    name, f"{n_parts} parts", who, threads=1, rows=n_rows, seconds=taken,
                    ratio=taken and taken / seconds["gnograd"],
                )  # fmt: skip
            of = {who: n_rows / rows["gnograd"] for who, n_rows in rows.items()}
            columns = (
                name, n_parts, rows["gnograd"], f"{1 / of.get('METIS', np.nan):.3f}",
                f"{1 / of.get('METIS, volume', np.nan):.3f}", f"{of['slabs']:.1f}x",
                f"{of['at random']:.1f}x", uneven, f"{seconds['gnograd']:.2f} s",
                f"{seconds.get('METIS', np.nan):.2f} s",
            )  # fmt: skip
            print("| " + " | ".join(map(str, columns)) + " |", flush=True)


def compared(
    x: np.ndarray, graph: gg.Graph, n_parts: int, repeats: int, clock: Callable[[], float]
) -> tuple[dict[str, int], dict[str, float], int]:
    """Rows and seconds by contestant, and by how many nodes our parts differ."""
    ours, taken = timed(lambda: gg.distributed.partition(x, n_parts), repeats, clock)
    owners, seconds = {"gnograd": ours}, {"gnograd": taken}
    if importlib.util.find_spec("pymetis"):
        owners["METIS"], seconds["METIS"] = timed(
            lambda: metis_of_pymetis(graph, n_parts), 1, clock
        )
        owners["METIS, volume"] = gg.distributed.partition(None, n_parts, "metis", graph)
    owners["slabs"] = np.argsort(np.argsort(x[:, 0])) * n_parts // len(x)
    owners["at random"] = np.random.default_rng(1).integers(0, n_parts, len(x))
    rows = {who: foreign_rows(graph, owner) for who, owner in owners.items()}
    return rows, seconds, int(np.ptp(np.bincount(ours, minlength=n_parts)))


def timed(
    step: Callable[[], np.ndarray], repeats: int, clock: Callable[[], float]
) -> tuple[np.ndarray, float]:
    taken = []
    for _ in range(repeats):
        start = clock()
        result = step()
        taken.append(clock() - start)
    return result, statistics.median(taken)


# ---- programs that mpiexec starts ----


class Clock:
    """Times of the slowest process, of steps that all begin together."""

    def __init__(self, comm: gg.distributed.Communicator) -> None:
        self.comm, self.times = comm, {}

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        self.comm.maximum([0])
        start, processor = time.perf_counter(), time.process_time()
        yield
        taken = time.perf_counter() - start, time.process_time() - processor
        slowest = self.comm.maximum([int(1e9 * t) for t in taken]) / 1e9
        self.times.setdefault(step, []).append(slowest.tolist())

    def medians(self) -> dict[str, list[float]]:
        return {step: np.median(taken, axis=0).tolist() for step, taken in self.times.items()}


def place(node: np.ndarray, side: int) -> np.ndarray:
    """Positions of nodes: points of the grid, jittered by a function of their numbers."""
    row, column = np.divmod(node, side)
    shaken = [np.sin(12.9898 * node + 78.233 * axis) * 43758.5453 % 1 - 0.5 for axis in (0, 1)]
    return np.stack([row + 0.4 * shaken[0], column + 0.4 * shaken[1]], axis=1) / side


def edges_to(node: np.ndarray, side: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and sources of the edges that end at nodes."""
    row, column = np.divmod(node, side)
    rows, columns = row[:, None] + STEPS[:, 0], column[:, None] + STEPS[:, 1]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < side)
    offsets = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    return offsets, (rows * side + columns)[inside]


def chunk(comm: gg.distributed.Communicator, side: int, height: int) -> np.ndarray:
    """The nodes that this process reads from a file."""
    n = side * height
    return np.arange(n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size)


def distributed(
    comm: gg.distributed.Communicator, side: int, height: int, clock: Clock
) -> tuple[gg.DistributedGraph, np.ndarray]:
    """The mesh over all processes, and the nodes of this one."""
    node = chunk(comm, side, height)
    x = place(node, side)
    with clock.of("partition"):
        owner = gg.distributed.partition(x, comm.size, comm=comm)
    with clock.of("redistribute"):
        _, node = gg.distributed.redistribute(comm, owner, x, node)
    offsets, sources = edges_to(node, side, height)
    with clock.of("from_local"):
        dg = gg.DistributedGraph.from_local(offsets, sources, node, comm)
    return dg, dg.owned


def plan_program(comm, options) -> dict:
    clock, side = Clock(comm), options.side
    for _ in range(options.repeats):
        dg, _ = distributed(comm, side, side, clock)
        with clock.of("graphs"):
            edges = dg.interior.n_edges + dg.boundary.n_edges
        node = np.sort(dg.owned)
        with clock.of("radius"):
            near = gg.DistributedGraph.radius(place(node, side), 1.6 / side, comm)
    return {
        "times": clock.medians(),
        "edges": [edges, near.n_edges],
        "halo": int(comm.maximum([dg.n_halo])[0]),
    }


def volume_program(comm, options) -> dict:
    dg, node = distributed(comm, options.side, options.side, Clock(comm))
    h = np.ones((len(node), WIDTH), np.float32)
    row = WIDTH * h.itemsize
    sent = [0, 0]
    start = comm.start

    def counted(sends, receives):
        sent[0] += len(sends)
        sent[1] += sum(memory.nbytes for _, memory in sends)
        return start(sends, receives)

    comm.start = counted
    found = {}
    halo, n_halo = dg.n_halo, int(comm.sum(np.array([dg.n_halo]))[0])
    _, saved = gg.agg_simple.forward(h, graph=dg, return_saved=True)
    steps = {
        "halo": lambda: gg.halo(h, graph=dg),
        "halo.vjp": lambda: gg.halo.vjp(np.ones((len(h) + halo, WIDTH), "f4"), graph=dg),
        "agg_simple": lambda: gg.agg_simple(h, graph=dg),
        "agg_simple.vjp, saved": lambda: gg.agg_simple.vjp(h, (h,), saved=saved, graph=dg),
    }
    for name, step in steps.items():
        sent[:] = [0, 0]
        step()
        messages, n_bytes = comm.sum(np.array(sent)).tolist()
        assert n_bytes == n_halo * row, (name, n_bytes, n_halo * row)
        found[name] = [messages, n_bytes]
    del comm.start
    everything = options.side**2 * (comm.size - 1) * row
    return {"sent": found, "rows": n_halo, "row": row, "all": everything}


def scaling_program(comm, options) -> dict:
    gg.set_num_threads(options.threads)
    dg, node = distributed(comm, options.side, options.height, Clock(comm))
    rng = np.random.default_rng(0)
    h, c = (rng.standard_normal((len(node), WIDTH), dtype=np.float32) for _ in range(2))
    ids = np.concatenate([dg.owned, dg.halo_ids])
    ends = [place(ids[nodes], options.side) for nodes in (dg.local.src, dg.local.dst)]
    coords = (options.side * (ends[1] - ends[0])).astype(np.float32)
    del ends, ids
    weights = [
        rng.standard_normal(shape).astype(np.float32) * 0.1
        for shape in ((2, HIDDEN), HIDDEN, (HIDDEN, WIDTH, WIDTH), (WIDTH, WIDTH))
    ]

    def gno() -> None:
        inputs = (h, coords, *weights)
        _, saved = gg.gno.forward(*inputs, graph=dg, return_saved=True)
        gradients = gg.gno.vjp(c, inputs, saved=saved, graph=dg)
        gg.distributed.sum_gradients(comm, list(gradients[2:6]))

    def agg() -> None:
        static = {"graph": dg, "aggregation": "mean"}
        _, saved = gg.agg_simple.forward(h, **static, return_saved=True)
        gg.agg_simple.vjp(c, (h,), saved=saved, **static)

    step = {"gno": gno, "agg": agg}[options.step]
    step()
    clock, busy = Clock(comm), []
    for _ in range(options.repeats):
        start = time.process_time()
        with clock.of("step"):
            step()
        busy.append(comm.sum(np.array([time.process_time() - start])).item())
    return {"times": [wall for wall, _ in clock.times["step"]], "busy": busy}


PROGRAMS = {"plan": plan_program, "volume": volume_program, "scaling": scaling_program}


def launch(n: int, program: str, threads: int = 1, **arguments: object) -> dict:
    """Result of a program under n processes."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "false"}
    launcher = shutil.which("mpiexec")
    try:  # the launcher of mpi4py's MPI, which need not be the system's
        prefix = Path(importlib.metadata.distribution("mpich").locate_file("")).parents[2]
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        launcher = str(prefix / "bin" / "mpiexec")
        paths = [str(prefix / "lib"), environment.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    if launcher is None:
        sys.exit("there is no mpiexec: pip install mpi4py mpich")
    given = {**arguments, "program": program, "threads": threads}
    flags = [text for name, value in given.items() for text in (f"--{name}", str(value))]
    ended = subprocess.run(
        [launcher, "-n", str(n), sys.executable, __file__, *flags],
        env=environment, stdout=subprocess.PIPE, text=True, timeout=3600, check=True,
    )  # fmt: skip
    return json.loads(ended.stdout.splitlines()[-1])


# ---- tables ----


def plan_part(n: int, side: int, repeats: int) -> None:
    found = launch(n, "plan", side=side, repeats=repeats)
    print(f"{side}^2 nodes on {n} processes with a thread each, {os.cpu_count()} cores")
    print(f"edges of process 0: {found['edges'][0]} of the mesh, {found['edges'][1]} by radius; ")
    print(f"largest halo {found['halo']} rows\n\n| step | time | processor |\n| --- | --- | --- |")
    for step, (wall, processor) in found["times"].items():
        print(f"| {step} | {wall:.2f} s | {processor:.2f} s |")


def volume_part(n: int, side: int) -> None:
    found = launch(n, "volume", side=side)
    print(f"{found['rows']} rows of {found['row']} bytes in all halos, {n} processes\n")
    print("| call | messages | bytes | to all processes |\n| --- | --- | --- | --- |")
    for call, (messages, n_bytes) in found["sent"].items():
        print(f"| {call} | {messages} | {n_bytes} | {found['all'] / n_bytes:.0f}x |")


def scaling_part(workers: int, side: int, repeats: int) -> None:
    whole = f"1 x {workers}"
    print(
        f"| step | nodes | processes x threads | median | least | of {whole} | cores busy |\n|"
        + " --- |" * 7
    )
    for step in ("gno", "agg"):
        plain = {"side": side, "step": step, "repeats": repeats}
        contestants = {
            whole: (1, workers, side),
            f"{workers} x 1": (workers, 1, side),
            "1 x 1": (1, 1, side),
            f"1 x 1, one of {workers} parts": (1, 1, side // workers),
        }
        found: dict[str, list[dict]] = {name: [] for name in contestants}
        for _ in range(3):  # in turns, as other work on the machine comes and goes
            for name, (n, threads, height) in contestants.items():
                found[name].append(launch(n, "scaling", threads, height=height, **plain))
        times, busy = (
            {name: [t for run in runs for t in run[kind]] for name, runs in found.items()}
            for kind in ("times", "busy")
        )
        for name, (_, _, height) in contestants.items():
            least = min(times[name])
            print(
                f"| {step} | {side * height} | {name} | {statistics.median(times[name]):.3f} s | "
                f"{least:.3f} s | {min(times[whole]) / least:.3f} | {min(busy[name]):.3f} s |",
                flush=True,
            )


def main() -> None:
    """The tables; or, started by mpiexec, a program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    for name in ("program", "step"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    for name in ("threads", "height"):
        parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    add_clock(parser)
    add_option(parser)
    options = parser.parse_args()
    if options.program:
        comm = gg.distributed.communicator()
        found = PROGRAMS[options.program](comm, options)
        if comm.rank == 0:
            print(json.dumps(found))
        return
    side, repeats, results = options.side, options.repeats, Results(options.json)
    tables = {
        "partition": lambda: partition_part(side, repeats, CLOCKS[options.clock], results),
        "plan": lambda: plan_part(options.processes, side, repeats),
        "volume": lambda: volume_part(options.processes, side),
        "scaling": lambda: scaling_part(options.workers, side, repeats),
    }
    for part in options.parts:
        print(f"\n{part}\n")
        tables[part]()


if __name__ == "__main__":
    main()
