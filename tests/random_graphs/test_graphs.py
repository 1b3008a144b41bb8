# SPDX-License-Identifier: Apache-2.0
"""Random graphs through C and through code for GPUs, which are to give what eval gives. Prints "N passed, N failed".

    test_graphs.py BUILD FOLDER FIRST COUNT      # seeds FIRST and on; a graph is FOLDER/SEED.dl
"""

import os
import re
import subprocess
import sys

from graphs import Maker

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

BUILD, FOLDER = (os.path.abspath(p) for p in sys.argv[1:3])
DEVICES = ("sm_80", "sm_80", "sm_75", "sm_90a", "sm_120")     # of a seed, modulo their number


def wrong(paths, *options, **env):
    """How many graphs of PATHS do not pass; prints why."""
    r = subprocess.run([f"{BUILD}/tests/tools/batch", "--jobs=1", *options, FOLDER], input="".join(p + "\n" for p in paths),
                       stdout=subprocess.PIPE, text=True, env=samples.simulated(BUILD, **env))
    lines = dict(line.split(" ", 2)[1::-1] for line in r.stdout.splitlines())
    print("".join(f"{' '.join(options)} {line}\n" for line in r.stdout.splitlines() if not line.startswith("PASS")), end="")
    return sum(lines.get(p) != "PASS" for p in paths)


def main(first, count):
    made = {}
    for seed in range(first, first + count):
        m = Maker(seed)
        if m.make():
            path = f"{FOLDER}/{seed}.dl"
            with open(path, "w") as f:
                f.write(m.text())
            made.setdefault(DEVICES[seed % len(DEVICES)], []).append(path)
    every = sum(made.values(), [])
    failed = wrong(every) + sum(wrong(paths, f"--gpu={sm}", "-O0", PTXSIM_SM=re.sub(r"\D", "", sm)) for sm, paths in made.items())
    print(f"{2 * len(every) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[3:5])))
