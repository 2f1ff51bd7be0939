# SPDX-License-Identifier: MIT
"""Install the wheels as users do, without a network and without a compiler, and run the tests.

    install.py [--versions 3.10,3.11] [--whole 3.11] [--from dist] [--extras torch]

The dependencies' wheels are downloaded once into build/wheels/index. Then every Python gets a fresh
environment, filled with `pip install --no-index --find-links`, and nothing else on PATH. The whole
test suite runs on one of them, a quick part on the others.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import build
import pythons

INDEX = build.WORK / "index"
# what differs between Pythons is the extension: calls of all kinds, and what is around it
QUICK = [
    "test_release.py",
    "test_runtime.py",
    "operators/test_gno.py",
    "test_operator.py",
    "test_autodiff.py",
    "test_autodiff_tape.py",
    "test_graph.py",
]
FOREIGN = """
import pathlib, sys
import gnograd as gg
import numpy as np
graph = gg.Graph([0, 2, 3], [0, 1, 1], n_src=2)
assert gg.agg_simple(np.ones((2, 3)), graph=graph, aggregation="sum").sum() == 9
mapped = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
names = ("libgnograd.so", "libgnograd_kernels.so", "libgfortran", "libquadmath", "openblas")
outside = [m for m in mapped if any(n in m for n in names) and not m.startswith(sys.prefix)]
assert not outside, f"not of this environment: {outside}"
gg.show_config()
"""


def download(tools: Path, extras: list[str]) -> None:
    """Fetch what gnograd and its tests need, as wheels for this Python."""
    listed = [sys.executable, build.ROOT / "tools" / "requirements.py", *extras]
    wanted = subprocess.run(list(map(str, listed)), cwd=build.ROOT, capture_output=True, text=True)
    command = [tools, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    pythons.run(*command, "--only-binary", ":all:", "-d", INDEX, *wanted.stdout.split())


def check(python: str, version: str, wheels: Path, extras: list[str], tests: list[Path]) -> None:
    """One Python: a fresh environment, the wheel, the tests."""
    folder = build.WORK / version / "fresh"
    shutil.rmtree(folder, ignore_errors=True)
    pythons.run(python, "-m", "venv", folder)
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "LD_"))}
    bare |= {"PATH": str(folder / "bin"), "PIP_CONFIG_FILE": os.devnull}
    bare |= {"OMP_WAIT_POLICY": "passive", "VIRTUAL_ENV": str(folder)}
    own = folder / "bin" / "python"
    sources = [a for f in (wheels, INDEX) for a in ("--find-links", f.resolve())]
    pythons.run(
        *[own, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check"],
        *sources, f"gnograd[{','.join(extras)}]", env=bare,
    )  # fmt: skip
    pythons.run(own, "-c", FOREIGN, env=bare, cwd=folder)
    assert shutil.which("gfortran", path=bare["PATH"]) is None
    parallel = ["-n", "auto", "--maxprocesses=4", "--dist", "loadfile"]
    pytest = [own, "-m", "pytest", *parallel, "-p", "no:cacheprovider"]
    pythons.run(*pytest, *tests, env=bare, cwd=build.ROOT)


def main() -> None:
    """Try what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--versions", default=",".join(pythons.VERSIONS))
    parser.add_argument("--whole", default="3.11", help="the Python that runs all tests")
    parser.add_argument("--from", dest="wheels", type=Path, default=build.ROOT / "dist")
    parser.add_argument("--extras", default="test")
    given = parser.parse_args()
    extras = given.extras.split(",")
    tests = build.ROOT / "tests"
    for version, python in pythons.find(given.versions.split(",")).items():
        tag = "cp" + version.replace(".", "")
        if not list(given.wheels.glob(f"gnograd-*-{tag}-*.whl")):
            sys.exit(f"{given.wheels} has no wheel for Python {version}; make wheel")
        tools = pythons.environment(python, build.WORK / version / "tools", build.REQUIREMENTS)
        download(tools, extras)
        start = time.monotonic()
        chosen = [tests] if version == given.whole else [tests / name for name in QUICK]
        check(python, version, given.wheels, extras, chosen)
        print(
            f"Python {version}: installed and tested, {time.monotonic() - start:.0f} s", flush=True
        )


if __name__ == "__main__":
    main()
