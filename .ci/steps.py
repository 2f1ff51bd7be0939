# SPDX-License-Identifier: MIT
"""Run the steps of a check, two at a time, and print where the time went.

    steps.py [--only NAME ...] [--jobs 2] [--keep-going]

A step is one or two commands: the first compiles, the second runs what is compiled, so that the
table can tell them apart. Steps start in the order of the list as soon as those that they need have
ended. Output goes to ``build/ci/NAME.log``; its end is printed with the step. The output of a step
that failed comes last.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "ci"
PYTHON = ".venv/bin/python"
# CPU builds, and whatever else the tests of fronts and of many processes need
FRONTS = "torch==2.13.0 torch_geometric jax flatbuffers optax equinox mpi4py mpich pymetis"
# names of the tests that passed
PASSED = "PASSED=build/ci/passed"
# seconds that a step may take, twice what the longest takes on two slow cores
LIMIT = 3600


@dataclasses.dataclass
class Step:
    """One line of the table."""

    name: str
    compile: str = ""  # commands of the shell; either may be empty
    run: str = ""
    needs: tuple[str, ...] = ()
    # folder of Meson whose log names the slowest tests
    build: str = ""
    status: int | None = None
    wall: float = 0.0
    # processor seconds of compile and of run
    used: list[float] = dataclasses.field(default_factory=lambda: [0.0, 0.0])
    slowest: list[tuple[float, str]] = dataclasses.field(default_factory=list)

    @property
    def log(self) -> Path:
        """All that it prints."""
        return LOGS / f"{self.name}.log"


def version() -> str:
    """The Python that wheels are built and tested for here."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def steps() -> list[Step]:
    """Everything that must hold, the longest chain first."""
    wheel = f'WHEEL="--versions {version()}"'
    kernels = ("environment",)
    installed = ("wheel",)
    all_steps = [
        Step("environment", "make .venv/dependencies .venv/cuda-headers"),
        # the README's installation, without PyTorch and JAX
        Step("test", "make .venv/installed fortran-programs", f"make test {PASSED}", kernels,
             "build/wheel"),
        Step("simt", "make simt-programs", "make simt", kernels, "build/simt"),
        # The rest of Python runs on what users get: a wheel of the archived sources, with the copy
        # of the library that the loader chooses for this processor.
        Step(
            "wheel",
            f"make wheel {wheel}",
            f".venv/bin/pip install -q --disable-pip-version-check {FRONTS}"
            " && .venv/bin/pip install -q --disable-pip-version-check --no-deps --force-reinstall"
            " dist/gnograd-*.whl && touch .venv/installed",
            ("test",),
        ),
        # without what `make test` has seen pass
        Step("test-all", "make simt-library", f"make python-tests {PASSED}", ("wheel", "simt")),
        Step("tsan", "make tsan-programs", "make tsan", ("simt",), "build/simt"),
        Step("sanitize", "make sanitize-programs", "make sanitize", kernels, "build/sanitize"),
        Step("ptx", "make ptx-programs", "make ptx", kernels, "build/ptx"),
        Step("wheel-cuda", "make ptx-wheel", "", ("wheel", "ptx")),
        # in a fresh environment, without a network or a compiler
        Step("wheel-test", "", f"{PYTHON} tools/wheel/install.py --whole none --versions "
             f"{version()}", installed),
        Step("mpi", "make mpi-programs", "make fortran-mpi-test", installed, "build/mpi"),
        Step("consumers", "", "make consumers", ("mpi", "wheel")),
        Step("lint", "", "make lint", installed),
        Step("doctest", "", "make doctest", installed),
        Step("docs", "", "make docs", installed),
        Step("fuzz", "", "make fuzz FUZZ='--seconds 60 --seed 1'", installed),
        Step("fuzz-asan", "", "make fuzz-asan FUZZ='--seconds 30 --seed 1'", ("wheel", "sanitize")),
        Step("fpm", "make fpm-branch", "make fpm", kernels),
    ]  # fmt: skip
    return all_steps


def execute(step: Step) -> None:
    """Run its commands; what they used is that of all their children."""
    start = time.monotonic()
    # two steps share the processor, where threads that spin take the other one's
    env = os.environ | {"OMP_WAIT_POLICY": "passive", "CI": "true"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # else each worker of each step compiles all tests
    step.status = 0
    with step.log.open("wb") as log:
        for which, command in enumerate((step.compile, step.run)):
            if not command or step.status:
                continue
            log.write(f"$ {command}\n".encode())
            log.flush()
            child = subprocess.Popen(
                ["bash", "-c", command], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            alarm = threading.Timer(LIMIT, os.killpg, (child.pid, signal.SIGKILL))
            alarm.start()
            _, status, usage = os.wait4(child.pid, 0)
            alarm.cancel()
            child.returncode = step.status = os.waitstatus_to_exitcode(status)
            step.used[which] = usage.ru_utime + usage.ru_stime
            if step.status == -signal.SIGKILL:
                log.write(f"killed, after {LIMIT} s or for want of memory\n".encode())
    step.wall = time.monotonic() - start
    step.slowest = slowest(step)  # before another step runs tests of the same build


def last_lines(step: Step, n: int) -> str:
    """The end of its output."""
    lines = step.log.read_text(errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-n:])


def run_all(todo: list[Step], jobs: int, keep_going: bool) -> None:
    """Run them, so many at a time; after a failure no other begins unless told to keep going."""
    changed = threading.Condition()
    waiting = list(todo)
    names = {step.name for step in todo}
    ended: set[str] = set()
    failed = False

    def ready() -> Step | None:
        for step in waiting:
            if all(need in ended or need not in names for need in step.needs):
                return step
        return None

    def work() -> None:
        nonlocal failed
        while True:
            with changed:
                while not failed and waiting and ready() is None:
                    changed.wait()
                if failed or not waiting:
                    return
                step = ready()
                assert step is not None
                waiting.remove(step)
                print(f"[{time.strftime('%H:%M:%S')}] {step.name} begins", flush=True)
            execute(step)
            with changed:
                ended.add(step.name)
                failed = failed or (step.status != 0 and not keep_going)
                print(
                    f"[{time.strftime('%H:%M:%S')}] {step.name}: status {step.status}, "
                    f"{step.wall:.0f} s\n{last_lines(step, 6)}",
                    flush=True,
                )
                changed.notify_all()

    workers = [threading.Thread(target=work) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def slowest(step: Step, n: int = 20) -> list[tuple[float, str]]:
    """The tests of its Meson build that took longest."""
    log = ROOT / step.build / "meson-logs" / "testlog.json"
    if not step.build or not log.exists():
        return []
    tests = [json.loads(line) for line in log.read_text().splitlines()]
    return sorted(((t["duration"], t["name"]) for t in tests), reverse=True)[:n]


def report(done: list[Step]) -> None:
    """Tables of time, and the output of what failed."""
    for step in done:
        if step.slowest:
            print(f"\nslowest of {step.name}, seconds:")
            print("  " + ", ".join(f"{name} {seconds:.0f}" for seconds, name in step.slowest))
    print("\nprocessor seconds   compile      run     wall")
    for step in done:
        compiled, ran = step.used
        print(f"{step.name:<16} {compiled:>10.0f} {ran:>8.0f} {step.wall:>8.0f}")
    compiled, ran = (sum(step.used[i] for step in done) for i in (0, 1))
    print(f"{'sum':<16} {compiled:>10.0f} {ran:>8.0f}")
    for step in done:
        if step.status:
            print(f"\n{step.name} failed with status {step.status}:\n{last_lines(step, 80)}")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], help="names of steps")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep-going", action="store_true", help="after a failure too")
    given = parser.parse_args()
    todo = [step for step in steps() if not given.only or step.name in given.only]
    if unknown := set(given.only) - {step.name for step in todo}:
        parser.error(f"no step is called {', '.join(sorted(unknown))}")
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / "passed").unlink(missing_ok=True)
    start = time.monotonic()
    run_all(todo, given.jobs, given.keep_going)
    done = [step for step in todo if step.status is not None]
    report(done)
    failed = sum(step.status != 0 for step in done)
    print(f"\n{time.monotonic() - start:.0f} s")
    print(f"{len(done) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
