# SPDX-License-Identifier: MIT
"""Common code of the programs: graphs, owners, and calls of operators on them."""

import atexit
import faulthandler
import os
import sys
import weakref
from pathlib import Path

import numpy as np

import gnograd as gg

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import Edges, edges, power_law
from gnograd.distributed.roles import role_of
from table import FRONT

SECONDS = 240
faulthandler.dump_traceback_later(SECONDS, exit=True)  # what hangs says where, and ends by itself
group = None
"""Processes of MPI that are the world of a program, if it is not all."""

NODES, DIRECTED = 40, 150


def world():
    """The communicator of all processes of this program, whoever started it."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        import torch.distributed as dist

        import gnograd.torch  # noqa: F401  before there is a group: it would not end

        if not dist.is_initialized():
            dist.init_process_group("gloo")
            atexit.register(_end, weakref.ref(dist.group.WORLD))
    return gg.distributed.communicator(group)


def _end(group):
    """End the default group, which nothing may keep: its threads could abort the program's exit."""
    import torch.distributed as dist

    dist.destroy_process_group()
    if group() is not None:
        print("the process group is kept beyond its end", file=sys.stderr, flush=True)
        os._exit(1)


def situations(size):
    """Edges, owners of destinations, and owners of sources or None: what processes come across."""
    rng = np.random.default_rng(size)
    random = rng.integers(0, size, NODES)
    directed = power_law(NODES, DIRECTED, seed=3)
    ring = edges([(k, (k + 1) % 12) for k in range(12)], 12, 12)
    blocks = np.arange(12) * size // 12
    apart = edges([(i, j) for i in range(12) for j in range(12) if blocks[i] == blocks[j]], 12, 12)
    bipartite = edges([(int(a), int(b)) for a, b in rng.integers(0, (17, 9), (50, 2))], 17, 9)
    last = np.full(NODES, size - 1)
    return {
        "directed": (directed, random, None),
        "one way round": (ring, blocks, None),
        "no halo": (apart, blocks, None),
        "empty processes": (directed, last, None),
        "bipartite": (bipartite, rng.integers(0, size, 9), rng.integers(0, size, 17)),
        "no destinations": (bipartite, np.zeros(9, int), rng.integers(0, size, 17)),
        "no edges": (edges([], 5, 5), np.arange(5) % size, None),
        "no nodes": (edges([], 0, 0), np.zeros(0, int), None),
    }


def call_on(name: str, graph: Edges, seed=1):
    """Inputs in float64 of an operator for a graph, and static arguments but the graph."""
    case = FRONT[name]
    # random numbers of an edge are those of its process
    left_out = ("graph", "dropout", "seed")
    static = {k: v for k, v in case.arguments(graph).items() if k not in left_out}
    return list(case.inputs(graph, np.random.default_rng(seed))), static


def parts(dg, specs, arrays):
    """Rows of this process of arrays that belong to the whole graph."""
    rows = {"n_src": dg.owned, "n_dst": dg.owned_dst, "n_edges": dg.edges}
    found = []
    for array, spec in zip(arrays, specs, strict=False):
        of, axis = role_of(spec)
        found.append(array if array is None or not of else array.take(rows[of], axis))
    return found


def everything(values):
    """Outputs as a tuple, whether there is one or there are several."""
    return values if isinstance(values, tuple) else (values,)


EVERYWHERE = "agg_concat", "agg_edge_to_edge", "edge_softmax", "gno"
"""Operators that are tried in all situations, with arrays of every kind of rows among them."""


def for_all_operators(size, check, labels=None):
    """Check all operators on graphs in the situations of so many processes; how many there were.

    An operator is tried in every third situation, those of EVERYWHERE in all; and all in those that
    are named.
    ``check(name, graph, owners)`` gets the owners of destinations, and of sources or None.
    """
    done = 0
    for turn, (label, (graph, owner, owner_src)) in enumerate(situations(size).items()):
        for k, name in enumerate(FRONT):
            operator = getattr(gg, name)
            if not labels and name not in EVERYWHERE and (turn + k) % 3:
                continue
            # edges only meet where sources are destinations
            meets = operator.hops == 1 or owner_src is None
            if "graph" not in operator.static or not meets or (labels and label not in labels):
                continue
            try:
                check(name, graph, (owner, owner_src))
            except Exception as error:
                raise AssertionError(f"{label}, {name}") from error
            done += 1
    return done
