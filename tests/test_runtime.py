# SPDX-License-Identifier: MIT
import multiprocessing
import subprocess
import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gnograd as gg
from conftest import power_law


def layer(n_edges: int, seed: int = 0):
    """A call of gno that keeps a core busy."""
    rng = np.random.default_rng(seed)
    edges = power_law(200, n_edges)
    shapes = (200, 32), (n_edges, 2), (2, 64), (64,), (64, 32, 32), (32, 32)
    inputs = [rng.normal(size=shape) for shape in shapes]
    graph = edges.graph
    return lambda: gg.gno(*inputs, graph=graph, activation="gelu")


def test_number_of_threads(threads):
    default = gg.get_num_threads()
    assert default >= 1
    threads(3)
    assert gg.get_num_threads() == 3
    threads(0)
    assert gg.get_num_threads() == default
    with pytest.raises(ValueError, match="n is -1"):
        threads(-1)


def test_config(capsys):
    config = gg.get_config()
    assert config["version"] == gg.__version__
    assert "GCC" in config["compiler"]
    gg.show_config()
    shown = capsys.readouterr().out
    assert f"cuda      {'yes' if config['cuda'] else 'no'}\n" in shown
    assert all(name in shown for name in ("compiler", "blas", "cpu", "threads"))


def test_import_is_light():
    heavy = "torch", "jax", "cupy", "scipy", "matplotlib", "typer"
    code = f"import sys, gnograd; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_gil_is_released(threads):
    """A thread keeps ticking while another computes."""
    threads(1)
    work = layer(200_000)
    done, ticks = threading.Event(), 0
    worker = threading.Thread(target=lambda: (work(), done.set()))
    worker.start()
    while not done.wait(0.001):
        ticks += 1
    worker.join()
    assert ticks > 5


def test_threads_of_python_at_once():
    works = [layer(2000, seed) for seed in range(4)]
    expected = [work() for work in works]
    results = [None] * len(works)

    def run(k):
        results[k] = works[k]()

    pool = [threading.Thread(target=run, args=(k,)) for k in range(len(works))]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    for a, b in zip(results, expected, strict=True):
        assert_array_equal(a, b)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_computes(threads):
    threads(2)
    work = layer(2000)
    expected = work()  # the parent has its threads running
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=lambda: queue.put((gg.get_num_threads(), work())))
    child.start()
    n, result = queue.get(timeout=30)
    child.join(30)
    assert child.exitcode == 0
    assert n == 1
    assert_array_equal(result, expected)


def test_matmul_precision():
    gg.set_matmul_precision("tf32")
    assert gg.get_matmul_precision() == "tf32"
    gg.set_matmul_precision("float32")
    with pytest.raises(ValueError, match="precision is 'tf31', needs 'float32' or 'tf32'"):
        gg.set_matmul_precision("tf31")
    assert gg.get_matmul_precision() == "float32"
