# SPDX-License-Identifier: MIT
"""Expand the Fortran sources, for fpm and for readers without fypp.

usage: expand.py           to fortran/fpm_src, which fpm.toml names
       expand.py FOLDER    to a package of its own, for a branch that fpm takes as a dependency
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import fypp

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools" / "interface"))
from declarations import families

# fpm links the system's OpenBLAS (libopenblas-dev)
DEFINES = ["-SBLAS_NAME=openblas", "-SBLAS_PREFIX="]

root = Path(__file__).resolve().parents[2]
fortran = root / "fortran"
interface = root / "tools" / "interface"


def expand(source: Path, output: Path, *options: str) -> None:
    """Plain Fortran of a template."""
    common = [*DEFINES, f"-I{fortran}", f"-M{interface}", "-mfortran", "-mkernels"]
    parsed, _ = fypp.get_option_parser().parse_args([*common, *options], values=fypp.FyppOptions())
    fypp.Fypp(parsed).process_file(str(source), str(output))


FOLDERS = (
    "core", "weights", "primitives", "records", "kernels", "faces", "entries", "device", "autodiff",
    "nn", "capi",
)  # fmt: skip


def expand_all(target: Path) -> None:
    """All sources, in the folders that they have."""
    if target.exists():
        shutil.rmtree(target)
    # the interfaces of the CUDA library, which is loaded when a program asks for a GPU
    target.mkdir(parents=True)
    writer = [sys.executable, interface / "cuda.py", "fortran", target / "gnograd_cuda.f90"]
    subprocess.run(writer, check=True)
    sources = [fortran / "gnograd.f90"]
    for folder in FOLDERS:
        found = sorted((fortran / folder).rglob("*"))
        sources += [path for path in found if path.suffix in (".f90", ".fypp", ".c", ".h")]
    for source in sources:
        output = target / source.relative_to(fortran)
        output.parent.mkdir(parents=True, exist_ok=True)
        if source.name == "operators.fypp":  # one file for each family, from its declarations
            for family in families():
                name = f"{source.parent.name}_{family}.f90"
                expand(source, output.with_name(name), f'-DFAMILY="{family}"')
        elif source.suffix == ".fypp":
            expand(source, output.with_suffix(".f90"))
        else:
            shutil.copy(source, output)


def write_package(target: Path) -> None:
    """Write what fpm needs of the repository, and nothing else. A .git there stays."""
    target.mkdir(parents=True, exist_ok=True)
    expand_all(target / "src")
    manifest = (root / "fpm.toml").read_text()
    head, _, rest = manifest.partition("# Written by fortran/tools/expand.py")
    rest = rest.partition("\n")[2].replace('"fortran/fpm_src"', '"src"')
    (target / "fpm.toml").write_text((head + rest).replace('"examples/fortran"', '"example"'))
    (target / "example").mkdir(exist_ok=True)
    for name in re.findall(r'^main = "(.+)"', manifest, re.MULTILINE):
        shutil.copy(root / "examples/fortran" / name, target / "example")
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "VERSION"):
        if (root / name).exists():
            shutil.copy(root / name, target)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_package(Path(sys.argv[1]))
    else:
        expand_all(fortran / "fpm_src")
