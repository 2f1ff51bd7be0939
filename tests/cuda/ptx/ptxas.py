# SPDX-License-Identifier: MIT
"""ptxas.py LOG NVCC ARGUMENT...: compile with nvcc, and keep what ptxas -v says in LOG.

The last line of LOG is JSON: the source, the seconds of the processor and the bytes of the object.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile


def main(log: str, *command: str) -> int:
    with tempfile.TemporaryDirectory() as place:
        target = os.path.join(place, "kernels.o")
        run = subprocess.run([*command, "-o", target], stderr=subprocess.PIPE, text=True)
        if run.returncode:
            sys.stderr.write(run.stderr)
            return run.returncode
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        entry = {
            "source": command[command.index("-c") + 1].rpartition("cuda/")[2],
            "seconds": round(used.ru_utime + used.ru_stime, 1),
            "bytes": os.path.getsize(target),
        }
    with open(log, "w") as file:
        file.write(run.stderr + json.dumps(entry) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
