# SPDX-License-Identifier: MIT
"""The wheel gnograd-cu13 or gnograd-cu12: the CUDA library, and nothing else, for every Python.

    cuda.py [--cuda 13] [--architectures 80,86,89,90,100,120] [--to dist] [--library FILE]

Compiling for all these architectures takes a processor some three quarters of an hour. --library
puts one in that is compiled already.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import build
import pythons

MOST = 100e6  # bytes, what package indexes take of one file
# machine code for these, of those that nvcc knows; PTX of the last is for what comes later
ARCHITECTURES = "80,86,89,90,100,120"

PYPROJECT = """\
[build-system]
build-backend = "setuptools.build_meta"
requires = ["setuptools"]

[project]
name = "gnograd-cu{cuda}"
version = "{version}"
description = "CUDA {cuda} kernels of gnograd: {capabilities}"
readme = {{ text = '''{readme}''', content-type = "text/markdown" }}
license = "MIT"
license-files = ["LICENSE"]
authors = [{{ name = "gnograd developers" }}]
requires-python = ">=3.10"
classifiers = [
  "Environment :: GPU :: NVIDIA CUDA :: {cuda}",
  "Intended Audience :: Science/Research",
  "Operating System :: POSIX :: Linux",
  "Topic :: Scientific/Engineering",
]

[project.urls]
{urls}

[tool.setuptools]
packages = ["gnograd_cu{cuda}"]
package-data = {{ gnograd_cu{cuda} = ["*.so"] }}
"""
# for every Python, but one platform, which setuptools has no setting for
SETUP = """\
from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Binary(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", "linux_{machine}"


setup(distclass=Binary, cmdclass={{"bdist_wheel": Wheel}})
"""
README = """\
The CUDA kernels of [gnograd]({home}), compiled by nvcc {nvcc} for
{capabilities}, and PTX for later GPUs. There is nothing to import: gnograd {version} finds
the library where this wheel is installed.

    pip install gnograd[cu{cuda}]
"""


def compiled(cuda: str, architectures: list[str]) -> tuple[Path, str, list[str]]:
    """The library, the release of nvcc, and the architectures of these that it knows."""
    finder = [sys.executable, str(build.ROOT / "cuda" / "find_nvcc.py"), "nvcc"]
    found = subprocess.run([*finder, architectures[0]], capture_output=True, text=True)
    if found.returncode:
        sys.exit(f"no nvcc works:\n{found.stderr}")
    nvcc = found.stdout.split(";")[0]
    told = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"release ([\d.]+)", told)[1]  # type: ignore[index]
    if release.split(".")[0] != cuda:
        sys.exit(f"{nvcc} is of CUDA {release}, not {cuda}; name another one with NVCC=")
    command = [nvcc, "--list-gpu-arch"]
    known = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    chosen = [a for a in architectures if f"compute_{a}" in known]
    folder = build.WORK / f"cuda{cuda}"
    options = ["-Dpython_ext=disabled", "-Dsimt=disabled", "-Dcuda=enabled"]
    options.append(f"-Dgpu_architectures={','.join(chosen)}")
    again = ["--reconfigure"] if (folder / "build.ninja").exists() else []
    env = build.variables() | {"NVCC": nvcc}
    pythons.run("meson", "setup", *again, folder, build.ROOT, *options, env=env)
    pythons.run("ninja", "-C", folder, "cuda/libgnograd_cuda.so", env=env)
    return folder / "cuda" / "libgnograd_cuda.so", release, chosen


def packed(cuda: str, library: Path, release: str, architectures: list[str]) -> Path:
    """Build the wheel of a project that has only the library."""
    folder = build.WORK / f"gnograd-cu{cuda}"
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / "project" / f"gnograd_cu{cuda}"
    package.mkdir(parents=True)
    shutil.copyfile(library, package / "libgnograd_cuda.so")
    shutil.copyfile(build.ROOT / "LICENSE", folder / "project" / "LICENSE")
    project = (build.ROOT / "pyproject.toml").read_text()
    urls = re.search(r"\[project\.urls\]\n(.*?)\n\n", project, re.DOTALL)[1]  # type: ignore[index]
    facts = {
        "cuda": cuda,
        "version": (build.ROOT / "VERSION").read_text().strip(),
        "nvcc": release,
        "machine": platform.machine(),
        "home": re.search(r'Homepage = "(.*)"', urls)[1],  # type: ignore[index]
        "urls": urls,
        "capabilities": "compute capability "
        + ", ".join(f"{a[:-1]}.{a[-1]}" for a in architectures),
    }
    text = PYPROJECT.format(**facts, readme=README.format(**facts))
    (folder / "project" / "pyproject.toml").write_text(text)
    (folder / "project" / "setup.py").write_text(SETUP.format(**facts))
    tools = pythons.environment(sys.executable, folder.parent / "tools", build.REQUIREMENTS)
    (folder / "tools").symlink_to(folder.parent / "tools")
    pip = [tools, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps"]
    pythons.run(*pip, "-w", folder / "made", folder / "project", env=build.variables())
    (wheel,) = (folder / "made").glob("*.whl")
    return wheel


def main() -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cuda", choices=["12", "13"], default="13")
    parser.add_argument("--architectures", default=ARCHITECTURES)
    parser.add_argument("--to", type=Path, default=build.ROOT / "dist")
    parser.add_argument("--library", type=Path)
    given = parser.parse_args()
    os.umask(0o022)
    architectures = given.architectures.split(",")
    if given.library:
        library, release = given.library, f"{given.cuda}.0"
    else:
        library, release, architectures = compiled(given.cuda, architectures)
    wheel = packed(given.cuda, library, release, architectures)
    repaired = wheel.parents[1] / "repaired"
    shutil.rmtree(repaired, ignore_errors=True)
    build.repair(wheel, repaired)
    (wheel,) = repaired.glob("*.whl")
    if wheel.stat().st_size > MOST:
        sys.exit(f"{wheel} has {wheel.stat().st_size / 1e6:.0f} MB: name fewer --architectures")
    given.to.mkdir(parents=True, exist_ok=True)
    for old in given.to.glob(f"gnograd_cu{given.cuda}-*.whl"):
        old.unlink()
    shutil.move(wheel, given.to / wheel.name)
    print(f"{(given.to / wheel.name).stat().st_size / 1e6:.2f} MB  {given.to / wheel.name}")


if __name__ == "__main__":
    main()
