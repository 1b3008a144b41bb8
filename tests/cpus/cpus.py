# SPDX-License-Identifier: Apache-2.0
"""Random products and convolutions on each kind of CPU: cpus.py BUILD FOLDER SEED PRODUCTS CONVOLUTIONS.

Models are compiled for each target that runs here, natively or under qemu-aarch64, and drive.c runs them. Small integers, where every sum
is exact, must be bit-equal to ONNX Runtime's result; of real numbers, the error may be that of two sums in any order,
2 * (terms + 2) * 2**-24 * sum |terms|. The same operators on bytes, with zero points, must be bit-equal, too. Prints "N passed, N failed, N skipped".
"""

import os
import random
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import samples
from targets import cpus, print_lack, save

BUILD, FOLDER = os.path.abspath(sys.argv[1]), sys.argv[2]
SEED, PRODUCTS, CONVOLUTIONS = (int(a) for a in sys.argv[3:6])
MOST = 67  # rows, columns and terms of a product
EACH = 10  # operators of a model, so that models are few
LONG = (1030, 9001, 20001)  # terms of the first products: in the order of a panel they have one row of bits, or several


FEW = 260  # products of any bytes, about, that f32 sums exactly
FAR = (0.7, 0.15)  # the share of an input's and of a weight's rows that have extreme bytes


def signs(i):
    """Whether bytes of operator I's input and of its weights are signed."""
    return i % 3 == 2, i % 2 == 0


def extremes(rng, shape, signed, far):
    """Bytes whose pairs add up to less than a byte, and a share FAR of rows (or of what each filter has, too) with the largest ones."""
    low, high = (-128, 127) if signed else (0, 255)
    rows = rng.random((shape[0], 1) if len(shape) == 2 else (1, *shape[1:])) < far
    return np.where(rows, rng.choice((low, high, high), shape), rng.integers(low // 4, high // 4 + 1, shape)).astype(np.float32)


def value(rng, shape, kind, terms=0, i=0, which=0):
    """KIND: "small" integers, "real" numbers, or "bytes", whose products f32 sums exactly: of many TERMS, operator I's input
    (WHICH is 0) has about half of FEW that are not zero."""
    if kind == "bytes":
        far = extremes(rng, shape, signs(i)[which], FAR[which])
        if which == 0 and terms > FEW:  # eight elements in a row are zero or not, so that both of a pair may be large
            blocks = rng.random((*shape[:-1], -(-shape[-1] // 8))) < FEW / 2 / terms
            far *= np.repeat(blocks, 8, axis=-1)[..., :shape[-1]]
        return far
    return rng.integers(-2, 3, shape).astype(np.float32) if kind == "small" else rng.standard_normal(shape).astype(np.float32)


class Model:
    """Independent operators, one input and one output each."""

    def __init__(self, name):
        self.name, self.nodes, self.inputs, self.outputs, self.weights, self.terms, self.shapes = name, [], [], [], [], [], []

    def add(self, op, dims, shape, weight_shape, terms, **attributes):
        """An operator OP of an input with DIMS (names or numbers); SHAPE(pick) gives its sizes in a case."""
        i = len(self.nodes)
        self.nodes.append(helper.make_node(op, [f"x{i}", f"w{i}"], [f"y{i}"], name=f"{op}_{i}", **attributes))
        self.inputs.append(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, dims))
        self.outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None))
        self.weights.append(weight_shape)
        self.terms.append(terms)
        self.shapes.append(shape)

    def of_bytes(self, i):
        """Operator I on bytes: both signs of either factor, with and without zero points."""
        n, signed = self.nodes[i], signs(i)
        types = [TensorProto.INT8 if s else TensorProto.UINT8 for s in signed]
        zeros = [np.array(z, helper.tensor_dtype_to_np_dtype(t)) for z, t in zip((i % 5, 0 if i % 4 < 2 else 7), types)]
        constants = [numpy_helper.from_array(z, f"{s}z{i}") for s, z in zip("xw", zeros)]
        nodes = [helper.make_node("Cast", [f"{s}{i}"], [f"{s}b{i}"], to=t) for s, t in zip("xw", types)]
        product = helper.make_node(n.op_type + "Integer", [f"xb{i}", f"wb{i}", f"xz{i}", f"wz{i}"], [f"yi{i}"], name=n.name)
        product.attribute.extend(n.attribute)
        return [*nodes, product, helper.make_node("Cast", [f"yi{i}"], [f"y{i}"], to=TensorProto.FLOAT)], constants

    def of_differences(self, i):
        """What of_bytes computes, in f32."""
        n = helper.make_node(self.nodes[i].op_type, [f"xd{i}", f"wd{i}"], [f"y{i}"])
        n.attribute.extend(self.nodes[i].attribute)
        zeros = np.float32(i % 5), np.float32(0 if i % 4 < 2 else 7)
        return [helper.make_node("Sub", [f"{s}{i}", f"{s}z{i}"], [f"{s}d{i}"]) for s in "xw"] + [n], \
            [numpy_helper.from_array(np.array(z), f"{s}z{i}") for s, z in zip("xw", zeros)]

    def proto(self, weights, form=None):
        """WEIGHTS: an array for each operator, or null: inputs. FORM: of_bytes or of_differences, instead of the operators."""
        more = [] if weights else [helper.make_tensor_value_info(f"w{i}", TensorProto.FLOAT, d) for i, d in enumerate(self.weights)]
        constants = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights or [])]
        formed = [form(i) for i in range(len(self.nodes))] if form else []
        nodes = [n for f in formed for n in f[0]] or self.nodes
        constants += [c for f in formed for c in f[1]]
        graph = helper.make_graph(nodes, "g", self.inputs + more, self.outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def products(pick, count):
    """Products with constant weights: models with a symbolic number of rows, each run at several."""
    rows = [1, 2] + [pick.randint(3, MOST) for _ in range(3)]
    for m in range(-(-count // (EACH * len(rows)))):
        model = Model(f"products{m}")
        for i in range(EACH):
            k, n = LONG[i] if m == 0 and i < len(LONG) else pick.randint(1, MOST), pick.randint(1, MOST)
            model.add("MatMul", [f"M{i}", k], lambda r, k=k: [r, k], [k, n], k)
        yield model, rows


def convolutions(pick, count):
    """Convolutions of one to three dims; every second has symbolic ones."""
    for m in range(-(-count // EACH)):
        model = Model(f"convolutions{m}")
        for i in range(EACH):
            rank, group = pick.choice((1, 2, 2, 2, 3)), pick.choice((1, 1, 1, 2, 3))
            inner, outer = pick.choice((1, 3, 7, 8, 16, 19)), pick.choice((1, 2, 5, 8, 17, 33))
            kernel = [pick.choice((1, 2, 3, 3, 5)) for _ in range(rank)]
            strides, dilations = ([pick.choice((1, 1, 2, 3)) for _ in range(rank)] for _ in range(2))
            pads = [pick.randrange(k) for k in kernel * 2]
            least = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
            sizes = [n + pick.randrange(9) for n in least]
            sizes[-1] += pick.choice((0, 0, 40, 90))    # rows of whole panels, too
            batch = pick.choice((1, 2))
            dims = [batch, group * inner] + [f"D{i}_{a}" if m % 2 else n for a, n in enumerate(sizes)]
            model.add("Conv", dims, lambda r, s=(batch, group * inner, *sizes): list(s), [group * outer, inner, *kernel],
                      inner * int(np.prod(kernel)), group=group, strides=strides, dilations=dilations, pads=pads)
        yield model, [0]


def symbolic(pick, count):
    """One product whose sizes are all symbols."""
    model = Model("symbolic")
    model.add("MatMul", ["M", "K"], None, ["K", "N"], None)
    return model, [tuple(pick.randint(1, MOST) for _ in range(3)) for _ in range(count)]


def case(rng, model, size, kind, weights):
    """The inputs of a case, and ONNX Runtime's outputs with the bounds of their errors (null: none)."""
    if model.shapes[0]:
        arrays = [value(rng, s(size), kind, t, i) for i, (s, t) in enumerate(zip(model.shapes, model.terms))]
    else:
        m, k, n = size
        arrays = [value(rng, (m, k), kind, k), value(rng, (k, n), kind, k, 0, 1)]
    names = [f"x{i}" for i in range(len(model.nodes))] + ([] if weights else [f"w{i}" for i in range(len(model.nodes))])
    feed = dict(zip(names, arrays))
    exact = session(model, weights, model.of_differences if kind == "bytes" else None).run(None, feed)
    if kind != "real":
        return arrays, exact, [None] * len(exact)
    sizes = session(model, weights and [abs(w) for w in weights]).run(None, {k: abs(v) for k, v in feed.items()})
    terms = [t or size[1] for t in model.terms]
    return arrays, exact, [2 * (t + 2) * 2.0 ** -24 * s for t, s in zip(terms, sizes)]


def session(model, weights, form=None):
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    return ort.InferenceSession(model.proto(weights, form).SerializeToString(), options, providers=["CPUExecutionProvider"])


def main():
    rng, pick = np.random.default_rng(SEED), random.Random(SEED)
    have, lack = cpus(BUILD, FOLDER, portable=True)
    passed = failed = 0
    work = [(*symbolic(pick, PRODUCTS // 2), False)]
    work += [(m, sizes, True) for m, sizes in (*products(pick, PRODUCTS - PRODUCTS // 2), *convolutions(pick, CONVOLUTIONS))]
    share = os.environ.get("TESTS") == "share"
    for m, (model, sizes, constant) in enumerate(work):
        for k, kind in enumerate(("small", "real", "bytes")):
            weights = [value(rng, s, kind, t, i, 1) for i, (s, t) in enumerate(zip(model.weights, model.terms))] if constant else None
            path = f"{FOLDER}/{model.name}.{kind}"
            onnx.save(model.proto(weights, model.of_bytes if kind == "bytes" else None), path + ".onnx")
            cases = [case(rng, model, size, kind, weights) for size in sizes]
            save(path + ".in", [t for c in cases for t in c[0]])
            for j, cpu in enumerate(have):
                # A share of the tests takes half of the models and kinds on each CPU, the other half on the next one; of these the C of
                # every second one is not optimised.
                if kind not in cpu.kinds or share and (j + k + m) % 2:
                    continue
                quick = samples.unoptimised_share() if (j // 2 + k) % 2 and not cpu.options else []
                cpu.compile(path + ".onnx", f"{path}.{cpu.target}.so", quick)
                results = cpu.results(f"{path}.{cpu.target}.so", path + ".in")
                for c, (_, expected, bounds) in enumerate(cases):
                    got = results[c * len(expected):(c + 1) * len(expected)]
                    for i, (g, e, b) in enumerate(zip(got, expected, bounds)):
                        right = g.shape == e.shape and (np.array_equal(g, e) if b is None else bool((abs(g - e) <= b).all()))
                        passed, failed = passed + right, failed + (not right)
                        if not right and failed < 20:
                            print(f"FAIL: {cpu.target} {' '.join(cpu.options)}: {model.nodes[i].name} of {model.name}, {kind}, size {sizes[c]}: "
                                  f"{abs(g - e).max() if g.shape == e.shape else (g.shape, e.shape)}")
    print_lack(lack)
    print(f"{passed} passed, {failed} failed, {len(lack)} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
