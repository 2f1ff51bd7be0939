# SPDX-License-Identifier: MIT
"""The Pythons that wheels are made for, wherever this machine has them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

__all__ = ["VERSIONS", "environment", "find", "run"]

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def find(versions: list[str]) -> dict[str, str]:
    """Interpreters by version, of the versions that are installed."""
    found = {}
    for version in versions:
        usable = next(filter(_runs, _candidates(version)), None)
        if usable is not None:
            found[version] = usable
    return found


def _candidates(version: str) -> Iterator[str]:
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path
    yield from map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    name = "cp" + version.replace(".", "")
    yield f"/opt/python/{name}-{name}/bin/python"  # images of manylinux


def _runs(python: str) -> bool:
    """Shims of pyenv are there for versions that are not chosen, too."""
    try:
        return subprocess.run([python, "-c", "import venv"], capture_output=True).returncode == 0
    except OSError:
        return False


def run(*command: str | Path, **more: object) -> None:
    """A command, whose failure ends the program without a traceback."""
    done = subprocess.run(list(map(str, command)), **more)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"failed with {done.returncode}: {' '.join(map(str, command))}")


def environment(python: str, folder: Path, *requirements: str | Path) -> Path:
    """A virtual environment with what is required, made anew when that changes; its Python."""
    wanted = "\n".join(Path(r).read_text() if Path(r).is_file() else str(r) for r in requirements)
    stamp = folder / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        run(python, "-m", "venv", "--clear", folder)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "-q"]
        given = [a for r in requirements for a in (["-r", r] if Path(r).is_file() else [r])]
        run(*pip, "--disable-pip-version-check", *given)
        stamp.write_text(wanted)
    return folder / "bin" / "python"
