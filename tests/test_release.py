# SPDX-License-Identifier: MIT
"""What a release is made of: one version, whole metadata, a CUDA library in a wheel of its own."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gnograd as gg

ROOT = Path(__file__).resolve().parents[1]
VERSION = (ROOT / "VERSION").read_text().strip()


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
    """As pip leaves a wheel with a library, which here is none."""
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
    """They are found by its name, and must be of the same version."""
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
