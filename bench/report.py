# SPDX-License-Identifier: Apache-2.0
"""What bench/run.py writes: JSON, tables in Markdown, and plots."""
import json
import math
import sys

MODES = ("", "subnormals kept"), ("+flushed", "subnormals flushed")


def peers(row, mode):
    """{name: result} of the peers that ran in MODE."""
    return {name: r for name, r in row["engines"].items() if not name.startswith("dlcc") and name.endswith(mode) and (mode or "+" not in name)
            and "ms" in r}


def measured(rows):
    """The members of MODES in which some engine of ROWS ran."""
    names = {name for r in rows for name in r["engines"]}
    return [(mode, title) for mode, title in MODES if any(name.endswith(mode) if mode else "+" not in name for name in names)] or MODES[:1]


def ours(row, mode):
    """dlcc's result in MODE. Where dlcc cannot flush subnormals, it is compared as it is."""
    return row["engines"].get("dlcc" + mode) or row["engines"].get("dlcc") or {}


def ratio(row, mode=""):
    """The better peer's time by dlcc's, and its name; None where one of both lacks."""
    dlcc, others = ours(row, mode), peers(row, mode)
    if "ms" not in dlcc or not others:
        return None
    best = min(others, key=lambda name: others[name]["ms"])
    return others[best]["ms"] / dlcc["ms"], best


def line(row):
    """A row in short, for the terminal."""
    told = [f"{name} {r['ms']:.3g} ms" if "ms" in r else f"{name}: {r['failure']}" for name, r in row["engines"].items()]
    found = ratio(row, measured([row])[-1][0])
    return f"{row['name']}, {row['threads']} thread{'s' * (row['threads'] > 1)}: {row.get('failure') or ', '.join(told)}" + \
        (f"; ratio {found[0]:.2f}" if found else "")


def number(r, key, form):
    return format(r[key], form) if key in r else "-"


def of_roof(row, ms, roofs):
    """The percentage of the multiply-add roof at which FLOPS take MS."""
    return f"{100 * row['flops'] / ms / 1e6 / roofs[str(row['threads'])]['gflop_per_s']:.0f}" if row.get("flops") and ms else "-"


def scaling(rows, row, engine):
    """How many times faster the engine is with all threads than with one."""
    one = next((r for r in rows if r["name"] == row["name"] and r["threads"] == 1), None)
    a, b = (r["engines"].get(engine, {}).get("ms") if r else None for r in (one, row))
    return f"{a / b:.2f}" if a and b and row["threads"] > 1 else "-"


def allowed(row):
    """How many times faster the roofs allow a run with all threads to be: of each kernel counts the larger of operations by the multiply-add
    roof and bytes by the memory's, as if none were in a cache. The roofs are medians of those measured beside this configuration."""
    least, n = row.get("least_ms", {}), row["threads"]
    return f"{least['1'] / least[str(n)]:.2f}" if n > 1 and "1" in least and least[str(n)] else "-"


def cell(text):
    """TEXT, which may have a name from a model, in a table of Markdown."""
    return "".join(c if c.isprintable() else "?" for c in str(text)).replace("\\", "\\\\").replace("|", "\\|")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def table(result, rows, mode):
    """The lines of one table: ROWS have one number of threads."""
    names = sorted({name for r in rows for name in r["engines"] if not name.startswith("dlcc") and (name.endswith(mode) if mode else "+" not in name)})
    shown = [name.removesuffix(mode) for name in names]
    several = rows[0]["threads"] > 1
    head = ["configuration", "dlcc ms", "p95", *(x for s in shown for x in (s + " ms", "p95")), "ratio", "dlcc % of fma roof",
            *(f"{s} %" for s in shown), *(["dlcc scales", *(f"{s} scales" for s in shown), "roofs allow"] if several else []), "compile s", "compile MiB",
            "dlcc MiB", *(s + " MiB" for s in shown), "workspace MiB"]
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for row in rows:
        if row.get("failure"):
            yield f"| {cell(row['name'])} | {cell(row['failure'])} |" + " |" * (len(head) - 2)
            continue
        dlcc = ours(row, mode)
        theirs = [row["engines"].get(name, {}) for name in names]
        found = ratio(row, mode)
        ms = lambda r: number(r, "ms", ".3f") if "ms" in r else cell(r.get("failure", "-"))
        yield "| " + " | ".join([
            cell(row["name"]), ms(dlcc), number(dlcc, "p95_ms", ".3f"), *(x for r in theirs for x in (ms(r), number(r, "p95_ms", ".3f"))),
            f"{found[0]:.2f}" if found else "-", *(of_roof(row, r.get("ms"), result["roofs"]) for r in (dlcc, *theirs)),
            *([*(scaling(result["rows"], row, e) for e in ("dlcc" + mode if "dlcc" + mode in row["engines"] else "dlcc", *names)), allowed(row)]
              if several else []),
            number(dlcc, "load_s", ".1f"), f"{dlcc['compile_rss_kib'] / 1024:.0f}" if "compile_rss_kib" in dlcc else "-",
            number(dlcc, "peak_rss_mib", ".0f"), *(number(r, "peak_rss_mib", ".0f") for r in theirs),
            f"{dlcc['workspace_bytes'] / 2**20:.1f}" if "workspace_bytes" in dlcc else "-"]) + " |"
    ratios = [f[0] for f in (ratio(row, mode) for row in rows) if f]
    if ratios:
        yield ""
        yield f"Geometric mean of the ratios: {geometric_mean(ratios):.2f}; {sum(r < 1 for r in ratios)} of {len(ratios)} are below 1."


def markdown(result):
    c, rows = result["conditions"], result["rows"]
    versions = {name.split("+")[0]: r["version"] for row in rows for name, r in row["engines"].items() if "version" in r}
    yield f"# dlcc beside {' and '.join(f'{n} {v}' for n, v in sorted(versions.items())) or 'nothing'}, {c['date']}"
    yield ""
    yield f"{c['cpus']} CPUs of {c['processor']}; {c['compiler']}; commit {c['commit']}."
    yield (f"{c['rounds']} round{'s' * (c['rounds'] > 1)} of {c['seconds']} s for each engine, engines interleaved, each in a process of its own on the same "
           f"CPUs. The system's load was {c['load_before']:.1f} before and {c['load_after']:.1f} after, of {c['cpus']} CPUs. {c['note']}".rstrip())
    for n, roof in sorted(result["roofs"].items(), key=lambda item: int(item[0])):
        yield (f"Best roofs with {n} thread{'s' * (int(n) > 1)}: {roof['gflop_per_s']:.0f} GFLOP/s of f32 multiply-adds, {roof['l2_gb_per_s']:.0f} GB/s from L2, "
               f"{roof['memory_gb_per_s']:.1f} GB/s from memory.")
    yield ""
    if c["clock"] == "cpu":
        yield "Times with one thread are the processor's, of all threads of the process; p95 is by the wall clock."
    yield ("The ratio is the better peer's time by dlcc's: above 1 dlcc is faster. The percentage of the roof takes the operations that dlcc counts. "
           "Memory of peers includes Python. Symbolic dims stay symbolic in all engines. Weights of models without inputs of their own are random.")
    for n in sorted({r["threads"] for r in rows}):
        some = [r for r in rows if r["threads"] == n]
        for mode, title in measured(some):
            yield ""
            yield f"## {n} thread{'s' * (n > 1)}, {title}"
            yield ""
            if mode and not c["flushes"]:
                yield "dlcc keeps subnormals here, too: it has no option that flushes them."
                yield ""
            yield from table(result, some, mode)


def rounded(x):
    """X with its floats rounded to five digits: no measurement has more."""
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    return [rounded(v) for v in x] if isinstance(x, list) else float(f"{x:.5g}") if isinstance(x, float) else x


def write(result, stem):
    """STEM.json and STEM.md"""
    with open(stem + ".json", "w") as f:
        rest = json.dumps({k: v for k, v in result.items() if k != "rows"}, indent=1)
        f.write(rest[:-2] + ',\n "rows": [\n' + ",\n".join(json.dumps(rounded(row)) for row in result["rows"]) + "\n]}\n")
    with open(stem + ".md", "w") as f:
        f.write("\n".join(markdown(result)) + "\n")


def plot(result, stem):
    """STEM-ratios.png, a bar of the ratio for each configuration, and STEM-roofline.png, a point for each kernel."""
    try:
        import matplotlib
    except ImportError:
        print("no plots: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot
    threads = sorted({r["threads"] for r in result["rows"]})
    mode = measured(result["rows"])[-1][0]
    names = list(dict.fromkeys(r["name"] for r in result["rows"] if ratio(r, mode)))
    fig, ax = pyplot.subplots(figsize=(9, 1.5 + 0.3 * len(names)))
    for i, n in enumerate(threads):
        found = {r["name"]: ratio(r, mode)[0] for r in result["rows"] if r["threads"] == n and ratio(r, mode)}
        height = 0.8 / len(threads)
        ax.barh([k + i * height for k, name in enumerate(names) if name in found], [found[name] for name in names if name in found], height,
                label=f"{n} thread{'s' * (n > 1)}")
    ax.axvline(1, color="black", linewidth=1)
    ax.set_yticks([k + 0.4 for k in range(len(names))], names, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("the better peer's time by dlcc's: above 1 dlcc is faster")
    ax.legend()
    fig.savefig(stem + "-ratios.png", dpi=110, bbox_inches="tight")
    pyplot.close(fig)
    roofline(result, threads[0], stem + "-roofline.png", pyplot)


def roofline(result, n, path, pyplot):
    roof = result["roofs"].get(str(n))
    fig, ax = pyplot.subplots(figsize=(9, 6))
    for row in result["rows"]:
        points = [k for k in row.get("kernels", []) if k["flops"] > 0 and k["bytes"] > 0 and k["ms"] > 0]
        if row["threads"] == n and points:
            ax.scatter([k["flops"] / k["bytes"] for k in points], [k["flops"] / k["ms"] / 1e6 for k in points], s=8, label=row["name"])
    if roof:
        for key, name in ("memory_gb_per_s", "memory"), ("l2_gb_per_s", "L2"):
            at = [2 ** (i / 4) for i in range(-16, 49)]
            ax.plot(at, [min(x * roof[key], roof["gflop_per_s"]) for x in at], linewidth=1, color="black")
            ax.annotate(name, (at[0], at[0] * roof[key]), fontsize=8)
    ax.set(xscale="log", yscale="log", xlabel="operations for each byte of operands and results", ylabel="GFLOP/s",
           title=f"kernels of dlcc, {n} thread{'s' * (n > 1)}")
    ax.legend(fontsize=5, ncol=2, loc="center left", bbox_to_anchor=(1, 0.5))
    fig.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(fig)
