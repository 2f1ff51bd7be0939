# SPDX-License-Identifier: MIT
"""Graphs over many processes, as programs that mpiexec and torchrun start.

``GNOGRAD_MPI_PROCESSES=4,8`` says how many, where others than 1 to 3 are wanted.
"""

import copy
import importlib.util
import os
import pickle
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


def test_means_and_norms_of_integers_are_no_integers():
    comm = gg.distributed.communicator()
    assert gg.distributed.mean(comm, np.array([1, 2])) == 1.5
    assert gg.distributed.norm(comm, np.array([1, 1], np.int8)) == np.sqrt(2)
    assert gg.distributed.mean(comm, np.array([1, 2], np.float32)).dtype == np.float32


def test_sums_of_tensors():
    torch = pytest.importorskip("torch")
    comm = gg.distributed.communicator()
    rows = torch.full((100, 2), 1000.0, dtype=torch.float16)  # sums and squares overflow
    mean, norm = gg.distributed.mean(comm, rows), gg.distributed.norm(comm, rows)
    assert mean.dtype == norm.dtype == torch.float16
    assert mean.tolist() == [1000, 1000] and abs(norm.item() - 14142) < 5
    assert gg.distributed.norm(comm, torch.tensor([100, 100], dtype=torch.int8)) == 20_000**0.5
    with pytest.raises(TypeError, match=r"sum: needs an array of numbers, got bool\[2\]"):
        gg.distributed.sum(comm, torch.tensor([True, False]))
    with pytest.raises(ValueError, match="mean: a number was given, needs rows"):
        gg.distributed.mean(comm, torch.tensor(1.0))


def test_gradients_of_an_optimizer_and_no_parameters():
    torch = pytest.importorskip("torch")
    comm = gg.distributed.communicator()
    layer = torch.nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    optimizer = torch.optim.SGD(layer.parameters())
    assert gg.distributed.sum_gradients(comm, optimizer) is optimizer
    assert layer.weight.grad.tolist() == [[1, 1]]
    gradients = [p.grad for p in layer.parameters()]
    assert torch.equal(gg.distributed.sum_gradients(comm, gradients)[0], gradients[0])
    for wrong in ([*layer.parameters()], dict(layer.named_parameters())):
        with pytest.raises(TypeError, match=r"gradients\[.*\] is a parameter, needs its gradient"):
            gg.distributed.sum_gradients(comm, wrong)
    for wrong in (layer.parameters(), (p.grad for p in layer.parameters())):
        with pytest.raises(TypeError, match="gradients is of type generator, needs a sequence or"):
            gg.distributed.sum_gradients(comm, wrong)
    with pytest.raises(TypeError, match=r"gradients\[1\] is of type str, needs a tensor"):
        gg.distributed.sum_gradients(comm, (gradients[0], "w"))


def test_transforms_of_sums_and_halos():
    torch = pytest.importorskip("torch")
    dg = gg.DistributedGraph.from_global(ring(), np.zeros(6, int))
    x, t = torch.randn(2, 6, 3, dtype=torch.float64)
    weights = torch.randn(6, 3, dtype=torch.float64)

    def energy(x):
        return dg.sum((weights * dg.halo(x)) ** 3).sum()

    def alone(x):
        return ((weights * x) ** 3).sum()

    for transform in (torch.func.grad, torch.func.hessian, torch.func.jacfwd):
        torch.testing.assert_close(transform(energy)(x), transform(alone)(x))
    actual, expected = (torch.func.jvp(f, (x,), (t,)) for f in (energy, alone))
    torch.testing.assert_close(actual, expected)
    batch = torch.stack([x, t])
    torch.testing.assert_close(torch.vmap(energy)(batch), torch.vmap(alone)(batch))


def test_a_distributed_graph_is_copied_as_itself_and_not_pickled():
    dg = gg.DistributedGraph.from_global(ring(), np.zeros(6, int))
    assert copy.copy(dg) is dg and copy.deepcopy({"graph": dg})["graph"] is dg
    with pytest.raises(TypeError, match=r"DistributedGraph: .* cannot be pickled"):
        pickle.dumps(dg)


def test_tensors_that_do_not_go_with_many_processes():
    torch = pytest.importorskip("torch")
    gt = pytest.importorskip("gnograd.torch")
    dg = gg.DistributedGraph.from_global(ring(), np.zeros(6, int))
    x, w = torch.ones(6, 2), torch.ones(6)
    with pytest.raises(TypeError, match="agg_weighted: x is bfloat16 but w is float32"):
        gt.agg_weighted(x.bfloat16(), w, graph=dg)
    with pytest.raises(TypeError, match="agg_weighted: x is float32 but w is bfloat16"):
        gt.agg_weighted(x, w.bfloat16(), graph=dg)
    for function in (lambda x: gt.agg_simple(x, graph=dg), dg.halo, dg.sum):
        with pytest.raises(NotImplementedError, match="there are no tensors without numbers"):
            function(torch.ones(6, 2, device="meta"))

    class Model(torch.nn.Module):
        def forward(self, x):
            return gt.agg_simple(x, graph=dg)

    with pytest.raises(Exception, match=r"agg_simple: .* there are no tensors without numbers"):
        torch.export.export(Model(), (x,), strict=False)
    with pytest.raises(NotImplementedError, match=r"agg_simple: torch\.jit\.trace cannot record"):
        torch.jit.trace(Model(), x)
