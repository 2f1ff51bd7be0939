# SPDX-License-Identifier: MIT
"""Weights on disk: safetensors files, which Fortran, PyTorch and others read too.

A file holds arrays by name. Its header says name, type and shape of each in JSON, the numbers
follow; nothing in it is ever executed. Fortran has the axes of an array in reverse and reads the
same numbers: ``weights%get("lift.weight", w, error)``, ``tape%load(filename, error)``.

Formats and limits: https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import json
import math
import os
import secrets
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gnograd.backends.cpu import refuse_mask
from gnograd.notation.text import printable

if TYPE_CHECKING:
    import torch

    from gnograd.autodiff import Array

__all__ = ["load_weights", "load_weights_metadata", "save_weights"]


def save_weights(
    path: str | os.PathLike[str],
    weights: Mapping[str, Any] | torch.nn.Module,
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write arrays by name; a failure leaves no partial file, and an old one unchanged.

    Parameters
    ----------
    path : path-like
        File to write; by convention it ends in ``.safetensors``.
    weights : mapping of str to array, or torch.nn.Module
        NumPy arrays, arrays of a tape (`gnograd.autodiff.Array`), tensors of PyTorch on any device,
        of any shape and of the types that the format knows. Of a module, what its ``state_dict``
        holds, by the names that it has there; buffers that share memory are written once.
    metadata : mapping of str to str, optional
        Texts by their keys, for the header of the file.

    Raises
    ------
    TypeError
        `weights` is neither of these, or a name or a line of text is no ``str``.
    ValueError
        An array has a type that the format does not know, or a name that it cannot have:
        ``__metadata__``, or what is no UTF-8.
    OSError
        The file cannot be written.

    See Also
    --------
    load_weights

    Examples
    --------
    >>> import gnograd as gg, numpy as np, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "layer.safetensors"
    >>> gg.save_weights(path, {"weight": np.eye(2, dtype=np.float32), "bias": np.zeros(2)})
    >>> gg.load_weights(path)["weight"]
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    path = Path(path)
    text = {} if metadata is None else dict(metadata)
    if not all(isinstance(word, str) for pair in text.items() for word in pair):
        raise TypeError("save_weights: metadata needs strings as keys and values")
    _write(path, _serialised(weights, text))


def load_weights(
    path: str | os.PathLike[str],
    into: Mapping[str, Array] | torch.nn.Module | None = None,
    *,
    strict: bool = True,
) -> dict[str, NDArray[Any]]:
    """Arrays of a safetensors file by name.

    Parameters
    ----------
    path : path-like
    into : mapping of str to gnograd.autodiff.Array, or torch.nn.Module, optional
        Parameters (and constants) that get these values. All are checked first: after an error they
        are as before.
    strict : bool
        Require the same names in the file and in `into`.

    Returns
    -------
    dict of str to ndarray
        All arrays of the file. Numbers of type bfloat16 and float8, which NumPy does not have, are
        those of the package ml_dtypes.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is damaged, or no safetensors file, or does not fit `into`, whose types must hold the
        numbers of the file as they are; the message says what.
    ImportError
        It has bfloat16 or float8, and there is no ml_dtypes.

    See Also
    --------
    save_weights

    Examples
    --------
    >>> import gnograd as gg, gnograd.autodiff as ad, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "layer.safetensors"
    >>> tape = ad.Tape()
    >>> layer = {"weight": tape.parameter([[1, 2]]), "bias": tape.parameter([3])}
    >>> gg.save_weights(path, layer)
    >>> layer["bias"].value = [0]
    >>> _ = gg.load_weights(path, layer)
    >>> layer["bias"].value
    array([3.], dtype=float32)
    """
    arrays, _ = _read(path)
    if into is not None:
        _assign(Path(path), arrays, into, strict)
    return arrays


def load_weights_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Lines of text of a safetensors file.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    dict of str to str

    Raises
    ------
    FileNotFoundError, ValueError
        As `load_weights`.

    Examples
    --------
    >>> import gnograd as gg, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "empty.safetensors"
    >>> gg.save_weights(path, {}, metadata={"trained on": "darcy"})
    >>> gg.load_weights_metadata(path)
    {'trained on': 'darcy'}
    """
    with _opened(path) as file:
        return dict(file.metadata() or {})


# ---- writing ----


def _serialised(weights: Any, metadata: dict[str, str]) -> bytes:
    if not isinstance(weights, Mapping):
        if not hasattr(weights, "state_dict"):
            raise TypeError(
                "save_weights: weights is a mapping of names to arrays, or a module of PyTorch, "
                f"not {type(weights).__name__}"
            )
        weights = _without_shared(weights.state_dict())
    if not all(isinstance(name, str) for name in weights):
        raise TypeError("save_weights: names of arrays are strings")
    for name in [*weights, *metadata, *metadata.values()]:
        if name == "__metadata__" and name in weights:
            raise ValueError("save_weights: '__metadata__' is the format's, no name for an array")
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"save_weights: {name!r} cannot be written as UTF-8") from error
    plain = {name: a.value if _is_of(a, "gnograd") else a for name, a in weights.items()}
    if any(_is_of(a, "torch") for a in plain.values()):
        import torch
        from safetensors.torch import save

        tensors = {name: torch.as_tensor(a).detach().cpu() for name, a in plain.items()}
        return _written(save, {name: a.contiguous() for name, a in tensors.items()}, metadata)
    from safetensors.numpy import save as save_arrays

    for name, a in plain.items():
        refuse_mask("save_weights", repr(name), a)
    arrays = {name: np.asarray(a) for name, a in plain.items()}
    return _written(
        save_arrays,
        # ascontiguousarray would give numbers an axis
        {name: a.copy() if not a.flags.c_contiguous else a for name, a in arrays.items()},
        metadata,
    )


def _is_of(array: Any, package: str) -> bool:
    """True if the type of an array is this package's, which need not be imported."""
    return type(array).__module__.partition(".")[0] == package


def _written(save: Any, arrays: dict[str, Any], metadata: dict[str, str]) -> bytes:
    from safetensors import SafetensorError

    for name, array in arrays.items():
        # the errors of safetensors name neither array nor argument
        kind = str(array.dtype)
        if kind.startswith((">", "complex", "torch.complex", "object", "<U", "|S")):
            raise ValueError(f"save_weights: '{name}' is {kind}, which the format does not know")
    try:
        data: bytes = save(arrays, metadata or None)
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"save_weights: {error}") from error
    return _in_order(data) if len(metadata) > 1 else data


def _in_order(data: bytes) -> bytes:
    """Sort the metadata by key, so that equal contents make equal files."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[end:]


def _without_shared(state: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors by name; those that share memory (tied weights) under their first name only."""
    seen = set()
    kept = {}
    for name, tensor in state.items():
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        if tensor.numel() and place in seen:
            continue
        seen.add(place)
        kept[name] = tensor
    return kept


def _write(path: Path, data: bytes) -> None:
    with replaced(path) as stream:
        stream.write(data)


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Open a stream whose content becomes `path` when the block ends without an error.

    The bytes are written beside `path` and moved over it at the end, so that a reader, or a run
    that continues after a kill or a power cut, sees the old file or the new one and never a part.

    Raises
    ------
    OSError
    """
    # A name that nobody can foresee, and a file that was not there before: who else may write to
    # the folder cannot lead the bytes elsewhere.
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.gnograd-part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(part, flags, 0o666), "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
        _synchronise(path.parent)
    finally:
        with suppress(OSError):
            part.unlink()


def _synchronise(folder: Path) -> None:
    """Flush the entries of a folder to disk."""
    with suppress(OSError):  # some file systems cannot do this with folders
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


# ---- reading ----

_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
"""Types that NumPy does not have, by the names of the format."""

_NUMPY = {"BOOL", "C64", *(f"{k}{n}" for k in "IU" for n in (8, 16, 32, 64)), "F16", "F32", "F64"}


def _opened(path: str | os.PathLike[str]) -> Any:
    from safetensors import SafetensorError, safe_open

    # reading a pipe would wait
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{printable(os.fspath(path))}: no safetensors file: is not a file")
    try:
        return safe_open(os.fspath(path), framework="np")
    except SafetensorError as error:
        raise ValueError(
            printable(f"{os.fspath(path)}: no safetensors file, or damaged: {error}")
        ) from error


def places(path: Path) -> dict[str, tuple[str, list[int], int]]:
    """Type in the format's words, shape, and place of the first byte of each array of a file.

    Raises
    ------
    ValueError
        The file is damaged, or no safetensors file.
    """
    with _opened(path), open(path, "rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(start - 8))
        return {
            name: (about["dtype"], about["shape"], start + about["data_offsets"][0])
            for name, about in header.items()
            if name != "__metadata__"
        }


def read_some(path: Path, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Arrays of a safetensors file with these names; errors are those of `load_weights`."""
    return _read(path, names)[0]


def _read(
    path: str | os.PathLike[str], names: Collection[str] | None = None
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    with _opened(path) as file:
        names = file.keys() if names is None else names
        kinds = {name: file.get_slice(name).get_dtype() for name in names}
        others = _others(Path(path), {n: k for n, k in kinds.items() if k not in _NUMPY})
        arrays = {n: others[n] if n in others else file.get_tensor(n) for n in kinds}
        return arrays, dict(file.metadata() or {})


def _others(path: Path, kinds: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Arrays of types that NumPy does not have, from a file whose header has been checked."""
    if not kinds:
        return {}
    for name, kind in kinds.items():
        if kind not in _ML_DTYPES:
            raise ValueError(
                printable(f"{path}: '{name}' is of type {kind}, which has no array of NumPy")
            )
    import ml_dtypes

    arrays, where = {}, places(path)
    with open(path, "rb") as file:
        for name, kind in kinds.items():
            _, shape, begin = where[name]
            dtype = np.dtype(getattr(ml_dtypes, _ML_DTYPES[kind]))
            file.seek(begin)
            numbers = np.frombuffer(bytearray(file.read(math.prod(shape) * dtype.itemsize)), dtype)
            arrays[name] = numbers.reshape(shape)
    return arrays


def _assign(path: Path, arrays: Mapping[str, NDArray[Any]], into: Any, strict: bool) -> None:
    if not isinstance(into, Mapping):
        _assign_module(path, arrays, into, strict)
        return
    if strict:
        _check_names(path, arrays, into)
    both = [name for name in into if name in arrays]
    for name in both:
        target, values = into[name], arrays[name]
        if target.shape != values.shape:
            raise ValueError(
                f"{path}: '{name}' has shape {values.shape}, the parameter {target.shape}"
            )
        if values.dtype.kind in "biu" or not np.can_cast(values.dtype, target.dtype):
            raise ValueError(f"{path}: '{name}' is {values.dtype}, the parameter {target.dtype}")
    for name in both:
        into[name].value = arrays[name]


def _check_names(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if odd := sorted(found.keys() ^ wanted.keys()):
        where = "the file has not" if odd[0] in wanted else "only the file has"
        raise ValueError(printable(f"{path}: {where} '{odd[0]}' ({len(odd)} names differ)"))


def _fits(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """True if the wanted dtype holds all numbers of the found one: same kind, no digit lost."""
    import torch

    kinds = (torch.is_floating_point, torch.is_complex, lambda x: x.dtype is torch.bool)
    return (
        all(of(found) == of(wanted) for of in kinds)
        and torch.promote_types(found.dtype, wanted.dtype) == wanted.dtype
    )


def _assign_module(
    path: Path, arrays: Mapping[str, NDArray[Any]], module: Any, strict: bool
) -> None:
    if not hasattr(module, "load_state_dict"):
        raise TypeError(
            "load_weights: into is a mapping of names to arrays of a tape, or a module of PyTorch, "
            f"not {type(module).__name__}"
        )
    from safetensors.torch import load, load_file

    state = module.state_dict()
    try:
        os.fspath(path).encode()
        found = load_file(os.fspath(path))
    except UnicodeEncodeError:  # safetensors opens only names in UTF-8 for PyTorch
        found = load(Path(path).read_bytes())
    # tied weights are in the file once
    once = _without_shared(state)
    if strict:
        _check_names(path, found, once)
    for name in (n for n in once if n in found):
        if found[name].shape != state[name].shape:
            raise ValueError(
                f"{path}: '{name}' has shape {tuple(found[name].shape)}, the module's is "
                f"{tuple(state[name].shape)}"
            )
        if not _fits(found[name], state[name]):
            raise ValueError(
                f"{path}: '{name}' is {found[name].dtype}, the module's is {state[name].dtype}"
            )
    module.load_state_dict(found, strict=False)
