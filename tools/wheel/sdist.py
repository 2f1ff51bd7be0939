# SPDX-License-Identifier: MIT
"""The sources in one archive, and whether it is whole.

    sdist.py [--to dist] [--test]

--test unpacks it where there is no git, builds a wheel from it, without optimization to be quick,
and imports that.
"""

from __future__ import annotations

import argparse
import os
import sys
import tarfile
import tempfile
from pathlib import Path

import build
import pythons

CALL = (
    "import gnograd as gg, numpy as np;"
    "g = gg.Graph([0, 2], [0, 1], n_src=2);"
    "assert gg.agg_simple(np.ones((2, 1)), graph=g, aggregation='sum')[0, 0] == 2"
)
# what a build from sources needs, or people look for, and Meson would not miss
NEEDED = [
    "VERSION", "LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "fpm.toml",
    "PKG-INFO", "python/gnograd/py.typed", "tools/interface/declarations.py", "tests/conftest.py",
    "cuda/meson.build", "docs/design.md",
]  # fmt: skip


def make(to: Path) -> Path:
    """The archive of the last commit."""
    tools = pythons.environment(sys.executable, build.WORK / "tools", build.REQUIREMENTS)
    env = build.variables()
    env["PATH"] = f"{tools.parent}{os.pathsep}{env['PATH']}"
    for old in to.glob("gnograd-*.tar.gz"):
        old.unlink()
    pythons.run(tools, "-m", "build", "--sdist", "-n", "-x", "-o", to, build.ROOT, env=env)
    (archive,) = to.glob("gnograd-*.tar.gz")
    return archive


def test(archive: Path) -> None:
    """Build and import what is in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        (source,) = folder.iterdir()
        missing = [f for f in NEEDED if not (source / f).exists()]
        if missing:
            sys.exit(f"{archive} lacks {', '.join(missing)}")
        own = pythons.environment(sys.executable, folder / "environment", build.REQUIREMENTS)
        env = build.variables()
        env["PATH"] = f"{own.parent}{os.pathsep}{env['PATH']}"
        settings = ("-Dcuda=disabled", "-Dsimt=disabled", "-Doptimization=0")
        pip = [own, "-m", "pip", "install", "-q", "--no-build-isolation"]
        pythons.run(*pip, *(f"-Csetup-args={s}" for s in settings), source, env=env)
        pythons.run(own, "-c", CALL, cwd=folder, env=env)
    print(f"{archive}: whole, built and imported without git")


def main() -> None:
    """Make it, and test it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--to", type=Path, default=build.ROOT / "dist")
    parser.add_argument("--test", action="store_true")
    given = parser.parse_args()
    archive = make(given.to)
    if given.test:
        test(archive)


if __name__ == "__main__":
    main()
