# SPDX-License-Identifier: MIT
"""Say why nvcc's PTX cannot be executed here, if so; the exit status is 1 then."""

import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def problem() -> str:
    """Reason why PTX cannot be executed here, empty if it can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return "it needs Linux on x86-64"
    flags = re.search(r"^flags\s*:(.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    missing = {"avx2", "fma", "f16c", "bmi2"} - set(flags[1].split() if flags else ())
    if missing:
        return f"the processor lacks {', '.join(sorted(missing))}"
    find = [sys.executable, str(ROOT / "cuda" / "find_nvcc.py"), "nvcc", "80", "90"]
    found = subprocess.run(find, capture_output=True, text=True)
    if found.returncode:
        return "there is no nvcc that works"
    nvcc = found.stdout.strip().split(";")[0]
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
    release = re.search(r"release (\d+)", version)
    if not release or release[1] != "13":
        return f"it knows the PTX of nvcc 13, not of {nvcc}, {release[1] if release else '?'}"
    return ""


if __name__ == "__main__":
    if text := problem():
        sys.exit(f"nvcc's PTX is not executed: {text}; nothing was run")
