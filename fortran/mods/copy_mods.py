# SPDX-License-Identifier: MIT
"""Copy module files: copy_mods.py FROM TO NAME..."""

import shutil
import sys
from pathlib import Path

source, target, *names = sys.argv[1:]
for name in names:
    shutil.copy2(Path(source) / name, Path(target) / name)
