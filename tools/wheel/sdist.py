# SPDX-License-Identifier: MIT
"""The sources of the last commit in one archive.

    sdist.py [--to dist] [--unpack FOLDER]

--unpack looks whether it is whole, and leaves what is in it in a folder, for a build of the wheel
that sees neither git nor what no commit has.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tarfile
from pathlib import Path

import build
import pythons

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


def unpack(archive: Path, folder: Path) -> None:
    """Put the sources into a folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as file:
        # which Pythons before 3.11.4 do not know
        file.extraction_filter = getattr(tarfile, "data_filter", None)
        file.extractall(folder)
    (inner,) = folder.iterdir()
    for path in inner.iterdir():
        path.rename(folder / path.name)
    inner.rmdir()
    if missing := [name for name in NEEDED if not (folder / name).exists()]:
        sys.exit(f"{archive} lacks {', '.join(missing)}")


def main() -> None:
    """Make the archive, and unpack it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--to", type=Path, default=build.ROOT / "dist")
    parser.add_argument("--unpack", type=Path)
    given = parser.parse_args()
    archive = make(given.to)
    if given.unpack:
        unpack(archive, given.unpack)
    print(archive)


if __name__ == "__main__":
    main()
