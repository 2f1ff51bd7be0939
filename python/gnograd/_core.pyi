from typing import Any

# made by f2py from gnograd.h: every function there, with pointers as integer addresses
def __getattr__(name: str) -> Any: ...
