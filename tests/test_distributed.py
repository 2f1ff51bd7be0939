# SPDX-License-Identifier: MIT
"""Graphs over many processes, as programs that mpiexec and torchrun start.

``GNOGRAD_MPI_PROCESSES=4,8`` says how many, where others than 1 to 3 are wanted.
"""

import importlib.util
import os
import re
from pathlib import Path

import numpy as np
import pytest

import gnograd as gg
from processes import mpiexec, on_each_size, torchrun

SIZES = [int(n) for n in os.environ.get("GNOGRAD_MPI_PROCESSES", "1,2,3").split(",")]
USUAL = SIZES[len(SIZES) // 2]
"""The other numbers of processes are exhaustive."""
OTHERS = [n for n in SIZES if n != USUAL]
PLAIN = "check_plan.py", "check_operators.py", "check_triplets.py", "check_tape.py"
TORCH = "check_attention.py", "check_torch.py", "check_modules.py"


def all_passed(start, sizes, *programs):
    """Whether each of these programs ended well on each of these numbers of processes."""
    said = on_each_size(start, sizes, *programs)
    return all(said.count(f"on {n} processes") == len(programs) for n in sizes)


def test_mpi():
    more = ["check_attention.py"] if importlib.util.find_spec("torch") else []
    assert all_passed(mpiexec, [USUAL], *PLAIN, *more)


@pytest.mark.exhaustive
@pytest.mark.skipif(not OTHERS, reason="one number of processes is asked for")
def test_mpi_on_other_numbers_of_processes():
    assert all_passed(mpiexec, OTHERS, *PLAIN)


@pytest.mark.exhaustive
def test_mpi_torch():
    pytest.importorskip("torch")
    assert all_passed(mpiexec, SIZES, *TORCH)


@pytest.mark.exhaustive
def test_gloo():
    pytest.importorskip("torch")
    programs = "check_plan.py", "check_operators.py", "check_modules.py", "check_attention.py"
    assert all_passed(torchrun, [2], *programs)


@pytest.mark.exhaustive
def test_example(tmp_path):
    """The example has the same losses on one process and on three, and draws a picture."""
    pytest.importorskip("matplotlib")
    program = str(Path(__file__).parents[1] / "examples" / "distributed_mesh.py")
    losses = []
    for size in 1, 3:
        picture = tmp_path / f"{size}.png"
        said = mpiexec(size, program, "--nodes=2000", "--steps=3", f"--out={picture}")
        losses.append([float(x) for x in re.findall(r"loss (\S+)", said)])
        assert picture.stat().st_size > 10_000
    assert len(losses[0]) == 3 and losses[0][2] < losses[0][0]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


# ---- one process, which is a group as well ----


def ring(n=6):
    nodes = np.arange(n)
    return gg.Graph.from_edges(src=nodes, dst=(nodes + 1) % n)


def test_alone_an_operator_is_that_on_the_graph():
    graph = ring()
    dg = gg.DistributedGraph.from_global(graph, np.zeros(6, int))
    h = np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_array_equal(gg.agg_simple(h, graph=dg), gg.agg_simple(h, graph=graph))
    assert dg.neighbours == () and dg.n_halo == 0


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([0, 1], [0], [5, 6]), ValueError, "offsets has 2 entries, needs one more than the 2"),
        (([0, 2, 1], [0], [5, 6]), ValueError, "offsets has to rise from 0 to 1"),
        (([0, 1], [7], [5]), IndexError, "node 7 is a source of an edge, but nobody owns it"),
        (([0, 1], [-1], [5]), IndexError, r"sources\[0\] is -1"),
        (([0, 0, 0], [], [5, 5]), ValueError, "node 5 is owned by process 0 and by process 0"),
        (([0, 1], [5.0], [5]), TypeError, "sources is float64, needs integers"),
        (([[0, 1]], [5], [5]), ValueError, r"offsets has shape \(1, 2\)"),
    ],
)
def test_from_local_refuses(arguments, error, text):
    with pytest.raises(error, match=text):
        gg.DistributedGraph.from_local(*arguments)


@pytest.mark.parametrize(
    ("owner", "error", "text"),
    [
        ([0] * 5, ValueError, "owner has 5 entries, needs 6"),
        ([0] * 5 + [1], ValueError, r"owner\[5\] is 1, but there are 1 processes"),
        ([0.0] * 6, TypeError, "owner is float64"),
    ],
)
def test_from_global_refuses(owner, error, text):
    with pytest.raises(error, match=text):
        gg.DistributedGraph.from_global(ring(), owner)


def test_wrong_inputs_are_named():
    dg = gg.DistributedGraph.from_global(ring(), np.zeros(6, int))
    with pytest.raises(ValueError, match=r"agg_simple: x has shape \(5, 2\), needs \(n_src=6, D\)"):
        gg.agg_simple(np.ones((5, 2)), graph=dg)
    with pytest.raises(TypeError, match="halo: graph is of type Graph"):
        gg.halo(np.ones((6, 2)), graph=ring())
    with pytest.raises(ValueError, match=r"halo: h_own has shape \(5, 2\), needs 6 rows"):
        dg.halo(np.ones((5, 2)))
    with pytest.raises(TypeError, match="communicator: group is of type int"):
        gg.distributed.communicator(3)


def test_results_go_where_they_are_wanted():
    dg = gg.DistributedGraph.from_global(ring(), np.zeros(6, int))
    h, out = np.ones((6, 3)), np.empty((6, 3))
    for given in ((out,), out):
        out[:] = 0
        assert gg.agg_simple.forward(h, graph=dg, out=given) is out
        np.testing.assert_array_equal(out, 1)
    assert gg.agg_simple.jvp((h,), (h,), graph=dg, out=out) is out
    s, c = np.ones((6, 3)), np.arange(18.0).reshape(6, 3)
    assert gg.edge_softmax.vjp(c, (s,), graph=dg, out=out)[0] is out


def test_sums_of_one_process():
    comm = gg.distributed.communicator()
    rows = np.array([[3.0, 1.0], [4.0, 3.0]])
    np.testing.assert_array_equal(gg.distributed.mean(comm, rows), [3.5, 2])
    assert gg.distributed.norm(comm, rows[:, 0]) == 5
    total = gg.distributed.sum_gradients(comm, (rows, None))
    np.testing.assert_array_equal(total[0], rows)
    with pytest.raises(ValueError, match="mean: no process has any rows"):
        gg.distributed.mean(comm, np.empty((0, 2)))
