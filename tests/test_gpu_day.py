# SPDX-License-Identifier: MIT
"""`make gpu-day` and the benchmarks on a GPU, where there is none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gnograd.backends import cuda_library

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "benchmarks")]

import cases  # noqa: E402
import gpu_day  # noqa: E402

TIMES = {
    "device": "NVIDIA H200",
    "entries": [
        {"part": "kernels", "label": "gat/forward", "ms": {"cold": 0.5, "warm": 0.4}},
        {"part": "kernels", "label": "knn/search", "ms": {"waiting": 2.0}},
        {"part": "kernels", "label": "nsa", "failed": "MemoryError: no more"},
        {"part": "published", "label": "icosahedron_h_to_h", "ms": {"cold": 3.0, "warm": 2.5},
         "published_ms": 0.83, "published_on": "H200"},
        {"part": "peers", "label": "agg_weighted sum, mesh, forward", "ms": {"cold": 1, "warm": 1},
         "peers": {"gather-scatter": 3.0}, "failed_peers": ["CSR product"]},
    ],
}  # fmt: skip
MODEL = {
    "kernels": [
        {"label": "gat/forward", "bound": "L2", "seconds": {"L2": 2e-4, "DRAM": 1e-4}},
        {"label": "gat/forward", "bound": "DRAM", "seconds": {"DRAM": 5e-5}},
        {"label": "icosahedron_h_to_h/forward", "bound": "issue", "seconds": {"issue": 4e-4}},
        {"label": "icosahedron_h_to_h/vjp", "bound": "integer", "seconds": {"integer": 2e-3}},
    ]
}
METRICS = """==PROF== Connected
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","walk_rows<Sum>","gpu__time_duration.sum","ns","1,500,000"
"0","1","walk_rows<Sum>","launch__registers_per_thread","register/thread","40"
"1","1","walk_rows<Sum>","gpu__time_duration.sum","ns","500000"
"1","1","walk_rows<Sum>","launch__registers_per_thread","register/thread","48"
"1","1","walk_rows<Sum>","dram__bytes.sum","byte","n/a"
"""
STEPS = [
    {"step": "tests", "name": "build", "seconds": 3.0, "ended": "well"},
    {"step": "tests", "name": "tests-cpp", "seconds": 9.0, "ended": "failed: exit status 1"},
    {"step": "metrics", "name": "metrics", "seconds": 0, "ended": "left out: not installed"},
]


def test_the_page_sets_times_beside_the_model(tmp_path):
    (tmp_path / "times.json").write_text(json.dumps(TIMES))
    (tmp_path / "model.json").write_text(json.dumps(MODEL))
    (tmp_path / "steps.json").write_text(json.dumps(STEPS))
    (tmp_path / "metrics.csv").write_text(METRICS)
    assert gpu_day.main(["--page", str(tmp_path)]) == 0
    page = (tmp_path / "page.md").read_text()
    assert "# NVIDIA H200" in page
    assert "1 of 3 commands ended well." in page
    assert "| tests-cpp | failed: exit status 1 |" in page
    assert "| gat/forward | 0.25 | L2 | 0.500 | 0.400 | 2.00 |  |" in page
    assert "| knn/search |  |  |  |  |  | 2.000 ms with the host's wait |" in page
    assert "| nsa | | | | | | failed: MemoryError: no more |" in page
    # forward and backward together
    assert (
        "| icosahedron_h_to_h | 2.4 | integer | 3.000 | 2.500 | 1.25 | published: 0.83 ms" in page
    )
    assert "gather-scatter 3.00x, CSR product out of memory" in page
    assert "| `walk_rows<Sum>` | 2 | 2 |  |  |  |  |  |  | 48 |" in page


def test_an_empty_folder_has_a_page_that_says_so(tmp_path):
    page = gpu_day.page(tmp_path)
    for text in ("Nothing was run.", "No times were taken.", "ncu was not run."):
        assert text in page


def test_steps_whose_tool_is_missing_are_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu_day.shutil, "which", lambda tool: None)
    assert not any(c[0] for _, c, _ in gpu_day.commands("metrics", tmp_path))
    gpu_day.run(tmp_path, ["metrics", "sanitizers"])
    steps = json.loads((tmp_path / "steps.json").read_text())
    assert len(steps) == 2 + len(gpu_day.TOOLS) * len(gpu_day.programs())
    assert all(step["ended"].startswith("left out") for step in steps)


def test_commands_that_fail_are_told_and_others_run(tmp_path, monkeypatch):
    python = sys.executable
    commands = [("good", [python, "-c", "print(5)"], 60), ("slow", [python, "-c",
                "import time; time.sleep(60)"], 1), ("bad", [python, "-c", "1 / 0"], 60),
                ("none", ["/no/such/program"], 60)]  # fmt: skip
    monkeypatch.setattr(gpu_day, "commands", lambda step, out: iter(commands))
    gpu_day.run(tmp_path, ["tests"])
    ended = {s["name"]: s["ended"] for s in json.loads((tmp_path / "steps.json").read_text())}
    assert ended["good"] == "well" and (tmp_path / "good.log").read_text() == "5\n"
    assert ended["slow"] == "failed: not done after 1 s"
    assert ended["bad"] == "failed: exit status 1"
    assert ended["none"].startswith("failed: ")


@pytest.mark.parametrize("arguments", [["--steps", "all"], ["--no-such"]])
def test_arguments_are_checked(arguments, capsys):
    with pytest.raises(SystemExit):
        gpu_day.parse(arguments)


def test_without_a_gpu_nothing_is_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu_day, "gpu", lambda: "")
    assert gpu_day.main(["--out", str(tmp_path / "day")]) == 0
    assert "no GPU" in capsys.readouterr().out
    assert not (tmp_path / "day").exists()


def test_published_cases_are_cases():
    assert set(cases.PUBLISHED) <= set(cases.CASES)
    nodes, edges = cases.icosahedron(2)
    assert len(nodes) == 162 and len(edges) == 60 * (1 + 4 + 16)


@pytest.mark.skipif(
    "host (SIMT)" not in cuda_library.devices()[0], reason="needs the SIMT build of the kernels"
)
def test_cases_on_the_host():
    names = ["agg_sum_32", "agg_sum_32_mesh_bf16", "relational", "moments", "edge_softmax",
             "gno_diagonal", "radial", "compress", "neighbors", "icosahedron_h_to_h"]  # fmt: skip
    command = [sys.executable, "benchmarks/gpu.py", "--try", "--cases", *names]
    run = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count(" of the CPU\n") == len(names)
