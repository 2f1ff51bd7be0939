# SPDX-License-Identifier: MIT
"""Wheels of gnograd, one for each Python, with one library in all of them.

    build.py [--source FOLDER] [--versions 3.11,3.12] [--levels x86-64-v3,x86-64-v4] [--to dist]
             [--jobs 2] [--option=-Doptimization=0]

The first wheel is built whole; the others take its library as it is, and compile nothing but the
extension. auditwheel names the platform and brings libgfortran; OpenBLAS is a package of its own,
and libgomp the system's or PyTorch's, since there shall be one in a process.

A commit gives the same bits again where compilers and C library are the same: what else goes into
a wheel is in requirements.txt.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pythons

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "wheels"
REQUIREMENTS = Path(__file__).parent / "requirements.txt"
# everybody's first, since NumPy's wheels ask for it as well
BASELINE = "x86-64-v2"
LEVELS = ["x86-64-v3", "x86-64-v4"]
# Smaller, a third in places: nothing unwinds through Fortran, and arrays that may have
# gaps are packed by a function instead of by code at every call.
SMALL = "-Dfortran_args=-fno-asynchronous-unwind-tables -fno-inline-arg-packing"
# without the names of local procedures, which Meson's --strip keeps
STRIPPED = [f"-D{language}_link_args=-Wl,--strip-all" for language in ("c", "fortran")]
# libraries that a wheel finds elsewhere
OUTSIDE = ["libscipy_openblas.so", "libgomp.so.1"]
# bytes of a wheel, at most: what makes it larger is to be noticed
MOST = 6_600_000


def variables() -> dict[str, str]:
    """The environment of a build, without what would change the bits."""
    chosen = {"CFLAGS", "CPPFLAGS", "FFLAGS", "FCFLAGS", "LDFLAGS", "LD_LIBRARY_PATH"}
    kept = {name: value for name, value in os.environ.items() if name not in chosen}
    return kept | {"SOURCE_DATE_EPOCH": epoch(), "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}


def epoch() -> str:
    """Time of the commit in seconds; without git, of the file pyproject.toml."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    if (ROOT / ".git").exists():
        command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return str(int((ROOT / "pyproject.toml").stat().st_mtime))


def build(source: Path, python: str, version: str, jobs: int, *options: str) -> Path:
    """The wheel for one Python, with the tag of this machine alone."""
    folder = WORK / version
    tools = pythons.environment(python, folder / "tools", REQUIREMENTS)
    made = folder / "made"
    for old in made, folder / "meson":
        shutil.rmtree(old, ignore_errors=True)
    chosen = ["-Dcuda=disabled", "-Dsimt=disabled", *STRIPPED, *options]
    settings = [f"-Csetup-args={o}" for o in chosen]
    env = variables()
    env["PATH"] = f"{tools.parent}{os.pathsep}{env['PATH']}"
    pip = [tools, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps"]
    pythons.run(
        *pip, "-w", made, f"-Cbuild-dir={folder / 'meson'}", f"-Ccompile-args=-j{jobs}",
        *settings, source, env=env,
    )  # fmt: skip
    (wheel,) = made.glob("*.whl")
    return wheel


def library_of(wheel: Path) -> Path:
    """The folder gnograd of a wheel, for others to take the library from."""
    folder = WORK / "library"
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(("gnograd/lib/", "gnograd/include/")):
                archive.extract(name, folder)
    for file in folder.rglob("*.so"):
        file.chmod(0o755)  # as it was in the wheel; zipfile does not keep modes
    return folder / "gnograd"


def repair(wheel: Path, to: Path, *outside: str) -> None:
    """Name the platform, and bring the libraries that it does not promise."""
    tools = wheel.parents[1] / "tools" / "bin"
    env = variables()
    env["PATH"] = f"{tools}{os.pathsep}{env['PATH']}"
    excluded = [a for name in outside for a in ("--exclude", name)]
    command = [tools / "auditwheel", "repair", "--disable-isa-ext-check", "-z", "9"]
    pythons.run(*command, *excluded, "-w", to, wheel, env=env)


def check_size(wheels: list[Path]) -> None:
    """Refuse what is too large."""
    for wheel in wheels:
        if wheel.stat().st_size > MOST:
            sys.exit(f"{wheel} has {wheel.stat().st_size} bytes, more than {MOST}")


def main() -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", type=Path, default=ROOT)
    parser.add_argument("--versions", default=",".join(pythons.VERSIONS))
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument("--to", type=Path, default=ROOT / "dist")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--option", action="append", default=[], help="of the first Meson set-up")
    given = parser.parse_args()
    os.umask(0o022)
    found = pythons.find(given.versions.split(","))
    if not found:
        sys.exit(f"none of the Pythons {given.versions} is here")
    repaired = WORK / "repaired"
    shutil.rmtree(repaired, ignore_errors=True)
    options = [f"-Dmarch={BASELINE}", f"-Dcpu_variants={given.levels}", SMALL, *given.option]
    for version, python in found.items():
        start = time.monotonic()
        wheel = build(given.source, python, version, given.jobs, *options)
        if "library" not in options[0]:
            options = [f"-Dlibrary={library_of(wheel)}"]
        repair(wheel, repaired, *OUTSIDE)
        print(f"Python {version}: {time.monotonic() - start:.0f} s", flush=True)
    check_size(sorted(repaired.glob("*.whl")))
    given.to.mkdir(parents=True, exist_ok=True)
    for old in given.to.glob("gnograd-*.whl"):
        old.unlink()
    for wheel in sorted(repaired.glob("*.whl")):
        shutil.move(wheel, given.to / wheel.name)
        print(f"{(given.to / wheel.name).stat().st_size / 1e6:.2f} MB  {given.to / wheel.name}")


if __name__ == "__main__":
    main()
