# SPDX-License-Identifier: Apache-2.0
"""Small models of the forms that ONNX's cases have few of: what `make fuzz` mutates beside them. Each is a file of FOLDER.

    forms.py FOLDER

The models of the text tests come, too, those that are refused among them: what is wrong in them is near to what may go wrong."""

import glob
import os
import sys

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

FOLDER = sys.argv[1]
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Models in ONNX's textual syntax, by name, without what each begins with.
TEXTS = {
    "if_captured": """main (bool c, float[N] x) => (float[M] y) {
        z = Neg(x)
        y = If (c) <then_branch = t () => (float[M] u) { u = Add(x, z) }, else_branch = e () => (float[M] v) { v = Concat <axis = 0> (z, x) }>
    }""",
    "loop": """main (int64 n, bool c, float[3] x) => (float[3] y, float[K,3] s) {
        y, s = Loop (n, c, x) <body = b (int64 i, bool g, float[3] a) => (bool h, float[3] d, float[3] o) {
            h = Identity(g)  f = CastLike(i, a)  d = Add(a, f)  o = Mul(d, x) }>
    }""",
    "loop_in_if": """main (int64 n, bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] u) {
            e = Constant <value_string = ""> ()  u = Loop (n, c, x) <body = b (int64 i, bool g, float[2] a) => (bool h, float[2] d) {
                h = Not(g)  d = Add(a, x) }> },
          else_branch = f () => (float[2] v) { v = Relu(x) }>
    }""",
    "scan": """main (float[2] a, float[N,2] x) => (float[2] z, float[N,2] y) {
        z, y = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_axes = [0],
          body = b (float[2] s, float[2] e) => (float[2] t, float[2] o) { t = Add(s, e)  o = Mul(t, e) }> (a, x)
    }""",
    "sequences": """main (float[N,2] x, int64 k) => (float[A,B] y, seq(float[A,B]) s, int64 n) {
        a = SequenceConstruct(x, x)  b = Neg(x)  c = SequenceInsert(a, b, k)  d = SequenceErase(c, k)  n = SequenceLength(d)
        s = SplitToSequence <axis = 0> (x)  e = ConcatFromSequence <axis = 1> (c)  f = SequenceAt(d, k)  y = Concat <axis = 1> (e, f)
    }""",
    "sequence_map": """main (seq(float[N]) s) => (seq(float[N]) y) {
        y = SequenceMap (s) <body = b (float[N] a) => (float[N] c) { c = Exp(a) }>
    }""",
    "optionals": """main (optional(float[N]) o, float[N] x) => (float[N] y, bool h) {
        h = OptionalHasElement(o)
        y = If (h) <then_branch = t () => (float[N] u) { u = OptionalGetElement(o) }, else_branch = e () => (float[N] v) { v = Neg(x) }>
    }""",
    "optional_made": """main (float[2] x) => (optional(float[2]) o, float[2] y) { o = Optional(x)  y = OptionalGetElement(o) }""",
    "strings": """main (string[N] s) => (string[N] l, int64[M] i, string[N,K] w, int64[N] n, bool[N] m, float[N] f) {
        c = StringConcat(s, s)  l = StringNormalizer <case_change_action = "LOWER", stopwords = ["a"]> (s)  u, i = Unique(s)
        w, n = StringSplit <delimiter = ","> (c)  m = RegexFullMatch <pattern = "[a-z]+(,|.)x*"> (s)  f = Cast <to = 1> (s)
    }""",
    "labels": """main (string[N] s) => (int64[N] y, float[N,3] h) {
        y = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b"], values_int64s = [1, 2], default_int64 = -1> (s)
        h = ai.onnx.ml.OneHotEncoder <cats_strings = ["a", "b", "c"], zeros = 1> (s)
    }""",
    "trees": """main (float[N,2] x) => (float[N,1] y) {
        y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0],
          nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values = [0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0],
          nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]> (x)
    }""",
    "linear": """main (float[N,2] x) => (int64[N] l, seq(map(int64, float)) m) {
        l, p = ai.onnx.ml.LinearClassifier <classlabels_ints = [0, 1, 2], coefficients = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
          intercepts = [0.1, 0.2, 0.3], post_transform = "SOFTMAX"> (x)
        m = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1, 2]> (p)
    }""",
    "dictionary": """main (map(string, float) m) => (float[1,3] y) {
        y = ai.onnx.ml.DictVectorizer <string_vocabulary = ["a", "b", "c"]> (m)
    }""",
    "support_vectors": """main (float[N,2] x) => (float[N,1] y) {
        y = ai.onnx.ml.SVMRegressor <kernel_type = "RBF", kernel_params = [0.5, 0.0, 3.0], n_supports = 2, support_vectors = [1.0, 2.0, 3.0, 4.0],
          coefficients = [0.5, -0.5], rho = [0.1]> (x)
    }""",
    "vectorised": """main (float[N,3] x) => (float[N,3] y) {
        a = ai.onnx.ml.Scaler <offset = [1.0, 2.0, 3.0], scale = [0.5, 0.5, 0.5]> (x)  b = ai.onnx.ml.Normalizer <norm = "L2"> (a)
        y = ai.onnx.ml.Imputer <imputed_value_floats = [0.0, 1.0, 2.0], replaced_value_float = 1.0> (b)
    }""",
    "microsoft": """main (float[B,S,8] x, float[8] w, float[8,8] k, float[8] b) => (float[B,S,8] y) {
        a = com.microsoft.SkipLayerNormalization(x, x, w, b)  c = com.microsoft.FusedMatMul <alpha = 0.5> (a, k)
        d = com.microsoft.BiasGelu(c, b)  y = com.microsoft.QuickGelu <alpha = 1.702> (d)
    }""",
    "microsoft_attention": """main (float[B,S,8] x, float[8,24] w, float[24] b, int32[B] m) => (float[B,S,8] y) {
        y = com.microsoft.Attention <num_heads = 2> (x, w, b, m)
    }""",
    "microsoft_integers": """main (uint8[N,4] a, int8[4,3] b, uint8 z, float s) => (float[N,3] y) {
        y = com.microsoft.MatMulIntegerToFloat(a, b, s, s, z)
    }""",
    "functions": """main (float[N] x, float[N] z) => (float[N] y) { y = local.Twice <by = 3.0> (x, z) }
    <domain: "local", opset_import: ["" : 21, "local" : 1]>
    Twice <by, to: int = 1> (a, b) => (d) { f = Constant <value_float: float = @by> ()  g = Cast <to: int = @to> (f)  c = local.Scaled (a, g)
        d = Add(c, b) }
    <domain: "local", opset_import: ["" : 21]>
    Scaled (a, g) => (c) { h = ReduceSum <keepdims = 0> (g)  c = Mul(a, h) }""",
    "function_body": """main (bool c, float[N] x) => (float[N] y) { y = local.Choose(c, x) }
    <domain: "local", opset_import: ["" : 21]>
    Choose (c, a) => (d) { d = If (c) <then_branch = t () => (float[N] u) { u = Neg(a) }, else_branch = e () => (float[N] v) { v = Abs(a) }> }""",
}
START = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3, "com.microsoft" : 1, "local" : 1]>\n'


def sparse(name, values, indices, shape):
    return helper.make_sparse_tensor(numpy_helper.from_array(np.array(values, np.float32), name),
                                     numpy_helper.from_array(np.array(indices, np.int64), name + "_indices"), shape)


def model(nodes, outs, inits=(), sparses=(), functions=()):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
                              [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outs], list(inits), sparse_initializer=list(sparses))
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)], functions=list(functions))


def built():
    """Models that the textual syntax cannot write."""
    weights = sparse("w", [1, 2, 3], [0, 5, 11], [4, 3])
    pairs = sparse("p", [1, -1], [[0, 1], [2, 2]], [4, 3])
    yield "sparse_initializers", model([helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["x", "p"], ["b"]),
                                        helper.make_node("Add", ["a", "b"], ["y"])], ["y"], sparses=[weights, pairs])
    yield "sparse_constant", model([helper.make_node("Constant", [], ["w"], sparse_value=pairs), helper.make_node("MatMul", ["x", "w"], ["y"])], ["y"])
    inner = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "then", [], [helper.make_empty_tensor_value_info("y")],
                              sparse_initializer=[weights])
    other = helper.make_graph([helper.make_node("Constant", [], ["v"], sparse_value=pairs), helper.make_node("MatMul", ["x", "v"], ["y"])], "else", [],
                              [helper.make_empty_tensor_value_info("y")])
    yield "sparse_in_bodies", model([helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0), helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
                                     helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=other)], ["z"])
    kinds = [("f", TensorProto.FLOAT, np.float32), ("d", TensorProto.DOUBLE, np.float64), ("i", TensorProto.INT32, np.int32), ("l", TensorProto.INT64, np.int64),
             ("u", TensorProto.UINT64, np.uint64)]
    inits = [helper.make_tensor(n, t, [2, 2], np.arange(4).astype(d)) for n, t, d in kinds]
    inits += [helper.make_tensor("h", TensorProto.FLOAT16, [2, 2], [1.0, 2.0, 3.0, 4.0]), helper.make_tensor("q", TensorProto.INT4, [2, 2], [1, -2, 3, -4]),
              helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b""]), helper.make_tensor("e", TensorProto.FLOAT8E4M3FN, [2, 2], [1, 2, 3, 4])]
    casts = [helper.make_node("Cast", [i.name], [i.name + "_"], to=TensorProto.FLOAT) for i in inits if i.name != "s"]
    yield "typed_data", model(casts + [helper.make_node("Sum", [c.output[0] for c in casts], ["y"])], ["y"], inits)


def from_tests():
    for path in sorted(glob.glob(f"{TESTS}/*/**/*.onnxtxt", recursive=True)):
        with open(path) as f:
            text = "".join(line for line in f.read().split("; ----")[0].splitlines(True) if not line.startswith(";"))
        yield os.path.relpath(path, TESTS)[:-len(".onnxtxt")].replace("/", "_"), onnx.parser.parse_model(text)


os.makedirs(FOLDER, exist_ok=True)
for name, m in [(n, onnx.parser.parse_model(START + t)) for n, t in TEXTS.items()] + list(built()) + list(from_tests()):
    with open(f"{FOLDER}/{name}.onnx", "wb") as f:
        f.write(m.SerializeToString())
