# SPDX-License-Identifier: MIT
"""All there is to learn on a GPU, in one folder: tests, sanitizers, times, metrics, and a page.

    make gpu-day
    python tools/gpu_day.py [--out FOLDER] [--steps tests sanitizers benchmarks metrics]
    python tools/gpu_day.py --page FOLDER     only writes the page again, from what is there

tests       the C++ tests on the GPU, and tests/test_cuda.py
sanitizers  compute-sanitizer's memcheck, racecheck, initcheck and synccheck over the C++ tests, and
            memcheck over a part of tests/test_cuda.py
benchmarks  benchmarks/gpu.py and benchmarks/nsa.py, beside PyTorch, PyG, FlexAttention and other
            fronts that are installed
metrics     ncu's, kernel by kernel, of the cases that benchmarks/gpu.py times

The folder gets the log of every step, `steps.json` with what was run and how it ended,
`times.json`, `metrics.csv`, and `page.md`, which sets measured times beside those of the model
(docs/gpu.md). A step that fails or for which a tool is missing is told there; the others are run
all the same.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "cuda"
MODEL = ROOT / "docs" / "gpu_before.json"
STEPS = ("tests", "sanitizers", "benchmarks", "metrics")
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# one call of each kind of kernel; all of the file would take memcheck hours
PART = "test_types and power or test_sparse_attention and float16"
METRICS = {
    "gpu__time_duration.sum": "ms",
    "dram__bytes.sum": "DRAM, MB",
    "lts__t_bytes.sum": "L2, MB",
    "smsp__inst_executed.sum": "instructions, M",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "shared wavefronts, M",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "conflicts, M",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy, %",
    "launch__registers_per_thread": "registers",
}
SCALE = {"ms": 1e-6, "DRAM, MB": 1e-6, "L2, MB": 1e-6, "instructions, M": 1e-6,
         "shared wavefronts, M": 1e-6, "conflicts, M": 1e-6}  # fmt: skip


def gpu() -> str:
    """The name of the first GPU, or nothing."""
    found = subprocess.run([sys.executable, ROOT / "tools" / "gpu.py"], capture_output=True)
    if found.returncode:
        return ""
    smi = shutil.which("nvidia-smi")
    query = [smi, "--query-gpu=name", "--format=csv,noheader"] if smi else ["true"]
    names = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
    return names[0].strip() if names else "GPU"


# ---- what is run: name, command, seconds at most ----


def programs() -> list[str]:
    """The C++ tests, as Meson names them."""
    sources = (ROOT / "tests" / "cuda").glob("test_*.c*")
    return sorted(f"tests/cuda/test_cuda_{s.stem.removeprefix('test_')}_gpu" for s in sources)


def commands(step: str, out: Path) -> Iterator[tuple[str, list[str], int]]:
    """Names, words and time limits of the commands; the first word is "" if a tool is missing."""
    python, sanitizer = sys.executable, shutil.which("compute-sanitizer") or ""
    names = programs()
    if step == "tests":
        yield "build", ["ninja", "-C", str(BUILD), *names], 3600
        yield "tests-cpp", ["meson", "test", "-C", str(BUILD), "--suite", "gpu"], 3600
        yield "tests-python", [python, "-m", "pytest", "-q", "tests/test_cuda.py"], 7200
    elif step == "sanitizers":
        for tool in TOOLS:
            for name in names:
                # initcheck: memory beyond the rows that a kernel was told of is never read
                command = [sanitizer, "--tool", tool, "--error-exitcode", "99", str(BUILD / name)]
                yield f"{tool}-{Path(name).name}", command, 3600
        command = [sanitizer, "--tool", "memcheck", "--error-exitcode", "99",
                   "--target-processes", "all", python, "-m", "pytest", "-q", "-x",
                   "tests/test_cuda.py", "-k", PART]  # fmt: skip
        yield "memcheck-python", command, 7200
    elif step == "benchmarks":
        times = ["--json", str(out / "times.json")]
        yield "times", [python, "benchmarks/gpu.py", *times], 7200
        yield "times-attention", [python, "benchmarks/nsa.py", "--device", "cuda"], 7200
    elif step == "metrics":
        ncu = shutil.which("ncu") or ""
        command = [ncu, "--csv", "--print-units", "base", "--metrics", ",".join(METRICS),
                   "--log-file", str(out / "metrics.csv"),
                   python, "benchmarks/gpu.py", "--once"]  # fmt: skip
        yield "metrics", command, 7200


def run(out: Path, steps: list[str]) -> None:
    """Run all commands, and write `steps.json` after each."""
    done: list[dict[str, Any]] = []
    for step in steps:
        for name, command, limit in commands(step, out):
            entry: dict[str, Any] = {"step": step, "name": name, "command": command}
            print(f"{name}: ", end="", flush=True)
            start = time.perf_counter()
            if not command[0]:
                entry["ended"] = "left out: its tool is not installed"
            else:
                with open(out / f"{name}.log", "w") as log:
                    try:
                        process = subprocess.run(
                            command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, timeout=limit
                        )
                        code = process.returncode
                        entry["ended"] = "well" if code == 0 else f"failed: exit status {code}"
                    except subprocess.TimeoutExpired:
                        entry["ended"] = f"failed: not done after {limit} s"
                    except OSError as problem:
                        entry["ended"] = f"failed: {problem}"
            entry["seconds"] = round(time.perf_counter() - start, 1)
            print(entry["ended"], flush=True)
            done.append(entry)
            (out / "steps.json").write_text(json.dumps(done, indent=1) + "\n")


# ---- the page ----


def load(path: Path, otherwise: Any) -> Any:
    """Content of a JSON file, or `otherwise` if there is none."""
    return json.loads(path.read_text()) if path.is_file() else otherwise


def model_times(path: Path = MODEL) -> dict[str, tuple[float, str]]:
    """Milliseconds at least, and what bounds the longest kernel, by label."""
    labels: dict[str, list[tuple[float, str]]] = {}
    for k in load(path, {"kernels": []})["kernels"]:
        labels.setdefault(k["label"], []).append((1e3 * k["seconds"][k["bound"]], k["bound"]))
    return {label: (sum(t for t, _ in ks), max(ks)[1]) for label, ks in labels.items()}


def of_model(
    model: dict[str, tuple[float, str]], entry: dict[str, Any]
) -> tuple[float, str] | None:
    """Seconds and bound that the model gives for a measured face, or for forward and vjp."""
    if entry["part"] != "published":
        return model.get(entry["label"])
    parts = [model.get(f"{entry['label']}/{face}") for face in ("forward", "vjp")]
    found = [p for p in parts if p]
    return (sum(t for t, _ in found), max(found)[1]) if len(found) == 2 else None


def times_table(entries: list[dict[str, Any]], model: dict[str, tuple[float, str]]) -> list[str]:
    """A line for every time."""
    lines = [
        "| case | model: at least, ms | bound by | cold, ms | warm, ms | cold / model | others |",
        "| --- | --: | --- | --: | --: | --: | --- |",
    ]
    for entry in entries:
        if "failed" in entry:
            lines.append(f"| {entry['label']} | | | | | | failed: {entry['failed']} |")
            continue
        ms, bound = entry["ms"], of_model(model, entry)
        first = ms.get("cold", ms.get("waiting"))
        best = ms.get("warm", first)
        cells = [entry["label"]]
        cells += [f"{bound[0]:.3g}", bound[1]] if bound else ["", ""]
        cells += [f"{ms[k]:.3f}" if k in ms else "" for k in ("cold", "warm")]
        cells.append(f"{first / bound[0]:.2f}" if bound and first and bound[0] else "")
        notes = [f"{peer} {t / best:.2f}x" for peer, t in entry.get("peers", {}).items()]
        notes += [f"{peer} out of memory" for peer in entry.get("failed_peers", [])]
        if "waiting" in ms:
            notes.append(f"{ms['waiting']:.3f} ms with the host's wait")
        if "published_ms" in entry:
            notes.append(f"published: {entry['published_ms']} ms on {entry['published_on']}")
        cells.append(", ".join(notes))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def metrics_table(path: Path) -> list[str]:
    """Table of kernels: sums over launches; the largest of registers, the mean of occupancy."""
    if not path.is_file():
        return ["ncu was not run."]
    text = path.read_text().splitlines()
    head = next((k for k, line in enumerate(text) if line.startswith('"ID"')), None)
    if head is None:
        return ["ncu gave no metrics; see metrics.log and metrics.csv."]
    kernels: dict[str, dict[str, list[float]]] = {}
    for row in csv.DictReader(text[head:]):
        metric = METRICS.get(row.get("Metric Name") or "")
        value = (row.get("Metric Value") or "").replace(",", "")
        if metric and re.fullmatch(r"[\d.eE+-]+", value):
            kernels.setdefault(row["Kernel Name"], {}).setdefault(metric, []).append(float(value))
    names = list(METRICS.values())
    lines = [
        f"| kernel | launches | {' | '.join(names)} |",
        "| --- |" + " --: |" * (len(names) + 1),
    ]

    def value(name: str, values: list[float]) -> str:
        if not values:
            return ""
        if name == "registers":
            return f"{max(values):g}"
        if name == "occupancy, %":
            return f"{sum(values) / len(values):.0f}"
        return f"{sum(values) * SCALE[name]:.4g}"

    longest = sorted(kernels.items(), key=lambda k: -sum(k[1].get("ms", [0])))
    for kernel, found in longest:
        launches = max(map(len, found.values()))
        cells = [value(name, found.get(name, [])) for name in names]
        lines.append(f"| `{kernel[:90]}` | {launches} | {' | '.join(cells)} |")
    return lines


def page(out: Path) -> str:
    """Results in the folder, as Markdown."""
    times = load(out / "times.json", {"entries": []})
    steps = load(out / "steps.json", [])
    about = load(out / "about.json", {})
    lines = [f"# {about.get('gpu', times.get('device', 'GPU'))}, {about.get('date', '')}", ""]
    lines += [f"{key}: {value}  " for key, value in about.items() if key not in ("gpu", "date")]
    bad = [s for s in steps if s["ended"].startswith("failed")]
    left = [s for s in steps if s["ended"].startswith("left out")]
    lines += ["", "## How it ended", ""]
    if steps:
        lines.append(f"{len(steps) - len(bad) - len(left)} of {len(steps)} commands ended well.")
    else:
        lines.append("Nothing was run.")
    if bad or left:
        lines += ["", "| command | |", "| --- | --- |"]
        lines += [f"| {s['name']} | {s['ended']} |" for s in bad + left]
    lines += ["", "## Measured beside the model", ""]
    if times["entries"]:
        lines += [
            "The model is a lower bound for an H100 SXM, from counted work (docs/gpu.md). Cold:",
            "with the L2 cache overwritten before every call; warm: calls one behind the other. On",
            "another GPU the ratio says less.",
            "",
        ]
        lines += times_table(times["entries"], model_times(out / "model.json"))
    else:
        lines.append("No times were taken.")
    lines += ["", "## Metrics by ncu", "", *metrics_table(out / "metrics.csv")]
    if steps:
        lines += ["", "## All commands", "", "| command | seconds | |", "| --- | --: | --- |"]
        lines += [f"| {s['name']} | {s['seconds']} | {s['ended']} |" for s in steps]
    return "\n".join(lines) + "\n"


def about(name: str) -> dict[str, str]:
    """GPU, date, driver with its clocks, nvcc, and commit."""
    found = {"gpu": name, "date": str(datetime.date.today())}
    query = "--query-gpu=driver_version,clocks.max.sm,clocks.max.mem"
    for key, command in {
        "driver and clocks": ["nvidia-smi", query, "--format=csv,noheader"],
        "nvcc": ["nvcc", "--version"],
        "commit": ["git", "-C", str(ROOT), "rev-parse", "HEAD"],
    }.items():
        if shutil.which(command[0]):
            run = subprocess.run(command, capture_output=True, text=True)
            found[key] = (run.stdout.strip().splitlines() or [""])[-1]
    return found


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="build/gpu-day/<date>-<GPU> if left out")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--page", type=Path, metavar="FOLDER", help="only write its page again")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 1 if a command failed."""
    options = parse(arguments)
    if options.page:
        (options.page / "page.md").write_text(page(options.page))
        return 0
    name = gpu()
    if not name:
        print("no GPU that can be used here; nothing was run")
        return 0
    label = re.sub(r"\W+", "-", f"{datetime.date.today()} {name}").strip("-")
    out = (options.out or ROOT / "build" / "gpu-day" / label).absolute()
    out.mkdir(parents=True, exist_ok=True)
    library = BUILD / "cuda" / "libgnograd_cuda.so"
    os.environ.setdefault("GNOGRAD_CUDA_LIBRARY", str(library))
    (out / "about.json").write_text(json.dumps(about(name), indent=1) + "\n")
    newest = ROOT / "build" / "ptx" / "model.json"  # from make gpu-model, for these very kernels
    if (model := newest if newest.is_file() else MODEL).is_file():
        shutil.copy(model, out / "model.json")
    run(out, options.steps)
    (out / "page.md").write_text(page(out))
    print(f"see {out / 'page.md'}")
    ended = [step["ended"] for step in load(out / "steps.json", [])]
    return any(text.startswith("failed") for text in ended)


if __name__ == "__main__":
    sys.exit(main())
