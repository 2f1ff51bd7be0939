# SPDX-License-Identifier: MIT
"""Settings and facts of the library: threads, build, files for other programs."""

from __future__ import annotations

import operator
import os
import re
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

from gnograd import _core
from gnograd.backends import cuda_library, has_cuda
from gnograd.backends.cpu import address

__all__ = [
    "get_cmake_dir",
    "get_config",
    "get_include",
    "get_matmul_precision",
    "get_num_threads",
    "get_pkgconfig_dir",
    "set_matmul_precision",
    "set_num_threads",
    "show_config",
]


def set_num_threads(n: int) -> None:
    """Use `n` threads in all kernels from now on; no result depends on it.

    Parameters
    ----------
    n : int
        Number of threads; 0 leaves it to OpenMP (``OMP_NUM_THREADS``, or all cores). There may be
        four for every processor, or 64 if that is more, within ``OMP_THREAD_LIMIT``; a larger
        ``OMP_NUM_THREADS`` counts as that many, with a warning.

    Raises
    ------
    TypeError
        `n` is not an integer.
    ValueError
        `n` is negative, or more than there may be.
    RuntimeError
        More than one thread in a process that was forked.

    Notes
    -----
    After a fork the child computes with one thread, whatever 0 would mean otherwise, because the
    other threads exist in the parent only, and waiting for them would never end. Start processes
    with ``spawn`` where the child shall use several.

    Examples
    --------
    >>> import gnograd as gg
    >>> gg.set_num_threads(1)
    >>> gg.get_num_threads()
    1
    >>> gg.set_num_threads(0)
    """
    try:
        number = operator.index(n)
    except TypeError:
        number = None
    if number is None or isinstance(n, (bool, np.bool_)):
        raise TypeError(f"set_num_threads: n is {n!r}, needs an integer")
    most = _core.gnograd_most_threads()
    if not 0 <= number <= most:
        raise ValueError(f"set_num_threads: n is {number}, needs a number from 0 to {most}")
    if _forked:
        if number > 1:
            raise RuntimeError(
                f"set_num_threads: n is {number}, but a forked process has one thread; "
                "start it with spawn"
            )
        number = 1
    _core.gnograd_set_num_threads(number)


def _look_at_environment() -> None:
    """Warn if OMP_NUM_THREADS asks for more threads than are allowed."""
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    most = _core.gnograd_most_threads()
    if asked.isdecimal() and int(asked) > most:
        warnings.warn(
            f"OMP_NUM_THREADS is {asked}: gnograd uses {most} threads, which is the most that "
            "there may be here",
            RuntimeWarning,
            stacklevel=2,
        )


_look_at_environment()


def get_num_threads() -> int:
    """Number of threads that the kernels use."""
    return int(_core.gnograd_num_threads())


_precision = "float32"


def set_matmul_precision(precision: str) -> None:
    """Choose the accuracy of float32 matrix products in the graph neural operators on a GPU.

    Parameters
    ----------
    precision : {"float32", "tf32"}
        With "float32", as at first, factors go to tensor cores in two parts each, and results are
        as accurate as float32 arithmetic gives them. "tf32" rounds factors to 11 bits: a third of
        the work on tensor cores, and an error of up to 2**-10 of the sum of the absolute products.
        Sums, activations and aggregation stay in float32.

    Raises
    ------
    ValueError
        Another precision.

    Notes
    -----
    For the whole process, from the next call on; concerns `gno_kernel`, `gno`, `gno_contract` and
    `gno_with_gradient`, `gno_with_laplacian`, `gno_with_hessian` of float32 arrays. Arrays on the
    CPU and in float64 are computed as ever.

    Examples
    --------
    >>> import gnograd as gg
    >>> gg.set_matmul_precision("tf32")
    >>> gg.get_matmul_precision()
    'tf32'
    >>> gg.set_matmul_precision("float32")
    """
    global _precision
    if precision not in ("float32", "tf32"):
        raise ValueError(
            f"set_matmul_precision: precision is {precision!r}, needs 'float32' or 'tf32'"
        )
    if has_cuda():
        cuda_library.library().use_tf32(precision == "tf32")
    _precision = precision


def get_matmul_precision() -> str:
    """The precision that `set_matmul_precision` has chosen: "float32" or "tf32"."""
    return _precision


def get_config() -> dict[str, str | int | bool]:
    """Facts about this build and the machine.

    Returns
    -------
    dict
        ``version``, ``compiler``, ``options`` (of the compiler), ``blas``, ``cpu`` (what the
        library was compiled for), ``threads``, ``cuda`` (whether there are CUDA kernels),
        ``gpus`` (those that can be used, or why there are none).

    Examples
    --------
    >>> import gnograd as gg
    >>> sorted(gg.get_config())
    ['blas', 'compiler', 'cpu', 'cuda', 'gpus', 'options', 'threads', 'version']
    """
    text = np.zeros(8192, np.uint8)
    _core.gnograd_build_info(text.size, address(text))
    compiler, options, blas = text.tobytes().split(b"\0")[0].decode().split(" | ")
    return {
        "version": version("gnograd"),
        "compiler": compiler,
        "options": options,
        "blas": blas,
        "cpu": _cpu_level(options),
        "threads": get_num_threads(),
        "cuda": has_cuda(),
        "gpus": _gpus(),
    }


def _gpus() -> str:
    names, reason = cuda_library.devices()
    return ", ".join(names) or (f"none ({reason})" if reason else "none")


def show_config() -> None:
    """Print what `get_config` knows, without the compiler's options."""
    for name, value in get_config().items():
        if name != "options":
            shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
            print(f"{name:9} {shown}")


def get_cmake_dir() -> str:
    """Folder of gnograd-config.cmake: ``gnograd_DIR`` of CMake's ``find_package(gnograd)``."""
    return _installed("lib/cmake/gnograd", "gnograd-config.cmake")


def get_include() -> str:
    """Folder of gnograd.h and, for Fortran, of module files and gnograd_c.f90."""
    return _installed("include", "gnograd.h")


def get_pkgconfig_dir() -> str:
    """Folder of gnograd.pc, for ``PKG_CONFIG_PATH``."""
    return _installed("lib/pkgconfig", "gnograd.pc")


def _installed(folder: str, file: str) -> str:
    path = Path(__file__).parent / folder
    if not (path / file).exists():
        raise FileNotFoundError(f"{path / file}: an editable installation of gnograd lacks it")
    return str(path)


def _cpu_level(options: str) -> str:
    """Instruction set of the copy of the library that the loader chose."""
    try:
        loaded = re.search(r"glibc-hwcaps/(\S+?)/libgnograd", Path("/proc/self/maps").read_text())
    except OSError:
        loaded = None
    built = loaded or re.search(r"-march=(\S+)", options)
    return built[1] if built else "the compiler's default"


_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True
    _core.gnograd_set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
