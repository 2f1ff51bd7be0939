# SPDX-License-Identifier: MIT
"""Run the commands of the gallery, and keep their pictures small enough to be committed.

usage: gallery.py [NAME ...]    pictures by their names; all if there is none

A card of docs/gallery/index.md names a picture of docs/_static/gallery, and has the commands that
leave a file of that name.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

import gnograd

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/gallery/index.md"
PICTURES = ROOT / "docs/_static/gallery"
CARD = re.compile(
    r":img-bottom: \.\./_static/gallery/(\w+)\.png\n.*?```sh\n(.*?)```", re.DOTALL | re.MULTILINE
)
LARGEST = 100_000
"""Bytes of a picture."""


def make(name: str, commands: str) -> None:
    """Run commands in a folder of their own, and take the picture from there."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": gnograd.get_pkgconfig_dir(),
    }
    print(f"---- {name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "examples").symlink_to(ROOT / "examples")
        subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", commands], cwd=folder, env=environment, check=True
        )
        (found,) = Path(folder).rglob(f"{name}.png")
        picture = Image.open(found)
        shrink(picture, PICTURES / f"{name}.png")
        if name == "darcy":
            front_page(picture, PICTURES / "front_page.png")


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
    cards = dict(CARD.findall(PAGE.read_text()))
    if unknown := set(sys.argv[1:]) - set(cards):
        raise SystemExit(f"there is no {unknown.pop()!r} in {PAGE}: {', '.join(cards)}")
    for wanted in sys.argv[1:] or cards:
        make(wanted, cards[wanted])
