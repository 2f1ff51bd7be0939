# SPDX-License-Identifier: MIT
"""Build the commit once more, elsewhere, and compare: the same bits, or which file differs.

    again.py [--version 3.11] [--levels x86-64-v3,x86-64-v4] [--from dist]

The sources are a clone of the commit in a new folder with a longer name.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import build
import pythons


def digests(wheel: Path) -> dict[str, str]:
    """SHA-256 of every file in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {n: hashlib.sha256(archive.read(n)).hexdigest() for n in archive.namelist()}


def sha256(file: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> None:
    """Compare one wheel with its twin."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--version", default="3.11")
    parser.add_argument("--levels", default=",".join(build.LEVELS))
    parser.add_argument("--from", dest="wheels", type=Path, default=build.ROOT / "dist")
    given = parser.parse_args()
    tag = "cp" + given.version.replace(".", "")
    (first,) = given.wheels.glob(f"gnograd-*-{tag}-*.whl")
    git = ["git", "-C", build.ROOT]
    if subprocess.run([*git, "diff", "--quiet", "HEAD"]).returncode:
        sys.exit("there are changes that no commit has: commit them, make wheel, compare")
    with tempfile.TemporaryDirectory(prefix="gnograd-in-a-folder-with-a-longer-name-") as folder:
        clone = Path(folder) / "clone"
        pythons.run("git", "clone", "-q", "--no-hardlinks", build.ROOT, clone)
        script = clone / "tools" / "wheel" / "build.py"
        options = ["--versions", given.version, "--levels", given.levels]
        pythons.run(sys.executable, script, *options, env=build.variables())
        (second,) = (clone / "dist").glob("gnograd-*.whl")
        same = sha256(first) == sha256(second) and first.name == second.name
        one, other = digests(first), digests(second)
        for name in sorted(one.keys() | other.keys()):
            if one.get(name) != other.get(name):
                print(f"differs: {name}")
        print(f"{sha256(first)}  {first.name}\n{sha256(second)}  {second.name}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
