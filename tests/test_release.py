# SPDX-License-Identifier: MIT
"""Parts of a release: one version, whole metadata, a CUDA library in a wheel of its own."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gnograd as gg

ROOT = Path(__file__).resolve().parents[1]
VERSION = (ROOT / "VERSION").read_text().strip()
STUBS = "torch/functional", "jax/functional", "autodiff/operators"


def test_there_is_one_version():
    """The file VERSION; what cannot read it says the same."""
    assert gg.__version__ == VERSION
    project = (ROOT / "pyproject.toml").read_text()
    assert set(re.findall(r'"gnograd-cu\d\d==(.*?)"', project)) == {VERSION}
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M)[1] == VERSION
    assert 'version = "VERSION"' in (ROOT / "fpm.toml").read_text()


def test_metadata_is_whole():
    told = importlib.metadata.metadata("gnograd")
    assert told["Author"] == "gnograd developers"
    assert told["License-Expression"] == "MIT"
    assert {"Documentation", "Issues", "Source"} <= {
        entry.split(",")[0] for entry in told.get_all("Project-URL")
    }
    assert "Typing :: Typed" in told.get_all("Classifier")
    assert (Path(gg.__file__).parent / "py.typed").exists()


def plugin(folder: Path, name: str, version: str) -> None:
    """Make the files that pip leaves of a wheel with a library; this one is no library."""
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / name.replace("-", "_")).mkdir()
    (folder / name.replace("-", "_") / "libgnograd_cuda.so").write_text("no library")


SHOW = textwrap.dedent("""
    from gnograd.backends import cuda_library, has_cuda
    print(has_cuda(), cuda_library.find())
    print(cuda_library.devices()[1])
""")


@pytest.mark.skipif(
    (Path(gg.__file__).parent / "lib" / "libgnograd_cuda.so").exists(),
    reason="this build has CUDA kernels of its own, which come first",
)
@pytest.mark.parametrize("name", ["gnograd-cu13", "gnograd-cu12"])
@pytest.mark.parametrize("version", [VERSION, "99.0"])
def test_cuda_kernels_of_a_wheel(name, version, tmp_path, monkeypatch):
    """Kernels are found by the name of their wheel, and must be of the same version."""
    monkeypatch.delenv("GNOGRAD_CUDA_LIBRARY", raising=False)
    plugin(tmp_path, name, version)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{SHOW}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found, reason = run.stdout.splitlines()
    assert found == f"True {tmp_path}/{name.replace('-', '_')}/libgnograd_cuda.so"
    if version == VERSION:
        assert reason.startswith("the CUDA kernels cannot be loaded")
    else:
        assert reason == (
            f"{name} 99.0 is for gnograd 99.0, and this is {VERSION}: pip install {name}=={VERSION}"
        )


def test_actions_are_those_that_were_read():
    """A tag may move to another commit, a hash not."""
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        for used in re.findall(r"uses: *(.*)", workflow.read_text()):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v[\d.]+", used), (workflow.name, used)


PACKAGE = Path(gg.__file__).parent
LIBRARIES = [*PACKAGE.glob("_core*.so"), *(PACKAGE / "lib").rglob("libgnograd*.so")]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf of binutils")
@pytest.mark.parametrize("path", LIBRARIES, ids=lambda path: path.name)
def test_libraries_are_hardened(path):
    """Nothing on a stack is run, what the loader has filled in is not written to again."""

    def told(option):
        command = ["readelf", "--wide", option, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    segments, dynamic = told("--program-headers"), told("--dynamic")
    assert re.search(r"GNU_STACK .* RW ", segments)
    assert "GNU_RELRO" in segments
    assert re.search(r"\(FLAGS_1\).*\bNOW\b|\(BIND_NOW\)", dynamic)
    if path.name.startswith(("_core", "libgnograd.so")):  # not in what computes
        assert "__stack_chk_fail" in told("--dyn-syms")


CUDA = PACKAGE / "lib" / "libgnograd_cuda.so"


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm of binutils")
@pytest.mark.skipif(not CUDA.exists(), reason="this build has no CUDA kernels")
def test_cuda_library_exports_its_own_names():
    """No name of the libstdc++ inside is exported, which could take the place of another one's."""
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(CUDA)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert {line.split()[0].partition("_")[0] for line in listed.splitlines()} == {"gnograd"}


HWCAPS = Path(gg.__file__).parent / "lib" / "glibc-hwcaps"
CALL = """
import numpy as np, gnograd as gg
graph = gg.Graph([0, 2, 3], [0, 1, 1], n_src=2)
shapes = (2, 8), (3, 2), (2, 16), (16,), (16, 8, 8), (8, 8)
rng = np.random.default_rng(0)
inputs = [rng.normal(size=shape) for shape in shapes]
y = gg.gno(*inputs, graph=graph, activation="gelu")
x = gg.gno(*(a.astype("f4") for a in inputs), graph=graph, activation="gelu")
assert np.allclose(x, y, atol=1e-4), (x, y)
print(gg.get_config()["cpu"])
"""


def levels() -> set[str]:
    """Levels of x86-64 above v2 that this processor can run."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    known = {"x86-64-v3": {"avx2", "fma", "bmi2", "movbe"}, "x86-64-v4": {"avx512f", "avx512vl"}}
    return {level for level, needed in known.items() if needed <= flags}


@pytest.mark.skipif(not HWCAPS.exists(), reason="a build for one CPU")
@pytest.mark.parametrize(
    ("hidden", "level"),
    [("", "x86-64-v4"), ("-AVX512F", "x86-64-v3"), ("-AVX2,-AVX512F", "x86-64-v2")],
)
def test_the_loader_chooses_a_copy_for_the_processor(hidden, level, monkeypatch):
    if level != "x86-64-v2" and level not in levels():
        pytest.skip(f"this processor is not {level}")
    monkeypatch.setenv("GLIBC_TUNABLES", f"glibc.cpu.hwcaps={hidden}" if hidden else "")
    run = subprocess.run([sys.executable, "-c", CALL], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == level


def make(*arguments: str) -> list[str]:
    """Commands that make would run."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    command = ["make", "-n", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()


def test_documentation_needs_no_cuda():
    """PyPI's PyTorch brings gigabytes of CUDA; the pages import the build for CPUs."""
    lines = make("-W", "pyproject.toml", ".venv/documentation")
    (torch,) = (k for k, line in enumerate(lines) if '"torch' in line)
    (docs,) = (k for k, line in enumerate(lines) if "requirements.py docs" in line)
    assert torch < docs
    assert "--index-url https://download.pytorch.org/whl/cpu" in lines[torch]


def test_stubs_that_lint_writes_install_nothing():
    """A second installation would replace the one that other tests are using."""
    stubs = [f"python/gnograd/{k}.pyi" for k in STUBS]
    written = [argument for stub in stubs for argument in ("-W", stub)]
    assert make(*written, ".venv/installed") == make(".venv/installed")
    assert make("-W", "VERSION", ".venv/installed")[-1] == "touch .venv/installed"
