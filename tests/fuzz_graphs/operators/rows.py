# SPDX-License-Identifier: Apache-2.0
"""The table of rows, and what several of them need."""

import math

import numpy as np

from grow import FLOATS, INTS, SETS, TYPES

INF = math.inf
ROWS = {}
SIGNED = ("int8", "int16", "int32", "int64")
WHOLE = INTS + ("bool",)
NUMBERS = FLOATS + INTS
ANY = NUMBERS + ("bool",)


def row(*names):
    def put(function):
        for name in names:
            ROWS[name] = function
        return function
    return put


def numpy_of(v):
    return TYPES[v.type]


def scalar(g, v, x):
    return g.const(np.asarray(x, numpy_of(v)))


def axis(g, v):
    a = g.random.randrange(v.rank)
    return a - v.rank if g.random.random() < 0.4 else a


def some_axes(g, v, most=3):
    axes = g.random.sample(range(v.rank), g.random.randint(1, min(most, v.rank)))
    return [a - v.rank if g.random.random() < 0.3 else a for a in axes]


def image(g, least=1, types=("float32", "float32", "float64", "float16")):
    v = g.pick(types=types, rank=(3, 5), least=least)
    if v is None or g.random.random() < 0.3:
        sizes = [g.new_sizes()] + [(g.random.choice((1, 2, 3, 4, 6, 8, 16)),) * SETS] + [tuple(max(s, least) for s in g.new_sizes()) for _ in range(g.random.choice((1, 2, 2, 2, 3)))]
        v = g.new(g.random.choice(types), sizes) if g.count(sizes) else None
    return v
