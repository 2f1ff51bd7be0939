from typing import Any

import numpy.typing as npt

# arrays.h
def address(array: npt.NDArray[Any] | None, /) -> int: ...
def layouts(arrays: tuple[Any, ...], /) -> tuple[bytes, tuple[int, ...]] | None: ...

# made by f2py from gnograd.h: every function there, with pointers as integer addresses
def __getattr__(name: str) -> Any: ...
