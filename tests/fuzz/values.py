# SPDX-License-Identifier: MIT
"""Arrays in every layout, irregular graphs, and values that nobody should give."""

import mmap
import tempfile

import numpy as np

from conftest import Edges

GUARD = 64
"""Numbers before and behind an array that nothing may write to."""


class Index:
    """An object that `operator.index` takes, and nothing else."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value

    def __repr__(self):
        return f"Index({self.value})"


EXTREMES = [s * n for n in (2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**62, 2**63 - 1) for s in (1, -1)]
EXTREMES += [-(2**63), 2**63, 2**64, 10**30]
NO_NUMBERS = ["2", b"2", [2], (2,), np.array([2]), {}, object(), 2j, np.ma.masked, ...]
"""Refused wherever one number is needed, of whatever kind."""
NO_INTEGERS = [*NO_NUMBERS, True, False, np.bool_(True), 2.0, 2.7, np.nan, np.float64(2)]
NO_INTEGERS += [np.array(2.5), np.array(True), np.inf]
NO_BOOLEANS = [None, 0, 1, 0.5, "yes", "", [], np.array([True]), np.nan, object()]
NO_NAMES = [None, 3, "nonsense", b"sum", "", ["sum"], ("mean",), np.array("sum"), object(), 1.5]
NO_ARRAYS = ["text", 3.0, [1.0, 2.0], ((1.0,),), object(), b"bytes", {}, range(3), memoryview(b"x")]


def graph(trial, same_nodes=False, some=False):
    """Isolated nodes, repeated edges, loops, hubs; edges in any order, `some` at least."""
    rng = trial.rng
    nodes, numbers_of_edges = (0, 1, 2, 3, 5, 8)[some:], (0, 1, 2, 5, 12, 40)[some:]
    n_src, n_dst = (int(trial.pick(*nodes)) for _ in range(2))
    n_src = n_dst if same_nodes else n_src
    n_edges = int(trial.pick(*numbers_of_edges)) if n_src and n_dst else 0
    src, dst = (rng.integers(0, max(n, 1), n_edges) for n in (n_src, n_dst))
    if n_edges and trial.chance(0.3):  # a hub
        dst[rng.random(n_edges) < 0.8] = rng.integers(n_dst)
    if n_edges and trial.chance(0.2):  # the same edge again and again
        src[:], dst[:] = src[0], dst[0]
    if trial.chance(0.3):  # by destination, which needs no edge_ids
        dst = np.sort(dst)
    return Edges(src, dst, n_src, n_dst)


def numbers(trial, shape, style="normal", dtype=None):
    """Random numbers of some style."""
    rng = trial.rng
    x = rng.normal(size=shape)
    if style == "ties":
        x = np.round(2 * x) / 2
    elif style == "positive":
        x = np.abs(x) + 0.5
    elif style == "unit":
        x = rng.uniform(0.05, 0.95, shape)
    elif style == "wild":
        tiny = np.finfo(dtype or trial.dtype)
        odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, tiny.smallest_subnormal, tiny.tiny, tiny.max]
        x = np.where(rng.random(shape) < 0.2, rng.choice(odd, shape), x)
    with np.errstate(over="ignore"):
        return np.asarray(x, dtype or trial.dtype)


def disguised(trial, array):
    """Copy with equal numbers in another layout."""
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        return array
    kind = trial.pick("same", "F", "reversed", "strided", "misaligned", "read-only", "swapped")
    if kind == "swapped":
        return array.astype(array.dtype.newbyteorder())
    if kind == "F":
        return np.asfortranarray(array)
    if kind == "reversed":
        back = (slice(None, None, -1),) * array.ndim
        return np.ascontiguousarray(array[back])[back]
    if kind == "strided":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if kind == "misaligned":
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
        copy = raw.view(array.dtype).reshape(array.shape)
        copy[...] = array
        return copy
    copy = array.copy()
    copy.setflags(write=kind != "read-only")
    return copy


def guarded(array):
    """Memory in the shape of an array, and whether what lies around it is as it was."""
    zone = np.full(array.size + 2 * GUARD, 77, array.dtype)
    inside = zone[GUARD : GUARD + array.size].reshape(array.shape)

    def untouched():
        return (zone[:GUARD] == 77).all() and (zone[GUARD + array.size :] == 77).all()

    return inside, untouched


def no_such_array(trial, array):
    """Something no call may take for an array of these numbers."""
    kind = trial.pick("no array", "dtype", "masked", "axis", "0-d", "object")
    if kind == "no array":
        return trial.pick(*NO_ARRAYS)
    if kind == "masked":
        return np.ma.masked_array(array, np.ones(array.shape, bool))
    if kind == "axis":  # one more in front may be a batch
        return array.reshape(-1) if array.ndim > 1 else array[None]
    if kind == "0-d":
        return np.array(1, array.dtype)
    if kind == "object":
        return array.astype(object)
    others = ["float16", "complex128", "int8", "bool", "uint64", "U3"]
    others += ["float32"] if array.dtype == np.float64 else ["float64"]
    return np.zeros(array.shape, trial.pick(*others))


def read_only(trial, array):
    """A copy in memory that is not to be written."""
    kind = trial.pick("flag", "bytes", "mapped") if array.nbytes else "flag"
    if kind == "flag":
        copy = array.copy()
        copy.setflags(write=False)
        return copy
    if kind == "bytes":
        return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
    with tempfile.TemporaryFile() as file:
        file.write(array.tobytes())
        file.flush()
        mapped = mmap.mmap(file.fileno(), array.nbytes, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, array.dtype).reshape(array.shape)


def overlapping(trial, x, y):
    """Memory for two arrays, in which they share a part."""
    zone = np.full(x.size + y.size, 77, x.dtype)
    at = int(trial.rng.integers(x.size))
    return zone[: x.size].reshape(x.shape), zone[at : at + y.size].reshape(y.shape)


def tupled(x):
    """Several results, or one, in a tuple."""
    return x if isinstance(x, tuple) else (x,)


def same(a, b):
    """True if results are equal to the bit, NaN with NaN, None with None."""
    if a is None or b is None:
        return a is b
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    a, b = np.asarray(a), np.asarray(b)
    kinds = a.dtype == b.dtype and a.shape == b.shape
    if a.dtype.kind == "O":  # the same objects, of which a NaN is none that equals itself
        return kinds and a.tolist() == b.tolist()
    return kinds and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def close(a, b):
    """True if results agree within rounding."""
    if a is None or b is None:
        return a is b
    eps = 1e3 * np.finfo(a.dtype).eps
    return np.allclose(a, b, rtol=eps, atol=eps * max(size(a), size(b)), equal_nan=True)


def size(a):
    """The largest number in it that is finite, or 1."""
    return np.abs(a[np.isfinite(a)]).max(initial=1)
