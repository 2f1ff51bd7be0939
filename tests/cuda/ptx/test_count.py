#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_count.py PROGRAM: the counts of counted.cu as built, against numbers found by hand."""

import json
import os
import subprocess
import sys
import tempfile

LD1, LD2, LD4 = "ld.shared.f32", "ld.shared.v2.f32", "ld.shared.v4.f32"
LDM = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
LDM2 = "ldmatrix.sync.aligned.m8n8.x2.shared.b16"
LDM1 = "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16"
CP, CP_L1 = "cp.async.cg.shared.global", "cp.async.ca.shared.global"
GLD, GLD4, GST4 = "ld.global.f32", "ld.global.v4.u32", "st.global.v4.u32"

# kernel: instruction: wavefronts, the fewest, without conflicts
SHARED = {
    "shared1<0>": {LD1: (1, 1, 1), "st.shared.f32": (1, 1, 1)},
    "shared1<1>": {LD1: (1, 1, 1), "st.shared.f32": (1, 1, 1)},
    "shared1<2>": {LD1: (2, 2, 1), "st.shared.f32": (2, 2, 1)},
    "shared1<4>": {LD1: (4, 4, 1)},
    "shared1<32>": {LD1: (32, 32, 1)},
    "shared1<33>": {LD1: (1, 1, 1)},
    "shared2<0>": {LD2: (2, 1, 1)},
    "shared2<2>": {LD2: (2, 2, 2)},
    "shared2<4>": {LD2: (4, 4, 2)},
    "shared4<0>": {LD4: (4, 1, 1)},
    "shared4<4>": {LD4: (4, 4, 4)},
    "shared4<8>": {LD4: (8, 8, 4)},
    "shared4<36>": {LD4: (4, 4, 4)},
    "bytes": {"ld.shared.u8": (1, 1, 1)},
    "shared_atomic": {"red.shared.add.u32": (8, 8, 1)},
    "matrices<16>": {LDM: (4, 4, 4)},
    "matrices<128>": {LDM: (32, 32, 4)},
    "matrices<144>": {LDM: (4, 4, 4)},
    "fewer_matrices<16>": {LDM2: (2, 2, 2), LDM1: (1, 1, 1)},
    "fewer_matrices<128>": {LDM2: (16, 16, 2), LDM1: (8, 8, 1)},
    "async<true>": {CP: (8, 4, 4)},  # 4 from global memory, 4 into shared
    # twice each
    "async_l1<4, 4>": {CP_L1: (4, 2, 2)},
    "async_l1<4, 128>": {CP_L1: (66, 64, 2)},
    "async_l1<8, 8>": {CP_L1: (8, 4, 4)},
    "async_l1<16, 16>": {CP_L1: (16, 8, 8)},
    "async_zeros": {CP: (6, 4, 4)},  # 2 from global memory
}
# kernel: instruction: requests, sectors, those new to a block, bytes used
GLOBAL = {
    "global1<0, 0>": {GLD: (1, 1, 1, 4), "st.global.f32": (1, 4, 4, 128)},
    "global1<1, 0>": {GLD: (1, 4, 4, 128)},
    "global1<1, 1>": {GLD: (1, 5, 5, 128)},
    "global1<8, 0>": {GLD: (1, 32, 32, 128)},
    "global1<33, 0>": {GLD: (1, 32, 32, 128)},
    "global4": {GLD4: (1, 16, 16, 512), GST4: (1, 16, 16, 512)},
    "async<true>": {CP: (1, 16, 16, 512)},
    "async_l1<4, 4>": {CP_L1: (2, 8, 4, 256)},
    "async_l1<8, 8>": {CP_L1: (2, 16, 8, 512)},
    "async_l1<16, 16>": {CP_L1: (2, 32, 16, 1024)},
    "async_zeros": {CP: (1, 8, 8, 256)},
    "block": {GLD: (8, 32, 8, 1024), "st.global.f32": (4, 16, 16, 512)},
}
# kernel: instruction: of a warp, of lanes
ISSUED = {
    "tensor": {
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": (1, 32),
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": (1, 32),
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32": (1, 32),
    },
    "classes": {
        "ex2.approx.ftz.f32": (1, 16),
        "fma.rn.f32": (5, 160),
        "fma.rn.f64": (1, 32),
        "cvt.f64.f32": (1, 32),
        "shfl.sync.bfly.b32": (1, 32),
        "add.f32": (1, 32),
    },
    "block": {"bar.sync": (4, 128)},
}
FIELDS = {
    "block": {"blocks": 2, "threads": 128, "warps": 4, "barriers": 2, "sectors_read": 4,
              "sectors_written": 16, "threads_per_block": 64, "launches": 1},
    "global1<8, 0>": {"blocks": 1, "sectors_read": 32, "sectors_written": 4},
    "matrices<16>": {"static_shared": 32768, "dynamic_shared": 0},
}  # fmt: skip
KINDS = {
    "fma.rn.f32": "fp32",
    "fma.rn.f64": "fp64",
    "ex2.approx.ftz.f32": "special",
    "cvt.f64.f32": "conversion",
    "shfl.sync.bfly.b32": "shuffle",
}
# kernel: cycles of its block, from and to: 4 chained misses of 600, or at once
CYCLES = {"latency<true>": (2400, 2700), "latency<false>": (600, 900)}


def main(program: str) -> int:
    wrong = checked = 0

    def check(what: str, got: object, expected: object) -> None:
        nonlocal wrong, checked
        checked += 1
        if got != expected:
            wrong += 1
            print(f"{what}: {got} instead of {expected}")

    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "counts")
        environment = {**os.environ, "PTX_COUNT": path}
        runs = []
        for _ in range(2):
            status = subprocess.run([program], env=environment, check=False)
            check("exit status", status.returncode, 0)
            with open(path) as file:
                runs.append(file.readlines())
        # what is in the file stays: counts of some cases are made again, others are kept
        check("counts of a second run follow those of the first", runs[1][: len(runs[0])], runs[0])
        check("lines of two runs", len(runs[1]), 2 * len(runs[0]))
        kernels = {k["kernel"]: k for k in map(json.loads, runs[0])}
    for table, keys in (
        (SHARED, ("wavefronts", "least", "ideal")),
        (GLOBAL, ("requests", "sectors", "fresh", "bytes")),
    ):
        for name, expected in table.items():
            memory: dict[str, list[int]] = {}
            for m in kernels[name]["memory"]:
                sums = memory.setdefault(m["op"], [0] * len(keys))
                for k, key in enumerate(keys):
                    sums[k] += m[key]
            for op, numbers in expected.items():
                check(f"{name}, {op}, {keys}", tuple(memory.get(op, ())), numbers)
    for name, expected in ISSUED.items():
        for op, numbers in expected.items():
            got = kernels[name]["instructions"].get(op, (None, 0, 0))
            check(f"{name}, {op}, issued and lanes", tuple(got[1:3]), numbers)
            if op in KINDS:
                check(f"kind of {op}", got[0], KINDS[op])
    for name, fields in FIELDS.items():
        for key, value in fields.items():
            check(f"{name}, {key}", kernels[name][key], value)
    for name, (low, high) in CYCLES.items():
        cycles = kernels[name]["block_cycles"]
        check(f"{name}, {cycles} cycles in {low}..{high}", low <= cycles <= high, True)
        check(f"{name}, its only block is the longest", kernels[name]["longest_block"], cycles)
    print(f"{checked - wrong} of {checked} counts as expected")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
