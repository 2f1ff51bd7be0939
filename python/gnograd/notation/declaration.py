# SPDX-License-Identifier: MIT
"""Declarations of operators: shapes, and the arguments of their kernels besides arrays.

A declaration decorates a function without a body, in the module of the operator's family; that
function's arguments, types, defaults and documentation belong to it. From both come the Python
operator when the package is imported, and when it is built (by ``tools/interface``, which imports
none of it) the C interface, its Fortran and CUDA entry points, and the operation on the tape.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:
    Array = Any

__all__ = ["FACES", "Array", "Declaration", "Signature", "Spec", "names_in", "parse"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})
NOTHING = "0"
"""Shape of an absent output. Adapters treat it as they treat other outputs."""
_DTYPES = ("float32", "float64", "int32", "int64", "real")

FACES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "forward": ("inputs", "outputs", "saved"),
        "vjp": ("cotangents", "inputs", "saved", "gradients"),
        "jvp": ("inputs", "tangents", "outputs"),
        "hvp": ("cotangents", "inputs", "tangents", "gradients"),
    }
)
"""Groups of arrays that the kernels of every face take behind the arguments, in order. Results come
last: the outputs of jvp are tangents, and the gradients of hvp are theirs."""


class Spec(NamedTuple):
    """Parsed notation of a shape."""

    dims: tuple[str, ...]
    dtype: str
    optional: bool
    leading: bool = False
    """True if any number of axes may stand before `dims`."""


@functools.cache
def parse(spec: str) -> Spec:
    """Parse the notation of a shape, such as ``"n_edges H"``.

    A dimension may be an expression: ``"n_src num_heads*C"``. A dtype may stand before the
    dimensions, ``"int64 n_dst D"``, and ``or None`` behind them, for an array that may be absent;
    the dtype ``real`` is that of the arithmetic, float32 for half precision. ``*`` in front of the
    dimensions stands for any number of leading axes, the same wherever it comes:
    ``"* n_src F_in"``. ``"None"`` is an array that is absent.

    >>> parse("int64 n_dst D or None")
    Spec(dims=('n_dst', 'D'), dtype='int64', optional=True, leading=False)
    """
    optional = spec.endswith("None")
    words = spec.removesuffix("None").removesuffix(" or ").split()
    dtype = words.pop(0) if words and words[0] in _DTYPES else ""
    leading = words[:1] == ["*"]
    return Spec(tuple(words[leading:]), dtype, optional, leading)


@functools.cache
def names_in(expression: str) -> tuple[str, ...]:
    """Names of the sizes in an expression.

    >>> names_in("max(n_src, 2*D)")
    ('n_src', 'D')
    """
    return tuple(name for name in re.findall(r"[A-Za-z_]\w*", expression) if name != "max")


def _sizes_in(spec: str) -> set[str]:
    return {name for dim in parse(spec).dims for name in names_in(dim)}


class Signature(NamedTuple):
    """Inputs and outputs of an operator for given static arguments; see `Declaration`."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    arguments: str
    saved: Mapping[str, str] = _NOTHING
    """Shapes of the saved arrays; "None" for one not saved with these static arguments."""
    arrays: Mapping[str, str] = _NOTHING
    sizes: Mapping[str, int] = _NOTHING
    not_negative: Collection[str] = ()
    all_or_none: Collection[str] = ()
    shared_gradient: Collection[str] = ()
    faults: Sequence[tuple[type[Exception], str]] = ()
    unread: Sequence[tuple[Sequence[str], str]] = ()
    """Names in `saved`, behind the backends and types of numbers whose vjp does not read them."""

    @property
    def there(self) -> list[bool]:
        """Flag for every output: false for one that is absent, and has no numbers."""
        return [spec != NOTHING for spec in self.outputs.values()]

    @property
    def needed(self) -> list[bool]:
        """Flag for every array in `saved`: false for one not saved with these static arguments."""
        return [spec != "None" for spec in self.saved.values()]

    @property
    def own_saved(self) -> dict[str, str]:
        """Saved arrays that are not outputs."""
        return {name: spec for name, spec in self.saved.items() if name not in self.outputs}

    def kept(self, results: Sequence[Any]) -> list[Any]:
        """Pick the saved arrays that are needed from all arrays in `Function.results`."""
        own = [name for name, spec in self.own_saved.items() if spec != "None"]
        by_name = dict(zip([*self.outputs, *own], results, strict=True))
        return [by_name[name] for name, spec in self.saved.items() if spec != "None"]

    def not_read(self, backend: str, dtype: str) -> set[str]:
        """Names in `saved` that the vjp of a backend, ``"cpu"`` or ``"cuda"``, does not read."""
        return {
            name
            for where, names in self.unread
            if all(word == backend or dtype in word.split("|") for word in where)
            for name in names.split()
        }

    def read(self, backend: str, dtypes: Sequence[str]) -> list[bool]:
        """Flag for every array in `saved`: true if the vjp of this backend reads it.

        A call is in 16 bits if any of its inputs is, by their dtypes.
        """
        dtype = next((name for name in dtypes if name.endswith("float16")), dtypes[0])
        unread = self.not_read(backend, dtype)
        return [spec != "None" and name not in unread for name, spec in self.saved.items()]


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """Shapes of an operator, and the arguments of its kernels besides arrays.

    Shapes are written in the notation of `parse`: ``"n_edges H"``. There
    ``n_src``, ``n_dst`` and ``n_edges`` are those of the graph, static integers are known by their
    names, and all other sizes are read off the inputs, in their order.

    A condition is ``"kernel=diagonal"``, or ``"aggregation=sum|mean"`` for several values, or
    ``"dropout!=0.0"`` for all others.
    """

    inputs: Mapping[str, str]
    """Shapes of the inputs, in order."""
    outputs: Mapping[str, str]
    """Shapes of the outputs, in order."""
    arguments: str
    """Sizes and static arguments that the kernels take before the arrays, in order."""
    saved: Mapping[str, str] = field(default_factory=dict)
    """Shapes of the arrays that the forward face saves for the vjp, in order. One with the name of
    an output is that output."""
    saved_only_in_c: Collection[str] = ()
    """Names in `saved` that kernels write and read for callers in C; Python does not save them."""
    optional_in_c: Collection[str] = ()
    """Inputs that a vjp or hvp, and outputs that every face takes as null pointers, though Python
    gives them: where no gradient that is wanted depends on them, or they are not wanted."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Names in `saved` that no vjp reads, and where: words that all have to hold, each a backend
    (``"cuda"``), dtypes (``"cuda float16|bfloat16"``) or a condition. All others are read. Both
    headers tell callers, adapters drop them, and `tests/test_saved.py` checks every backend."""
    arrays: Mapping[str, str] = field(default_factory=dict)
    """Shapes of static arguments that are arrays, each with its dtype."""
    when: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Replacements by condition: shapes of arrays by their names, or an expression for a size,
    which replaces it everywhere. "None" is an array that is not saved, or an absent output: it is
    not returned, takes no cotangent, and is a null pointer to kernels."""
    defaults_from_sizes: Mapping[str, str] = field(default_factory=dict)
    """Expressions of sizes that replace a static argument that is None, or a size that only static
    arrays determine when these are left out."""
    sizes: Callable[[Mapping[str, Any]], Mapping[str, int]] | None = None
    """Sizes that have to be computed from static arguments; they take precedence over
    `defaults_from_sizes`. The Fortran tape calls ``<operator>_sizes``."""
    not_negative: Collection[str] = ()
    """Inputs that must not be negative. Not checked on a GPU, where the host would have to wait."""
    all_or_none: Collection[str] = ()
    """Optional inputs that must be given all together or not at all."""
    shared_gradient: Collection[str] = ()
    """Inputs whose gradients may share one output array, which gets their sum."""
    bilinear: str = ""
    """Condition under which the output is linear in each input, given the others, or "always".
    Derivatives on the tape are then of any order; no kernel reads an input for its own gradient."""
    faults: Mapping[str, Sequence[tuple[type[Exception], str]]] = field(default_factory=dict)
    """Checks by condition, of static arrays before kernels run that cannot report errors
    themselves: the exceptions, and their messages for the first item at fault."""

    def signature(self, static: Mapping[str, Any]) -> Signature:
        """Shapes and arguments for static arguments, which are complete and converted."""
        sizes = {} if self.sizes is None else self.sizes(static)
        changes: dict[str, str] = {}
        for condition, replaced in self.when.items():
            if _holds(condition, static):
                changes.update(replaced)
        for name, expression in self.defaults_from_sizes.items():
            if self._is_absent(name, static) and name not in sizes:
                changes[name] = expression

        # pop: the names of static arrays stay as they are in `arguments`
        arrays = {name: changes.pop(name, spec) for name, spec in self.arrays.items()}

        def shape(name: str, spec: str) -> str:
            words = changes.get(name, spec).split()
            return " ".join(changes.get(word, word) for word in words)

        def shapes(specs: Mapping[str, str]) -> dict[str, str]:
            return {name: shape(name, spec) for name, spec in specs.items()}

        outputs = shapes(self.outputs)

        return Signature(
            inputs=shapes(self.inputs),
            outputs={k: NOTHING if spec == "None" else spec for k, spec in outputs.items()},
            arguments=shape("", self.arguments),
            saved=shapes(self.saved) | dict.fromkeys(self.saved_only_in_c, "None"),
            arrays=arrays,
            sizes=sizes,
            not_negative=self.not_negative,
            all_or_none=self.all_or_none,
            shared_gradient=self.shared_gradient,
            faults=[
                fault
                for condition, faults in self.faults.items()
                if _holds(condition, static)
                for fault in faults
            ],
            unread=[
                ([word for word in where.split() if "=" not in word], names)
                for where, names in self.unread.items()
                if all(_holds(word, static) for word in where.split() if "=" in word)
            ],
        )

    def operands(self, face: str) -> list[tuple[str, str]]:
        """Group and name of every array that the kernels of a face take, in order.

        An output that is saved for the vjp is among the outputs of forward, and not twice.
        """
        saved = [name for name in self.saved if face != "forward" or name not in self.outputs]
        names: Mapping[str, Collection[str]] = {
            "saved": saved, "outputs": self.outputs, "cotangents": self.outputs,
        }  # fmt: skip
        return [(group, name) for group in FACES[face] for name in names.get(group, self.inputs)]

    def words_on_tape(self, static: Collection[str], lists: Collection[str]) -> list[str]:
        """Words of `arguments` that the C function of the operation on the tape takes.

        These are the static arguments that are not extents of a mandatory input, and the sizes of
        arrays and lists among the static arguments; a list follows its length.
        """
        words = self.arguments.split()
        parsed = [parse(spec) for spec in self.inputs.values()]
        extents = {dim for spec in parsed if not spec.optional for dim in spec.dims}
        of_arrays = {name for spec in self.arrays.values() for name in _sizes_in(spec)}
        lengths = {before for before, word in itertools.pairwise(words) if word in lists}
        return [
            word
            for word in words
            if (word in static and word not in extents) or word in of_arrays | lengths - {*static}
        ]

    def is_bilinear(self, static: Mapping[str, Any]) -> bool:
        """True if the output is linear in each input, given the others."""
        if self.bilinear in ("", "always"):
            return bool(self.bilinear)
        return _holds(self.bilinear, static)

    def _is_absent(self, name: str, static: Mapping[str, Any]) -> bool:
        if name in static:
            return static[name] is None
        telling = [array for array, spec in self.arrays.items() if name in _sizes_in(spec)]
        return all(static[array] is None for array in telling)


def _holds(condition: str, static: Mapping[str, Any]) -> bool:
    """True if a static argument has one of the values, or with != none of them."""
    name, _, values = condition.partition("=")
    return (str(static[name.rstrip("!")]) in values.split("|")) != name.endswith("!")
