#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares dlcc with ONNX Runtime and OpenVINO on f32 models, on one thread and on all.

    bench/run.py [--quick] [--list] [--rounds N] [--seconds S] [--threads 1,all] [--subnormals kept,flushed] [--engines A,B] [--clock wall|cpu]
                 [--dim NAME=N] [--note TEXT] [--out FOLDER] [PATTERN | MODEL.onnx ...]

PATTERN selects configurations by name ("bert_base/*", "resnet50"); bench/configs.py has the table and what --quick takes; a file of a
model is measured at the sizes of --dim. In each round every engine runs once with each number of threads, in a process of its own, one
after the other, on the same inputs or random ones of the same distribution, and on the same CPUs. Models keep their symbolic dims in all
engines. The machine's roofs are measured in every round, too (bench/roof.c). The numbers are medians of the rounds' medians. With
--clock=cpu those with one thread are of the processor's time and not of the wall clock, for a machine that others use, too. The ratio is
the better peer's time by dlcc's: above 1 dlcc is faster.

The engine zig is dlcc with zig as its C compiler, on PATH or in build/venv-wheel; "--engines dlcc,zig" compares the two compilers' artifacts.

Each engine runs with subnormal numbers kept and with subnormals flushed to zero, if it can be told to. Operations come from dlcc: dlrun
--profile counts those of each kernel. An engine that does not exist is left out, with a message. One that fails has the reason in its row.
FOLDER (default bench/results) gets DATE-cpu.json, .md and two plots.
"""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import configs
import report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PEERS = "onnxruntime", "openvino"
PATIENCE_S = 600  # the longest time of one process


class Failure(Exception):
    """What an engine says instead of a time."""


def reason(text):
    """The line of TEXT, the output of a process that failed, which tells why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if ": error: " in line]
    errors = [line for line in lines if "rror" in line]
    return ours[0].split(": error: ", 1)[1][:200] if ours else (errors or lines or ["no output"])[-1][:200]


def command(args, cpus):
    """The standard output of ARGS, run on CPUS."""
    try:
        p = subprocess.run(args, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S,
                           preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    except subprocess.TimeoutExpired as e:
        raise Failure(f"not done in {PATIENCE_S} s") from e
    if p.returncode:
        raise Failure(reason(p.stderr + p.stdout))
    return p.stdout


def json_line(args, cpus):
    lines = [line for line in command(args, cpus).splitlines() if line.startswith("{")]
    if not lines:
        raise Failure("no line of JSON")
    return json.loads(lines[-1])


def sizes(config):
    return [f"--dim={name}={n}" for name, n in config.dims.items()]


class Dlcc:
    """dlcc with the C compiler CC, its own choice if empty, and dlrun, with one artifact for all sizes of a model."""

    def __init__(self, build, cc=""):
        self.dlcc, self.dlrun, self.folder = os.path.join(build, "bin", "dlcc"), os.path.join(build, "bin", "dlrun"), os.path.join(build, "bench")
        self.cc, self.made = cc, {}
        self.can_flush = "--flush-subnormals" in subprocess.run([self.dlcc, "--help"], capture_output=True, text=True).stdout

    def artifact(self, config, flush):
        """(path, seconds and KiB of a cold compile)"""
        key = config.model, flush
        if key not in self.made:
            name = os.path.relpath(config.model, "/").replace("/", "_")[:-5][-100:]
            so = os.path.join(self.folder, f"{name}{'-zig' if self.cc else ''}{'-flushed' if flush else ''}.so")
            os.makedirs(self.folder, exist_ok=True)
            options = [*(["--flush-subnormals"] if flush else []), *([f"--cc={self.cc}"] if self.cc else [])]
            code = ("import resource, subprocess, sys; r = subprocess.call(sys.argv[1:]); "
                    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(r)")
            begin = time.perf_counter()
            out = command([sys.executable, "-c", code, self.dlcc, config.model, "-o", so, "--name=model", *options], os.sched_getaffinity(0))
            self.made[key] = so, time.perf_counter() - begin, int(out.split()[-1])
        return self.made[key]

    def inputs(self, config):
        return ["--data", self.one_set(config.data)] if config.data else sizes(config)

    def one_set(self, data):
        """A folder with the inputs of the first data set of DATA alone, so that dlrun has nothing to compare."""
        folder = os.path.join(self.folder, "data", os.path.relpath(data, "/").replace("/", "_"), "test_data_set_0")
        os.makedirs(folder, exist_ok=True)
        source = os.path.join(data, "test_data_set_0")
        for file in os.listdir(source):
            link = os.path.join(folder, file)
            if file.startswith("input_") and not os.path.exists(link):
                os.symlink(os.path.abspath(os.path.join(source, file)), link)
        return os.path.dirname(folder)

    def time(self, config, threads, seconds, flush, cpus):
        so, compile_s, compile_kib = self.artifact(config, flush)
        result = json_line([self.dlrun, so, "--bench", "--device=cpu", f"--threads={threads}", f"--seconds={seconds}", *self.inputs(config)], cpus)
        version = {"version": command([self.cc, "version"], cpus).strip()} if self.cc else {}
        return {**result, **version, "load_s": compile_s, "compile_rss_kib": compile_kib}

    def kernels(self, config, threads, cpus):
        """The kernels of one configuration with operations, bytes and time of one run of the model, and the name of each."""
        so, _, _ = self.artifact(config, False)
        told = json_line([self.dlrun, so, "--profile", "--json", "--device=cpu", "--roof=1,1", f"--threads={threads}", "--seconds=0.2", "--bench",
                          *self.inputs(config)], cpus)
        runs = told["runs"]
        return [{"name": k["nodes"], "ms": k["total_ms"] / runs, "flops": k["flops"] / runs, "bytes": k["bytes"] / runs} for k in told["kernels"]]


def peer_time(engine, config, threads, seconds, flush, cpus):
    return json_line([sys.executable, os.path.join(HERE, "peer.py"), engine, config.model, str(threads), str(seconds), str(int(flush)),
                      json.dumps(config.dims), config.data], cpus)


def find_zig():
    """The path of zig, or None."""
    return shutil.which("zig") or next(iter(glob.glob(os.path.join(ROOT, "build", "venv-wheel", "lib", "python3*", "site-packages", "ziglang", "zig"))), None)


def has(engine):
    if engine in ("dlcc", "zig"):
        return engine == "dlcc" or bool(find_zig())
    return not subprocess.run([sys.executable, "-c", "import " + engine], capture_output=True).returncode


def summary(rounds, clock):
    """What the rounds of one engine say together, by the key CLOCK; or the reason of a failure."""
    failed = [r["failure"] for r in rounds if "failure" in r]
    if failed:
        return {"failure": failed[0]}
    of = lambda key: [r[key] for r in rounds if key in r]
    together = {"ms": statistics.median(of(clock)), "p95_ms": statistics.median(of("p95_ms")), "least_ms": min(of("min_ms")),
                "runs": sum(of("runs")), "load_s": statistics.median(of("load_s")), "peak_rss_mib": max(of("peak_rss_kib")) / 1024}
    for key in "version", "workspace_bytes", "compile_rss_kib":
        if of(key):
            together[key] = of(key)[-1]
    return together


def told_apart(rounds):
    """Turns the rounds of a peer whose results are not those of ONNX Runtime into failures: how long it takes says nothing."""
    for (engine, flush), results in rounds.items():
        own, reference = ([r["mean"] for r in rs if "mean" in r] for rs in (results, rounds.get(("onnxruntime", flush), [])))
        if own and reference and abs(own[0] - reference[0]) > 0.05 * abs(reference[0]):
            results[0] = {"failure": f"its results differ from those of onnxruntime: on average {own[0]:.3g}, not {reference[0]:.3g}"}


class Bench:
    def __init__(self, args):
        self.args, self.dlcc = args, Dlcc(args.build)
        self.ours = {"dlcc": self.dlcc, "zig": Dlcc(args.build, find_zig() or "zig")}
        self.cpus = sorted(os.sched_getaffinity(0))
        self.roofs = {}
        self.roof_program = os.path.join(args.build, "roof")
        subprocess.run(["cc", "-O2", "-I" + ROOT, os.path.join(HERE, "roof.c"), os.path.join(ROOT, "tools", "dlrun", "roof.c"), "-o",
                        self.roof_program, "-lpthread"], check=True)
        self.engines = []
        for engine in args.engines.split(","):
            if has(engine):
                self.engines.append(engine)
            else:
                print(f"{engine} is left out: it is not installed", file=sys.stderr)

    def threads(self):
        """(number, CPUs to run on): one thread has one CPU, all have all."""
        for word in self.args.threads.split(","):
            n = len(self.cpus) if word == "all" else int(word)
            yield n, set(self.cpus[-n:])

    def measure_roof(self, n, cpus):
        """The roofs of N threads at this moment. self.roofs keeps the best of all rounds."""
        roof = json_line([self.roof_program, str(n), "100"], cpus)
        best = self.roofs.setdefault(str(n), dict(roof))
        for key, value in roof.items():
            best[key] = max(best[key], value)
        return roof

    def once(self, engine, config, n, flush, cpus):
        try:
            if engine in self.ours:
                return self.ours[engine].time(config, n, self.args.seconds, flush, cpus)
            return peer_time(engine, config, n, self.args.seconds, flush, cpus)
        except Failure as e:
            return {"failure": str(e)}

    def contenders(self):
        for subnormals in self.args.subnormals.split(","):
            for engine in self.engines:
                flush = subnormals == "flushed"
                if engine not in self.ours or not flush or self.dlcc.can_flush:
                    yield engine, flush

    def rows(self, config):
        """The rows of one configuration, one for each number of threads. They are measured in the same rounds, beside roofs of their own:
        what memory can do for one thread and for all changes with what else the machine does."""
        counts = list(self.threads())
        if config.missing:
            for n, _ in counts:
                yield {"name": config.name, "dims": config.dims, "threads": n, "engines": {}, "failure": config.missing}
            return
        rounds = {n: {c: [] for c in self.contenders()} for n, _ in counts}
        roofs = {n: [] for n, _ in counts}
        for _ in range(self.args.rounds):
            for n, cpus in counts:
                roofs[n].append(self.measure_roof(n, cpus))
                for (engine, flush), results in rounds[n].items():
                    if not any("failure" in r for r in results):
                        results.append(self.once(engine, config, n, flush, cpus))
        medians = {n: {key: statistics.median(r[key] for r in measured) for key in measured[0]} for n, measured in roofs.items()}
        for n, cpus in counts:
            yield self.row(config, n, cpus, rounds[n], medians)

    def row(self, config, n, cpus, rounds, roofs):
        """The row of one configuration with N threads, of what ROUNDS measured for each contender, beside the ROOFS of each number of threads."""
        row = {"name": config.name, "dims": config.dims, "threads": n, "engines": {}}
        told_apart(rounds)
        for (engine, flush), results in rounds.items():
            row["engines"][engine + ("+flushed" if flush else "")] = summary(results, "cpu_ms" if n == 1 and self.args.clock == "cpu" else "median_ms")
        try:
            row["kernels"] = self.dlcc.kernels(config, n, cpus)
            row["flops"] = sum(k["flops"] for k in row["kernels"])
            row["least_ms"] = {str(threads): sum(max(k["flops"] / roof["gflop_per_s"], k["bytes"] / roof["memory_gb_per_s"]) for k in row["kernels"]) / 1e6
                               for threads, roof in roofs.items()}
            least = sum(k["ms"] for k in row["kernels"]) / 100
            row["kernels"] = [k for k in row["kernels"] if k["ms"] >= least]  # the others would be most of the file
        except Failure as e:
            print(f"{config.name}: no profile: {e}", file=sys.stderr)
        return row


def commit():
    """The commit of the source, where it is in a repository and git is there."""
    try:
        return subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip() or "unknown"
    except FileNotFoundError:
        return "unknown"


def conditions(bench, args, load):
    """What a reader must know to judge the numbers."""
    with open("/proc/cpuinfo") as f:
        names = {line.split(":")[1].strip() for line in f if line.startswith(("model name", "CPU part"))}
    return {"date": time.strftime("%Y-%m-%d %H:%M"), "commit": commit(), "processor": ", ".join(sorted(names)), "cpus": len(bench.cpus), "rounds": args.rounds,
            "seconds": args.seconds, "load_before": load, "load_after": os.getloadavg()[0], "flushes": bench.dlcc.can_flush, "clock": args.clock, "note": args.note,
            "compiler": subprocess.run([bench.dlcc.dlcc, "--version"], capture_output=True, text=True).stdout.strip()}


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("patterns", nargs="*")
    ap.add_argument("--quick", action="store_true", help="only " + ", ".join(configs.QUICK))
    ap.add_argument("--list", action="store_true", help="print the names of the configurations, and measure nothing")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=1.0, help="of each engine in each round")
    ap.add_argument("--threads", default="1,all")
    ap.add_argument("--subnormals", default="kept,flushed")
    ap.add_argument("--engines", default=",".join(("dlcc",) + PEERS))
    ap.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    ap.add_argument("--dim", action="append", default=[], help="NAME=N, for files of models")
    ap.add_argument("--note", default="", help="a sentence about the machine's state, for the table")
    ap.add_argument("--out", default=os.path.join(HERE, "results"))
    ap.add_argument("--build", default=os.path.join(ROOT, "build"))
    return ap.parse_args()


def main():
    args = arguments()
    dims = {name: int(n) for name, n in (d.rsplit("=", 1) for d in args.dim)}
    load = os.getloadavg()[0]
    chosen = list(configs.chosen(args.patterns, args.quick, args.build, dims))
    if args.list or not chosen:
        print("\n".join(c.name for c in chosen) or "no configuration has such a name")
        return 0 if chosen else 2
    bench = Bench(args)
    os.makedirs(args.out, exist_ok=True)
    result = {"rows": []}
    for config in chosen:
        for row in bench.rows(config):
            result["rows"].append(row)
            result.update(conditions=conditions(bench, args, load), roofs=bench.roofs)
            print(report.line(row), flush=True)
            report.write(result, os.path.join(args.out, time.strftime("%Y-%m-%d-cpu")))
    report.plot(result, os.path.join(args.out, time.strftime("%Y-%m-%d-cpu")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
