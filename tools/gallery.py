# SPDX-License-Identifier: MIT
"""Run the training jobs, and keep their pictures small enough to be committed.

usage: gallery.py FOLDER [NAME ...]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

PICTURES = {
    "darcy": ("gnograd train darcy --out {folder}", "darcy.png"),
    "green": ("gnograd train green --out {folder}", "green.png"),
    "poisson": ("gnograd train poisson --out {folder}", "poisson.png"),
}
"""By name the command, and the picture that it leaves."""
LARGEST = 100_000
"""Bytes of a picture."""


def make(name: str, folder: Path) -> None:
    """Run one, and put its picture into a folder."""
    command, picture = PICTURES[name]
    with tempfile.TemporaryDirectory() as out:
        words = command.format(folder=out).split()
        subprocess.run(words, check=True)
        shrink(Image.open(Path(out, picture)), folder / f"{name}.png")
        if name == "darcy":
            front_page(Image.open(Path(out, picture)), folder / "front_page.png")


def front_page(picture: Image.Image, target: Path) -> None:
    """Coefficient, solution, prediction and error of the Darcy job, two by two."""
    width, height = picture.size
    panels = ((0, 0.055), (0.375, 0.055), (0.685, 0.055), (0, 0.53))
    size = round(0.315 * width), round(0.415 * height)
    both = Image.new("RGB", (2 * size[0], 2 * size[1]), "white")
    for k, (x, y) in enumerate(panels):
        left, top = round(x * width), round(y * height)
        panel = picture.crop((left, top, min(left + size[0], width), top + size[1]))
        both.paste(panel, (k % 2 * size[0], k // 2 * size[1]))
    shrink(both, target)


def shrink(picture: Image.Image, target: Path) -> None:
    """Write a copy with 256 colours, and as wide as fits into `LARGEST` bytes."""
    picture = picture.convert("RGB")
    temporary = target.with_suffix(".tmp")
    for width in (1400, 1200, 1000, 800, 600, 400):
        size = min(width, picture.width)
        small = picture.resize((size, round(picture.height * size / picture.width)), Image.LANCZOS)
        small.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=2).save(
            temporary, "PNG", optimize=True
        )
        if temporary.stat().st_size <= LARGEST:
            break
    temporary.replace(target)


if __name__ == "__main__":
    into = Path(sys.argv[1])
    into.mkdir(parents=True, exist_ok=True)
    for wanted in sys.argv[2:] or PICTURES:
        make(wanted, into)
