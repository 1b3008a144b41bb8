# SPDX-License-Identifier: Apache-2.0
"""Operators on strings, some of them together: from indices or numbers, by which strings are chosen, to what can be told of strings."""

import numpy as np
from onnx import numpy_helper

from grow import SETS
from operators.rows import row

WORDS = ("", "a", "b", "ab", "A b", "b,a", "the", "The", " x ", "1", "-2.5", "aab", "é", "日本", "a,,b", "0x")
PATTERNS = ("a*b?", "[a-z]+", ".*", "(a|b),?.*", "[^a]*", "-?[0-9.]+", "")


def words(g, shape, some=WORDS):
    """A node that gives constant strings of SHAPE, of SOME, and its result."""
    name = g.fresh("s")
    array = np.array([g.random.choice(some) for _ in range(int(np.prod(shape)))], object).reshape(shape)
    return [("Constant", [], [name], {"value": numpy_helper.from_array(array)})], name


def chosen(g, rank, some):
    """Nodes that give strings of SOME, which data choose, their name, and what they read."""
    nodes, table = words(g, (g.random.choice((1, 3, 6)),), some)
    count = len(numpy_helper.to_array(nodes[0][3]["value"]))
    sizes = [tuple(max(1, min(n, 9)) for n in g.new_sizes()) for _ in range(rank)]
    at = g.feed([g.rng.integers(-count, count, tuple(s[k] for s in sizes)).astype(np.int64) for k in range(SETS)])
    name = g.fresh("s")
    return nodes + [("Gather", [table, at.name], [name], {})], name, [at]


@row("StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch")
def strings(g, op):
    r = g.random
    some = [w for w in WORDS if w.isascii() or op != "StringNormalizer"]
    nodes, name, real = chosen(g, 1 if op == "StringNormalizer" else r.choice((0, 1, 1, 2)), some)
    outs = []
    if op == "StringNormalizer":
        normal, stop = g.fresh("s"), r.sample(some, 2) if r.random() < 0.5 else []
        attributes = dict(case_change_action=r.choice(("LOWER", "UPPER", "NONE")), is_case_sensitive=r.randrange(2), locale="C")
        nodes.append((op, [name], [normal], {**attributes, **({"stopwords": stop} if stop else {})}))
        name = normal
    if op == "StringConcat" or (r.random() < 0.4 and op != "StringNormalizer"):
        more, other = words(g, r.choice(((), (1,))))
        joined = g.fresh("s")
        nodes += more + [("StringConcat", [name, other] if r.random() < 0.5 else [other, name], [joined], {})]
        name = joined
    if op == "StringSplit":
        parts, count = g.fresh("s"), g.fresh("v")
        attributes = {"delimiter": r.choice((",", "b", " ", ""))} if r.random() < 0.7 else {}
        if attributes.get("delimiter") and r.random() < 0.5:        # without one, ONNX Runtime also cuts white space off the last part
            attributes["maxsplit"] = r.choice((1, 2))
        nodes.append((op, [name], [parts, count], attributes))
        outs.append(count)
        name = parts
    match = g.fresh("v")
    nodes.append(("RegexFullMatch", [name], [match], {"pattern": r.choice(PATTERNS)}))
    return g.group(nodes, real, outs + [match], True)


@row("TfIdfVectorizer")
def tf_idf(g, op):
    """Of integers; there are n-grams of one and of two."""
    r = g.random
    ones, twos = r.sample(range(-4, 5), 3), [r.randrange(-4, 5) for _ in range(4)]
    if twos[:2] == twos[2:]:                # ONNX Runtime counts only one of two n-grams that are alike
        twos[3] = -twos[3] or 1
    v = g.pick(types=("int64", "int32"), rank=(1, 2), least=1)
    if v is None:
        return None
    count = len(ones) + len(twos) // 2
    attributes = dict(mode=r.choice(("TF", "IDF", "TFIDF")), min_gram_length=r.choice((1, 1, 2)), max_gram_length=2, max_skip_count=r.choice((0, 1, 3)),
                      ngram_counts=[0, len(ones)], ngram_indexes=r.sample(range(count), count), pool_int64s=ones + twos)
    if r.random() < 0.5:
        attributes["weights"] = [r.choice((0.5, 1.0, 2.0)) for _ in range(count)]
    return g.node(op, [v], exact=True, **attributes)
