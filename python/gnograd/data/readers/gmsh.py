# SPDX-License-Identifier: MIT
"""Meshes of Gmsh, formats 2 and 4.1, text or binary, and the fields at their nodes.

meshio takes values at nodes in the order of the file, ignoring the numbers of the nodes, and does
not read views that Gmsh appends to a mesh. So this module only takes from it the names of the types
of cells and the order of their points.

Formats: https://gmsh.info/doc/texinfo/gmsh.html#Gmsh-file-formats
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd.data.cells import dimension_of
from gnograd.data.contents import DataError

Array = NDArray[Any]


class Mesh(NamedTuple):
    """Content of a file."""

    points: Array
    """Coordinates (n, 3)."""
    cells: list[tuple[str, Array]]
    fields: dict[str, Array]
    on_cells: dict[str, list[Array]]
    """Fields on cells, an array for each type; NaN where there is no value."""
    unused: dict[str, str]


def read(path: Path, meshio: Any) -> Mesh:
    """Read a mesh; values are assigned to nodes by the numbers of these.

    Raises
    ------
    DataError, ValueError, IndexError, KeyError, OverflowError
        The file is damaged, or of another format.
    """
    return _File(path.read_bytes(), meshio).mesh()


class _File:
    def __init__(self, data: bytes, meshio: Any) -> None:
        self.data, self.at = data, 0
        self.types = meshio.gmsh.common._gmsh_to_meshio_type
        self.sizes = meshio._common.num_nodes_per_cell
        self.order = meshio.gmsh.common._gmsh_to_meshio_order
        if self._name() != "MeshFormat":
            raise ValueError("no mesh of Gmsh")
        version, kind, _ = self._line().split()
        self.version, self.binary = float(version), kind == "1"
        if self.version != 4.1 and not 2 <= self.version < 3:
            raise DataError(
                f"Gmsh's format {version}; write it as 4.1: "
                "gmsh old.msh -save -format msh41 -o new.msh"
            )
        if self.binary and self._numbers(1, "<i4")[0] != 1:
            raise DataError("its numbers are of another byte order; write it as text")
        self._end("MeshFormat")
        self.nodes: list[tuple[Array, Array]] = []  # numbers, coordinates
        self.elements: list[tuple[int, Array, Array]] = []  # type, numbers, numbers of nodes
        self.repeated = False
        self.fields: dict[str, list[tuple[Array, Array]]] = {}
        self.on_cells: dict[str, list[tuple[Array, Array]]] = {}
        self.unused: dict[str, str] = {}

    def mesh(self) -> Mesh:
        """Read all sections."""
        new = self.version == 4.1
        while name := self._name():
            if name == "Nodes":
                (self._nodes if new else self._nodes_2)()
            elif name == "Elements":
                # format 2 has an element for each of its groups, and a mesh for each field
                self.repeated |= not new or bool(self.elements)
                (self._elements if new else self._elements_2)()
            elif name in ("NodeData", "ElementData", "ElementNodeData"):
                self._field(name)
            self._end(name)
        every = np.concatenate([n for n, _ in self.nodes])
        points = np.concatenate([x for _, x in self.nodes])
        # Gmsh writes a mesh again with every view that it appends
        first = _first(every)
        numbers, places = every[first], _Places(every[first])
        if (points[first][places.of(every)] != points).any():
            raise DataError("a node has two places")
        points = points[first]
        fields, unused = self._fields(numbers)
        unused |= self.unused
        if new:
            unused["gmsh:dim_tags"] = "it is what gmsh numbers points by, no field"
        cells, elements = self._cells(places)
        on_cells, more = self._fields_on(cells, elements)
        return Mesh(points, cells, fields, on_cells, unused | more)

    def _cells(
        self, places: "_Places"
    ) -> tuple[list[tuple[str, Array]], list[tuple[Array, Array]]]:
        """Cells by type, without duplicates; numbers of the elements, and the cell of each."""
        by_type: dict[int, list[tuple[Array, Array]]] = {}
        for kind, numbers, members in self.elements:
            by_type.setdefault(kind, []).append((numbers, members))
        cells, elements = [], []
        for kind, parts in by_type.items():
            name = self.types[kind]
            numbers, members = (np.concatenate(column) for column in zip(*parts, strict=True))
            cell = np.arange(len(members))
            if self.repeated:
                _, first, cell = np.unique(members, axis=0, return_index=True, return_inverse=True)
                order = np.argsort(first)
                cell = np.argsort(order)[cell.reshape(-1)]
                members = members[first[order]]
            cells.append((name, self.order(name, places.of(members))))
            elements.append((numbers, cell))
        return cells, elements

    def _fields_on(
        self, cells: list[tuple[str, Array]], elements: list[tuple[Array, Array]]
    ) -> tuple[dict[str, list[Array]], dict[str, str]]:
        """Fields on cells that have a value for all cells of the mesh's dimension."""
        on_cells: dict[str, list[Array]] = {}
        unused: dict[str, str] = {}
        if not self.on_cells:
            return on_cells, unused
        starts = np.cumsum([0, *(len(members) for _, members in cells)])
        numbers = np.concatenate([n for n, _ in elements])
        place = np.concatenate([c + s for (_, c), s in zip(elements, starts, strict=False)])
        # a number may be that of one element, or of a copy of it
        pairs = np.unique(np.stack([numbers, place], axis=1), axis=0)
        ambiguous = len(np.unique(pairs[:, 0])) < len(pairs)
        top = max(dimension_of(name) for name, _ in cells)
        for name, given in self.on_cells.items():
            (at, values), *others = given
            if not all(np.array_equal(at, a) and np.array_equal(values, v) for a, v in others):
                unused[name] = "it is there several times; write each as a file, or under a name"
                continue
            if ambiguous:
                unused[name] = "it is on cells, several of which have one number"
                continue
            every = np.full((starts[-1], values.shape[1]), np.nan)
            every[pairs[_Places(pairs[:, 0]).of(at, f"'{name}' has a cell"), 1]] = values
            field = every[:, 0] if every.shape[1] == 1 else every
            blocks = np.split(field, starts[1:-1])
            has = [np.isfinite(b).all() for (n, _), b in zip(cells, blocks, strict=True)
                   if dimension_of(n) == top]  # fmt: skip
            if not all(has):
                unused[name] = "it is on cells, but does not have a value on each"
            else:
                on_cells[name] = blocks
        return on_cells, unused

    def _fields(self, numbers: Array) -> tuple[dict[str, Array], dict[str, str]]:
        fields, unused = {}, {}
        for name, given in self.fields.items():
            (at, values), *others = given
            found = np.isin(numbers, at)
            if not all(np.array_equal(at, a) and np.array_equal(values, v) for a, v in others):
                unused[name] = "it is there several times; write each as a file, or under a name"
            elif not found.all():
                unused[name] = f"it has values at {found.sum()} of {len(numbers)} points"
            elif len(np.unique(at)) != len(at):
                unused[name] = "it has several values at a point"
            else:
                field = values[_Places(at).of(numbers)]
                fields[name] = field[:, 0] if field.shape[1] == 1 else field
        return fields, unused

    # ---- sections ----

    def _nodes(self) -> None:
        read = self._reader("Nodes")
        n_blocks, *_ = read(4, "<i8")
        for _ in range(int(n_blocks)):
            dimension, _, parametric = read(3, "<i4")
            (n,) = map(int, read(1, "<i8"))
            numbers = read(n, "<i8").astype(np.int64)
            width = 3 + (int(dimension) if parametric else 0)
            self.nodes.append((numbers, read(n * width, "<f8").reshape(n, width)[:, :3]))

    def _elements(self) -> None:
        read = self._reader("Elements")
        n_blocks, *_ = read(4, "<i8")
        for _ in range(int(n_blocks)):
            *_, kind = map(int, read(3, "<i4"))
            (n,) = map(int, read(1, "<i8"))
            width = 1 + self.sizes[self.types[kind]]
            rows = read(n * width, "<i8").astype(np.int64).reshape(n, width)
            self.elements.append((kind, rows[:, 0], rows[:, 1:]))

    def _nodes_2(self) -> None:
        n = int(self._line())
        if self.binary:
            rows = self._numbers(n, np.dtype([("number", "<i4"), ("x", "<f8", (3,))]))
            self.nodes.append((rows["number"].astype(np.int64), rows["x"]))
        else:
            rows = self._text("Nodes").reshape(n, 4)
            self.nodes.append((rows[:, 0].astype(np.int64), rows[:, 1:]))

    def _elements_2(self) -> None:
        n, done = int(self._line()), 0
        if self.binary:
            while done < n:
                kind, many, n_tags = map(int, self._numbers(3, "<i4"))
                size = self.sizes[self.types[kind]]
                if many <= 0 or n_tags < 0:
                    raise ValueError("damaged")
                rows = self._numbers(many * (1 + n_tags + size), "<i4").astype(np.int64)
                rows = rows.reshape(many, -1)
                self.elements.append((kind, rows[:, 0], rows[:, 1 + n_tags :]))
                done += many
            return
        numbers, at = self._text("Elements").astype(np.int64), 0
        rows_of: dict[int, list[Array]] = {}
        starts: dict[int, list[int]] = {}
        for _ in range(n):
            kind, n_tags = int(numbers[at + 1]), int(numbers[at + 2])
            size = self.sizes[self.types[kind]]
            end = at + 3 + n_tags + size
            if n_tags < 0 or end > len(numbers):
                raise ValueError("damaged")
            rows_of.setdefault(kind, []).append(numbers[end - size : end])
            starts.setdefault(kind, []).append(at)
            at = end
        for kind, members in rows_of.items():
            self.elements.append((kind, numbers[starts[kind]], np.array(members)))

    def _field(self, section: str) -> None:
        names = [self._line().strip('"') for _ in range(self._count())]
        for _ in range(self._count()):
            self._line()
        _, width, n, *_ = [int(self._line()) for _ in range(self._count())]
        name = names[0]
        if section == "ElementNodeData":
            self.unused[name] = "it is on the nodes of each cell; write it on nodes or on cells"
            return
        if width < 1 or n < 0:
            raise ValueError("damaged")
        if self.binary:
            rows = self._numbers(n, np.dtype([("number", "<i4"), ("x", "<f8", (width,))]))
            at, values = rows["number"].astype(np.int64), rows["x"]
        else:
            table = self._text(section).reshape(n, 1 + width)
            at, values = table[:, 0].astype(np.int64), table[:, 1:]
        kept = self.fields if section == "NodeData" else self.on_cells
        kept.setdefault(name, []).append((at, values))

    # ---- bytes ----

    def _name(self) -> str:
        """Name of the next section; none at the end."""
        while self.at < len(self.data):
            line = self._line()
            if line.startswith("$"):
                return line[1:]
            if line:
                raise ValueError("damaged")
        return ""

    def _line(self) -> str:
        end = self.data.find(b"\n", self.at)
        end = len(self.data) if end < 0 else end
        line, self.at = self.data[self.at : end].decode().strip(), end + 1
        return line

    def _count(self) -> int:
        count = int(self._line())
        if not 0 <= count < 100:
            raise ValueError("damaged")
        return count

    def _end(self, name: str) -> None:
        """Skip to the end of a section."""
        what = f"$End{name}".encode()
        self.at = self.data.index(what, self.at) + len(what)

    def _numbers(self, n: int, dtype: Any) -> Array:
        kind = np.dtype(dtype)
        if n < 0:
            raise ValueError("damaged")
        numbers = np.frombuffer(self.data, kind, n, self.at) if n else np.zeros(0, kind)
        self.at += n * kind.itemsize
        return numbers

    def _text(self, section: str) -> Array:
        """All numbers up to the end of a section in text form."""
        end = self.data.index(f"$End{section}".encode(), self.at)
        numbers = np.array(self.data[self.at : end].split(), "S").astype(np.float64)
        self.at = end
        return numbers

    def _reader(self, section: str) -> Any:
        """Reader of the next numbers of a section, binary or text."""
        if self.binary:
            return self._numbers
        numbers, at = self._text(section), 0

        def read(n: int, _: Any) -> Array:
            nonlocal at
            if not 0 <= n <= len(numbers) - at:
                raise ValueError("damaged")
            at += n
            return numbers[at - n : at]

        return read


def _first(numbers: Array) -> Array:
    """Positions of the first occurrence of every number or row."""
    _, first = np.unique(numbers, return_index=True, axis=0)
    first.sort()
    return first


class _Places:
    """Lookup of positions of distinct numbers in their array."""

    def __init__(self, numbers: Array) -> None:
        self.numbers, self.sorter = numbers, np.argsort(numbers, kind="stable")

    def of(self, wanted: Array, what: str = "a cell has a node") -> Array:
        """Positions of some of these numbers."""
        places = np.searchsorted(self.numbers, wanted, sorter=self.sorter)
        places = self.sorter[np.minimum(places, len(self.numbers) - 1)]
        if (self.numbers[places] != wanted).any():
            raise DataError(f"{what} that is not there")
        return places
