# SPDX-License-Identifier: MIT
"""Compress wheels once more, by Zopfli, for a twentieth less: pack.py WHEEL...

What is in them stays as it is, in its order, with its dates and modes. Files that several wheels
have are compressed once.
"""

from __future__ import annotations

import functools
import sys
import zipfile
from pathlib import Path

from zopfli.zlib import compress


class Compressor:
    """As zipfile wants it: all of a file is compressed at its end."""

    def __init__(self) -> None:
        self._data = bytearray()

    def compress(self, data: bytes) -> bytes:
        """Nothing yet."""
        self._data += data
        return b""

    def flush(self) -> bytes:
        """The whole file."""
        return deflated(bytes(self._data))


@functools.cache
def deflated(data: bytes) -> bytes:
    """The stream alone, without what zlib has before and behind it."""
    return compress(data, numiterations=5)[2:-4]


def pack(wheel: Path) -> None:
    """Write a wheel anew."""
    with zipfile.ZipFile(wheel) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in files:
            archive.writestr(info, data)


if __name__ == "__main__":
    # zipfile has no public way to another compressor
    zipfile._get_compressor = lambda *_: Compressor()  # type: ignore[attr-defined]
    for name in sys.argv[1:]:
        pack(Path(name))
