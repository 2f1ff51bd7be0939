# SPDX-License-Identifier: MIT
"""Faces of operators on a distributed graph.

With the linear halo exchange H, an operator on the whole graph is the operator on a process' part,
applied after H::

    out = op(H h, p),    vjp = (H' g, p'),    jvp = op.jvp(H h, H dh),    hvp as vjp

where g and p' are the operator's own gradients to the extended features and to everything else.
Destinations without an edge from the halo are computed while its rows travel, and on the way back
after the halo's gradients have been sent; the features of the others lie compactly, so that no
array of all extended rows is made.

Where results depend on edges that do not end at their own destination (`Operator.hops` is 2),
arrays of edges take the place of features: H fetches the edges that end at the halo.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gnograd.distributed.arrays import (
    Rows,
    add_rows,
    check_kind,
    concatenate,
    row_back,
    row_first,
    take_rows,
    with_zeros,
)
from gnograd.distributed.part import EdgeHalo, Part
from gnograd.distributed.roles import agree_on_rows, role_of
from gnograd.faces.call import Call, kind_of
from gnograd.faces.operator import Function, Operator
from gnograd.notation.shapes import parse

__all__ = ["forward", "hvp", "jvp", "vjp"]

_SEEDS = 0x9E3779B97F4A7C15
"""Difference of the seeds of two processes, since each numbers its edges from 0."""


class _Work:
    """One call on a distributed graph: checked on all processes, and cut in two.

    Parameters
    ----------
    dg, op, static
        Arguments of the call.
    doing : str
        Name of the call, the same on all processes.
    given : sequence of sequence of array
        The inputs, and for some faces their tangents.
    prepare : callable
        Function of the checked call and `own` that checks the other arguments and makes memory for
        the results. Its result becomes the attribute `prepared`.
    halos : sequence of array, optional
        Known rows of the halo, in the order of inputs.
    by_name : bool, optional
        Set this if inputs may be among the static arguments, by name.

    Attributes
    ----------
    own : list of list of array
        `given` with the rows that this process has.
    halos : list of list of array
        Rows of the halo for each array; None if there are none, or not yet.
    travel : list of (int, int)
        Indices in `own` of the arrays whose rows have to travel.
    travels : {"n_src", "n_edges"}
        Kind of such rows.
    reach : Part or EdgeHalo
        Object with the plan of the exchange and the graph that needs these rows.
    is_cut : bool
        True if destinations are computed in two parts.
    """

    def __init__(
        self,
        dg: Part,
        op: Function[Any, Any],
        doing: str,
        given: Sequence[Sequence[Any]],
        static: Mapping[str, Any],
        prepare: Callable[[Call, list[Sequence[Any]]], Any],
        halos: Sequence[Any] = (),
        by_name: bool = False,
    ) -> None:
        self.dg, self.op = dg, op
        self.travels = "n_src" if op.hops == 1 else "n_edges"
        self.halos: list[list[Any]] = [[None] * len(op.inputs) for _ in given]
        fetch = np.zeros((2, len(given), len(op.inputs)), np.int64)
        error = None
        doing = f"{op.name}.{doing}"
        try:
            if by_name:
                inputs, static = op.ordered(tuple(given[0]), static)
                given = [inputs]
            values = op.complete(static)
            signature = op.declaration.signature(values)
            self.signature = signature
            self.roles = [role_of(spec) for spec in signature.inputs.values()]
            self.own = [self._apart(j, arrays, fetch[:, j]) for j, arrays in enumerate(given)]
            call = Call(op.name, signature, self.own[0], values, op.codes(values))
            self.prepared = prepare(call, self.own)
            self.own = [call.inputs, *map(call.tangents, self.own[1:])]
            self.static = self._static_of_process(static)
            self.is_cut = dg.n_halo > 0 and op.hops == 1 and self._by_leading_rows(call)
            shown = ", ".join([*map(_shown, call.inputs), *_shown_static(op, values)])
            doing = f"{doing}({shown}) on graph {dg.plan.number}"
        except Exception as caught:
            error = caught
        needed = agree_on_rows(dg.comm, op.name, doing, error, fetch)
        self.reach: Part | EdgeHalo = dg if op.hops == 1 else dg.edge_halo
        self.travel = [(int(j), int(k)) for j, k in np.argwhere(needed)]
        if halos:
            if len(halos) != len(self.travel):
                raise ValueError(f"{op.name}: saved is not what forward saved on this graph")
            for (j, k), rows in zip(self.travel, halos, strict=True):
                self.halos[j][k] = rows
            self.travel = []

    def _apart(self, j: int, arrays: Sequence[Any], fetch: Any) -> Sequence[Any]:
        """Own rows of the arrays, without those of the halo, which a caller may have appended."""
        dg = self.dg
        if not isinstance(arrays, tuple | list) or len(arrays) > len(self.roles):
            return arrays  # the call refuses it
        own = [*arrays, *[None] * (len(self.roles) - len(arrays))]
        for k, (array, (of, axis)) in enumerate(zip(own, self.roles, strict=True)):
            if hasattr(array, "__cuda_array_interface__"):
                check_kind(array)
            if of != self.travels or not dg.n_halo or not hasattr(array, "shape"):
                continue
            place = len(array.shape) + axis
            is_extended = of == "n_src" and place >= 0
            if is_extended and array.shape[place] == dg.n_own + dg.n_halo:
                before = [slice(None)] * place
                own[k] = array[tuple([*before, slice(dg.n_own)])]
                self.halos[j][k] = array[tuple([*before, slice(dg.n_own, None)])]
                fetch[1, k] = 1
            else:
                fetch[0, k] = 1
        return own

    def _static_of_process(self, static: Mapping[str, Any]) -> dict[str, Any]:
        """Static arguments for kernels, with a seed that no other process has."""
        mine = {name: value for name, value in static.items() if name != "graph"}
        seed = mine.get("seed")
        if seed is not None and self.dg.comm.rank:
            mine["seed"] = seed + seed.dtype.type(self.dg.comm.rank * _SEEDS % 2**62)
        return mine

    def _by_leading_rows(self, call: Call) -> bool:
        """True if all rows are leading axes, and results do not depend on numbers of edges."""
        signature = self.signature
        specs = *signature.inputs.values(), *signature.outputs.values(), *signature.saved.values()
        roles = [(role_of(spec), parse(spec)) for spec in specs]
        leading = any(spec.leading for _, spec in roles) and call.leading != ()
        rows_first = all(not of or axis == -len(spec.dims) for (of, axis), spec in roles)
        return rows_first and not leading and self.static.get("seed") is None

    # ---- exchange of rows ----

    def send(self) -> Rows:
        """Start fetching the halo."""
        plan = self.reach.plan
        arrays = [row_first(self.own[j][k], self.roles[k].axis) for j, k in self.travel]
        return Rows(self.dg.comm, plan, [take_rows(array, plan.send_rows) for array in arrays])

    def receive(self, rows: Rows) -> None:
        """Wait for the halo."""
        for (j, k), array in zip(self.travel, rows.wait(), strict=True):
            self.halos[j][k] = row_back(array, self.roles[k].axis)

    def send_back(self, gradients: Sequence[Any], n: int) -> Rows:
        """Start sending gradients of the rows after the first n to their owners."""
        rows = [g[n:] for g in self._that_travel(gradients)]
        return Rows(self.dg.comm, self.reach.plan, rows, back=True)

    def receive_back(self, rows: Rows, gradients: Sequence[Any]) -> None:
        """Add received gradients to those of own rows, in the order of ranks."""
        for target, array in zip(self._that_travel(gradients), rows.wait(), strict=True):
            for part, mine in self.reach.plan.send_parts():
                add_rows(target, mine, array[part])

    def _that_travel(self, gradients: Sequence[Any]) -> list[Any]:
        """Gradients of features that travel, of sources or of edges, with rows as first axis."""
        return [
            row_first(g, axis)
            for g, (of, axis) in zip(gradients, self.roles, strict=True)
            if g is not None and of == self.travels
        ]

    # ---- the two parts, or the whole ----

    def extended(self, j: int) -> list[Any]:
        """Arrays for `dg.local`: own rows, followed by those of the halo."""
        return [
            x if rows is None or not self.reach.n_halo else concatenate(x, rows, role.axis)
            for x, rows, role in zip(self.own[j], self.halos[j], self.roles, strict=True)
        ]

    def longer(self, arrays: Sequence[Any], specs: Mapping[str, str]) -> list[Any]:
        """Results or their cotangents, with zeros for rows that belong to other processes."""
        n, roles = self.reach.n_halo, map(role_of, specs.values())
        return [
            x if x is None or of != self.travels or not n else with_zeros(x, n, axis)
            for x, (of, axis) in zip(arrays, roles, strict=True)
        ]

    def interior(self, j: int) -> list[Any]:
        """Arrays for `dg.interior`."""
        return self.first_rows(self.own[j], self.signature.inputs)

    def boundary(self, j: int) -> list[Any]:
        """Arrays for `dg.boundary`."""
        arrays = self.last_rows(self.own[j], self.signature.inputs)
        for k, role in enumerate(self.roles):
            if role.of == "n_src" and arrays[k] is not None:
                mine = take_rows(arrays[k], self.dg.boundary_rows)
                arrays[k] = concatenate(mine, self.halos[j][k], role.axis)
        return arrays

    def first_rows(self, arrays: Sequence[Any], specs: Mapping[str, str]) -> list[Any]:
        """Rows of destinations of the interior and of their edges; other arrays as they are."""
        return self._rows(arrays, specs, lambda n: slice(n))

    def last_rows(self, arrays: Sequence[Any], specs: Mapping[str, str]) -> list[Any]:
        """Rows of the other destinations and of their edges; other arrays as they are."""
        return self._rows(arrays, specs, lambda n: slice(n, None))

    def _rows(
        self, arrays: Sequence[Any], specs: Mapping[str, str], part: Callable[[int], slice]
    ) -> list[Any]:
        borders = {"n_dst": self.dg.n_interior, "n_edges": self.dg.n_interior_edges}
        roles = [role_of(spec).of for spec in specs.values()]
        return [
            x if x is None or of not in borders else x[part(borders[of])]
            for x, of in zip(arrays, roles, strict=True)
        ]

    def leaf(self, part: str) -> dict[str, Any]:
        """Static arguments of a call on ``local``, ``interior`` or ``boundary``."""
        graph = self.reach.local if part == "local" else getattr(self.dg, part)
        specs = {name: self.signature.arrays.get(name, "") for name in self.op.arrays}
        arrays = [self.static.get(name) for name in specs]
        if part != "local":
            cut = self.first_rows if part == "interior" else self.last_rows
            arrays = cut(arrays, specs)
        return {**self.static, **dict(zip(specs, arrays, strict=True)), "graph": graph}


def forward(
    dg: Part,
    op: Function[Any, Any],
    inputs: Sequence[Any],
    return_saved: bool,
    out: Sequence[Any] | None,
    static: Mapping[str, Any],
) -> Any:
    """Value of an operator; the saved arrays end with the rows of the halo."""

    def prepare(call: Call, own: Any) -> tuple[Any, Any]:
        return call.results(return_saved, out), call.places_of_saved

    work = _Work(dg, op, "forward", [inputs], static, prepare, by_name=True)
    results, places = work.prepared
    specs = {**work.signature.outputs, **work.signature.own_saved}

    def run(part: str, arrays: list[list[Any]], memory: Sequence[Any]) -> None:
        there = [x for x, spec in zip(memory, specs.values(), strict=True) if spec != "None"]
        if not return_saved:
            there = there[: op.n_outputs]
        op.forward(*arrays[0], return_saved=return_saved, out=there, **work.leaf(part))

    _by_destination(work, run, results, specs)
    result = op.returned(results[: op.n_outputs], static)
    if not return_saved:
        return result
    halos = [work.halos[j][k] for j, k in work.travel]
    return result, (*(results[k] for k in places), *halos)


def jvp(
    dg: Part,
    op: Operator[Any, Any],
    inputs: Sequence[Any],
    tangents: Sequence[Any],
    out: Sequence[Any] | None,
    static: Mapping[str, Any],
) -> Any:
    """Derivative along tangents."""

    def prepare(call: Call, own: list[Sequence[Any]]) -> Any:
        call.tangents(own[1])
        return call.memory(call.signature.outputs, out)

    work = _Work(dg, op, "jvp", [inputs, tangents], static, prepare)

    def run(part: str, arrays: list[list[Any]], memory: Sequence[Any]) -> None:
        x, t = arrays
        op.jvp(x, t, out=memory, **work.leaf(part))

    _by_destination(work, run, work.prepared, work.signature.outputs)
    return op.returned(work.prepared, static)


def vjp(
    dg: Part,
    op: Operator[Any, Any],
    cotangent: Any,
    inputs: Sequence[Any],
    wrt: Collection[str] | None,
    saved: Sequence[Any] | None,
    out: Sequence[Any] | None,
    static: Mapping[str, Any],
) -> tuple[Any, ...]:
    """Gradients: complete for own rows, this process' part for arrays that all processes have."""

    def run(
        part: str, cotangents: list[Any], arrays: list[list[Any]], kept: Any, **more: Any
    ) -> tuple[Any, ...]:
        return op.vjp(cotangents, arrays[0], saved=kept, **more, **work.leaf(part))

    work, prepared = _backward(dg, op, "vjp", cotangent, [inputs], wrt, saved, out, static)
    return _to_owners(work, run, *prepared)


def hvp(
    dg: Part,
    op: Operator[Any, Any],
    cotangent: Any,
    inputs: Sequence[Any],
    tangents: Sequence[Any],
    wrt: Collection[str] | None,
    out: Sequence[Any] | None,
    static: Mapping[str, Any],
) -> tuple[Any, ...]:
    """Derivative of `vjp` along tangents."""

    def run(
        part: str, cotangents: list[Any], arrays: list[list[Any]], kept: Any, **more: Any
    ) -> tuple[Any, ...]:
        return op.hvp(cotangents, arrays[0], arrays[1], **more, **work.leaf(part))

    work, prepared = _backward(dg, op, "hvp", cotangent, [inputs, tangents], wrt, None, out, static)
    return _to_owners(work, run, *prepared)


def _by_destination(
    work: _Work, run: Callable[..., None], results: Sequence[Any], specs: Mapping[str, str]
) -> None:
    """Compute results by destination, first those that need no row of the halo."""
    sets = range(len(work.own))
    with work.send() as rows:
        if work.is_cut:
            interior = [work.interior(j) for j in sets]
            run("interior", interior, work.first_rows(results, specs))
        elif not work.reach.n_halo:
            run("local", [work.extended(j) for j in sets], results)
        work.receive(rows)
    if work.is_cut:
        run("boundary", [work.boundary(j) for j in sets], work.last_rows(results, specs))
    elif work.reach.n_halo:
        memory = work.longer(results, specs)
        run("local", [work.extended(j) for j in sets], memory)
        for mine, every in zip(results, memory, strict=True):
            if every is not mine:
                mine[:] = every[: mine.shape[0]]


def _backward(
    dg: Part,
    op: Operator[Any, Any],
    face: str,
    cotangent: Any,
    given: list[Sequence[Any]],
    wrt: Collection[str] | None,
    saved: Sequence[Any] | None,
    out: Sequence[Any] | None,
    static: Mapping[str, Any],
) -> tuple[_Work, tuple[Any, ...]]:
    """Check a call of `vjp` or `hvp`, and fetch the halo of its inputs."""

    def prepare(call: Call, own: list[Sequence[Any]]) -> tuple[Any, ...]:
        if len(own) > 1:
            call.tangents(own[1])
        n = len(call.signature.saved)
        own_saved = saved[:n] if isinstance(saved, tuple | list) else saved
        kept = None if saved is None else call.saved(own_saved)
        wanted = op.wanted(wrt)
        given = [x for x in out if x is not None] if isinstance(out, tuple | list) else []
        if len({*map(id, given)}) < len(given):
            raise ValueError(
                f"{op.name}: out has one array for two gradients, on a DistributedGraph"
            )
        return call.cotangents(cotangent), kept, call.gradients(wanted, out), wanted

    halos = saved[len(op.declaration.saved) :] if isinstance(saved, tuple | list) else ()
    doing = face
    if wrt is not None:
        names = wrt if isinstance(wrt, Iterable) and not isinstance(wrt, str) else [wrt]
        doing += f" by {sorted(map(str, names))}"
    if halos:
        doing += f" with {len(halos)} halos"
    work = _Work(dg, op, doing, given, static, prepare, halos)
    if not halos:
        work.receive(work.send())
    return work, work.prepared


def _to_owners(
    work: _Work,
    run: Callable[..., tuple[Any, ...]],
    cotangents: Sequence[Any],
    kept: Sequence[Any] | None,
    gradients: Sequence[Any],
    wanted: Collection[str],
) -> tuple[Any, ...]:
    """Compute gradients, first those that have to travel."""
    dg, reach = work.dg, work.reach
    sets, inputs = range(len(work.own)), work.signature.inputs
    outputs, saved = work.signature.outputs, work.signature.saved
    if not work.is_cut:
        # gradients of all rows do not fit into memory for own rows
        memory = [
            None if role.of == work.travels and reach.n_halo else g
            for g, role in zip(gradients, work.roles, strict=True)
        ]
        arrays, theirs = [work.extended(j) for j in sets], work.longer(cotangents, outputs)
        every = run("local", theirs, arrays, kept, wrt=wanted, out=memory)
        with work.send_back(every, reach.n_own) as rows:
            for mine, g, role in zip(gradients, every, work.roles, strict=True):
                if g is not mine:
                    row_first(mine, role.axis)[:] = row_first(g, role.axis)[: reach.n_own]
            work.receive_back(rows, gradients)
        return tuple(gradients)

    shared = [of not in ("n_dst", "n_edges") for of, _ in work.roles]
    every = run(
        "boundary",
        work.last_rows(cotangents, outputs),
        [work.boundary(j) for j in sets],
        kept and work.last_rows(kept, saved),
        wrt=wanted,
        out=[
            None if to_add else g
            for to_add, g in zip(shared, work.last_rows(gradients, inputs), strict=True)
        ],
    )
    with work.send_back(every, dg.boundary_rows.size) as rows:
        run(
            "interior",
            work.first_rows(cotangents, outputs),
            [work.interior(j) for j in sets],
            kept and work.first_rows(kept, saved),
            wrt=wanted,
            out=work.first_rows(gradients, inputs),
        )
        for mine, g, role, to_add in zip(gradients, every, work.roles, shared, strict=True):
            if mine is None or not to_add:
                continue
            if role.of == "n_src":
                add_rows(mine, dg.boundary_rows, g[: dg.boundary_rows.size])
            else:
                mine += g
        work.receive_back(rows, gradients)
    return tuple(gradients)


def _shown_static(op: Function[Any, Any], values: Mapping[str, Any]) -> list[str]:
    """Descriptions of the static arguments that must agree: all but graph, seed and arrays."""
    left_out = {"graph", "seed", *op.arrays}
    return [f"{name}={value!r}" for name, value in values.items() if name not in left_out]


def _shown(array: Any) -> str:
    """Description of an input that must agree on all processes."""
    if array is None or not hasattr(array, "shape"):
        return kind_of(array)
    return f"{array.dtype}{list(array.shape[1:])}"
