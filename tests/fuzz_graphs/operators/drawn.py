# SPDX-License-Identifier: Apache-2.0
"""How random operators are put into a random graph (see operators/).

Their numbers are dlcc's own (tests/random/ has them), so what follows them is the same for all numbers that they may draw: for each of
them, or for the mean of many, six standard deviations from where it would change. Beside the graph, a stand-in of such numbers is computed."""

import numpy as np

from grow import CODES, SETS, TYPES
from operators.rows import row, scalar

REAL = ("float32", "float32", "float64", "float16", "bfloat16")
MANY = 4096                                                  # numbers of which a mean is taken: of SPREAD 1, it is within 0.1


def seeded(g):
    return {"seed": float(g.random.randrange(9))} if g.random.random() < 0.8 else {}


def filled(shapes, type, values):
    """Computes arrays of SHAPES, by data set, that have VALUES by turns. The data sets come in their order, twice."""
    def make():
        turn = iter(shapes + shapes)
        return lambda feed: [np.resize(np.array(values, TYPES[type]), next(turn))]
    return make


def draw(g, op, values, many, **attributes):
    """A node OP, or its form Like, for which VALUES by turns stand in; of an even number of elements, MANY or few."""
    type = g.random.choice(REAL[:4] if many else REAL)
    sizes = [tuple(max(1, n) for n in g.new_sizes()) for _ in range(g.random.choice((0, 1, 2)))]
    sizes += [(2 * MANY,) * SETS if many else (2,) * SETS] if g.random.random() < 0.7 or many else []
    if any(np.prod([s[k] for s in sizes], dtype=int) > 16 * MANY for k in range(SETS)):
        return None
    shapes = [tuple(s[k] for s in sizes) for k in range(SETS)]
    if op.endswith("Like"):
        given = TYPES[g.random.choice((type, "float32"))]
        like = g.feed([np.zeros(s, given) for s in shapes])
        attributes.update({"dtype": CODES[type]} if like.type != type or g.random.random() < 0.5 else {})
        return g.node(op, [like], exact=True, keep=False, run=filled(shapes, type, values), **attributes, **seeded(g))
    if len(set(shapes)) > 1:
        return None
    return g.node(op, [], exact=True, keep=False, run=filled(shapes, type, values), shape=list(shapes[0]), dtype=CODES[type], **attributes, **seeded(g))


def mean(g, v, times):
    """The mean of V, TIMES as much, as a whole number."""
    m = g.node("ReduceMean", [v], exact=True, keep=False, keepdims=g.random.randrange(2)) if v else None
    m = g.node("Mul", [m, scalar(g, m, times)], exact=True, keep=False) if m else None
    return g.node("Round", [m], exact=True) if m else None


@row("RandomUniform", "RandomUniformLike")
def uniform(g, op):
    if g.random.random() < 0.4:
        return mean(g, draw(g, op, [0.5], True), 4)
    low = g.random.choice((-3, 0, 2))
    v = draw(g, op, [low + 0.5], False, low=low + 0.25, high=low + 0.75)
    kind = g.random.choice(("Floor", "Ceil", "Less"))
    return v and (g.node("Less", [v, scalar(g, v, low + 1)], exact=True) if kind == "Less" else g.node(kind, [v], exact=True))


@row("RandomNormal", "RandomNormalLike")
def normal(g, op):
    kind = g.random.choice(("sign", "mean", "variance"))
    if kind == "sign":
        centre = g.random.choice((-16.0, 16.0))
        v = draw(g, op, [centre], False, mean=centre, scale=1.0)
        return g.node("Sign", [v], exact=True) if v else None
    v = draw(g, op, [1, -1], True)
    return mean(g, g.node("Mul", [v, v], exact=True, keep=False) if v and kind == "variance" else v, 1)


@row("Bernoulli")
def bernoulli(g, op):
    """Of probabilities 0 and 1, or the mean of many."""
    attributes = seeded(g)
    if g.random.random() < 0.5:
        odds = g.feed([np.full((2, MANY), 0.5, np.float32)] * SETS)
        return mean(g, g.node(op, [odds], exact=True, keep=False, run=filled([(2, MANY)] * SETS, "float32", [0, 1]), **attributes), 4)
    v = g.pick(types=("bool",))
    odds = g.node("Cast", [v], exact=True, keep=False, to=CODES[g.random.choice(REAL[:4])]) if v else None
    if odds is None:
        return None
    type = g.random.choice((odds.type, odds.type, "int32", "bool", "uint8", "float64"))
    if type != odds.type:
        attributes["dtype"] = CODES[type]
    return g.node(op, [odds], exact=True, run=lambda: lambda feed: [feed[odds.name].astype(TYPES[type])], **attributes)


@row("Multinomial")
def multinomial(g, op):
    """Of classes one of which has all probability, or the mean of many of two."""
    r = g.random
    attributes = {**seeded(g), **({"dtype": CODES["int64"]} if r.random() < 0.5 else {})}
    type = "int64" if "dtype" in attributes else "int32"
    if r.random() < 0.4:
        odds = g.feed([np.full((1, 2), r.choice((-1.0, 0.0)), np.float32)] * SETS)
        v = g.node(op, [odds], exact=True, keep=False, run=filled([(1, MANY)] * SETS, type, [0, 1]), sample_size=MANY, **attributes)
        return mean(g, g.node("Cast", [v], exact=True, keep=False, to=CODES["float32"]) if v else None, 4)
    classes, count, batch = r.choice((1, 2, 7)), r.choice((1, 3, 20)), g.new_sizes()
    likely = [g.rng.integers(0, classes, b) for b in batch]
    odds = g.feed([np.where(np.arange(classes) == a[:, None], 0, -90).astype(r.choice((np.float32,))) for a in likely])
    return g.node(op, [odds], exact=True, sample_size=count, **attributes, run=lambda: lambda feed: [
        np.repeat(feed[odds.name].argmax(1)[:, None] if feed[odds.name].size else np.zeros((0, 1)), count, 1).astype(TYPES[type])])
