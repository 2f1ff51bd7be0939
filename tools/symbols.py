# SPDX-License-Identifier: MIT
"""Check that shared libraries need no symbol of glibc newer than a version.

python tools/symbols.py FILE...       at most 2.34, which RHEL 9 has (manylinux_2_34)
"""

import re
import subprocess
import sys

NEWEST = (2, 34)


def too_new(library: str, newest: tuple[int, int] = NEWEST) -> list[str]:
    """Symbols that a library needs of a newer glibc, with their versions."""
    listed = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True)
    needed = re.findall(r"\*UND\*.*?GLIBC_(\d+)\.(\d+)\S*\s+(\S+)", listed.stdout)
    return [f"{name} (GLIBC_{a}.{b})" for a, b, name in needed if (int(a), int(b)) > newest]


def main(libraries: list[str]) -> int:
    """Print what is too new; 1 if anything is."""
    failed = 0
    for library in libraries:
        for symbol in too_new(library):
            print(f"{library} needs {symbol}")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
