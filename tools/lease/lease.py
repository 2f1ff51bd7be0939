# SPDX-License-Identifier: MIT
"""Fifteen minutes on a rented H100 or H200, in two commands; what is found survives an early end.

    python3 tools/lease/lease.py 1            correctness, sanitizers, times: 6 minutes at most
    python3 tools/lease/lease.py 2 [CASE ...] metrics of these cases by ncu, and the sanitizers'
                                              rest: 4 minutes at most
    python3 tools/lease/lease.py page         write page.md again from what is there

    --out FOLDER      build/lease/out if left out
    --seconds N       time for all of a command
    --stand-in        on the host's build of the kernels that GNOGRAD_CUDA_LIBRARY names, with small
                      cases: to see that the plan itself works

`make lease` prepares build/lease on a machine with compilers; the folder of sources goes along with
it. The machine with the GPU needs Python of the version that was prepared for, NumPy, SciPy and
PyTorch; pytest with pytest-xdist and pytest-timeout, JAX, CuPy, ncu and compute-sanitizer are used
if they are there. Nothing is downloaded or compiled, and no clock is changed.

Every step is a process of its own with a time of its own, and writes what it finds line by line:
steps.json, checks.jsonl, times.jsonl, tests.txt, sanitizers.txt, metrics.csv, log.txt, page.md.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parents[1]
PREPARED = ROOT / "build" / "lease"
UNPACKED = PREPARED / "unpacked"
SECONDS = {"1": 350.0, "2": 225.0}
NEEDED = ["numpy", "scipy", "torch"]
CASES = [
    "nsa", "agg_sum_128", "mha_simple", "gno_64", "icosahedron_h_to_h", "window", "edge_mlp",
]  # fmt: skip
"""Cases whose metrics say most, where none are named."""
MEMCHECK = [
    "nsa", "nsa_compress", "gemm", "gno", "dimenet", "neighbors", "aggregation", "mha_simple",
    "gat", "graph", "moments", "relational", "dense",
]  # fmt: skip
RACECHECK = [
    "nsa", "gemm", "nsa_compress", "dimenet", "gno", "dense",
]  # fmt: skip
METRICS = [
    "gpu__time_duration.sum", "dram__bytes.sum", "lts__t_bytes.sum", "lts__t_sector_hit_rate.pct",
    "smsp__inst_executed.sum", "sm__inst_executed_pipe_tensor.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active", "launch__registers_per_thread",
    "launch__occupancy_limit_registers", "launch__occupancy_limit_shared_mem",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
]  # fmt: skip

PUBLISHED = {"icosahedron_era_to_h": 2.77, "icosahedron_h_to_h": 0.83, "icosahedron_h_to_era": 4.87}
"""Milliseconds of anemoi-core's pull request 631, on graphs of benchmarks/cases_graph.py."""

Job = Callable[[], Any]


class Lease:
    """The steps of a command, their clock, and the folder of what they find."""

    def __init__(self, out: Path, seconds: float, stand_in: bool) -> None:
        self.out, self.seconds, self.stand_in = out, seconds, stand_in
        self.start = time.perf_counter()
        self.done: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.checks, self.times = str(out / "checks.jsonl"), str(out / "times.jsonl")
        self.cpp = UNPACKED / "cpp"
        self.env = os.environ | {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "4"}
        out.mkdir(parents=True, exist_ok=True)

    def clock(self) -> float:
        """Seconds since the command began."""
        return time.perf_counter() - self.start

    def left(self, reserve: float = 0) -> float:
        """Seconds that are left, but for a reserve."""
        return self.seconds - self.clock() - reserve

    def unpack(self) -> None:
        """Make the package and the C++ tests usable, without installing anything."""
        if self.stand_in:
            return
        if not UNPACKED.exists():
            wheels = sorted(map(str, PREPARED.glob("*.whl")))
            if not wheels:
                sys.exit(f"{PREPARED} has no wheels: make lease prepares it")
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
            subprocess.run([*pip, "--target", str(UNPACKED / "site"), *wheels], check=True)
            with tarfile.open(PREPARED / "cpp.tgz") as archive:
                # which Pythons before 3.11.4 do not know
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                archive.extractall(UNPACKED)
        library = PREPARED / "libgnograd_cuda.so"
        self.env |= {
            "PYTHONPATH": str(UNPACKED / "site"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GNOGRAD_CUDA_LIBRARY": str(library),
            "LD_LIBRARY_PATH": f"{PREPARED}:{os.environ.get('LD_LIBRARY_PATH', '')}",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }

    def say(self, text: str) -> None:
        """Print a line with its time, and keep it."""
        line = f"[{self.clock():6.1f}] {text}"
        with self.lock, (self.out / "log.txt").open("a") as log:
            print(line, flush=True)
            log.write(line + "\n")

    def step(
        self, name: str, command: Iterable[Any], seconds: float, log: str = "log.txt", **env: str
    ) -> str:
        """Run a command for so long at most, and say how it ended; its output goes to a log."""
        begun, output = self.clock(), self.out / f".{re.sub(r'[^a-zA-Z0-9_.-]', '-', name)}.out"
        with output.open("wb") as file:
            try:
                process = subprocess.Popen(
                    list(map(str, command)), cwd=ROOT, stdout=file, stderr=subprocess.STDOUT,
                    env=self.env | env, start_new_session=True,
                )  # fmt: skip
                code = process.wait(max(seconds, 1))
                ended = "well" if code == 0 else f"exit status {code}"
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with all that it has started
                process.wait()
                ended = f"stopped after {seconds:.0f} s"
            except OSError as problem:
                ended = f"did not start: {problem}"
        text = output.read_text(errors="replace")
        output.unlink()
        taken = round(self.clock() - begun, 1)
        with self.lock:
            self.done.append({"step": name, "ended": ended, "from": round(begun, 1), "s": taken})
            (self.out / "steps.json").write_text(json.dumps(self.done, indent=1) + "\n")
            with (self.out / log).open("a") as file_of_log:
                kept = text if len(text) < 60_000 else f"{text[:20_000]}\n...\n{text[-40_000:]}"
                file_of_log.write(f"==== {name}: {ended}, {taken} s\n{kept}\n")
        last = "" if ended == "well" else ": " + " | ".join(text.split("\n")[-4:])[-400:]
        self.say(f"{name}: {ended}, {taken} s{last}")
        return ended

    def python(self, name: str, seconds: float, *command: Any, log: str = "log.txt", **env: str):
        """Run a step that is a program in Python."""
        return self.step(name, [sys.executable, *command], seconds, log, **env)

    # ---- steps ----

    def machine(self) -> None:
        """What there is: GPU, driver, tools, package, kernels."""
        if not self.stand_in:
            query = "--query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem"
            tools = "uname -a; nproc; which ncu compute-sanitizer"
            self.step("machine", ["bash", "-c", f"nvidia-smi {query} --format=csv; {tools}"], 20)
        look = (
            "import gnograd as gg; gg.show_config()\n"
            "from gnograd.backends import cuda_library as c; names, why = c.devices()\n"
            "assert names, why; print(names, why, len(c.library().faces), 'faces')"
        )
        self.python("package", 60, "-c", look)

    def programs(self, *names: str) -> list[Path]:
        """The C++ tests of these names, or all."""
        there = sorted(self.cpp.iterdir()) if self.cpp.is_dir() else []
        wanted = {f"test_cuda_{name}_gpu" for name in names}
        return [p for p in there if not names or p.name in wanted]

    def cpp_tests(self, seconds: float) -> list[Job]:
        """Jobs that hold every kernel against a reference of its own, without Python."""
        return [
            lambda p=p: self.step(f"cpp:{p.name}", [p], seconds, "tests.txt")
            for p in self.programs()
        ]

    def sanitizer(self, tool: str, seconds: float, *names: str) -> list[Job]:
        """Jobs of compute-sanitizer over the shorter C++ tests."""
        found = shutil.which("compute-sanitizer")
        command = [found, "--tool", tool, "--error-exitcode", "99", "--print-limit", "20"]
        short = {"GNOGRAD_SHORT_TESTS": "1"}
        return [
            lambda p=p: self.step(
                f"{tool}:{p.name}", [*command, p], seconds, "sanitizers.txt", **short
            )
            for p in (self.programs(*names) if found else [])
        ]

    def fronts(self, group: str, seconds: float) -> None:
        """Checks of a group; behind one that loses the device, a new process goes on."""
        until, first = self.clock() + seconds, 0
        device = "host" if self.stand_in else "cuda"
        options = ["--json", self.checks, "--device", device]
        while self.clock() < until - 1:
            ended = self.python(
                f"fronts-{group}-{first}", until - self.clock(), TOOLS / "fronts.py", group,
                *options, "--from", first,
            )  # fmt: skip
            if ended in ("well", "exit status 1"):
                return
            began = [c["number"] for c in lines(self.checks) if c.get("group") == group]
            if not began or max(began) < first:
                return
            first = max(began) + 1

    def operators(self, seconds: float, parts: int) -> list[Job]:
        """Jobs that compare all operators with the CPU, at addresses that are not aligned too."""
        options = ["--seconds", seconds - 12, "--json", self.checks]
        small = ["--small"] if self.stand_in else []
        return [
            lambda k=k: self.python(
                f"operators-{k}", seconds, TOOLS / "operators.py", "--part", f"{k}/{parts}",
                *options, *small, OMP_NUM_THREADS="1",
            )
            for k in range(parts)
        ]  # fmt: skip

    def pytest(self, seconds: float) -> None:
        """The package's own tests of the CUDA library."""
        processes = ["-n", "6", "--timeout=60", "--maxfail=60"]
        if self.stand_in:
            processes = ["-k", "test_types and power and float16 and agg"]
        elif not importlib.util.find_spec("xdist"):
            processes = []
        files = sorted((ROOT / "tests").glob("test_*cuda*.py"))
        self.python(
            "pytest", seconds, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf", *processes,
            *files, log="tests.txt", OMP_NUM_THREADS="1",
        )  # fmt: skip

    def bench(self, parts: str, seconds: float, *cases: str) -> None:
        """Times by benchmarks/gpu.py, which begins nothing new when time runs out."""
        options = ["--parts", *parts.split(), "--seconds", seconds - 15, "--json", self.times]
        if self.stand_in:
            options = ["--try", "--cases", *cases]
        self.python(parts, seconds, "benchmarks/gpu.py", *options)


def together(jobs: Iterable[Job], workers: int) -> None:
    """Run jobs side by side."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda job: job(), jobs))


def first_command(lease: Lease) -> None:
    """Correctness, sanitizers, times, the most valuable first."""
    lease.machine()
    together(lease.cpp_tests(60), 8)
    if lease.stand_in:
        lease.bench("kernels", lease.left() / 2, "agg_sum_32", "gat")
        groups, parts = ["torch"], 1
    else:
        lease.bench("about calls kernels", 135)
        groups, parts = ["torch", "streams", "capture", "jax", "cupy", "compile"], 4
    left = lease.left(10 if lease.stand_in else 60)
    jobs = [lambda g=g: lease.fronts(g, left) for g in groups]
    jobs += lease.operators(left, parts)
    jobs.append(lambda: lease.pytest(left))
    jobs += lease.sanitizer("memcheck", min(left, 70), *MEMCHECK)
    jobs += lease.sanitizer("racecheck", min(left, 80), *RACECHECK)
    together(jobs, 2 if lease.stand_in else 14)
    # alone on the GPU again
    if not lease.stand_in:
        lease.fronts("large", 20)
        lease.bench("peers", lease.left(6))


def second_command(lease: Lease, names: list[str]) -> None:
    """Metrics of cases by ncu, then sanitizers until the end."""
    ncu = shutil.which("ncu")
    for name in names or CASES:
        if not ncu or lease.left() < 60:
            break
        made = lease.out / f".{name}.csv"
        # our kernels alone, one call of each face; the clocks stay as they are
        lease.step(f"ncu-{name}", [
            ncu, "--csv", "--clock-control", "none", "--cache-control", "all",
            "--print-units", "base", "--kernel-name-base", "demangled",
            "--kernel-name", "regex:gnograd", "--launch-count", "40",
            "--metrics", ",".join(METRICS), "--log-file", made,
            sys.executable, "benchmarks/gpu.py", "--once", "--cases", name,
        ], min(lease.left(45), 60))  # fmt: skip
        if made.exists():
            with (lease.out / "metrics.csv").open("a") as file:
                file.write(f"# {name}\n{made.read_text(errors='replace')}")
            made.unlink()
    left = lease.left(5)
    if left > 20:
        further = "gno_jets", "edge_mlp", "nearest_neighbors", "neighbor_list", "moments"
        jobs = lease.sanitizer("racecheck", left, *further)
        jobs += lease.sanitizer("initcheck", left, "aggregation", "nsa", "gemm")
        jobs += lease.sanitizer("synccheck", left, "nsa", "dimenet", "gno")
        together(jobs, 12)


# ---- the page ----


def lines(path: str | Path) -> list[dict[str, Any]]:
    """What a file of JSON lines has; one that was cut off does not count."""
    found = []
    for line in Path(path).read_text().splitlines() if Path(path).exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def model(page: Path = ROOT / "docs" / "gpu.md") -> dict[str, tuple[float, str]]:
    """Least milliseconds of a case by the model, and what bounds its longest kernel."""
    table = page.read_text().partition("<!-- begin: model -->")[2].partition("<!-- end: model -->")
    found = {}
    for line in table[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) > 5 and "/" in cells[0]:
            longest = re.search(r"[\d.e-]+ ([\w ]+?)(;|$)", cells[-1])
            found[cells[0]] = float(cells[1]), longest[1] if longest else ""
    return found


def times_table(entries: list[dict[str, Any]]) -> list[str]:
    """A line for every face, the one furthest above the model first."""
    bounds, rows = model(), []
    for e in entries:
        if "ms" not in e:
            rows.append((0.0, [e["label"], *[""] * 8, e["ended"]]))
            continue
        ms, (least, bound) = e["ms"], bounds.get(e["label"], (0, ""))
        ratio = ms["cold"] / least if least else 0
        rows.append((-ratio, [
            e["label"], f"{least:.3g}" if least else "", f"{ms['cold']:.3f}", f"{ms['warm']:.3f}",
            f"{ratio:.2f}" if ratio else "", f"{ms['host']:.3f}", str(e["same_bits"]),
            str(e["not_finite"]), f"{e['workspace'] / 1e9:.2f}", bound,
        ]))  # fmt: skip
    return [
        "| case | model: at least, ms | cold, ms | warm, ms | cold / model | host, ms | same bits "
        "| not finite | workspace, GB | bound by |",
        "| --- | --: | --: | --: | --: | --: | --- | --: | --: | --- |",
        *(f"| {' | '.join(cells)} |" for _, cells in sorted(rows)),
    ]


def published_table(entries: list[dict[str, Any]]) -> list[str]:
    """Forward and backward of cases that others have published, together."""
    warm = {e["label"]: e["ms"]["warm"] for e in entries if "ms" in e}
    rows = []
    for name, theirs in PUBLISHED.items():
        faces = [warm.get(f"{name}/{face}") for face in ("forward", "vjp")]
        if all(faces):
            rows.append(f"| {name} | {sum(faces):.3f} | {theirs} |")
    head = ["| forward and vjp, warm, ms | here | published, H200 |", "| --- | --: | --: |"]
    return [*head, *rows, ""] if rows else []


def peers_table(entries: list[dict[str, Any]]) -> list[str]:
    """Contestants on the same tensors."""
    rows = []
    for e in entries:
        ours = e.get("ms", {}).get("gnograd", {}).get("warm")
        for who, ms in e.get("ms", {}).items():
            rate = f"{e['flops'] / ms['warm'] / 1e9:.0f}" if e.get("flops") else ""
            ratio = f"{ms['warm'] / ours:.2f}" if ours else ""
            rows.append(f"| {e['label']} | {who} | {ms['warm']:.3f} | {ratio} | {rate} |")
        rows += [f"| {e['label']} | {who} | | | {why} |" for who, why in e["failed"].items()]
    head = ["| | | warm, ms | of gnograd's | useful TFLOP/s |", "| --- | --- | --: | --: | --: |"]
    return [*head, *rows] if rows else ["None were timed."]


def page(out: Path) -> str:
    """What was found, as Markdown, the worst first; written to page.md."""
    steps = json.loads(path.read_text()) if (path := out / "steps.json").exists() else []
    checks, times = lines(out / "checks.jsonl"), lines(out / "times.jsonl")
    by_part: dict[str, list[dict[str, Any]]] = {}
    for entry in times:
        by_part.setdefault(entry["part"], []).append(entry)
    commit = PREPARED / "commit"
    title = next((e["device"] for e in by_part.get("about", [])), "No GPU that was described")
    text = [
        f"# {title}",
        "",
        f"commit {commit.read_text().strip() if commit.exists() else '?'}",
        "",
    ]
    for entry in by_part.get("about", []):
        text += [f"- {k}: {v}" for k, v in entry.items() if k not in ("part", "ended")]
    neutral = ("well", "began", "skipped", "all", "out of time")
    bad = [c for c in checks if c["ended"] not in neutral]
    good = sum(c["ended"] == "well" for c in checks)
    text += ["", f"## Checks: {good} well, {len(bad)} not", ""]
    for c in bad[:60]:
        words = (str(c.get(key, "")) for key in ("group", "operator", "check", "shift"))
        text.append(f"- {' '.join(filter(None, words))}: {c['ended'][:300]}")
    text += ["", "## Kernels beside the model", ""]
    text += ["The model is a lower bound for an H100 SXM, from counted work (docs/gpu.md).", ""]
    text += [*times_table(by_part.get("kernels", [])), ""]
    text += [*published_table(by_part.get("kernels", []))]
    text += ["## Beside others", "", *peers_table(by_part.get("peers", [])), ""]
    for entry in by_part.get("calls", []):
        text += ["## Host's time of a call", "", *(f"- {k}: {v}" for k, v in entry.items()), ""]
    text += ["## Steps", "", "| step | | s |", "| --- | --- | --: |"]
    text += [f"| {s['step']} | {s['ended']} | {s['s']} |" for s in steps]
    written = "\n".join(text) + "\n"
    (out / "page.md").write_text(written)
    return written


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=("1", "2", "page"))
    parser.add_argument("cases", nargs="*", help="for command 2")
    parser.add_argument("--out", type=Path, default=PREPARED / "out")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--stand-in", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 once it has come to its end, whatever it found."""
    given = parse(arguments)
    if given.command == "page":
        print(page(given.out))
        return 0
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"{sys.executable} has no {', '.join(missing)}, which the checks need")
    seconds = SECONDS[given.command] if given.seconds is None else given.seconds
    lease = Lease(given.out.absolute(), seconds, given.stand_in)
    lease.unpack()
    try:
        first_command(lease) if given.command == "1" else second_command(lease, given.cases)
    finally:
        print(page(lease.out)[:9000], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
