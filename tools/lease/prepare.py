# SPDX-License-Identifier: MIT
"""Prepare what a rented GPU needs besides this folder of sources: build/lease, 52 MiB at most.

    prepare.py [--python 3.12] [--jobs 2]

There the network, compilers and minutes are scarce: the package and OpenBLAS go as wheels for the
Python of that machine, the kernels for compute capability 9.0 with their PTX, and the C++ tests
stripped and packed. All of it takes half an hour of a processor, once; only what has changed is
compiled again.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools" / "wheel"))

import pythons  # noqa: E402

LEASE = ROOT / "build" / "lease"
KERNELS = ROOT / "build" / "cuda-90"
OPENBLAS = "scipy-openblas32>=0.3.29"
# with the sources, 64 MiB are a size that is copied anywhere in seconds
MOST = 52 << 20


def compile_kernels(jobs: int) -> list[Path]:
    """The library for compute capability 9.0, and its C++ tests."""
    if not (KERNELS / "build.ninja").exists():
        pythons.run(
            "meson", "setup", KERNELS, "-Dpython_ext=disabled", "-Dcuda=enabled",
            "-Dgpu_architectures=90", "-Dsimt=enabled",
        )  # fmt: skip
    sources = sorted((ROOT / "tests" / "cuda").glob("test_*.c*"))
    tests = [f"tests/cuda/test_cuda_{s.stem.removeprefix('test_')}_gpu" for s in sources]
    pythons.run("ninja", f"-j{jobs}", "-C", KERNELS, "cuda/libgnograd_cuda.so", *tests)
    return [KERNELS / "cuda" / "libgnograd_cuda.so", *(KERNELS / test for test in tests)]


def pack(programs: list[Path], archive: Path) -> None:
    """Programs without their symbols in one compressed file."""
    folder = archive.parent / "cpp"
    folder.mkdir()
    for program in programs:
        pythons.run("strip", "-o", folder / program.name, program)
    with tarfile.open(archive, "w:gz") as file:
        file.add(folder, "cpp")
    shutil.rmtree(folder)


def main() -> None:
    """Make the folder anew; compilers only repeat what has changed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", default="3.12", help="version on the machine with the GPU")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    found = pythons.find([given.python])
    if not found:
        sys.exit(
            f"a wheel for Python {given.python} needs that Python here, on PATH or from pyenv; "
            "make lease LEASE_PYTHON=3.11 is for a machine that has 3.11"
        )
    library, *tests = compile_kernels(given.jobs)
    shutil.rmtree(LEASE, ignore_errors=True)
    LEASE.mkdir(parents=True)
    pythons.run(
        sys.executable, ROOT / "tools" / "wheel" / "build.py", "--versions", given.python,
        "--levels", "x86-64-v3", "--jobs", given.jobs, "--to", LEASE,
    )  # fmt: skip
    pip = [found[given.python], "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    pythons.run(*pip, "--no-deps", "--only-binary=:all:", "-d", LEASE, OPENBLAS)
    shutil.copy(library, LEASE)
    pack(tests, LEASE / "cpp.tgz")
    commit = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    (LEASE / "commit").write_text(subprocess.run(commit, capture_output=True, text=True).stdout)
    size = sum(file.stat().st_size for file in LEASE.iterdir())
    print(f"{LEASE}: {size / 2**20:.1f} MiB")
    if size > MOST:
        sys.exit(f"that is more than {MOST >> 20} MiB")


if __name__ == "__main__":
    main()
