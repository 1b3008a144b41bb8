#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The polynomials and quotients of polynomials of ir/expr/funcs.def: prints ir/expr/polys.h.

Each polynomial is the minimax one of its function on its interval, by Remez's exchange on a fine grid; quotients are nearly
so, by weighted least squares. Coefficients are rounded to the type one after another, lowest power first, and the others
fitted anew each time, so that the rounding of one is made up for by the rest.
"""
import struct
import sys

import numpy
from mpmath import asin, atan, cos, erf, erfc, exp, expm1, log, log1p, lu_solve, matrix, mp, mpf, pi, sin, sqrt

mp.dps = 50


def round_to(v, f32):
    return mpf(struct.unpack("f", struct.pack("f", float(v)))[0]) if f32 else mpf(float(v))


def remez(xs, ys, ws, powers):
    """Coefficients c with |w*(sum c_k x^k - y)| least, and that maximum."""
    n = len(powers)
    if n == 0:
        return [], max(abs(w * y) for w, y in zip(ws, ys))
    at = [round(i * (len(xs) - 1) / n) for i in range(n + 1)]
    for _ in range(40):
        a = matrix(n + 1, n + 1)
        b = matrix(n + 1, 1)
        for r, i in enumerate(at):
            for c, k in enumerate(powers):
                a[r, c] = ws[i] * xs[i] ** k
            a[r, n] = (-1) ** r
            b[r] = ws[i] * ys[i]
        sol = lu_solve(a, b)
        cs = [sol[i] for i in range(n)]
        level = abs(sol[n])
        err = [w * (sum(c * x**k for c, k in zip(cs, powers)) - y) for x, y, w in zip(xs, ys, ws)]
        # one extremum for each run of one sign
        ext = []
        for i, e in enumerate(err):
            if ext and (err[ext[-1]] > 0) == (e > 0):
                if abs(e) > abs(err[ext[-1]]):
                    ext[-1] = i
            else:
                ext.append(i)
        while len(ext) > n + 1:
            ext.pop(0 if abs(err[ext[0]]) < abs(err[ext[-1]]) else -1)
        worst = max(abs(e) for e in err)
        if len(ext) < n + 1 or worst <= level * mpf("1.001"):
            break
        at = ext
    return cs, worst


def least_squares(xs, ys, ws, powers):
    """As remez, nearly: where 0 is inside, x^k and up have a zero in common, and the exchange has no solution."""
    a = matrix(len(xs), len(powers))
    b = matrix(len(xs), 1)
    for r, (x, y, w) in enumerate(zip(xs, ys, ws)):
        for c, k in enumerate(powers):
            a[r, c] = w * x**k
        b[r] = w * y
    cs = list(lu_solve(a, b))
    return cs, None


def fit(f, lo, hi, powers, weight, f32, points=None):
    powers = list(powers)
    points = points or (6 if lo < 0 < hi else 24) * (len(powers) + 2)
    lo, hi = mpf(lo), mpf(hi)
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * (2 * i + 1) / (2 * points)) for i in range(points)]
    ys = [f(x) for x in xs]
    ws = [weight(x) for x in xs]
    done = []
    left = powers
    while left:
        cs, _ = (least_squares if lo < 0 < hi else remez)(xs, ys, ws, left)
        c = round_to(cs[0], f32)
        done.append(c)
        ys = [y - c * x ** left[0] for x, y in zip(xs, ys)]
        left = left[1:]
    return done, max(abs(w * y) for w, y in zip(ws, ys))


def value(cs, x):
    return sum(c * x**k for k, c in cs.items())


def quotient(xs, ys, ws, known, unknown):
    """Coefficients {power: c} of p and of q with |w*(p/q - y)| nearly least: those KNOWN, and those of the powers UNKNOWN. Least squares
    of p - y q, with weights by the last q and growing where the error is large (C. L. Lawson, 1961)."""
    scale = max(xs)
    basis = numpy.array([s * (xs / scale) ** k for s, ks in zip((1, -ys), unknown) for k in ks]).T
    right = ys * value(known[1], xs) - value(known[0], xs)
    q, share, least, best = 1, 1 + 0 * xs, None, None
    for _ in range(200):
        w = ws / abs(q) * share**0.5
        found = list(numpy.linalg.lstsq(basis * w[:, None], right * w, rcond=None)[0])
        cs = [cs | {k: found.pop(0) / scale**k for k in ks} for cs, ks in zip(known, unknown)]
        q = value(cs[1], xs)
        err = abs(ws * (value(cs[0], xs) / q - ys))
        if best is None or max(err) < least:
            best, least = cs, max(err)
        share *= err / max(err) + 1e-3
        share /= sum(share)
    return best


def fit_quotient(f, lo, hi, counts, weight):
    """As fit, of p/q with COUNTS coefficients, in f32. q begins with that number from 1 to 2 for which rounding p's first one matters least."""
    points = 300
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * (2 * i + 1) / (2 * points)) for i in range(points)]
    ys, ws = (numpy.array([float(g(x)) for x in xs]) for g in (f, weight))
    xs = numpy.array([float(x) for x in xs])
    first = f(mpf(lo))
    start = min((1 + mpf(i) / 4096 for i in range(4096)), key=lambda q: abs(round_to(q * first, True) / q - first))
    known = [{0: float(round_to(start * first, True))}, {0: float(start)}]
    for k in range(1, max(counts)):
        for of in (0, 1):
            if k < counts[of]:
                cs = quotient(xs, ys, ws, known, [[j for j in range(n) if j not in done] for n, done in zip(counts, known)])
                known[of][k] = float(round_to(cs[of][k], True))
    err = max(abs(ws * (value(known[0], xs) / value(known[1], xs) - ys)))
    return [list(cs.values()) for cs in known], mpf(err)


def number(c, f32):
    c = float(c)
    for digits in range(1, 18):
        s = "%.*g" % (digits, c)
        if (round_to(mpf(float(s)), True) if f32 else float(s)) == c:
            return s
    return repr(c)


def horner(cs, var, f32):
    text = number(cs[-1], f32)
    for c in reversed(cs[:-1]):
        text = "mad(%s, %s, %s)" % (text, var, number(c, f32))
    return text


def pairs(cs, var, square, f32):
    """As horner, with half as many multiply-adds in a row: of pairs of terms over SQUARE, which is VAR^2."""
    two = [horner(cs[i:i + 2], var, f32) for i in range(0, len(cs), 2)]
    text = two[-1]
    for pair in reversed(two[:-1]):
        text = "mad(%s, %s, %s)" % (text, square, pair)
    return text


def near(f, series):
    """F away from 0, the first terms of its series next to it."""
    return lambda x: f(x) if abs(x) > mpf("1e-4") else series(x)


LN2_2 = log(2) / 2
ERF_RATIO = near(lambda z: erf(sqrt(z)) / sqrt(z) - 1, lambda z: 2 / sqrt(pi) * (1 - z / 3 + z**2 / 10 - z**3 / 42 + z**4 / 216) - 1)
TANH_RATIO = near(lambda z: mp.tanh(sqrt(z)) / sqrt(z), lambda z: 1 - z / 3 + 2 * z**2 / 15 - 17 * z**3 / 315)
POLYS = [
    # name, variable and, where it is at hand, its square, function, interval, number of coefficients (f32, f64; of a quotient, two),
    # weight of the error, comment
    ("EXP", "r w", near(lambda r: (expm1(r) - r) / r**2, lambda r: mpf(1) / 2 + r / 6 + r**2 / 24 + r**3 / 120),
     -LN2_2 - mpf("1e-3"), LN2_2 + mpf("1e-3"), (5, 10), lambda r: r**2 + mpf(1) / 100, "(e^r - 1 - r) / r^2"),
    ("EXP2", "r", near(lambda r: expm1(r * log(2)) / r, lambda r: sum(log(2)**k * r**(k - 1) / mp.factorial(k) for k in range(1, 6))),
     -0.5, 0.5, (7, 12), lambda r: abs(r) + mpf(1) / 20, "(2^r - 1) / r"),
    ("LOG", "f", near(lambda f: (log1p(f) - f + f**2 / 2) / f**3, lambda f: mpf(1) / 3 - f / 4 + f**2 / 5 - f**3 / 6),
     sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1, (9, 0), lambda f: f**2, "(log(1 + f) - f + f^2/2) / f^3"),
    ("LOGS", "z", near(lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) - 2 * sqrt(z)) / sqrt(z) / z,
                       lambda z: mpf(2) / 3 + 2 * z / 5 + 2 * z**2 / 7 + 2 * z**3 / 9),
     0, mpf("0.02945"), (0, 7), lambda z: z, "(log((1+s)/(1-s)) - 2s) / s^3 over z = s^2"),
    ("LOGS5", "z", near(lambda z: ((log((1 + sqrt(z)) / (1 - sqrt(z))) - 2 * sqrt(z)) / sqrt(z) / z - mpf(2) / 3) / z,
                       lambda z: mpf(2) / 5 + 2 * z / 7 + 2 * z**2 / 9 + 2 * z**3 / 11),
     0, mpf("0.02945"), (0, 8), lambda z: z**2, "(log((1+s)/(1-s)) - 2s - 2s^3/3) / s^5 over z = s^2"),
    ("SIN", "z", near(lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, lambda z: -mpf(1) / 6 + z / 120 - z**2 / 5040 + z**3 / 362880),
     0, (pi / 4 + mpf("1e-3"))**2, (0, 7), lambda z: z, "(sin(y) - y) / y^3 over z = y^2"),
    ("COS", "z", near(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, lambda z: mpf(1) / 24 - z / 720 + z**2 / 40320 - z**3 / 3628800),
     0, (pi / 4 + mpf("1e-3"))**2, (0, 6), lambda z: z**2, "(cos(y) - 1 + y^2/2) / y^4 over z = y^2"),
    ("SINF", "z", near(lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, lambda z: -mpf(1) / 6 + z / 120 - z**2 / 5040 + z**3 / 362880),
     0, (pi / 4 + mpf("1e-3"))**2, (0, 4), lambda z: z, "the same to f32's precision"),
    ("COSF", "z", near(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, lambda z: mpf(1) / 24 - z / 720 + z**2 / 40320 - z**3 / 3628800),
     0, (pi / 4 + mpf("1e-3"))**2, (0, 4), lambda z: z**2, "the same to f32's precision"),
    ("ASIN", "z", near(lambda z: (asin(sqrt(z)) / sqrt(z) - 1) / z, lambda z: mpf(1) / 6 + 3 * z / 40 + 15 * z**2 / 336 + 105 * z**3 / 3456),
     0, 0.25, (0, 13), lambda z: z, "(asin(x) - x) / x^3 over z = x^2"),
    ("ATAN", "z", near(lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, lambda z: -mpf(1) / 3 + z / 5 - z**2 / 7 + z**3 / 9),
     0, mpf("0.1718"), (0, 11), lambda z: z, "(atan(x) - x) / x^3 over z = x^2"),
    ("TANH", "z", lambda z: TANH_RATIO(z) - mpf(1) / 8, 0, mpf("9.02")**2, ((6, 5), 0), lambda z: 1 / TANH_RATIO(z), "tanh(x)/x - 1/8 over z = x^2"),
    ("ERF", "z", lambda z: ERF_RATIO(z) + mpf(3) / 4, 0, mpf("3.925")**2, ((6, 6), 0), lambda z: 1 / (1 + ERF_RATIO(z)), "erf(x)/x - 1/4 over z = x^2"),
    ("ERF", "z", ERF_RATIO, 0, mpf("0.8505"), (0, 13), lambda z: mpf(1), "erf(x)/x - 1 over z = x^2"),
    ("ERFCX", "t", lambda t: erfc(4 * (1 + t) / (1 - t)) * exp((4 * (1 + t) / (1 - t))**2) * (1 + 8 * (1 + t) / (1 - t)),
     (mpf("0.92") - 4) / (mpf("0.92") + 4), mpf(2) / 10, (0, 15), lambda t: erfc(4 * (1 + t) / (1 - t)) + mpf("1e-4"),
     "erfc(a) e^(a^2) (1 + 2a) over t = (a - 4) / (a + 4)"),
]


def two_over_pi():
    """2/pi in pieces: of 29 bits, whose products with an f32 are exact, and words of 64 bits."""
    bits = int(mp.floor(2 / pi * mpf(2) ** (64 * 19)))
    print("/* 2/pi in pieces of 29 bits, and as words of 64 bits after the point */")
    for i in range(7):
        piece = bits >> (64 * 19 - 29 * (i + 1)) & (1 << 29) - 1
        print('#define TWO_OVER_PI_%d "%s"' % (i, (float(piece) * 2.0 ** (-29 * (i + 1))).hex()))
    for i in range(19):
        print('#define TWO_OVER_PI_W%d "0x%016x"' % (i + 1, bits >> 64 * (18 - i) & (1 << 64) - 1))


def main():
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Minimax polynomials for ir/expr/funcs.def, made by tests/numerics/fit.py; errors are relative. */")
    mp.dps = 400
    two_over_pi()
    mp.dps = 50
    for name, var, f, lo, hi, counts, weight, comment in POLYS:
        for f32, n in ((True, counts[0]), (False, counts[1])):
            if n == 0:
                continue
            if isinstance(n, tuple):
                cs, err = fit_quotient(f, lo, hi, n, weight)
            else:
                cs, err = fit(f, lo, hi, range(n), weight, f32)
            print("/* %s for %s in [%s, %s], error %s */" % (comment, var.split()[0], mp.nstr(mpf(lo), 5), mp.nstr(mpf(hi), 5), mp.nstr(err, 2)))
            x, *square = var.split()
            if isinstance(n, tuple):
                text = "div(%s, %s)" % tuple(horner(c, x, f32) for c in cs)
            else:
                text = pairs(cs, x, *square, f32) if square else horner(cs, x, f32)
            print('#define %s_F%d "%s"' % (name, 32 if f32 else 64, text))
            sys.stdout.flush()
            print("%s f%d error 2^%s" % (name, 32 if f32 else 64, mp.nstr(log(err, 2), 4)), file=sys.stderr)


main()
