# SPDX-License-Identifier: MIT
"""Programs against an installed gnograd_mpi: by pkg-config and by CMake, on 1, 2 and 3 processes.

usage: mpi.py PREFIX
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/fortran/train_gno_mpi.f90"
DOCUMENT = ROOT / "docs/howto/distributed_fortran.md"
CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(consumer LANGUAGES C Fortran)
find_package(gnograd 0.1 REQUIRED COMPONENTS mpi)
add_executable(program {source})
target_link_libraries(program PRIVATE gnograd::mpi)
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Output of a command, which must not fail or hang."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=os.environ | environment,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def by_pkgconfig(source: Path, prefix: Path, folder: Path) -> Path:
    """The program, compiled as the documentation says."""
    where = str(prefix / "lib/pkgconfig")
    flags = run("pkg-config", "--cflags", "--libs", "gnograd_mpi", cwd=ROOT, PKG_CONFIG_PATH=where)
    program = folder / source.stem
    run("mpif90", source, *flags.split(), f"-Wl,-rpath,{prefix / 'lib'}", "-o", program, cwd=folder)
    return program


def by_cmake(source: Path, prefix: Path, folder: Path) -> Path:
    """Build a program that finds gnograd by CMake."""
    (folder / "CMakeLists.txt").write_text(CMAKE.format(source=source))
    run("cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=folder)
    run("cmake", "--build", "build", cwd=folder)
    return folder / "build" / "program"


def launch(program: Path, n: int) -> str:
    """Output of a program on n processes."""
    mpirun = shutil.which("mpirun.openmpi") or "mpirun"
    options = ["--allow-run-as-root", "--oversubscribe"] if "openmpi" in mpirun else []
    return run(mpirun, *options, "-n", str(n), program, cwd=ROOT, OMP_NUM_THREADS="1")


def main() -> None:
    """Build, run, compare."""
    prefix = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        example = by_pkgconfig(EXAMPLE, prefix, folder)
        losses = [
            [float(line.split()[-1]) for line in launch(example, n).splitlines()] for n in (1, 2, 3)
        ]
        if not (0 < losses[0][-1] < 0.1 < losses[0][0]):
            raise SystemExit(f"the example does not learn: {losses[0]}")
        for others in losses[1:]:
            for one, many in zip(losses[0], others, strict=True):
                if abs(one - many) > 1e-12:
                    raise SystemExit(f"other losses on more processes: {losses}")
        print("pkg-config: the example trains, and alike on 1 to 3 processes")

        if shutil.which("cmake") is None:
            print("CMake is not installed: not tested")
        else:
            if launch(by_cmake(EXAMPLE, prefix, folder), 2) != launch(example, 2):
                raise SystemExit("the program built by CMake prints something else")
            print("CMake: the same program")

        (text,) = re.findall(r"```fortran\n(program .*?)```", DOCUMENT.read_text(), re.DOTALL)
        source = folder / "document.f90"
        source.write_text(text)
        print(f"document: {launch(by_pkgconfig(source, prefix, folder), 2).strip()}")


if __name__ == "__main__":
    main()
