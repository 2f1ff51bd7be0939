# SPDX-License-Identifier: MIT
import ctypes
import multiprocessing
import os
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gnograd as gg
from conftest import power_law
from gnograd import autodiff


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


@pytest.mark.parametrize("n", [1.5, 2.0, True, "2", None, np.float64(2)])
def test_number_of_threads_is_an_integer(n):
    with pytest.raises(TypeError, match="needs an integer"):
        gg.set_num_threads(n)


def test_number_of_threads_has_a_limit(threads):
    most = gg._core.gnograd_most_threads()
    assert most >= 64
    for n in (most + 1, 100_000, 2**31, 2**70):
        with pytest.raises(ValueError, match=f"n is {n}, needs a number from 0 to {most}"):
            gg.set_num_threads(n)
    gg._core.gnograd_set_num_threads(100_000)
    assert gg.get_num_threads() == most
    threads(most)
    layer(2000)()


GROUPS = {
    "version 2": ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n"}, 2),
    "of a group around": (
        "0::/a/b\n", {"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "max 100000\n"}, 3,
    ),
    "the least": (
        "0::/a/b\n", {"a/cpu.max": "100000 100000\n", "a/b/cpu.max": "400000 100000\n"}, 1,
    ),
    "in a container": ("0::/of/the/host\n", {"cpu.max": "200000 100000\n"}, 2),
    "version 1": (
        "5:cpuset:/\n4:cpu,cpuacct:/a\n0::/\n",
        {"cpu/a/cpu.cfs_quota_us": "250000\n", "cpu/a/cpu.cfs_period_us": "100000\n"},
        3,
    ),
    "version 1 without": (
        "4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0,
    ),
    "another controller": ("4:cpuset:/a\n", {"cpu/a/cpu.cfs_quota_us": "100000\n"}, 0),
    "no numbers": ("0::/\n", {"cpu.max": "\n"}, 0),
    "no group": ("", {}, 0),
}  # fmt: skip


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="control groups")
@pytest.mark.parametrize(("membership", "files", "quota"), GROUPS.values(), ids=GROUPS)
def test_quota_of_control_groups(membership, files, quota, tmp_path):
    """Processors that a container may use, rounded up; 0 where nothing limits them."""
    maps = Path("/proc/self/maps").read_text()
    library = ctypes.CDLL(next(f for f in maps.split() if f.endswith("/libgnograd.so")))
    (tmp_path / "self").write_text(membership)
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found = library.gnograd_cpu_quota(
        str(tmp_path / "self").encode(), str(tmp_path / "groups").encode()
    )
    assert found == quota


@pytest.fixture
def control_group():
    """A new control group of version 1 or 2, where this process may make one."""
    for root in "/sys/fs/cgroup/cpu", "/sys/fs/cgroup":
        folder = Path(root, "gnograd-test")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if (folder / "cpu.max").exists():
                (folder / "cpu.max").write_text("100000 100000")
            elif (folder / "cpu.cfs_quota_us").exists():
                (folder / "cpu.cfs_quota_us").write_text("100000")
            else:
                continue
            yield folder
            return
        finally:
            folder.rmdir()
    pytest.skip("needs the right to make a control group")


def test_quota_bounds_the_default(control_group):
    """A container with one processor on a machine of several has one thread, unless told."""
    code = (
        "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid()));"
        "import gnograd; print(gnograd.get_num_threads())"
    )
    for variables, expected in ({}, "1\n"), ({"OMP_NUM_THREADS": "3"}, "3\n"):
        kept = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
        command = [sys.executable, "-c", code, str(control_group / "cgroup.procs")]
        done = subprocess.run(
            command, env=kept | variables, capture_output=True, text=True, check=True
        )
        assert done.stdout == expected


def test_threads_of_the_environment_have_a_limit():
    program = """
import numpy as np, gnograd as gg
graph = gg.Graph.radius(np.random.default_rng(0).random((2000, 2)), 0.1)
y = gg.agg_simple(np.ones((2000, 8)), graph=graph)
print(gg.get_num_threads(), gg._core.gnograd_most_threads(), y.shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"OMP_NUM_THREADS": "200000"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    used, most, *_ = done.stdout.split()
    assert used == most
    assert f"RuntimeWarning: OMP_NUM_THREADS is 200000: gnograd uses {most} threads" in done.stderr


def run_path(file: Path) -> list[str]:
    """Folders that a library names for those it needs (DT_RPATH and DT_RUNPATH of a 64-bit ELF)."""
    data = file.read_bytes()
    (first,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", data, first + k * size) for k in range(count)]
    segments = [(h[3], h[2], h[5]) for h in headers if h[0] == 1]
    (dynamic,) = (h for h in headers if h[0] == 2)
    entries = list(struct.iter_unpack("<qQ", data[dynamic[2] : dynamic[2] + dynamic[5]]))
    (table,) = (value for tag, value in entries if tag == 5)
    (start,) = (offset + table - at for at, offset, n in segments if at <= table < at + n)
    strings = [
        data[start + value :].split(b"\0", 1)[0].decode()
        for tag, value in entries
        if tag in (15, 29)
    ]
    return [path for string in strings for path in string.split(":")]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ELF")
def test_libraries_are_looked_for_beside_the_package_alone():
    libraries = [
        file
        for file in Path(gg.__file__).parent.rglob("*.so*")
        if file.read_bytes()[:5] == b"\x7fELF\x02"
    ]
    assert any(file.name == "libgnograd.so" for file in libraries)
    for file in libraries:
        assert all(path.startswith("$ORIGIN") for path in run_path(file)), file


def openblas():
    """The OpenBLAS that the kernels call, if that is what they call."""
    maps = Path("/proc/self/maps")
    if not maps.exists() or "openblas" not in gg.get_config()["blas"]:
        return None
    files = {
        line.split()[-1] for line in maps.read_text().splitlines() if "libscipy_openblas.so" in line
    }
    return ctypes.CDLL(files.pop()) if len(files) == 1 else None


@pytest.mark.skipif(openblas() is None, reason="another BLAS")
def test_blas_keeps_its_number_of_threads():
    """BLAS keeps its threads, also if calls fail and several are under way."""
    blas = openblas()
    get, put = blas.scipy_openblas_get_num_threads, blas.scipy_openblas_set_num_threads
    before = get()
    rng = np.random.default_rng(0)
    shapes = (400, 2), (2, 8), (8,), (8, 4, 4), (4, 4)
    inputs = [rng.normal(size=shape) for shape in shapes]

    def work():
        for _ in range(20):
            gg.gno_kernel.vjp(np.ones((400, 4, 4)), inputs)
            with pytest.raises(ValueError):
                gg.gno_kernel(*inputs[:-1], np.ones((4, 5)))
            tape = autodiff.Tape()
            x = tape.parameter(np.ones((8, 8)))
            assert (x @ x).value[0, 0] == 8

    try:
        put(2)
        with ThreadPoolExecutor(4) as pool:
            for task in [pool.submit(work) for _ in range(4)]:
                task.result()
        assert get() == 2
    finally:
        put(before)


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
    n, result = queue.get(timeout=300)
    child.join(300)
    assert child.exitcode == 0
    assert n == 1
    assert_array_equal(result, expected)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_refuses_threads(threads):
    threads(2)
    layer(2000)()

    def ask(queue):
        gg.set_num_threads(0)
        try:
            gg.set_num_threads(2)
        except RuntimeError as error:
            queue.put((gg.get_num_threads(), str(error)))

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=ask, args=(queue,))
    child.start()
    n, message = queue.get(timeout=300)
    child.join(300)
    assert n == 1
    assert "forked process has one thread" in message


def test_matmul_precision():
    gg.set_matmul_precision("tf32")
    assert gg.get_matmul_precision() == "tf32"
    gg.set_matmul_precision("float32")
    with pytest.raises(ValueError, match="precision is 'tf31', needs 'float32' or 'tf32'"):
        gg.set_matmul_precision("tf31")
    assert gg.get_matmul_precision() == "float32"
