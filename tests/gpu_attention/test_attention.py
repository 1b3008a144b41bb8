# SPDX-License-Identifier: Apache-2.0
"""Attention on the simulated GPU beside NumPy in f64. Batch, rows and keys are symbolic, so that one artifact of each form runs at sizes
around the tiles, with few rows and with many. Each form must be one kernel for each attention, by the decision that --dump-ir=decide prints."""

import os
import re
import subprocess
import sys

import numpy as np
import onnx
from ml_dtypes import bfloat16

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

BUILD, DIR, *ONLY = sys.argv[1:]
TYPES = {"f32": ("float", np.float32, 2e-5), "tf32": ("float", np.float32, 4e-3), "f16": ("float16", np.float16, 6e-3), "bf16": ("bfloat16", bfloat16, 4e-2), "f32 as f16": ("float", np.float32, 6e-3), "f32 as bf16": ("float", np.float32, 4e-2)}
SIZES = ((1, 9, 1), (2, 16, 17), (1, 31, 64), (1, 33, 65), (1, 64, 130), (1, 65, 31), (1, 130, 129), (1, 1, 300), (2, 3, 130),
         (1, 40, 0), (1, 9, 0), (1, 0, 7), (2, 0, 70))  # batch, rows, keys
SELF = tuple((1, n, n) for n in (1, 2, 15, 17, 63, 64, 65, 127, 129, 130))  # self-attention: rows are keys, of any number
failed = passed = 0


def report(name, fault):
    global failed, passed
    failed += fault is not None
    passed += fault is None
    if fault is not None:
        print(f"{name}: {fault}")


def run(*command):
    r = subprocess.run(command, capture_output=True, text=True, timeout=samples.limit(300), env=samples.simulated(BUILD), cwd=DIR)
    return None if r.returncode == 0 else f"{' '.join(command)}: {(r.stdout + r.stderr)[-800:]}", r.stdout


class Form:
    """A form of attention: the text of the scores' changes, from s0 to s, and the same in NumPy; inputs beside q, k and v; query heads
    that share keys and values."""

    def __init__(self, name, text="s = Identity(s0)", change=lambda s, x: s, extra=None, group=1, sink=False, kt=False, rows=SIZES, heads=2, nan=False):
        self.name, self.text, self.change, self.extra, self.group, self.sink, self.kt, self.rows, self.heads, self.nan = name, text, change, extra or {}, group, sink, kt, rows, heads, nan


def position(shape):
    return np.arange(shape[-2])[:, None], np.arange(shape[-1])[None, :]


def hide(s, hidden):
    return np.where(hidden, -np.inf, s)


def some_hidden(r, b, m, n):
    x = np.where(r.random((b, 1, m, n)) < 0.3, -np.inf, r.standard_normal((b, 1, m, n)))
    x[..., :1] = 0  # no row is hidden as a whole
    return x


def far_below(r, b, m, n):
    """A mask that floats hold, or of f16 -inf, of the first keys: all of a block of them."""
    return np.where(np.arange(n) < 2 * n // 3, -1e10, r.standard_normal((b, 1, m, n)))


def hide_rows(r, b, m, n):
    x = some_hidden(r, b, m, n)
    x[:, :, 1::2] = -np.inf
    return x


def moved(x, axis):
    """X after 4 zeros along AXIS, as long as before."""
    pads = [(0, 0)] * x.ndim
    pads[axis] = (4, 0)
    return np.pad(x, pads)[tuple(slice(n) for n in x.shape)]


POSITIONS = """ ms = Shape<start=2, end=3>(q)  ns = Shape<start=3, end=4>(s0)  m1 = Squeeze(ms)  n1 = Squeeze(ns)
  zero = Constant<value_int=0>()  one = Constant<value_int=1>()  mi = Range(zero, m1, one)  ni = Range(zero, n1, one)
  ax = Constant<value_ints=[1]>()  mc = Unsqueeze(mi, ax) """
LOW = " low0 = Constant<value_float=-inf>()  low = CastLike(low0, q) "
FORMS = [
    Form("plain"),
    Form("transposed keys", kt=True),
    Form("scale", "c0 = Constant<value_float=0.25>()  c = CastLike(c0, q)  s = Mul(s0, c)", lambda s, x: s * 0.25),
    Form("mask", "s = Add(s0, mask)", lambda s, x: s + x["mask"], {"mask": ("T", "[B,1,M,N]", some_hidden)}),
    Form("finite mask", "s = Add(s0, mask)", lambda s, x: s + x["mask"], {"mask": ("T", "[B,1,M,N]", far_below)}),
    Form("where", LOW + "s = Where(keep, s0, low)", lambda s, x: hide(s, ~x["keep"]), {"keep": ("bool", "[B,1,1,N]", lambda r, b, m, n: np.arange(n) % 3 != 1)}),
    Form("causal", POSITIONS + LOW + "a = GreaterOrEqual(mc, ni)  s = Where(a, s0, low)", lambda s, x: hide(s, position(s.shape)[0] < position(s.shape)[1])),
    Form("window", POSITIONS + LOW + "w = Constant<value_int=20>()  d = Sub(mc, ni)  d1 = Abs(d)  a = LessOrEqual(d1, w)  s = Where(a, s0, low)",
         lambda s, x: hide(s, abs(position(s.shape)[0] - position(s.shape)[1]) > 20), rows=[x for x in SIZES if x[1] < x[2] + 20]),
    Form("soft cap", "c0 = Constant<value_float=3.0>()  c = CastLike(c0, q)  d = Div(s0, c)  t = Tanh(d)  s = Mul(t, c)", lambda s, x: 3 * np.tanh(s / 3)),
    Form("grouped heads", group=4, heads=1),
    Form("sink", sink=True),
    Form("NaN becomes 0", "s = Add(s0, mask)", lambda s, x: s + x["mask"], {"mask": ("T", "[B,1,M,N]", hide_rows)}, nan=True),
    Form("moved keys", "pads = Constant<value_ints=[0,0,0,4,0,0,0,-4]>()  far = Pad(mask, pads)  s = Add(s0, far)", lambda s, x: s + moved(x["mask"], 3),
         {"mask": ("T", "[B,1,1,N]", lambda r, b, m, n: r.standard_normal((b, 1, 1, n)))}, rows=SIZES + ((1, 9, 3), (1, 1, 4), (1, 70, 2))),
    Form("moved rows", "pads = Constant<value_ints=[0,0,4,0,0,0,-4,0]>()  far = Pad(mask, pads)  s = Add(s0, far)", lambda s, x: s + moved(x["mask"], 2),
         {"mask": ("T", "[B,1,M,N]", lambda r, b, m, n: r.standard_normal((b, 1, m, n)))}, rows=SIZES + ((1, 1, 5), (1, 3, 37))),
    Form("self", rows=SELF),
]


def text_of(form, kind, d, e):
    t, h = TYPES[kind][0], form.heads * form.group
    if form.rows is SELF:
        return text_of(FORMS[0], kind, d, e).replace("N,", "M,")
    keys = f"{d},N" if form.kt else f"N,{d}"
    args = f"{t}[B,{h},M,{d}] q, {t}[B,{form.heads},{keys}] k, {t}[B,{form.heads},N,{e}] v"
    for name, (kind_of, shape, _) in form.extra.items():
        args += f", {t if kind_of == 'T' else kind_of}{shape.replace('B,', '' if name == 'keep' else 'B,').replace('[1,1,N]', '[N]')} {name}"
    if form.sink:
        args += f", {t}[1,{h},1,1] sink"
    body = "kk = Identity(k)  vv = Identity(v) "
    if form.group > 1:  # query head i reads key head i / group
        body = f"""five = Constant<value_ints=[0,{form.heads},1,-1,{d}]>()  k5 = Reshape(k, five)  six = Constant<value_ints=[1,1,{form.group},1,1]>()
          kr = Expand(k5, six)  four = Constant<value_ints=[0,{h},-1,{d}]>()  kk = Reshape(kr, four)
          fv = Constant<value_ints=[0,{form.heads},1,-1,{e}]>()  v5 = Reshape(v, fv)  vr = Expand(v5, six)  fo = Constant<value_ints=[0,{h},-1,{e}]>()  vv = Reshape(vr, fo) """
    body += ("kt = Identity(kk) " if form.kt else "kt = Transpose<perm=[0,1,3,2]>(kk) ") + f"s0 = MatMul(q, kt)  {form.text} "
    if form.sink:  # the sink takes part in the softmax, and has no value
        body += """m0 = ReduceMax<keepdims=1>(s, last)  m = Max(m0, sink)  x0 = Sub(s, m)  p0 = Exp(x0)  t0 = ReduceSum<keepdims=1>(p0, last)
          y0 = Sub(sink, m)  y1 = Exp(y0)  t1 = Add(t0, y1)  p = Div(p0, t1) """
    else:
        body += "p = Softmax<axis=-1>(s) "
    if form.nan:
        body = body.replace("p = Softmax", "p0 = Softmax") + "bad = IsNaN(p0)  no0 = Constant<value_float=0.0>()  no = CastLike(no0, q)  p = Where(bad, no, p0) "
    return f"a ({args}) => ({t}[B,{h},M,{e}] y) <int64[1] last = {{3}}> {{ {body} y = MatMul(p, vv) }}"


def reference(form, x):
    k, v = (np.repeat(x[n].astype("f8"), form.group, 1) for n in "kv")
    s = x["q"].astype("f8") @ (k if form.kt else k.swapaxes(2, 3))
    s = form.change(s, x)
    m = s.max(-1, keepdims=True, initial=-np.inf)
    if form.nan:
        m = np.maximum(m, -1e30)
    if form.sink:
        m = np.maximum(m, x["sink"].astype("f8"))
    p = np.exp(s - m)
    total = p.sum(-1, keepdims=True) + (np.exp(x["sink"].astype("f8") - m) if form.sink else 0)
    return p / np.where(total == 0, 1, total) @ v


def compiled(name, form, kind, d, e, target, *options):
    """The artifact, and the decisions for it."""
    model = samples.model(text_of(form, kind, d, e))
    onnx.save(model, f"{DIR}/{name}.onnx")
    flags = [*samples.unoptimised(), f"--target=cuda:{target}", *(["--tf32"] if kind == "tf32" else []), *([f"--activations-as={kind[7:]}"] if " as " in kind else []), *options]
    fault, text = run(f"{BUILD}/bin/dlcc", f"{name}.onnx", "--dump-ir=decide", *flags)
    decided = [line for line in text.splitlines() if f" {target}: attention mma" in line]
    if fault or len(decided) != 1:
        return fault or f"{len(decided)} attentions in one kernel", None
    fault, _ = run(f"{BUILD}/bin/dlcc", f"{name}.onnx", "-o", f"{name}.so", "--verify", "-Wno-unproved", *flags)
    return fault, decided[0]


def inputs(form, kind, d, e, b, m, n, r):
    t, h = TYPES[kind][1], form.heads * form.group
    x = {"q": r.standard_normal((b, h, m, d)), "k": r.standard_normal((b, form.heads, *((d, n) if form.kt else (n, d)))), "v": r.standard_normal((b, form.heads, n, e))}
    x = {name: v.astype(t) for name, v in x.items()}
    for name, (kind_of, _, make) in form.extra.items():
        with np.errstate(over="ignore"):
            x[name] = make(r, b, m, n).astype(t if kind_of == "T" else kind_of)
    if form.sink:
        x["sink"] = r.standard_normal((1, h, 1, 1)).astype(t)
    return x


def compare(name, form, kind, d, e, sizes):
    for b, m, n in sizes:
        x = inputs(form, kind, d, e, b, m, n, np.random.default_rng(m * n))
        for v, a in x.items():
            samples.tensor(f"{DIR}/{v}.pb", a, v)
        args = [a for v in x for a in ("-i", f"{v}={v}.pb")]
        fault, _ = run(f"{BUILD}/bin/dlrun", f"./{name}.so", "--device=cuda", "-o", "out", *args)
        if fault:
            return fault
        got, want = np.load(f"{DIR}/out/y.npy").view(TYPES[kind][1]).astype("f8"), reference(form, x)
        off = np.abs(got - want).max(initial=0) / (np.abs(want).max(initial=0) or 1)
        if not off <= TYPES[kind][2]:
            return f"{b} batches of {m} rows and {n} keys: off by {off:.2g} of the largest value, more than {TYPES[kind][2]}"
    return None


def test(form, kind, d, e, target="sm_80", sizes=None):
    name = re.sub(r"\W", "_", f"{form.name}_{kind}_{d}_{e}_{target}")
    if ONLY and not any(o in name for o in ONLY):
        return
    fault, _ = compiled(name, form, kind, d, e, target)
    report(name, fault or compare(name, form, kind, d, e, sizes or form.rows))


def test_edited(kind, target, change):
    """A decision that a user edits, by pairs of texts."""
    name = re.sub(r"\W", "_", f"edited_{kind}_{target}_{'_'.join(new for _, new in change)}")
    if ONLY and not any(o in name for o in ONLY):
        return
    fault, line = compiled(name, FORMS[0], kind, 64, 64, target)
    line = re.sub(" few [^;]*", "  ", line or "")
    for old, new in change:
        edited = re.sub(old, new, line)
        fault = fault or (f"the decision has no {old}: {line}" if edited == line and not re.search(new, line) else None)
        line = edited
    with open(f"{DIR}/{name}.schedule", "w") as f:
        f.write(line + "\n")
    fault = fault or compiled(name, FORMS[0], kind, 64, 64, target, f"--schedule={name}.schedule")[0]
    report(name, fault or compare(name, FORMS[0], kind, 64, 64, SIZES[3:5]))


CASES = []


def case(function, *arguments, **named):
    CASES.append(lambda: function(*arguments, **named))


for f in FORMS:
    for k in ("f16", "f32"):
        if k == "f32" or not f.sink:  # in f16, the exponent of such a softmax is rounded, so its factors are not exact
            case(test, f, k, 32, 32)
for k in ("tf32", "bf16"):
    for f in (FORMS[0], FORMS[1], FORMS[3], FORMS[9]):
        case(test, f, k, 32, 32, sizes=SIZES[4:5] + SIZES[7:])
for widths in ((16, 16), (40, 72), (33, 17), (64, 128), (128, 64), (5, 3)):
    for k in ("f32", "tf32", "f16", "bf16"):
        case(test, FORMS[0], k, *widths, sizes=SIZES[3:4] + SIZES[8:])
for k in ("f32 as f16", "f32 as bf16"):
    case(test, FORMS[3], k, 64, 64, sizes=SIZES[4:5] + SIZES[7:])
case(test, FORMS[0], "f16", 64, 64, "sm_75", SIZES[3:4])
case(test, FORMS[0], "f32", 64, 64, "sm_75", SIZES[3:4])
for k in ("f16", "tf32", "f32"):
    for edit in ([("warp[0-9]+", "warp1"), ("kv loop reg[0-9]+", "kv loop reg2")], [("warp[0-9]+", "warp3"), ("q grid warp3 reg[0-9]+", "q grid warp3 reg1"), (r"\*2", "*3"), ("kv loop reg[0-9]+", "kv loop reg4")],
                 [(r"\*2", ""), ("async", "shared")], [("warp[0-9]+ reg[0-9]+", "warp2 reg2"), ("kv loop reg[0-9]+", "kv loop reg4")]):
        case(test_edited, k, "sm_80", edit)
for run_case in CASES if ONLY else samples.share(CASES, 10):
    run_case()
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
