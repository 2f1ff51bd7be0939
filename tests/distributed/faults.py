# SPDX-License-Identifier: MIT
"""A fault on one of three processes ends the call on all of them, with one message."""

import os
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np
from setting import world

import gnograd as gg

COMM = world()
RANK = COMM.rank
N = 12


def ring(comm=COMM):
    """Each process has a third of a ring, and needs one row of the one before it."""
    mine = np.arange(N) * comm.size // N
    nodes = np.arange(N)
    graph = gg.Graph.from_edges(nodes, (nodes + 1) % N, N, N)
    return gg.DistributedGraph.from_global(graph, mine, comm)


def local(sources=None, owned=None, offsets=None):
    """Call `from_local` on the ring as a solver would; one process may give other arrays."""
    own = np.arange(N)[np.arange(N) * COMM.size // N == RANK]
    first = np.arange(own.size + 1) if offsets is None else offsets
    gg.DistributedGraph.from_local(
        first, (own - 1) % N if sources is None else sources, own if owned is None else owned, COMM
    )


def only(rank, faulty, usual=None):
    """Something on one process, something else on the others."""
    return faulty if rank == RANK else usual


DG = ring()
H = np.ones((DG.n_own, 2))
C = np.ones((DG.n_dst, 2))
W = np.ones(DG.n_edges)


def different_graphs():
    other = ring()
    gg.agg_simple(H, graph=only(1, other, DG))


def different_graph_backwards():
    other = ring()
    gg.halo.vjp(np.ones((DG.n_own + DG.n_halo, 2)), graph=only(2, other, DG))


def different_faces():
    if RANK == 1:
        gg.agg_simple.jvp((H, None), (H, None), graph=DG)
    else:
        gg.agg_simple(H, graph=DG)


def sum_or_operator():
    if RANK == 0:
        DG.sum(W)
    else:
        gg.agg_simple(H, graph=DG)


def plan_or_operator():
    if RANK == 0:
        local()
    else:
        gg.agg_simple(H, graph=DG)


def attention_without_weights():
    gg.mha_gat(H, H, np.ones(3), graph=DG, num_heads=2)


def triplets(features=4):
    gg.agg_edge_to_edge(
        np.ones((DG.n_edges, 3)), np.ones((DG.n_edges, 6)), np.ones((DG.n_edges, features)),
        np.ones((6 + 4, 2)), graph=DG, n_spherical=3, n_radial=2,
    )  # fmt: skip


def memory():
    """One process has no memory for its results."""
    wide = 10**7
    U, b_u, V, b_v = np.ones((2, 1)), np.ones(1), np.ones((1, 2, wide)), np.ones((2, wide))
    before = resource.getrlimit(resource.RLIMIT_AS)
    if RANK == 1:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + 2**26
        resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        gg.gno(H, np.ones((DG.n_edges, 2)), U, b_u, V, b_v, graph=DG)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def strange_text():
    """A message that is no text for other processes."""
    with COMM.together("strange text"):
        if RANK == 2:
            raise ZeroDivisionError("\udc80, of process 2")


FAULTS = {
    # plans
    "negative id": (lambda: local(sources=only(1, [0, 1, -7, 3])), IndexError, "sources[2] is -7"),
    "negative owned": (lambda: local(owned=only(2, [-1, 9, 10, 11])), IndexError, "owned[0] is -1"),
    "nobody's": (
        lambda: local(sources=only(2, [0, 1, 2, 99])),
        IndexError,
        "node 99 is a source of an edge, but nobody owns it",
    ),
    "far beyond": (
        lambda: local(sources=only(0, [0, 1, 2, 2**62])),
        IndexError,
        f"node {2**62} is a source of an edge, but nobody owns it",
    ),
    "two owners": (
        lambda: local(owned=only(1, [4, 5, 6, 11])),
        ValueError,
        "node 11 is owned by process 1 and by process 2",
    ),
    "twice": (
        lambda: local(owned=only(1, [4, 5, 6, 6])),
        ValueError,
        "node 6 is owned by process 1 and by process 1",
    ),
    "offsets": (lambda: local(offsets=only(0, [0, 3, 1, 2, 4])), ValueError, "offsets has to rise"),
    "floats": (lambda: local(sources=only(2, np.ones(4))), TypeError, "sources is float64"),
    "owner": (
        lambda: gg.DistributedGraph.from_global(
            gg.Graph([0, 0], [], n_src=1), only(1, [0, 0], [0]), COMM
        ),
        ValueError,
        "owner has 2 entries, needs 1",
    ),
    "rank": (
        lambda: gg.DistributedGraph.from_global(
            gg.Graph([0, 0], [], n_src=1), only(2, [COMM.size], [0]), COMM
        ),
        ValueError,
        "owner[0] is 3, but there are 3 processes",
    ),
    "radius": (
        lambda: gg.DistributedGraph.radius(
            only(1, np.full((2, 2), np.nan), np.ones((2, 2))), 0.5, COMM
        ),
        ValueError,
        "x_own has entries that are not finite",
    ),
    # operators
    "rows": (
        lambda: gg.agg_simple(only(1, H[1:], H), graph=DG),
        ValueError,
        "agg_simple: x has shape (3, 2), needs (n_src=4, D)",
    ),
    "no array": (
        lambda: gg.agg_simple(only(2, None, H), graph=DG), Exception, "agg_simple: ",
    ),
    "unknown argument": (
        lambda: gg.agg_simple(H, graph=DG, **only(2, {"no": 1}, {})),
        TypeError,
        "unknown argument 'no'",
    ),
    "too many": (
        lambda: gg.agg_simple(*only(0, (H, None, H), (H,)), graph=DG), TypeError, "3 arrays",
    ),
    "no inputs": (
        lambda: gg.agg_weighted.vjp(C, only(1, None, (H, W)), graph=DG), TypeError, "inputs",
    ),
    "wrt that is none": (
        lambda: gg.agg_weighted.vjp(C, (H, W), wrt=only(1, 3, "w"), graph=DG), TypeError, "wrt is",
    ),
    "saved": (
        lambda: gg.agg_weighted.vjp(C, (H, W), saved=only(2, 3, None), graph=DG),
        TypeError,
        "agg_weighted: saved ",
    ),
    "features": (lambda: gg.agg_simple(only(0, H[:, 1:], H), graph=DG), RuntimeError, "different"),
    "dtype": (
        lambda: gg.agg_simple(only(1, H.astype(np.float32), H), graph=DG),
        RuntimeError,
        "process 1 agg_simple.forward(float32[2], ",
    ),
    "integers": (
        lambda: gg.agg_simple(only(1, H.astype(int), H), graph=DG), TypeError, "agg_simple: x is ",
    ),
    "operator": (
        lambda: gg.agg_weighted(H, W, graph=DG) if RANK == 1 else gg.agg_simple(H, graph=DG),
        RuntimeError,
        "process 1 agg_weighted.forward(",
    ),
    "face": (different_faces, RuntimeError, "process 1 agg_simple.jvp("),
    "wrt": (
        lambda: gg.agg_weighted.vjp(C, (H, W), wrt=only(2, ["x"], ["w"]), graph=DG),
        RuntimeError,
        "process 2 agg_weighted.vjp by ['x'](",
    ),
    "unknown wrt": (
        lambda: gg.agg_weighted.vjp(C, (H, W), wrt=only(2, ["y"], ["w"]), graph=DG),
        ValueError,
        "wrt names 'y'",
    ),
    "cotangent": (
        lambda: gg.agg_weighted.vjp(only(1, C[1:], C), (H, W), graph=DG), ValueError, "cotangent",
    ),
    "cotangent's dtype": (
        lambda: gg.agg_weighted.vjp(only(1, C.astype(np.float32), C), (H, W), graph=DG),
        TypeError,
        "cotangent",
    ),
    "tangent": (
        lambda: gg.agg_weighted.jvp((H, W), (only(0, H[1:], H), W), graph=DG),
        ValueError,
        "tangent of x has shape (3, 2)",
    ),
    "aggregation": (
        lambda: gg.agg_simple(H, graph=DG, aggregation=only(2, "most", "sum")),
        ValueError,
        "aggregation is 'most'",
    ),
    "different aggregations": (
        lambda: gg.agg_simple(H, graph=DG, aggregation=only(2, "mean", "sum")),
        RuntimeError,
        "the processes do different things",
    ),
    "memory": (memory, MemoryError, "(process 1)"),
    "strange text": (strange_text, RuntimeError, "ZeroDivisionError: ?, of process 2 (process 2)"),
    "weights": (attention_without_weights, ValueError, "mha_gat: a has"),
    "extended": (
        lambda: gg.agg_simple(only(1, DG_EXTENDED, H), graph=DG),
        ValueError,
        "agg_simple: an input has the rows of the halo on some processes, not on others",
    ),
    "out": (
        lambda: gg.agg_simple.forward(
            H, graph=DG, out=only(1, (np.ones((1, 2)),), (np.ones((4, 2)),))
        ),
        ValueError,
        "agg_simple: out for out has shape (1, 2)",
    ),
    "another graph": (different_graphs, RuntimeError, "the processes do different things"),
    "halo's rows": (
        lambda: gg.halo(only(2, H[1:], H), graph=DG), ValueError, "halo: h_own has shape (3, 2)",
    ),
    "halo's dtype": (
        lambda: gg.halo(only(2, H.astype(int), H), graph=DG),
        RuntimeError,
        "process 2 halo(int64[2])",
    ),
    "halo on another graph": (different_graph_backwards, RuntimeError, "different things"),
    "edges": (lambda: triplets(only(1, 5, 4)), Exception, "agg_edge_to_edge"),
    # what is no operator
    "sum or operator": (sum_or_operator, RuntimeError, "process 0 sum of float64[4]"),
    "plan or operator": (plan_or_operator, RuntimeError, "process 0 DistributedGraph.from_local"),
    "sum": (lambda: DG.sum(only(1, W[1:], W)), RuntimeError, "process 1 sum of float64[3]"),
    "mean or norm": (
        lambda: DG.norm(H) if RANK == 1 else DG.mean(H), RuntimeError, "process 1 norm of float64",
    ),
    "mean of a number": (lambda: DG.mean(only(1, 3.0, H)), ValueError, "mean: a number was given"),
    "gradient that is none": (
        lambda: DG.sum_gradients(only(0, ["w"], [W])), TypeError, "sum_gradients: needs an array",
    ),
    "sum of text": (lambda: DG.sum(only(1, "text", W)), TypeError, "sum: needs an array of num"),
    "gradients": (lambda: DG.sum_gradients(only(1, (W,), (W, W))), RuntimeError, "different"),
    # the communicator itself
    "gather or sum": (
        lambda: COMM.all_gather([1.0]) if RANK == 1 else DG.sum(W),
        RuntimeError,
        "process 1 all_gather of float64[1]",
    ),
    "gather of other numbers": (
        lambda: COMM.all_gather(only(1, [1.0, 2.0], [1.0])),
        RuntimeError,
        "process 1 all_gather of float64[2]",
    ),
    "maximum or gather": (
        lambda: COMM.maximum([1]) if RANK == 2 else COMM.all_gather([1]),
        RuntimeError,
        "process 2 maximum",
    ),
    "swap or sum": (
        lambda: COMM.swap([W] * 3) if RANK == 0 else COMM.sum(W),
        RuntimeError,
        "process 1 sum of float64[4]",
    ),
    "all_to_all of too many": (
        lambda: COMM.all_to_all(only(1, [1, 2], [1, 2, 3])), ValueError, "all_to_all: values has",
    ),
}  # fmt: skip
DG_EXTENDED = gg.halo(H, graph=DG)


def message_of(name, call):
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError(f"{name}: no error")


def check(name, call, kind, text):
    error = message_of(name, call)
    assert isinstance(error, kind), f"{name}: {error!r}"
    assert text in str(error), f"{name}: {error!r}"
    told = COMM._texts(f"{type(error).__name__}: {error}")
    assert len(set(told)) == 1, f"{name}: {told}"
    # and all goes on
    assert np.array_equal(gg.agg_simple(H, graph=DG), H), name


def caught():
    done = 0
    for name, (call, kind, text) in FAULTS.items():
        if os.environ.get("FAULT", name) != name:
            continue
        try:
            check(name, call, kind, text)
        except Exception:
            print(f"process {RANK}: {name}", flush=True)
            raise
        done += 1
    if RANK == 0:
        print(f"{done} faults on {COMM.size} processes")


def subgroups():
    """Communicators that come and go, with handles that MPI uses again."""
    from mpi4py import MPI

    none = MPI.COMM_WORLD.Split(MPI.UNDEFINED)
    assert "is not in it" in str(message_of("none", lambda: gg.distributed.communicator(none)))
    for turn in range(30):
        part = MPI.COMM_WORLD.Split((RANK + turn) % 2, RANK)
        dg = ring(gg.distributed.communicator(part))
        assert dg.comm is gg.distributed.communicator(part)
        assert dg.comm.size == part.Get_size() and dg.comm.rank == part.Get_rank()
        h = np.arange(N)[dg.owned][:, None].astype(float)
        assert np.array_equal(gg.agg_simple(h, graph=dg)[:, 0], (dg.owned - 1) % N)
        part.Free()
    if RANK == 0:
        print(f"{turn + 1} groups in {COMM.size} processes")


def uncaught():
    """An error of the program's own on one process, while the others wait for it."""
    if RANK == 1:
        raise ZeroDivisionError("of process 1 alone")
    for _ in range(10):
        gg.agg_simple(H, graph=DG)


def killed():
    """One process is killed in the midst of its work."""
    for step in range(10**6):
        gg.agg_simple.vjp(C, (H, None), graph=DG)
        if RANK == 1 and step == 20:
            print("killed", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)


def late():
    """One process is killed, and the others find out only when they need it."""
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)
    gg.agg_simple(H, graph=DG)


def left():
    """One process ends well, before the others."""
    if RANK != 1:
        for _ in range(10):
            gg.agg_simple(H, graph=DG)


def exits():
    """One process ends as programs do that print how they are used."""
    if RANK == 1:
        sys.exit("of process 1 alone")
    gg.agg_simple(H, graph=DG)


MODES = caught, subgroups, uncaught, killed, late, left, exits
{mode.__name__: mode for mode in MODES}[sys.argv[1]]()
