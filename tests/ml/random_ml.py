# SPDX-License-Identifier: Apache-2.0
"""Random cases of the operators of ai.onnx.ml, as tests/ops/random_ops.py makes them of others: random_ml.py FOLDER SEED COUNT

What ONNX Runtime computes is expected. Where it departs from the standard there is no case: a single score with post_transform, several
votes of one leaf for the only target, votes for both of two classes, base values for targets without a vote, and in TreeEnsemble SOFTMAX
and LOGISTIC, whose numbers it exchanges."""

import os
import random
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

FOLDER, SEED, COUNT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
pick = random.Random(SEED)
rng = np.random.default_rng(SEED)
made = 0
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER"]
POSTS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]


def coin(p=0.5):
    return pick.random() < p


def real(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def floats(n, scale=1.0):
    return [float(v) for v in (rng.standard_normal(n) * scale).astype(np.float32)]


def grid(*shape, dtype=np.float32):
    """Halves, so that features are often equal to thresholds."""
    return (rng.integers(-4, 5, shape) / 2).astype(dtype)


def tensor(name, values, dtype):
    return helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [len(values)], np.asarray(values, dtype))


def case(op, inputs, attrs, results=1, opset=3):
    global made
    names, outs = [f"i{k}" for k in range(len(inputs))], [f"o{k}" for k in range(results)]
    symbolic = coin()

    def info(name, a, symbolic):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype),
                                             [f"{name}_{d}" for d in range(a.ndim)] if symbolic else a.shape)

    def model(outputs):
        graph = helper.make_graph([helper.make_node(op, names, outs, name=op, domain="ai.onnx.ml", **attrs)], "g",
                                  [info(n, a, symbolic) for n, a in zip(names, inputs)], outputs)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", opset)], ir_version=10)

    options = ort.SessionOptions()
    options.log_severity_level = 4
    feeds = dict(zip(names, inputs))
    try:
        session = ort.InferenceSession(model([helper.make_empty_tensor_value_info(o) for o in outs]).SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
    except ort.capi.onnxruntime_pybind11_state.NotImplemented:   # of these element types
        return
    want = session.run(None, feeds)
    made += 1
    data = f"{FOLDER}/{made:04}_{op}/test_data_set_0"
    samples.tensors(data, "input", feeds)
    samples.tensors(data, "output", dict(zip(outs, want)))
    onnx.save(model([info(o, a, True) for o, a in zip(outs, want)]), f"{FOLDER}/{made:04}_{op}/model.onnx")


# ---- Trees ----

def grown(features, modes):
    """A random tree: its inner nodes as [feature, threshold, mode, NaN goes to the true side, true, false], and how many leaves it has.
    A child below 0 is leaf -1 - child."""
    nodes, leaves = [], 0
    deep = coin(0.1)

    def grow(depth):
        nonlocal leaves
        if not coin(0.97 if deep else 0.85 ** depth) or depth > (45 if deep else 7):
            leaves += 1
            return -leaves
        at = len(nodes)
        nodes.append([pick.randrange(features), float(grid(1)[0]), pick.choice(modes), coin(0.3), None, None])
        first = pick.randrange(2)   # in a deep tree one of the children is a leaf
        for k in (0, 1):
            nodes[at][4 + k] = grow(99 if deep and k == first else depth + 1)
        return at

    root = grow(0)
    return nodes, leaves, root


def rows(features, dtype):
    x = grid(pick.choice((1, 3, 17)), features, dtype=dtype)
    if np.issubdtype(dtype, np.floating):
        x[rng.random(x.shape) < 0.1] = np.nan
        x[rng.random(x.shape) < 0.05] = np.inf
    return x


def forest():
    features = pick.randint(1, 9)
    modes = MODES[:6] if coin() else [pick.choice(MODES[:6])]
    return features, [grown(features, modes) for _ in range(pick.choice((1, 2, 5, 20)))], coin()


def node_attributes(trees, tracks, kind, dtype):
    """The attributes of TreeEnsembleRegressor, and of each tree the ids of its leaves."""
    a = {f"nodes_{k}": [] for k in ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")}
    value, nan, leaf_ids = [], [], []
    for t, (nodes, leaves, _) in enumerate(trees):
        def at(k):
            return k if k >= 0 else len(nodes) - 1 - k
        for i, (feature, threshold, mode, track, yes, no) in enumerate(nodes + [[0, 0.0, "LEAF", False, 0, 0]] * leaves):
            inner = mode != "LEAF"
            for name, v in (("treeids", t), ("nodeids", i), ("featureids", feature), ("modes", mode),
                            ("truenodeids", at(yes) if inner else 0), ("falsenodeids", at(no) if inner else 0)):
                a["nodes_" + name].append(v)
            value.append(threshold)
            nan.append(int(track))
        leaf_ids.append([len(nodes) + k for k in range(leaves)])
    a.update({"nodes_values_as_tensor": tensor("v", value, dtype)} if kind == "tensor" else {"nodes_values": value})
    if tracks:
        a["nodes_missing_value_tracks_true"] = nan
    return a, leaf_ids


def votes(prefix, leaf_ids, target_of, dtype, scale=1.0, positive=False):
    """Each leaf's votes: TARGET_OF gives the targets of a leaf of tree T."""
    ids = [(t, leaf, c) for t, leaves in enumerate(leaf_ids) for leaf in leaves for c in target_of(t)]
    w = [abs(v) if positive else v for v in floats(len(ids), scale / len(leaf_ids))]
    a = {f"{prefix}_treeids": [i[0] for i in ids], f"{prefix}_nodeids": [i[1] for i in ids], f"{prefix}_ids": [i[2] for i in ids]}
    a.update({f"{prefix}_weights_as_tensor": tensor("w", w, dtype)} if dtype == np.float64 else {f"{prefix}_weights": w})
    return a


def some_targets(targets):
    """Which targets a tree's leaves vote for: all, one for each tree, or some."""
    kind = pick.choice(("all", "tree", "some"))
    return {"all": lambda t: range(targets), "tree": lambda t: [t % targets],
            "some": lambda t: pick.sample(range(targets), pick.randint(0 if targets > 1 else 1, targets))}[kind], kind


def regressor():
    features, trees, tracks = forest()
    dtype = pick.choice((np.float32, np.float32, np.float64, np.int64, np.int32))
    wide = dtype == np.float64
    targets = pick.choice((1, 1, 2, 5))
    a, leaf_ids = node_attributes(trees, tracks, "tensor" if wide else "list", dtype if wide else np.float32)
    which, kind = some_targets(targets)
    a.update(votes("target", leaf_ids, which, np.float64 if wide else np.float32))
    if kind == "all" and coin():
        a.update({"base_values_as_tensor": tensor("b", floats(targets), np.float64)} if wide else {"base_values": floats(targets)})
    post = pick.choice(POSTS) if targets > 1 else "NONE"
    case("TreeEnsembleRegressor", [rows(features, dtype)],
         dict(n_targets=targets, aggregate_function=pick.choice(("SUM", "SUM", "AVERAGE", "MIN", "MAX")), post_transform=post, **a))


def classifier():
    features, trees, tracks = forest()
    dtype = pick.choice((np.float32, np.float32, np.float64, np.int64, np.int32))
    wide = dtype == np.float64
    classes = pick.choice((1, 2, 2, 3, 6))
    a, leaf_ids = node_attributes(trees, tracks, "tensor" if wide else "list", dtype if wide else np.float32)
    only = pick.randrange(2)
    which, kind = (lambda t: [only], "only") if classes == 2 else some_targets(classes)
    a.update(votes("class", leaf_ids, which, np.float64 if wide else np.float32, positive=coin()))
    base = 1 if classes == 2 and only == 0 or classes == 1 else classes if kind == "all" and classes > 2 else 0
    if base and coin():
        a.update({"base_values_as_tensor": tensor("b", floats(base), np.float64)} if wide else {"base_values": floats(base)})
    labels = list(range(classes)) if coin() else pick.sample(range(-50, 50), classes)
    if classes == 1:
        labels = [1]
    case("TreeEnsembleClassifier", [rows(features, dtype)], dict(classlabels_int64s=labels, post_transform=pick.choice(POSTS), **a), 2)


def ensemble():
    """TreeEnsemble: nodes of all trees in one list, leaves in another."""
    features = pick.randint(1, 9)
    modes = MODES if coin() else MODES[:6]
    trees = [grown(features, modes) for _ in range(pick.choice((1, 2, 5, 20)))]
    trees = [t for t in trees if t[0]]
    if not trees:
        return
    dtype = pick.choice((np.float32, np.float64))
    targets = pick.choice((1, 1, 3))
    nodes, roots, leaves, members = [], [], 0, []
    for inner, count, _ in trees:
        roots.append(len(nodes))
        for feature, threshold, mode, track, yes, no in inner:
            if mode == "BRANCH_MEMBER":
                members += [float(v) for v in pick.sample(range(-2, 3), pick.randint(1, 4))] + [float("nan")]
            nodes.append((feature, threshold, MODES.index(mode), int(track),
                          *((roots[-1] + k, 0) if k >= 0 else (leaves - 1 - k, 1) for k in (yes, no))))
        leaves += count
    a = dict(tree_roots=roots, nodes_featureids=[n[0] for n in nodes], nodes_splits=tensor("s", [n[1] for n in nodes], dtype),
             nodes_modes=tensor("m", [n[2] for n in nodes], np.uint8), leaf_targetids=[pick.randrange(targets) for _ in range(leaves)],
             leaf_weights=tensor("w", floats(leaves, 1 / len(trees)), dtype), n_targets=targets,
             aggregate_function=pick.randrange(4), post_transform=pick.choice((0, 3)) if targets > 1 else 0)
    for k, name in ((4, "true"), (5, "false")):
        a[f"nodes_{name}nodeids"] = [n[k][0] for n in nodes]
        a[f"nodes_{name}leafs"] = [n[k][1] for n in nodes]
    if coin():
        a["nodes_missing_value_tracks_true"] = [n[3] for n in nodes]
    x = rows(features, dtype)
    if members:     # of these ONNX Runtime knows ints alone, and truncates the features
        a["membership_values"] = tensor("v", members, dtype)
        x = grid(*x.shape, dtype=np.int64).astype(dtype)
    case("TreeEnsemble", [x], a, opset=5)


# ---- Linear models, support vectors ----

def features_of(n):
    dtype = pick.choice((np.float32, np.float32, np.float64, np.int64))
    shape = (pick.choice((1, 4, 9)), n)
    return grid(*shape, dtype=dtype) if dtype == np.int64 else real(*shape, dtype=dtype)


def linear():
    n, targets = pick.randint(1, 9), pick.choice((1, 2, 4))
    post = pick.choice(POSTS)
    a = dict(coefficients=floats(n * targets), intercepts=floats(targets), post_transform=post)
    if coin():
        case("LinearClassifier", [features_of(n)], dict(classlabels_ints=pick.sample(range(9), max(targets, 2)), **a), 2, 1)
    else:
        a["post_transform"] = post if targets > 1 else "NONE"
        case("LinearRegressor", [real(pick.randint(1, 5), n)], dict(targets=targets, **a), opset=1)


def kernel():
    return dict(kernel_type=pick.choice(("LINEAR", "POLY", "RBF", "SIGMOID")), kernel_params=[0.3, 0.2, float(pick.choice((1, 2, 3)))])


def vectors():
    n, count = pick.randint(1, 6), pick.choice((0, 1, 7))
    a = dict(coefficients=floats(count), support_vectors=floats(n * count), n_supports=count) if count else dict(coefficients=floats(n))
    case("SVMRegressor", [real(pick.randint(1, 5), n)], dict(rho=floats(1), one_class=pick.randrange(2), **a, **kernel()), opset=1)


def vector_classes():
    n, classes = pick.randint(1, 6), pick.choice((2, 2, 3, 5))
    labels, post = pick.sample(range(9), classes), pick.choice(POSTS)
    if coin(0.3):
        a = dict(coefficients=floats(n * classes), rho=floats(1))
    else:
        each, pairs = [pick.randint(1, 4) for _ in range(classes)], classes * (classes - 1) // 2
        a = dict(vectors_per_class=each, support_vectors=floats(n * sum(each)), coefficients=floats((classes - 1) * sum(each)), rho=floats(pairs, 0.1))
        if coin():
            a.update(prob_a=[-abs(v) for v in floats(pairs)], prob_b=floats(pairs, 0.2))
    case("SVMClassifier", [real(pick.randint(1, 5), n)], dict(classlabels_ints=labels, post_transform=post, **a, **kernel()), 2, 1)


# ---- Features ----

def scaling():
    n = pick.randint(1, 9)
    x, k = features_of(n), pick.choice((1, n))
    case("Scaler", [x], dict(offset=floats(k), scale=floats(k)), opset=1)
    case("Normalizer", [np.where(rng.random((x.shape[0], 1)) < 0.3, 0, x).astype(x.dtype)], dict(norm=pick.choice(("MAX", "L1", "L2"))), opset=1)
    case("Binarizer", [grid(3, n)], dict(threshold=0.5), opset=1)


def imputing():
    n = pick.randint(1, 9)
    k = pick.choice((1, n))
    if coin():
        case("Imputer", [grid(3, n, dtype=np.int64)], dict(imputed_value_int64s=[pick.randint(-9, 9) for _ in range(k)], replaced_value_int64=1), opset=1)
    else:
        x = grid(3, n)
        x[rng.random(x.shape) < 0.3] = np.nan
        case("Imputer", [x], dict(imputed_value_floats=floats(k), replaced_value_float=pick.choice((0.5, float("nan")))), opset=1)


def selecting():
    n = pick.randint(1, 9)
    shape = ([] if coin(0.2) else [pick.randint(1, 4) for _ in range(pick.randint(1, 2))]) + [n]
    x = real(*shape) if coin() else grid(*shape, dtype=np.int64)
    case("ArrayFeatureExtractor", [x, rng.integers(0, n, (1, pick.randint(1, 5)))], {}, opset=1)
    a = [real(3, pick.randint(1, 4)) for _ in range(pick.randint(1, 3))]
    case("FeatureVectorizer", a, dict(inputdimensions=[v.shape[1] + pick.choice((0, 0, -1, 2)) for v in a]), opset=1)
    known = pick.sample(range(-9, 9), pick.randint(1, 6))
    zeros = pick.randrange(2)
    x = rng.choice(known if not zeros else range(-9, 9), (2, 3)).astype(pick.choice((np.int64, np.float32, np.int32)))
    case("OneHotEncoder", [x], dict(cats_int64s=known, zeros=zeros), opset=1)


def labels():
    count = pick.choice((1, 2, 7, 40))
    keys = pick.sample(range(-60, 60), count)
    x = rng.integers(-60, 60, (2, 5))
    to_float = coin()
    values = dict(values_floats=floats(count), default_float=0.25) if to_float else dict(values_int64s=[k * 3 for k in keys], default_int64=-7)
    if coin():
        case("LabelEncoder", [x], dict(keys_int64s=keys, **values), opset=2)
    elif coin():
        case("LabelEncoder", [(x / 2).astype(np.float32)], dict(keys_floats=[k / 2 for k in keys], **values), opset=pick.choice((2, 4)))
    else:
        t = pick.choice((np.float64, np.int16, np.int64, np.float32))
        case("LabelEncoder", [x.astype(t)], dict(keys_tensor=tensor("k", keys, t), values_tensor=tensor("v", keys[::-1], t),
                                                 default_tensor=tensor("d", [5], t)), opset=4)


for _ in range(COUNT):
    for kind in (regressor, regressor, classifier, classifier, ensemble, ensemble, linear, vectors, vector_classes, scaling, imputing, selecting,
                 labels):
        kind()
