# SPDX-License-Identifier: MIT
"""Plant faults, one at a time, in a copy of the sources, and see which tests find them.

The faults are the table of `faults.py`. A fault is found if one of the test files that it names
fails; the tree itself is never touched. Two selections of tests are compared on one build:

    python tools/planted_faults.py --tests '' --tests '-m "not exhaustive"'

The Python that runs this must have what the tests need; Meson, ninja and compilers must be on the
PATH. Faults in CUDA kernels are looked for on their build for the host.
"""

import argparse
import filecmp
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[1]
SIMT = "tests/cuda/libgnograd_cuda_simt.so"
LIMIT = 900  # seconds for the tests of one fault; what takes longer hangs


def main() -> None:
    """Plant the faults that are asked for, and print what finds them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", default=[], help="parts of names or of files")
    parser.add_argument("--tests", action="append", help="arguments for pytest; several: columns")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "planted", help="the copy")
    parser.add_argument("--check", action="store_true", help="only that all faults can be planted")
    options = parser.parse_args()
    wanted = options.only or [""]
    faults = [f for f in FAULTS if any(o in f"{f.name} {f.file}" for o in wanted)]
    wrong = [f"{f.name}: {why}" for f in faults if (why := unplantable(ROOT, f))]
    if wrong or not faults:
        sys.exit("\n".join(wrong) or "no fault has such a name")
    if options.check:
        print(f"{len(faults)} faults can be planted")
        return
    selections = options.tests or [""]
    copy = Copy(options.work.resolve(), cuda=any(f.layer == "cuda" for f in faults))
    for selection in selections:
        copy.sound(sorted({f.layer for f in faults} & {"cuda"}), selection)
    print("| fault | file | " + " | ".join(s or "all tests" for s in selections) + " |")
    print("| --- | --- |" + " --- |" * len(selections))
    found = [0] * len(selections)
    lost = []
    for fault in faults:
        row = copy.trial(fault, selections)
        for k, by in enumerate(row):
            found[k] += by is not None
        if None in row:
            lost.append(fault.name)
        cells = " | ".join("**not found**" if by is None else by for by in row)
        print(f"| {fault.name} | {fault.file} | {cells} |", flush=True)
    totals = " | ".join(f"{n} of {len(faults)}" for n in found)
    print(f"| all | | {totals} |")
    if lost:
        sys.exit(f"not found by every selection: {', '.join(lost)}")


def unplantable(root: Path, fault: Fault) -> str | None:
    """Reason why a fault cannot be planted in these sources, or None."""
    file = root / fault.file
    if not file.is_file():
        return f"there is no {fault.file}"
    n = file.read_text().count(fault.old)
    if n != 1:
        return f"its old text is {n} times in {fault.file}, needs once: {fault.old!r}"
    missing = [t for t in fault.test_files if not (root / t).is_file()]
    return f"there is no {', '.join(missing)}" if missing else None


def link(path: Path, to: Path) -> None:
    """Symbolic link, new or anew."""
    path.unlink(missing_ok=True)
    path.symlink_to(to)


def copy_changed(path: Path, to: Path) -> None:
    """Copy a file whose contents differ; its time is new, so that it is compiled again."""
    if to.is_file() and filecmp.cmp(path, to, shallow=False):
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, to)


@dataclass
class Copy:
    """Sources, a build that is quick to make again, and a package of Python that uses it."""

    work: Path
    cuda: bool

    def __post_init__(self) -> None:
        self.source, self.build = self.work / "source", self.work / "build"
        self.simt, self.site = self.work / "simt", self.work / "site"
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in names.split("\0"):
            if (ROOT / name).is_file():
                copy_changed(ROOT / name, self.source / name)
        off = ["-Dcuda=disabled", "-Dmpi=disabled"]
        if not (self.build / "build.ninja").is_file():
            self._run("meson", "setup", self.build, self.source, *off, "-Dsimt=disabled",
                      "-Dpython_ext=enabled", "-Doptimization=1", "-Ddebug=false")  # fmt: skip
        if self.cuda and not (self.simt / "build.ninja").is_file():
            self._run("meson", "setup", self.simt, self.source, *off, "-Dsimt=enabled",
                      "-Dpython_ext=disabled", "--buildtype=debug")  # fmt: skip
        self._run("ninja", "-C", self.build, *self._targets())
        if self.cuda:
            self._run("ninja", "-C", self.simt, SIMT)
        self._lay_out()

    def _targets(self) -> list[str]:
        listed = ["ninja", "-C", self.build, "-t", "targets", "all"]
        names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
        core = [n.split(": ")[0] for n in names.splitlines() if n.startswith("python/_core.")]
        return ["fortran/libgnograd.so", *(n for n in core if n.endswith(".so"))]

    def _lay_out(self) -> None:
        """Put the package where PYTHONPATH finds it before an installed one."""
        package = self.site / "gnograd"
        shutil.rmtree(package, ignore_errors=True)
        shutil.copytree(self.source / "python" / "gnograd", package)
        for core in (self.build / "python").glob("_core.*.so"):
            shutil.copy(core, package)
        for folder in ("include", "lib"):
            (package / folder).mkdir()
        shutil.copy(self.build / "fortran" / "include" / "gnograd.h", package / "include")
        (package / "lib" / "libgnograd.so").symlink_to(self.build / "fortran" / "libgnograd.so")
        link(self.site / "fortran", self.build / "fortran")  # an extension in a build looks there
        blas = importlib.util.find_spec("scipy_openblas32")
        if blas is not None and blas.submodule_search_locations:
            link(self.site / "scipy_openblas32", Path(blas.submodule_search_locations[0]))

    def sound(self, layers: list[str], selection: str) -> None:
        """Refuse to begin if tests fail without a fault, which every fault would then be."""
        files = ["tests/operators/test_edge_softmax.py"]
        if "cuda" in layers:
            files += ["tests/test_cuda.py", "-k", "test_types and edge_softmax"]
        by = self._test(files, selection, cuda="cuda" in layers)
        if by is not None:
            sys.exit(f"without a fault, {by} fails: look at {self.work}/pytest.log")

    def trial(self, fault: Fault, selections: list[str]) -> list[str | None]:
        """Test that finds the fault, or None, for every selection."""
        file = self.source / fault.file
        sound = file.read_text()
        try:
            file.write_text(sound.replace(fault.old, fault.new))
            self._make(fault)
            cuda = fault.layer == "cuda"
            return [self._test(fault.selection, s, cuda) for s in selections]
        finally:
            file.write_text(sound)  # compiled again together with the next fault
            if fault.layer == "python":
                self._make(fault)

    def _make(self, fault: Fault) -> None:
        """Build again what the fault is in."""
        if fault.file.startswith("python/gnograd/"):
            shutil.copy(self.source / fault.file, self.site / fault.file.removeprefix("python/"))
            return
        folder, target = (
            (self.simt, SIMT) if fault.layer == "cuda" else (self.build, "fortran/libgnograd.so")
        )
        command = ["ninja", "-C", folder, target]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            (self.work / "build.log").write_text(made.stdout)
            sys.exit(f"{fault.name} does not compile: look at {self.work}/build.log")

    def _test(self, tests: list[str], selection: str, cuda: bool) -> str | None:
        environment = os.environ | {
            "PYTHONPATH": str(self.site),
            "OMP_WAIT_POLICY": "passive",
            "OMP_NUM_THREADS": "2",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environment.pop("GNOGRAD_CUDA_LIBRARY", None)
        if cuda:
            environment["GNOGRAD_CUDA_LIBRARY"] = str(self.simt / SIMT)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
                   "-rfE", "--tb=line", *shlex.split(selection), *tests]  # fmt: skip
        start = time.monotonic()
        try:
            ran = subprocess.run(
                command, cwd=self.source, env=environment, capture_output=True, text=True,
                timeout=LIMIT,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"a test that hangs, after {LIMIT} s"
        (self.work / "pytest.log").write_text(ran.stdout + ran.stderr)
        if ran.returncode in (0, 5):  # passed, or none selected
            return None
        for line in ran.stdout.splitlines():
            if line.startswith(("FAILED ", "ERROR ")):
                test = line.split(" ", 1)[1].split(" - ")[0].removeprefix("tests/")
                return f"{test} ({time.monotonic() - start:.0f} s)"
        return f"the process ended with {ran.returncode}"

    @staticmethod
    def _run(*command: object) -> None:
        made = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if made.returncode:
            sys.exit(f"{shlex.join(str(c) for c in command)}\n{made.stdout[-4000:]}{made.stderr}")


if __name__ == "__main__":
    main()
