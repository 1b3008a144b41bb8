# SPDX-License-Identifier: Apache-2.0
"""Every kernel of the model suites through ptxas, for each row of the target table: sweep.py BUILD PTXAS FOLDER [PATTERN ...].

batch leaves a file for each kernel and GPU, equal kernels once. They are put together again, so that ptxas starts once
for many, and its report is read kernel by kernel. A kernel fails where it is refused, where ptxas warns, or where
registers are spilled.
"""

import fnmatch
import glob
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import cases  # noqa: E402
import suites  # noqa: E402

SHARE = 40  # one case in so many
TOGETHER = 400_000  # bytes of PTX for one ptxas
HEAD = ".address_size 64\n"
ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
PROPERTIES = re.compile(r"Function properties for (\w+)\n\s+(\d+) bytes stack frame, (\d+) bytes spill stores, "
                        r"(\d+) bytes spill loads")


def chosen_cases(patterns):
    """Those whose SUITE/NAME is like one of PATTERNS; without any, a share of the small ones."""
    index = cases.index(cases.CORPUS, ("onnx", "small", "models") if patterns else ("onnx", "small"))
    excluded = [pattern for pattern, _ in suites.rows_of("excluded.txt")]
    found = [(suite, case) for suite, of in index.items() for case in of
             if not any(fnmatch.fnmatch(f"{suite}/{case.name}", pattern) for pattern in excluded)]
    if not patterns:
        return found[::SHARE]
    return [(suite, case) for suite, case in found if any(fnmatch.fnmatch(f"{suite}/{case.name}", p) for p in patterns)]


def must_pass():
    """Names on the lists of what compiles for GPUs."""
    names = set()
    for suite in ("onnx", "small", "models"):
        path = os.path.join(cases.ROOT, "tests", "passing", suite + ".ptx.txt")
        if os.path.exists(path):
            names.update(f"{suite}/{line.strip()}" for line in open(path))
    return names


def compile_cases(build, folder, chosen):
    """Kernels under FOLDER/ptx; the cases that should have some, and have not."""
    command = [os.path.join(build, "tests", "tools", "batch"), f"--ptx={folder}/ptx", "--seconds=600", folder + "/out"]
    output = subprocess.run(command, input="".join(case.dir + "\n" for _, case in chosen), text=True,
                            capture_output=True).stdout
    listed, failed = must_pass(), []
    verdict = {m[2]: (m[1], m[3]) for m in re.finditer(r"^(PASS|FAIL|SKIP) (/\S+) ptx(?:: (.*))?$", output, re.M)}
    for suite, case in chosen:
        status, why = verdict.get(case.dir, ("FAIL", "no verdict"))
        if status == "FAIL" or (status == "SKIP" and f"{suite}/{case.name}" in listed):
            failed.append(f"{suite}/{case.name}: {why}")
    return failed, Counter(status for status, _ in verdict.values())


def portions(folder):
    """[(files, text)]: a module each."""
    files, size = [], 0
    for path in sorted(glob.glob(folder + "/*.ptx")):
        if files and size + os.path.getsize(path) > TOGETHER:
            yield files
            files, size = [], 0
        files.append(path)
        size += os.path.getsize(path)
    if files:
        yield files


def assemble(ptxas, target, number, files, folder):
    """({entry: why it fails}, entries, entries with a stack frame)."""
    texts = [open(path).read() for path in files]
    head = texts[0][:texts[0].index(HEAD) + len(HEAD)]
    module = os.path.join(folder, f"{target}_{number}.ptx")
    with open(module, "w") as f:
        f.write(head + "".join(text[text.index(HEAD) + len(HEAD):] for text in texts))
    entries = [ENTRY.search(text)[1] for text in texts]
    done = subprocess.run([ptxas, "-v", "--warn-on-spills", f"-arch={target}", "-o", os.devnull, module], text=True,
                          capture_output=True)
    log = done.stdout + done.stderr
    bad, frames = {}, 0
    for name, frame, stores, loads in PROPERTIES.findall(log):
        frames += frame != "0"
        if stores != "0" or loads != "0":
            bad[name] = f"{stores} bytes spilled, {loads} read back"
    for line in log.splitlines():
        if re.match(r"ptxas\b[^:]*\b(warning|error|fatal)\s*:", line):
            name = next((e for e in entries if re.search(rf"\b{e}\b", line)), entries[0])
            bad.setdefault(name, line.strip())
    if done.returncode and not bad:
        bad[entries[0]] = "ptxas ends with status %d" % done.returncode
    return bad, len(PROPERTIES.findall(log)), frames


def main():
    build, ptxas, folder = (os.path.abspath(a) for a in sys.argv[1:4])
    chosen = chosen_cases(sys.argv[4:])
    failed, verdicts = compile_cases(build, folder, chosen)
    print(f"{len(chosen)} cases: {verdicts['PASS']} compiled, {verdicts['SKIP']} with operators that are not supported")
    passed = 0
    for line in failed:
        print("FAIL", line)
    for target in sorted(os.listdir(folder + "/ptx"), key=lambda t: int(re.search(r"\d+", t)[0])):
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            jobs = [pool.submit(assemble, ptxas, target, i, files, folder)
                    for i, files in enumerate(portions(f"{folder}/ptx/{target}"))]
        results = [job.result() for job in jobs]
        bad = {name: why for result in results for name, why in result[0].items()}
        count, frames = sum(r[1] for r in results), sum(r[2] for r in results)
        spills = sum("spilled" in why for why in bad.values())
        print(f"{target:7} {len(glob.glob(f'{folder}/ptx/{target}/*.ptx'))} kernels, {count} assembled, {spills} with spills, "
              f"{len(bad) - spills} with warnings or errors, {frames} with a stack frame")
        for name, why in bad.items():
            suite, case = chosen[int(re.match(r"c(\d+)_", name)[1])]
            print(f"FAIL {target} {suite}/{case.name} {name}: {why}")
        failed += bad
        passed += count - len(bad)
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


sys.exit(main())
