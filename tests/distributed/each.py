# SPDX-License-Identifier: MIT
"""Programs of this folder one after another in the same processes, which start and import once."""

import runpy
import sys
from pathlib import Path

for name in sys.argv[1:]:
    runpy.run_path(str(Path(__file__).with_name(name)), run_name="__main__")
