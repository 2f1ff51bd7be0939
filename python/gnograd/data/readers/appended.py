# SPDX-License-Identifier: MIT
"""VTU files whose numbers follow the XML as bytes, in the form that meshio reads.

meshio's own conversion takes the place of one array for that of another where a converted place is
also one of the file, and then reads other numbers.
"""

from __future__ import annotations

import base64
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

__all__ = ["in_text"]

_DECOMPRESS: dict[str, Callable[[Any], bytes]] = {
    "vtkZLibDataCompressor": zlib.decompress,
    "vtkLZMADataCompressor": lzma.decompress,
}


def in_text(path: str | Path) -> ElementTree.Element:
    """XML of a file, with the appended numbers in base64, not compressed.

    Raises
    ------
    ValueError, KeyError, ElementTree.ParseError
        The file is damaged, or compressed in another way.
    """
    raw = Path(path).read_bytes()
    found, end = re.search(rb"<AppendedData[^>]*>\s*_", raw), raw.rfind(b"</AppendedData>")
    if found is None or end < found.end():
        raise ValueError("damaged")
    root = ElementTree.fromstring(raw[: found.end() - 1] + raw[end:])
    data = memoryview(raw)[found.end() : end]
    order = ">" if root.get("byte_order") == "BigEndian" else "<"
    word = np.dtype(order + {"UInt32": "u4", "UInt64": "u8"}[root.get("header_type", "UInt32")])
    name = root.attrib.pop("compressor", None)
    decompress = None if name is None else _DECOMPRESS[name]
    texts, length = [], 0
    for array in root.iter("DataArray"):
        if array.get("format") != "appended":
            continue
        at = int(array.get("offset", "").strip())
        (first,) = map(int, np.frombuffer(data, word, 1, at))
        at += word.itemsize
        if decompress is None:
            numbers = bytes(data[at : at + first])
            if len(numbers) < first:
                raise ValueError("damaged")
        else:
            sizes = np.frombuffer(data, word, 2 + first, at)[2:].tolist() if first else []
            at += word.itemsize * (2 + first)
            parts = []
            for size in sizes:
                parts.append(decompress(data[at : at + size]))
                at += size
            numbers = b"".join(parts)
        text = base64.b64encode(np.array([len(numbers)], word).tobytes() + numbers).decode()
        array.set("offset", str(length))
        texts.append(text)
        length += len(text)
    tag = root.find("AppendedData")
    assert tag is not None
    tag.set("encoding", "base64")
    tag.text = "_" + "".join(texts)
    return root
