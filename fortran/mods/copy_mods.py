# SPDX-License-Identifier: MIT
"""Copy module files: copy_mods.py FROM[:FROM] TO NAME..."""

import os
import shutil
import sys
from pathlib import Path

sources, target, *names = sys.argv[1:]
for name in names:
    (found,) = (p for s in sources.split(os.pathsep) if (p := Path(s) / name).exists())
    shutil.copy2(found, Path(target) / name)
