# SPDX-License-Identifier: MIT
"""The plan for a rented GPU, where there is none: its page, its steps, and a rehearsal."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gpus import on_host

ROOT = Path(__file__).parents[1]
sys.path += [
    str(ROOT / "tools" / "lease"),
    str(ROOT / "benchmarks"),
]  # behind the tests, which have modules of the same names

import cases  # noqa: E402
import cases_graph  # noqa: E402
import lease  # noqa: E402
import prepare  # noqa: E402


def ms(cold, warm):
    return {"ms": {"cold": cold, "warm": warm, "host": 0.1}}


FACE = {"part": "kernels", "same_bits": True, "not_finite": 0, "workspace": 2e9}
TIMES = [
    {"part": "about", "device": "NVIDIA H200", "copy, TB/s": 4.1},
    FACE | {"label": "gat/forward"} | ms(0.5, 0.4),
    FACE | {"label": "agg_sum_128/forward", "same_bits": False} | ms(9.9, 9.8),
    FACE | {"label": "icosahedron_h_to_h/forward"} | ms(1.0, 0.9),
    FACE | {"label": "icosahedron_h_to_h/vjp"} | ms(2.0, 1.6),
    {"part": "kernels", "label": "nsa", "ended": "MemoryError: no more"},
    {"part": "peers", "label": "agg_weighted sum, mesh, forward", "bytes": 8,
     "ms": {"gnograd": {"warm": 1.0}, "gather-scatter": {"warm": 3.0}},
     "failed": {"CSR product": "OutOfMemoryError"}},
]  # fmt: skip
CHECKS = [
    {"check": "autocast", "group": "torch", "ended": "began"},
    {"check": "autocast", "group": "torch", "ended": "AssertionError: no"},
    {"check": "agg", "operator": "agg_weighted", "shift": 1, "ended": "well"},
]
STEPS = [{"step": "cpp:test_cuda_nsa_gpu", "ended": "exit status 1", "from": 1.0, "s": 9.0}]


def write(folder, name, entries):
    (folder / name).write_text("".join(json.dumps(e) + "\n" for e in entries))


def test_the_page_sets_times_beside_the_model(tmp_path, capsys):
    write(tmp_path, "times.jsonl", TIMES)
    write(tmp_path, "checks.jsonl", CHECKS)
    with (tmp_path / "checks.jsonl").open("a") as file:
        file.write('{"check": "cut o')  # as where the time was over
    (tmp_path / "steps.json").write_text(json.dumps(STEPS))
    assert lease.main(["page", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "page.md").read_text()
    assert "# NVIDIA H200" in page and "- copy, TB/s: 4.1" in page
    assert "## Checks: 1 well, 1 not\n\n- torch autocast: AssertionError: no\n" in page
    least, bound = lease.model()["gat/forward"]
    row = f"| gat/forward | {least:.3g} | 0.500 | 0.400 | {0.5 / least:.2f} | 0.100 | True | 0 |"
    assert f"{row} 2.00 | {bound} |" in page
    assert page.index("| agg_sum_128/forward") < page.index("| gat/forward")  # the worst is first
    assert "| nsa |  |  |  |  |  |  |  |  | MemoryError: no more |" in page
    assert "| icosahedron_h_to_h | 2.500 | 0.83 |" in page  # forward and backward together
    assert "| agg_weighted sum, mesh, forward | gather-scatter | 3.000 | 3.00 |  |" in page
    assert "| agg_weighted sum, mesh, forward | CSR product | | | OutOfMemoryError |" in page
    assert "| cpp:test_cuda_nsa_gpu | exit status 1 | 9.0 |" in page


def test_an_empty_folder_has_a_page(tmp_path):
    """By a Python that has nothing but its own library."""
    program = "tools/lease/lease.py", "page", "--out", str(tmp_path)
    command = [sys.executable, "-I", "-S", *program]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Checks: 0 well, 0 not" in run.stdout and "None were timed." in run.stdout


def test_what_is_missing_is_said_before_minutes_are_spent(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "NEEDED", ["numpy", "no_such_package"])
    with pytest.raises(SystemExit, match="has no no_such_package, which the checks need"):
        lease.main(["1", "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_published_cases_are_cases():
    assert set(lease.PUBLISHED) <= set(cases.CASES)
    nodes, edges = cases_graph.icosahedron(2)
    assert len(nodes) == 162 and len(edges) == 60 * (1 + 4 + 16)


def test_the_model_is_that_of_the_page():
    """Every usual case has its time of docs/gpu.md, which `make gpu-model` writes."""
    model = lease.model()
    usual = {f"{c.name}/{face}" for c in cases.CASES.values() if c.usual for face in c.faces}
    assert usual == set(model)
    assert all(0 < least < 1000 and bound for least, bound in model.values())
    assert model["agg_sum_32/vjp"][1] == "L2"


def test_steps_are_bounded_and_what_they_found_is_kept(tmp_path):
    run = lease.Lease(tmp_path, 60, stand_in=True)
    assert run.python("good", 60, "-c", "print(5)") == "well"
    assert run.python("bad", 60, "-c", "1 / 0", log="tests.txt") == "exit status 1"
    assert run.step("none", ["/no/such/program"], 60).startswith("did not start")
    # with all that a step has started
    children = "import subprocess as s, sys; s.run([sys.executable, '-c', 'import time\\nwhile 1:"
    children += " time.sleep(1)'])"
    assert run.python("slow", 1, "-c", children) == "stopped after 1 s"
    ended = {s["step"]: s["ended"] for s in json.loads((tmp_path / "steps.json").read_text())}
    assert list(ended) == ["good", "bad", "none", "slow"]
    assert "5\n" in (tmp_path / "log.txt").read_text()
    assert "ZeroDivisionError" in (tmp_path / "tests.txt").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.txt", "steps.json", "tests.txt"]


def test_a_check_that_loses_the_device_does_not_take_the_others_along(tmp_path, monkeypatch):
    run = lease.Lease(tmp_path, 60, stand_in=True)
    firsts = []

    def python(name, seconds, *command, **more):
        firsts.append(command[-1])
        number = {0: 1, 2: 2}.get(command[-1], 3)
        with open(run.checks, "a") as file:
            file.write(json.dumps({"group": "torch", "number": number, "ended": "began"}) + "\n")
        return "exit status 3" if number < 3 else "well"

    monkeypatch.setattr(run, "python", python)
    run.fronts("torch", 30)
    assert firsts == [0, 2, 3]


def test_clocks_of_the_machine_are_left_alone(tmp_path, monkeypatch):
    run, commands = lease.Lease(tmp_path, 225, stand_in=True), []
    monkeypatch.setattr(lease.shutil, "which", lambda tool: f"/usr/bin/{tool}")
    monkeypatch.setattr(run, "step", lambda name, command, *_, **__: commands.append(command))
    lease.second_command(run, ["gat"])
    (ncu,) = commands
    assert ncu[ncu.index("--clock-control") + 1] == "none"


def test_without_what_was_prepared_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "NEEDED", [])  # PyTorch need not be here
    monkeypatch.setattr(lease, "PREPARED", tmp_path)
    monkeypatch.setattr(lease, "UNPACKED", tmp_path / "unpacked")
    with pytest.raises(SystemExit, match="make lease prepares it"):
        lease.main(["1", "--out", str(tmp_path)])


def test_what_was_prepared_is_unpacked(tmp_path, monkeypatch):
    """Wheels and C++ tests are used from the folder, and nothing is installed."""
    prepared = tmp_path / "lease"
    prepared.mkdir()
    about = "some-0.1.dist-info/"
    with zipfile.ZipFile(prepared / "some-0.1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("some_package.py", "here = True")
        wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\nName: some\nVersion: 0.1\n")
        wheel.writestr(
            about + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(about + "RECORD", "")
    program = tmp_path / "test_cuda_gno_gpu"
    shutil.copy(shutil.which("true"), program)
    prepare.pack([program], prepared / "cpp.tgz")
    monkeypatch.setattr(lease, "PREPARED", prepared)
    monkeypatch.setattr(lease, "UNPACKED", prepared / "unpacked")
    run = lease.Lease(tmp_path / "out", 60, stand_in=False)
    run.unpack()
    assert run.python("package", 60, "-c", "import some_package as p; assert p.here") == "well"
    assert [p.name for p in run.programs()] == ["test_cuda_gno_gpu"]
    assert [p.name for p in run.programs("gno", "nsa")] == ["test_cuda_gno_gpu"]
    assert run.step("cpp", run.programs(), 60) == "well"
    assert Path(run.env["GNOGRAD_CUDA_LIBRARY"]) == prepared / "libgnograd_cuda.so"


def test_a_python_that_is_not_here_is_named():
    command = [sys.executable, "tools/lease/prepare.py", "--python", "3.99"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode and "a wheel for Python 3.99 needs that Python here" in run.stderr


def test_many_numbers_are_drawn_where_the_generator_says():
    """At full size no case draws large arrays of its own on the host."""

    class Far(np.random.Generator):
        drawn = 0

        def draw(self, shape, dtype, scale):
            self.drawn += 1
            return np.broadcast_to(np.float32(0), shape)

        def choose(self, tokens, heads, causal):
            return np.broadcast_to(np.int32(0), (tokens, heads, 16))

    rng = Far(np.random.PCG64(0))
    for name in ("nsa", "compressed", "window", "select_blocks", "gno_diagonal"):
        case = cases.CASES[name]
        _, inputs, static = case.make(case.full, rng)
        large = [x for x in (*inputs, *static.values()) if getattr(x, "size", 0) > 5_000_000]
        assert all(x.strides[0] == 0 for x in large), name
    assert rng.drawn


@on_host
def test_cases_on_the_host():
    names = ["agg_sum_32", "agg_sum_32_mesh_bf16", "relational", "moments", "edge_softmax",
             "gno_diagonal", "radial", "compress", "neighbors", "icosahedron_h_to_h"]  # fmt: skip
    command = [sys.executable, "benchmarks/gpu.py", "--try", "--cases", *names]
    run = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count(" of the CPU\n") == len(names)


@on_host
@pytest.mark.parametrize("check", [
    "values_and_gradients", "odd_storage_offsets", "transposed_inputs", "cotangents_of_a_sum",
    "second_derivatives", "forward_mode", "same_bits_twice", "autocast",
    "wrong_arguments_do_no_harm",
])  # fmt: skip
def test_what_users_of_pytorch_call(check, monkeypatch):
    """The checks for CUDA tensors, on tensors that say they are some."""
    pytest.importorskip("torch")
    import front
    import fronts_torch

    import gnograd.torch  # noqa: F401  (before tensors change)
    from host_tensors import tensors_on_gpu

    monkeypatch.setattr(front, "DEVICE", "cpu")
    with tensors_on_gpu():
        getattr(fronts_torch, check)()


@on_host
def test_benchmark_of_the_host_time_of_a_call():
    pytest.importorskip("torch")
    command = [sys.executable, "benchmarks/gpu_calls.py", "--turns", "2"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    ratios = re.findall(r"^(\w+), GPU +([\d.]+) x", run.stdout, re.MULTILINE)
    assert [face for face, _ in ratios] == ["forward", "training"]


@on_host
def test_rehearsal(tmp_path):
    """All of the first command on the host's build of the kernels, cut at its time."""
    pytest.importorskip("torch")
    command = [sys.executable, "tools/lease/lease.py", "1", "--stand-in", "--seconds", "40"]
    run = subprocess.run(
        [*command, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr
    steps = {s["step"]: s["ended"] for s in json.loads((tmp_path / "steps.json").read_text())}
    assert steps["package"] == "well" and "fronts-torch-0" in steps and "pytest" in steps
    bad = [c for c in lease.lines(tmp_path / "checks.jsonl") if "Error" in c["ended"]]
    assert not bad
    checks = lease.lines(tmp_path / "checks.jsonl")
    assert any(c["ended"] == "well" for c in checks), steps
    assert "Checks: " in (tmp_path / "page.md").read_text()
