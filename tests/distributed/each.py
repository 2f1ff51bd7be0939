# SPDX-License-Identifier: MIT
"""Programs of this folder on several numbers of processes, which start and import once.

    each.py 1,2,3 PROGRAM...

Groups that fit beside one another are at work at the same time. What hangs says where, and ends.
"""

import faulthandler
import runpy
import sys
from pathlib import Path

import setting


def rounds(sizes: list[int], n: int) -> list[list[int]]:
    """Sizes of the groups of n processes that are at work at the same time."""
    found: list[list[int]] = []
    for size in sorted(sizes, reverse=True):
        place = next((groups for groups in found if sum(groups) + size <= n), None)
        if place is None:
            found.append([size])
        else:
            place.append(size)
    return found


def join(groups: list[int]) -> bool:
    """Make the group of this process its world; whether it is in one."""
    world = setting.world()
    if groups == [world.size]:
        return True
    from mpi4py import MPI

    number = [k for k, size in enumerate(groups) for _ in range(size)]
    mine = number[world.rank] if world.rank < len(number) else MPI.UNDEFINED
    setting.group = MPI.COMM_WORLD.Split(mine, world.rank)
    return mine != MPI.UNDEFINED


sizes = [int(n) for n in sys.argv[1].split(",")]
for groups in rounds(sizes, setting.world().size):
    if join(groups):
        for name in sys.argv[2:]:
            faulthandler.dump_traceback_later(setting.SECONDS, exit=True)
            runpy.run_path(str(Path(__file__).with_name(name)), run_name="__main__")
    faulthandler.dump_traceback_later(2 * setting.SECONDS, exit=True)  # until all others are done
    setting.group = None
