# SPDX-License-Identifier: MIT
"""``python -m gnograd`` is the command `gnograd`."""

from gnograd.cli import main

main()
