# SPDX-License-Identifier: Apache-2.0
"""Changes one line of emitted PTX at a time; the simulator must notice: mutate.py [--count N] [--seed N] [--list] DIR.

A sample, the same in every run, of the mutations of operators.py in the kernels of models.py. Each runs with up to 16
orders of warps. It is caught where an error is reported, or where one bit of one result differs from what the kernel as
emitted gives, which is compared with ONNX's reference implementation first. survivors.txt names those that nothing
can catch, and why; another survivor is a failure."""

import argparse
import fnmatch
import hashlib
import os
import subprocess
import sys

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
import models  # noqa: E402
import operators  # noqa: E402
import samples  # noqa: E402

ORDERS = 16
HERE = os.path.dirname(os.path.abspath(__file__))


class Subject:
    """A model, its artifact, its PTX, and data sets with what the PTX as emitted answers."""

    def __init__(self, name, build, folder):
        self.name, self.build, self.folder = name, build, folder
        text, sets, *options = models.MODELS[name]
        onnx_file = f"{folder}/m.onnx"
        model = samples.model("m " + text)
        os.makedirs(folder)
        onnx.save(model, onnx_file)
        for out in "m.so", "m.ptx":
            subprocess.run([build + "/bin/dlcc", onnx_file, "-o", f"{folder}/{out}", "--target=cuda:sm_80", "--name=m", *samples.unoptimised(), *options], check=True)
        with open(f"{folder}/m.ptx") as f:
            self.ptx = operators.joined(f.read())
        self.sets = []
        rng = np.random.default_rng(2026)
        types = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}
        for label, inputs in sets.items():
            values = {k: models.value(rng, spec, types[k]) for k, spec in inputs.items()}
            self.add(label, values, None if label.startswith("astray") else ReferenceEvaluator(model).run(None, values),
                     [o.name for o in model.graph.output])
        for seed in samples.share(range(ORDERS), 8):
            why = self.noticed(self.ptx, seed)
            assert not why, f"{name}: as emitted, order {seed}: {why}"

    def add(self, label, values, wanted, names):
        data = f"{self.folder}/{label}"
        samples.tensors(data + "/test_data_set_0", "input", values)
        for k, v in values.items():
            np.save(f"{data}/{k}.npy", v)
        self.sets.append((label, data))
        if wanted is None:
            return
        r = self.dlrun(*[a for k in values for a in ("-i", f"{k}={data}/{k}.npy")], "-o", data + "/out")
        assert r.returncode == 0, f"{self.name}/{label}: {r.stdout}{r.stderr}"
        got = {k: np.load(f"{data}/out/{k}.npy") for k in names}
        for k, v in zip(names, wanted):
            close = 4e-3 if v.dtype == np.float16 else 2e-5
            np.testing.assert_allclose(got[k], v, rtol=close, atol=close * max(1, np.abs(v).max()), err_msg=self.name)
        samples.tensors(data + "/test_data_set_0", "output", got)

    def dlrun(self, *arguments, **env):
        return subprocess.run([self.build + "/bin/dlrun", f"{self.folder}/m.so", "--device=cuda", *arguments],
                              env=samples.simulated(self.build, PTXSIM_LIMIT=300000, **env), capture_output=True, text=True, timeout=samples.limit(300))

    def noticed(self, ptx, seed):
        """What shows that PTX is not what was emitted; "" where nothing does."""
        path = f"{self.folder}/changed.ptx"
        with open(path, "w") as f:
            f.write(ptx)
        for label, data in self.sets:
            r = self.dlrun("--data", data, "--rtol=0", "--atol=0", PTXSIM_REPLACE=path, PTXSIM_SEED=seed)
            said = r.stdout + r.stderr
            if "ptxsim: error" in said:
                return next(line for line in said.splitlines() if "ptxsim: error" in line)
            if label.startswith("astray"):
                if r.returncode != 1 or "index out of range" not in said:
                    return f"{label}: no fault: {said.strip()[-200:]}"
            elif r.returncode:
                return f"{label}: {said.strip()[-200:]}"
        return ""


def sample(subjects, count, seed):
    """COUNT mutations, each (subject, operator, line, the line instead, context): pairs of model and operator in turn, so
    that the rare ones are among them. A hash of its context places each, so that other code leaves it where it is."""
    groups, seen = {}, {}
    for s in subjects:
        lines = s.ptx.split("\n")
        for operator, at, new in operators.sites(s.ptx):
            if operator not in models.OPERATORS.get(s.name, (operator,)):
                continue
            context = operators.context(lines, at)
            key = f"{seed} {s.name} {operator} {context}"
            seen[key] = seen.get(key, 0) + 1
            place = hashlib.sha256(f"{key} {seen[key]}".encode()).digest()
            groups.setdefault((operator, s.name), []).append((place, s, operator, at, new, context))
    turns = [sorted(group) for group in groups.values()]
    turns.sort(key=lambda group: group[0][0])
    deepest = max(map(len, turns), default=0)
    return [group[i][1:] for i in range(deepest) for group in turns if i < len(group)][:count]


def argued(path):
    """[(pattern of MODEL/OPERATOR or of MODEL/OPERATOR in KERNEL, pattern of the context)] of survivors.txt, by why."""
    with open(path) as f:
        lines = [line.strip() for line in f if line.startswith("* ")]
    return [tuple(part.strip() for part in line[2:].split(": ", 1)) for line in lines]


def matches(text, pattern):
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


def fits(reason, where, kernel, context):
    where = f"{where} in {kernel}" if " in " in reason[0] else where
    return matches(where, reason[0]) and matches(context, reason[1])


def unused(reasons, subjects):
    """Those that fit no line at all: of code that is no longer emitted, or emitted by another version of LLVM."""
    left = list(reasons)
    for s in subjects:
        lines = s.ptx.split("\n")
        for operator, at, _ in operators.sites(s.ptx):
            facts = f"{s.name}/{operator}", operators.kernel(lines, at), operators.context(lines, at)
            left = [r for r in left if not fits(r, *facts)]
    return left


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", metavar="DIR", help="an empty folder")
    parser.add_argument("--build", default="build")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2026, help="another sample")
    parser.add_argument("--list", action="store_true", help="also say what caught each")
    parser.add_argument("--only", default="*", help="a pattern of MODEL/OPERATOR")
    options = parser.parse_args()
    build, folder = os.path.abspath(options.build), os.path.abspath(options.dir)
    names = [n for n in models.MODELS if fnmatch.fnmatch(n, options.only.split("/")[0])]
    subjects = [Subject(name, build, f"{folder}/{name}") for name in names]
    reasons = argued(os.path.join(HERE, "survivors.txt"))
    caught = survived = failed = 0
    needed = set()
    for subject, operator, at, new, context in sample(subjects, options.count, options.seed):
        where = f"{subject.name}/{operator}"
        if not fnmatch.fnmatch(where, options.only) and options.only != subject.name:
            continue
        lines = subject.ptx.split("\n")
        old, lines[at] = lines[at], new
        changed = "\n".join(lines)
        why = next(filter(None, (subject.noticed(changed, seed) for seed in range(ORDERS))), "")
        kernel = operators.kernel(lines, at)
        fitting = [] if why else [r for r in reasons if fits(r, where, kernel, context)]
        known = bool(fitting)
        needed.update(fitting[:1])
        caught, survived, failed = caught + bool(why), survived + known, failed + (not why and not known)
        if not why and not known:
            print(f"FAIL: {where} in {kernel}: {context}: survives as {new.strip() or 'nothing'} (line {at + 1})", flush=True)
        elif options.list:
            print(f"{where}: line {at + 1}: {old.strip()} -> {new.strip()}: {why or 'survives, as it must'}", flush=True)
    for where, context in set(reasons) - needed if options.list else ():
        print(f"no survivor among these needs {where}: {context}")
    for where, context in unused(reasons, subjects) if options.count >= 200 and options.only == "*" else ():
        print(f"survivors.txt: no line is as {where}: {context}")
    print(f"{caught} caught, {survived} argued to change nothing, {failed} missed")
    print(f"{caught + survived} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
