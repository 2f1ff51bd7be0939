# SPDX-License-Identifier: MIT
"""Programs find gnograd by pkg-config and by CMake, link it, shared and static, and run.

In the installed Python package and, where GNOGRAD_PREFIX names one (make consumers), in a prefix.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gnograd
from programs import PACKAGE, ROOT, build, build_and_run, flags, needs_installation, run

SOURCES = ROOT / "tests/consumer"
PREFIX = os.environ.get("GNOGRAD_PREFIX")
DERIVATIVE = "derivative  -0.08999504  quotient  -0.08999504\n"
GRADIENTS = "out 0 -10, gradients 1 1.5 and 2 -3\n"

pytestmark = needs_installation


@pytest.fixture(
    params=["package", pytest.param("prefix", marks=pytest.mark.skipif(not PREFIX, reason="none"))]
)
def installation(request, tmp_path) -> Path:
    """Folder that has lib; a prefix has been moved since it was installed."""
    if request.param == "package":
        return PACKAGE
    moved = tmp_path / "another place"
    shutil.copytree(str(PREFIX), moved)
    return moved


@pytest.mark.parametrize(
    ("compiler", "source", "result"),
    [
        ("gcc", "graph.c", "ok\n"),
        ("gcc", "near_points.c", "ok\n"),
        ("gcc", "derivative.c", GRADIENTS),
        ("gcc", "threads.c", "wrong or failed: 0 of 2000\n"),
        ("gfortran", "derivative.f90", DERIVATIVE),
    ],
)
def test_program(installation, compiler, source, result, tmp_path):
    assert build_and_run(compiler, SOURCES / source, tmp_path, where=installation) == result


def test_libraries_name_no_folder_of_this_machine(installation, tmp_path):
    told = run("readelf", "--dynamic", installation / "lib/libgnograd.so", folder=tmp_path)
    for paths in re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", told):
        assert all(path.startswith("$ORIGIN") for path in paths.split(":"))


def test_cpp_program(tmp_path):
    source = tmp_path / "derivative.cpp"
    shutil.copy(SOURCES / "derivative.c", source)
    assert build_and_run("g++", source, tmp_path) == GRADIENTS


def test_fortran_example_trains(tmp_path):
    output = build_and_run("gfortran", ROOT / "examples/fortran/train_gno.f90", tmp_path)
    errors = [float(line.split()[-1]) for line in output.splitlines()]
    assert errors[-1] < 0.05 < errors[0]


def test_host_with_wide_default_kinds(tmp_path):
    options = "-fdefault-integer-8", "-fdefault-real-8"
    program = build("gfortran", SOURCES / "wide_integers.f90", tmp_path, *options)
    assert run(program, folder=tmp_path).split() == ["falls", "T"]


def test_archive(installation, tmp_path):
    """Linked by gcc, which adds nothing of Fortran itself."""
    if not (installation / "lib/libgnograd.a").exists():
        pytest.skip("installed without the archive")
    source = tmp_path / "gno.c"
    source.write_text(
        "extern void gnograd_gno_vjp_r32(); int main(void) { return !gnograd_gno_vjp_r32; }"
    )
    told = flags(installation, tmp_path, "--cflags", "--libs", "--static")
    archive = ["-l:libgnograd.a" if flag == "-lgnograd" else flag for flag in told]
    run("gcc", source, *archive, "-o", tmp_path / "gno", folder=tmp_path)
    run(tmp_path / "gno", folder=tmp_path)
    assert b"libgnograd.so" not in (tmp_path / "gno").read_bytes()


@pytest.mark.skipif(not PREFIX, reason="the BLAS of the package comes without an archive")
def test_program_without_any_shared_library(tmp_path):
    where = Path(str(PREFIX))
    told = flags(where, tmp_path, "--cflags", "--libs", "--static")
    source, program = SOURCES / "derivative.f90", tmp_path / "derivative"
    run("gfortran", "-static", source, *told, "-o", program, folder=tmp_path)
    assert run(program, folder=tmp_path) == DERIVATIVE
    # no table of shared libraries
    assert "INTERP" not in run("readelf", "--program-headers", program, folder=tmp_path)


def projects() -> list[str]:
    """The CMakeLists.txt of the documentation."""
    text = (ROOT / "docs/howto/cmake.md").read_text()
    return re.findall(r"```cmake\n(.*?)```", text, re.DOTALL)


def configure(lists: str, where: Path, folder: Path, *options: str) -> subprocess.CompletedProcess:
    """A project with the programs of tests/consumer, told of gnograd as the documentation says."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    for source in (*SOURCES.glob("*.f90"), *SOURCES.glob("*.c")):
        shutil.copy(source, folder)
    (folder / "CMakeLists.txt").write_text(lists)
    found = f"-Dgnograd_DIR={gnograd.get_cmake_dir()}"
    if where != PACKAGE:
        found = f"-DCMAKE_PREFIX_PATH={where}"
    return subprocess.run(
        ["cmake", "-S", ".", "-B", "build", found, *options],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def built(lists: str, where: Path, folder: Path, *options: str) -> Path:
    """Folder of its programs."""
    done = configure(lists, where, folder, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    run("cmake", "--build", "build", folder=folder)
    return folder / "build"


@pytest.mark.parametrize("static", [False, True])
def test_cmake_project(installation, static, tmp_path):
    if static and not (installation / "lib/libgnograd.a").exists():
        pytest.skip("installed without the archive")
    lists = projects()[0]
    if static:
        lists = lists.replace("COMPONENTS", "COMPONENTS static")
    folder = built(lists, installation, tmp_path)
    assert run(folder / "in_fortran", folder=tmp_path) == DERIVATIVE
    assert run(folder / "in_c", folder=tmp_path) == GRADIENTS
    assert (b"libgnograd.so" in (folder / "in_c").read_bytes()) is not static


def test_cmake_project_for_any_compiler(installation, tmp_path):
    folder = built(projects()[1], installation, tmp_path)
    gradients = "gradients  1.0  1.5 and  2.0 -3.0\n"
    assert run(folder / "any_compiler", folder=tmp_path) == gradients


def test_cmake_says_what_is_missing(tmp_path):
    lists = """cmake_minimum_required(VERSION 3.18)
        project(consumer LANGUAGES NONE)
        find_package(gnograd 0.1 QUIET COMPONENTS fortran gpu OPTIONAL_COMPONENTS cuda)
        set(told "${gnograd_NOT_FOUND_MESSAGE}found ${gnograd_FOUND}, cuda ${gnograd_cuda_FOUND}")
        find_package(gnograd 0.2 QUIET)
        message("${told}, 0.2 ${gnograd_FOUND}")"""
    told = configure(lists, PACKAGE, tmp_path).stderr
    assert "gnograd has no fortran: the project has no Fortran: project(... LANGUAGES For" in told
    assert "gnograd has no gpu: components are static, fortran, cuda, mpi\n" in told
    assert "has no cuda" not in told
    plugin = list(PACKAGE.parent.glob(f"gnograd_cu1?-{gnograd.__version__}.dist-info"))
    has_cuda = bool(plugin) or (PACKAGE / "lib/libgnograd_cuda.so").exists()
    assert f"\nfound 0, cuda {str(has_cuda).upper()}, 0.2 0\n" in told


def test_cmake_and_a_compiler_that_cannot_read_the_modules(tmp_path):
    """A compiler of another make or version gets no Fortran, and is told of gnograd_c.f90."""
    compiler = tmp_path / "gfortran-4"
    compiler.write_text(
        "#!/bin/sh\nfor argument; do case $argument in *try.f90) exit 1; esac; done\n"
        'exec gfortran "$@"\n'
    )
    compiler.chmod(0o755)
    done = configure(projects()[0], PACKAGE, tmp_path, f"-DCMAKE_Fortran_COMPILER={compiler}")
    assert done.returncode != 0
    told = " ".join(done.stderr.split())
    assert f"gnograd has no fortran: {compiler} cannot read the modules that gfortran" in told
    assert "gnograd_c.f90" in told


CUDA = """cmake_minimum_required(VERSION 3.18)
project(consumer LANGUAGES C)
find_package(gnograd 0.1 REQUIRED COMPONENTS cuda)
add_executable(version version.c)
target_link_libraries(version PRIVATE gnograd::cuda)
"""


@pytest.mark.skipif("GNOGRAD_CUDA_LIBRARY" not in os.environ, reason="no kernels for a GPU")
@pytest.mark.parametrize("home", ["gnograd/lib", "gnograd_cu13"])
def test_cmake_project_with_cuda(home, tmp_path):
    """A CUDA library in the package or in its own wheel: that of the tests, which needs no GPU."""
    where = tmp_path / "gnograd"
    shutil.copytree(PACKAGE / "lib", where / "lib")
    shutil.copytree(PACKAGE / "include", where / "include")
    library = Path(os.environ["GNOGRAD_CUDA_LIBRARY"])
    (tmp_path / home).mkdir(exist_ok=True)
    shutil.copy(library, tmp_path / home / "libgnograd_cuda.so")
    shutil.copy(library, tmp_path / home)  # the name that the loader asks for
    header = where / "include" / "gnograd_cuda.h"
    subprocess.run([sys.executable, ROOT / "tools/interface/cuda.py", "header", header], check=True)
    (tmp_path / "version.c").write_text(
        "#include <gnograd_cuda.h>\nint main(void) { return gnograd_cuda_abi_version() < 1; }"
    )
    if home == "gnograd_cu13":
        # another version's is none
        metadata = tmp_path / "gnograd_cu13-99.0.dist-info"
        metadata.mkdir()
        refused = configure(CUDA, where, tmp_path)
        assert refused.returncode != 0
        advice = f"pip install gnograd-cu13=={gnograd.__version__}"
        assert advice in " ".join(refused.stderr.split())
        metadata.rename(tmp_path / f"gnograd_cu13-{gnograd.__version__}.dist-info")
    run(built(CUDA, where, tmp_path) / "version", folder=tmp_path)


HOST = """project('host', 'fortran', meson_version: '>=1.4')
executable('host', 'host.f90', dependencies: dependency('gnograd', fallback: 'gnograd'))
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory) -> Path:
    """Build folder of a Meson project that has gnograd as a subproject, configured."""
    for program in ("meson", "ninja", "fypp"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = tmp_path_factory.mktemp("host")
    (folder / "meson.build").write_text(HOST)
    (folder / "host.f90").write_text("program host\n  use gnograd\nend program\n")
    (folder / "subprojects").mkdir()
    (folder / "subprojects/gnograd").symlink_to(ROOT)
    options = [f"-Dgnograd:{part}=disabled" for part in ("python_ext", "cuda", "simt", "mpi")]
    run("meson", "setup", "build", *options, folder=folder)
    return folder / "build"


def test_meson_subproject_gives_a_host_no_options(host):
    """A host is not compiled with -fopenmp, which would put its large arrays on the stack."""
    compiled = json.loads((host / "compile_commands.json").read_text())
    (command,) = (each["command"] for each in compiled if each["file"].endswith("host.f90"))
    assert "gnograd" in command and "openmp" not in command
    ours = next(each["command"] for each in compiled if each["file"].endswith("threads.f90"))
    assert "-fopenmp" in ours


def test_prefix_needs_nothing_of_what_built_it(host):
    """The BLAS of a virtual environment is installed, too."""
    told = next(host.rglob("gnograd.pc")).read_text()
    assert not re.search(r"site-packages|-L/|rpath,/", told)
    plan = json.loads(run("meson", "introspect", "--install-plan", host, folder=host))
    installed = {
        Path(place["destination"]).name for kind in plan.values() for place in kind.values()
    }
    assert f"libgnograd.so.{gnograd.__version__}" in installed
    assert ("libscipy_openblas.so" in installed) == ("scipy_openblas" in told)
