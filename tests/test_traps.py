# SPDX-License-Identifier: MIT
"""No kernel divides by zero, overflows or does anything invalid with finite input.

Programs may stop at these (gfortran's -ffpe-trap), and a compiler may well evaluate what is not
asked for: exp(z) where exp(min(z, 0)) is written, and only used for negative z.
"""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent / "fuzz"


@pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="codes of x86-64's glibc"
)
def test_no_operator_traps():
    done = subprocess.run(
        [sys.executable, FUZZ / "traps.py", "24"], capture_output=True, text=True, timeout=300
    )
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{last}\n{done.stderr[:2000]}"
