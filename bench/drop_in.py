#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages that use ONNX Runtime, unchanged, on dlcc.ort beside ONNX Runtime: the same answers, seconds to start, and milliseconds of a call.

    bench/drop_in.py [--rounds N] [--threads 1,2] [--python VENV/bin/python3] [magika | rapidocr | silero ...]

The packages, whose wheels carry their models, are those of VENV (default build/venv-drop-in):
python3 -m venv build/venv-drop-in && build/venv-drop-in/bin/pip install magika rapidocr-onnxruntime && build/venv-drop-in/bin/pip install --no-deps silero-vad.
Each process runs one program on one engine. The first start on dlcc compiles into an empty cache, which the later ones find. In each round
both engines run once with each number of threads, one after the other; the numbers are the least of the rounds. ONNX Runtime binds the threads
of its pool to all processors, whatever the process may use, so a session whose program names no number of threads gets this one. The status
is 1 if answers differ."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

COMMON = """
import json, sys, time
def report(begin, made, call, answer):
    made = made - begin
    times = []
    for _ in range(int(sys.argv[1])):
        t = time.perf_counter()
        call()
        times.append(time.perf_counter() - t)
    print(json.dumps({"start": made, "call": min(times) * 1000, "answer": answer}))
begin = time.perf_counter()
"""

# before a program on ONNX Runtime
BOUNDED = """
import onnxruntime
init = onnxruntime.InferenceSession.__init__
def bounded(self, model, sess_options=None, *args, **kwargs):
    sess_options = sess_options or onnxruntime.SessionOptions()
    sess_options.intra_op_num_threads = sess_options.intra_op_num_threads or int(sys.argv[2])
    init(self, model, sess_options, *args, **kwargs)
onnxruntime.InferenceSession.__init__ = bounded
"""

PROGRAMS = {
    "magika": """
from magika import Magika
m = Magika()
texts = [b"import os\\ndef f(x):\\n    return x + 1\\n" * 20, b"<html><body><p>words</p></body></html>" * 9, b"# title\\n\\nsome *words*\\n" * 30,
         bytes(range(256)) * 40, b"#include <stdio.h>\\nint main(void) { return 0; }\\n" * 9, b"SELECT a FROM t WHERE b = 1;\\n" * 20]
def call():
    return [m.identify_bytes(t) for t in texts]
first = call()
report(begin, time.perf_counter(), call, [[r.output.label, round(float(r.score), 3)] for r in first])
""",
    "rapidocr": """
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidocr_onnxruntime import RapidOCR
page = Image.new("RGB", (640, 320), "white")
draw = ImageDraw.Draw(page)
font = ImageFont.load_default(28)
for k, line in enumerate(["Compiled ahead of time", "the quick brown fox 42", "jumps over 1,234 dogs", "Invoice No. 2026-118"]):
    draw.text((30, 30 + 65 * k), line, fill="black", font=font)
page = np.asarray(page)
threads = int(sys.argv[2])
engine = RapidOCR(intra_op_num_threads=threads, inter_op_num_threads=1)
def call():
    return engine(page)[0]
first = call()
report(begin, time.perf_counter(), call, [[text, round(float(score), 2)] for _, text, score in first])
""",
    "silero": """
import glob, os
import importlib.util
import numpy as np
import onnxruntime
folder = os.path.join(importlib.util.find_spec("silero_vad").submodule_search_locations[0], "data")
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[2])
options.inter_op_num_threads = 1
rng = np.random.default_rng(1)
sound = (np.sin(np.arange(512 * 8) * 0.05) * rng.uniform(0, 1, 512 * 8)).astype(np.float32)
sessions = {name: onnxruntime.InferenceSession(os.path.join(folder, name), options, providers=["CPUExecutionProvider"])
            for name in ("silero_vad.onnx", "silero_vad_16k_op15.onnx")}
def call():
    found = []
    for session in sessions.values():
        names = {i.name for i in session.get_inputs()}
        state, context = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32)
        for k in range(8):
            x = np.concatenate([context, sound[None, 512 * k:512 * (k + 1)]], 1)
            feeds = {"input": x, "state": state, "sr": np.array(16000, np.int64)}
            out, state = session.run(None, {n: v for n, v in feeds.items() if n in names})
            context = x[:, -64:]
            found.append(round(float(out[0, 0]), 4))
    return found
first = call()
report(begin, time.perf_counter(), call, first)
""",
}


def run(o, program, engine, threads, cache):
    """What PROGRAM prints, on ENGINE."""
    env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), PATH=os.path.join(o.build, "bin") + os.pathsep + os.environ["PATH"], XDG_CACHE_HOME=cache,
               OMP_NUM_THREADS=str(threads), PYTHONWARNINGS="ignore")
    path = os.path.join(cache, "program.py")
    with open(path, "w") as f:
        f.write(COMMON + (BOUNDED if engine == "onnxruntime" else "") + PROGRAMS[program])
    done = subprocess.run([o.python, *(["-m", "dlcc.ort"] if engine == "dlcc" else []), path, str(o.calls), str(threads)], env=env, capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads]))
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"{program} on {engine}: {(done.stdout + done.stderr)[-3000:]}")
    return json.loads(lines[-1])


def differ(a, b):
    """Whether answers differ, by more than the last digit of a number."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) != len(b) or any(differ(x, y) for x, y in zip(a, b))
    return abs(a - b) > 0.011 if isinstance(a, float) and isinstance(b, float) else a != b


def compare(o, program, threads, cache, first):
    """Prints the row of PROGRAM, whose FIRST start filled CACHE; whether answers differ."""
    rounds = [(run(o, program, "onnxruntime", threads, cache), run(o, program, "dlcc", threads, cache)) for _ in range(o.rounds)]
    theirs, ours = ({key: min(r[k][key] for r in rounds) for key in ("start", "call")} for k in (0, 1))
    print(f"| {program} | {threads} | {first['start']:.2f} | {ours['start']:.2f} | {theirs['start']:.2f} | {ours['call']:.2f} | {theirs['call']:.2f} "
          f"| {theirs['call'] / ours['call']:.2f} |", flush=True)
    wrong = [(a["answer"], b["answer"]) for a, b in rounds if differ(a["answer"], b["answer"])]
    for a, b in wrong:
        print(f"{program} differs: ONNX Runtime {a}, dlcc {b}", file=sys.stderr)
    return bool(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--python", default=os.path.join(ROOT, "build", "venv-drop-in", "bin", "python3"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--threads", default="1,2")
    o = parser.parse_args()
    o.build, failed = os.path.abspath(o.build), False
    print("| program | threads | first start, s | start, s | ONNX Runtime's | call, ms | ONNX Runtime's | ratio |\n|---|---|---|---|---|---|---|---|")
    for program in o.programs:
        with tempfile.TemporaryDirectory(prefix="dlcc-drop-in-") as cache:
            counts = list(map(int, o.threads.split(",")))
            first = run(o, program, "dlcc", counts[0], cache)  # what it compiles is for any number of threads
            for threads in counts:
                failed |= compare(o, program, threads, cache, first)
    return failed


if __name__ == "__main__":
    sys.exit(main())
