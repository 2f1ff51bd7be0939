# SPDX-License-Identifier: MIT
"""Headers and types follow from the operators' declarations when the library is built."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gnograd as gg
import gnograd.autodiff as ad
from gnograd.backends import cuda_library

ROOT = Path(__file__).resolve().parents[1]
INTERFACE = ROOT / "tools" / "interface"
FAMILY = """
@operator(
    inputs={"x": "n_src D", "y": "n_dst D"}, outputs={"out": "n_edges"}, arguments="graph D scale"
)
def dot(x: Array, y: Array, *, graph: GraphLike, scale: float = 1.0) -> Array:
    ...
"""
STUBS = ["torch/functional.pyi", "jax/functional.pyi", "autodiff/operators.pyi"]


def written(*command: str | Path) -> Path:
    """The last argument, which a generator has written with nothing but the standard library."""
    script, *arguments = command
    subprocess.run([sys.executable, "-S", INTERFACE / script, *arguments], check=True)
    return Path(arguments[-1])


def test_an_installation_has_what_the_declarations_say(tmp_path: Path) -> None:
    header = written("header.py", tmp_path / "gnograd.h")
    assert (Path(gg.get_include()) / "gnograd.h").read_bytes() == header.read_bytes()
    folder = written("stubs.py", tmp_path)
    for stub in STUBS:
        assert (Path(gg.__file__).parent / stub).read_bytes() == (folder / stub).read_bytes()


def test_types_are_those_of_the_functions(tmp_path: Path) -> None:
    stub = written("stubs.py", tmp_path) / "autodiff" / "operators.pyi"
    functions = set(re.findall(r"^def (\w+)", stub.read_text(), re.MULTILINE))
    assert functions == set(ad.operators.__all__)


def test_fortran_has_the_functions_of_the_cuda_library(tmp_path: Path) -> None:
    """Every function but those for 16-bit numbers, with the arguments of one abstract interface."""
    header = written("cuda.py", "header", tmp_path / "gnograd_cuda.h").read_text()
    module = written("cuda.py", "fortran", tmp_path / "gnograd_cuda.f90").read_text()
    functions = re.findall(r"^GNOGRAD_CUDA_API .*?(\w+)\(", header, re.MULTILINE)
    declared = re.findall(r"^    end function (\w+)", module, re.MULTILINE)
    typed = {}
    for face, names in re.findall(r"procedure\((\w+)\), bind\(C\) :: (.*(?:\n    & .*)*)", module):
        assert face in declared
        typed |= dict.fromkeys(re.findall(r"\w+", names), face)
    ours = {name for name in functions if not name.endswith(("f16", "bf16"))}
    assert ours == set(typed) | set(declared) - set(typed.values())
    assert typed["gnograd_cuda_gno_vjp_f64"] == "gnograd_cuda_gno_vjp"
    workspace = "gnograd_cuda_gno_{}workspace_bytes{}"
    assert typed[workspace.format("vjp_", "_f32")] == workspace.format("", "")


def test_python_and_the_cuda_library_have_one_version(tmp_path: Path) -> None:
    header = written("cuda.py", "header", tmp_path / "gnograd_cuda.h").read_text()
    version = re.search(r"GNOGRAD_CUDA_ABI = (\d+)", header)
    assert version and int(version.group(1)) == cuda_library._ABI_VERSION


def test_no_written_file_is_in_the_repository() -> None:
    """Files that a tool writes are in build folders; templates pass their text on."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no repository")
    words = r"(written|generated) by [t]ools/|do not [e]dit"
    command = [git, "-C", ROOT, "grep", "-liE", words, "--", ".", ":!tools", ":!*.in"]
    listed = subprocess.run(command, capture_output=True, text=True)
    assert not listed.stdout + listed.stderr


def test_fortran_programs_find_every_operator() -> None:
    """The module gnograd names what programs may use of the tape."""
    named = set(re.findall(r"\w+", (ROOT / "fortran" / "gnograd.f90").read_text()))
    assert {n for n in gg.__all__ if isinstance(getattr(gg, n), gg.Operator)} <= named


@pytest.mark.parametrize(
    ("text", "other", "message"),
    [
        ("*, graph", "graph", "dot takes x, y, graph, scale before the *, but has inputs x, y"),
        ("scale: float", "scale", "dot: scale has no type"),
        ("1.0", "ONE", "dot: the default of scale is ONE, needs a literal"),
        ("float", "complex", "dot: scale is of no type that static arguments have"),
        ("float = 1.0", "str", "dot: scale is a str, which needs choices"),
        ("D scale", "D", "dot: scale is not among the arguments"),
        ("graph D", "graph", "dot: D, in a shape, is not among the arguments"),
        ("graph D", "graph D m", "dot: m, among the arguments, is no static argument"),
        (" D", " K", "dot: K needs another name in C and Fortran"),
        ('outputs={"out": "n_edges"}, ', "", "dot is declared without outputs"),
    ],
)
def test_a_declaration_that_cannot_be_meant(text, other, message, tmp_path, monkeypatch) -> None:
    """A wrong declaration is refused by its name, not by a compiler in what was made of it."""
    monkeypatch.syspath_prepend(INTERFACE)
    from declarations import read_operators

    family = tmp_path / "operators" / "edges.py"
    family.parent.mkdir()
    family.write_text(FAMILY)
    assert read_operators(tmp_path)[0].name == "dot"
    family.write_text(FAMILY.replace(text, other))
    with pytest.raises(ValueError, match=re.escape(f"edges.py: {message}")):
        read_operators(tmp_path)


@pytest.mark.parametrize("line", ["", "@dor@"])
def test_a_header_without_an_operator(line, tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(INTERFACE)
    import c

    template = tmp_path / "some.h.in"
    template.write_text(f"/* text */\n{line}\n")
    with pytest.raises(SystemExit, match=r"some.h.in: @do[rt]@"):
        c.fill(template, {"dot": "int dot();"})
