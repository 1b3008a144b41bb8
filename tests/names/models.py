# SPDX-License-Identifier: Apache-2.0
"""Small models at random, each twice: with plain names, which other programs take, too, and with hostile ones.

A model is built with a placeholder for each name. Encoding it puts the hostile bytes in their place, which may be no UTF-8: the
protobuf package would not write those."""

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from onnx import TensorProto, helper, numpy_helper

# What a name is made of: words of C and of what dlcc prints, and what ends or escapes something in some language.
PIECES = [
    b"default", b"volatile", b"NULL", b"linux", b"unix", b"int", b"static", b"for", b"over", b"where", b"if", b"while", b"inline",
    b"_Bool", b"__FILE__", b"__LINE__", b"errno", b"EOF", b"INT64_MAX", b"stdin", b"i386", b"bool", b"true", b"class", b"new",
    b"k", b"begin", b"end", b"scratch", b"fault", b"row", b"valid", b"lane", b"part", b"p", b"t0", b"u1", b"i0", b"i_", b"x", b"y",
    b"out", b"acc", b"tile", b"packed", b"sym", b"d", b"b", b"exec", b"bind", b"plan", b"desc", b"prog", b"weights", b"kernels",
    b"dl_min_i64", b"dl_max", b"dl_add", b"dl_kctx", b"dl_launch", b"DL_IVDEP", b"DL_SHAPE", b"DL_FN", b"vec", b"tile_f32_6x16",
    b"floor", b"min", b"max", b"mul", b"add", b"dim", b"inside", b"none", b"kernel", b"graph", b"check", b"inf", b"nan", b"host",
    b"%", b"%s", b"%n", b"%s%s%s%n", b"%d%%", b"%lld", b"$", b"$kernel$", b"\\", b"\\n", b"\\x41", b"\\\\", b"\\\"", b'"', b'""',
    b"'", b"*/", b"/*", b"//", b"*/ int evil; /*", b"??/", b"???", b"??)", b"?", b"\n", b"\r", b"\t", b"\n#error evil\n", b"\x01",
    b"\x07", b"\x08", b"\x0b", b"\x1b[31m", b"\x1b]0;evil\x07", b"\x7f", b"\xc2\x9b31m", b"\xc3\xa9", b"e\xcc\x81", b"\xe5\x8d\xb7",
    b"\xe2\x80\xae", b"\xe2\x81\xa6", b"\xe2\x80\x8b", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", b"\xff", b"\xfe\x80",
    b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"/", b"../", b".", b"..", b"/fc/MatMul", b" ", b"  ", b":", b";",
    b"; ----", b"#", b"#define", b"@", b'@"x"', b"&", b"|", b"`id`", b"$(id)", b"<", b">", b"<b>", b"(", b")", b"[", b"]", b"{", b"}",
    b"{{", b"a b", b"a_b", b"a.b", b"a/b", b"a__b", b"a%2Fb", b"a_", b"_a", b"__a__", b"a_2", b"a_2_", b"a\\x01", b"a\x01", b"=", b"a=b",
    b",", b"*", b"+", b"-", b"1", b"0x", b"9z", b"\xef\xbf\xbd", b"_dim0", b"_upto_8", b"_", b"where N <= 8",
    b"node \"x\" (MatMul)", b"error: evil", b"w" * 60, b"%" * 90, b"\xe5\x8d\xb7" * 70, b"n" * 500, b"\"" * 300, b"\x1b" * 200]


def is_expression(name):
    """Whether dlcc may read the name of a dim as a number or a sum, or as no name."""
    text = name.strip(b" ")
    return text in (b"", b"?") or all(c in b"0123456789 +-*()" for c in text) or \
        any(c in b"+-*(" for c in text) and all(chr(c).isalnum() or c in b"_. +-*()" for c in text)


def encode(message, names):
    """MESSAGE's bytes, with NAMES[s] for each string s that is a placeholder."""
    out = b""
    for field, value in message.ListFields():
        many = hasattr(value, "extend")
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            parts = [encode(v, names) for v in (value if many else [value])]
        elif field.type == FieldDescriptor.TYPE_STRING:
            parts = [names.get(v, v.encode()) for v in (value if many else [value])]
        else:
            only = type(message)()
            getattr(only, field.name).extend(value) if many else setattr(only, field.name, value)
            out += only.SerializeToString()
            continue
        for part in parts:
            out += varint(field.number << 3 | 2) + varint(len(part)) + part
    return out


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


class Model:
    """A model of a few blocks, with data for its inputs, sizes of its dims, and inputs that fail."""

    def __init__(self, rng):
        self.rng = rng
        self.names = {}      # hostile bytes by placeholder
        self.taken = {}      # hostile bytes in use, by scope
        self.size = {}       # by placeholder of a dim
        self.inputs, self.outputs, self.nodes, self.weights, self.functions = [], [], [], [], []
        self.data = []       # an array for each input
        self.faults = []     # (what, input, another array for it, names that the message must have)
        self.seen = []       # nodes that must be in a profile
        blocks = [self.product, self.maps, self.softmax, self.expand, self.gather, self.conv, self.reshape, self.call, self.fresh,
                  self.branches]
        for block in rng.sample(blocks, rng.choice((1, 2, 2, 3))):
            block()
        graph = helper.make_graph(self.nodes, self.name("graph"), self.inputs, self.outputs, self.weights,
                                  doc_string=self.name("text"))
        self.plain = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)] + [
            helper.make_opsetid(d, 1) for d in {f.domain for f in self.functions}], functions=self.functions,
            producer_name=self.name("text"), ir_version=10)
        self.plain.metadata_props.add(key=self.name("text"), value=self.name("text"))

    def hostile(self):
        return encode(self.plain, self.names)

    # ---- Names ----

    def word(self):
        r = self.rng
        if r.random() < .1:
            word = bytes(r.randint(1, 255) for _ in range(r.randint(1, 12)))
        else:
            word = b"".join(r.choice(PIECES) for _ in range(r.choice((1, 1, 1, 2, 2, 3))))
        return word

    def name(self, scope, hostile=None):
        """A new placeholder. Those of a scope have different hostile names, but for nodes and texts, whose names mean nothing."""
        place = f"n{len(self.names)}__"
        taken = self.taken.setdefault(scope, set())
        while hostile is None:
            word = self.word()
            if scope not in ("node", "text") and word in taken or scope == "dim" and is_expression(word):
                continue
            hostile = b"" if scope in ("node", "text") and self.rng.random() < .1 else word
        taken.add(hostile)
        self.names[place] = hostile
        return place

    def value(self):
        return self.name("value")

    def dim(self, size=None):
        d = self.name("dim")
        self.size[d] = size or self.rng.randint(1, 5)
        return d

    # ---- Parts ----

    def input(self, dims, array=None, dtype=TensorProto.FLOAT, name=None):
        name = name or self.value()
        shape = [self.size.get(d, d) for d in dims]
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        self.data.append(np.array(array) if array is not None else
                         np.random.default_rng(len(self.data)).standard_normal(shape).astype(np.float32))
        return name

    def weight(self, *shape):
        name = self.value()
        self.weights.append(numpy_helper.from_array(
            np.random.default_rng(len(self.weights)).standard_normal(shape).astype(np.float32), name))
        return name

    def ints(self, *values):
        name = self.value()
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def node(self, op, *operands, outs=1, seen=False, **attributes):
        results = [self.value() for _ in range(outs)]
        node = self.name("node")
        self.nodes.append(helper.make_node(op, list(operands), results, node, **attributes))
        if seen:
            self.seen.append(node)
        return results[0] if outs == 1 else results

    def output(self, value, dims, dtype=TensorProto.FLOAT):
        self.outputs.append(helper.make_tensor_value_info(value, dtype, dims))

    def wrong_shape(self, name):
        """A fault: NAME, the last input, with one more element in its last dim."""
        i, a = len(self.data) - 1, self.data[-1]
        self.faults.append(("shape", i, np.zeros((*a.shape[:-1], a.shape[-1] + 1), a.dtype), (name,)))

    # ---- Blocks ----

    def product(self):
        d = self.dim(self.rng.choice((1, 3, 37)))
        x = self.input([d, 64])
        self.wrong_shape(x)
        y = self.node("MatMul", x, self.weight(64, 8), seen=True)
        self.output(self.node("Relu", self.node("Add", y, self.weight(8))), [d, 8])

    def maps(self):
        """Kernels that are not fused, some of one node's name."""
        d = self.dim()
        for op in ("Relu", "Exp"):
            x = self.input([d, 3])
            self.output(self.node(op, x, seen=True), [d, 3])

    def softmax(self):
        a, b = self.dim(), self.dim()
        x = self.input([a, b])
        self.output(self.node("Softmax", x, axis=-1), [a, b])

    def expand(self):
        """Sizes that are data: the symbols have the input's name."""
        x = self.input([1, 3])
        shape = self.input([2], np.array([4, 3], np.int64), TensorProto.INT64)
        self.faults.append(("data", len(self.data) - 1, np.array([-1, 3], np.int64), (shape,)))
        self.output(self.node("Expand", x, shape), [None, None])

    def gather(self):
        d, n = self.dim(), self.dim()
        x = self.input([d, 4])
        at = self.input([n], np.zeros(self.size[n], np.int64), TensorProto.INT64)
        y = self.node("Gather", x, at, axis=0)
        self.faults.append(("index", len(self.data) - 1, np.full(self.size[n], 9, np.int64), (self.nodes[-1].name,)))
        self.output(y, [n, 4])

    def conv(self):
        d = self.dim()
        x = self.input([d, 3, 8, 8])
        y = self.node("Conv", x, self.weight(4, 3, 3, 3), self.weight(4), kernel_shape=[3, 3], pads=[1, 1, 1, 1], seen=True)
        self.output(self.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), [d, 4, 4, 4])

    def reshape(self):
        """A fact that is checked when it runs: a*b is c."""
        a, b = self.dim(2), self.dim(3)
        c = self.dim(6)
        x, r = self.input([a, b, 4]), self.input([c, 4])
        y = self.node("Add", self.node("Reshape", x, self.ints(-1, 4)), r)
        i = len(self.data) - 1
        self.faults.append(("fact", i, np.zeros((5, 4), np.float32), (self.nodes[-1].name,)))
        self.output(y, [c, 4])

    def call(self):
        """A function whose domain, name, attribute and body have names of their own."""
        domain, op, alpha = self.name("domain"), self.name("function"), self.name("attribute")
        p, q, t, r = (self.name("formal") for _ in range(4))
        body = [helper.make_node("Mul", [p, q], [t], self.name("node")), helper.make_node("LeakyRelu", [t], [r], self.name("node"))]
        body[1].attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name=alpha)
        self.functions.append(helper.make_function(domain, op, [p, q], [r], body, [helper.make_opsetid("", 21)], [alpha]))
        d = self.dim()
        x, y = self.input([d, 5]), self.input([d, 5])
        self.wrong_shape(y)
        z = self.value()
        self.nodes.append(helper.make_node(op, [x, y], [z], self.name("node"), domain=domain, **{alpha: .25}))
        self.output(z, [d, 5])

    def fresh(self):
        """A size without a name, whose symbol the compiler names, and another that has that name in the model."""
        x = self.value()
        self.size[None] = 2
        self.input([None, 2], name=x)
        other = self.name("dim", self.names[x] + b"_dim0")
        self.size[other] = 5
        y = self.input([other, 2])
        for v, d in ((x, None), (y, other)):
            self.output(self.node("Exp", v), [d, 2])

    def branches(self):
        """Many kernels of the same few names, among them those that numbering others would make."""
        d = self.dim()
        x = self.input([d, 7])
        for op, node in (("Exp", b"act_2"), ("Relu", b"act"), ("Tanh", b"act"), ("Sigmoid", b"act 2"), ("Sqrt", b"act_2_")):
            y = self.value()
            self.nodes.append(helper.make_node("Transpose", [x], [y], self.name("node", node), perm=[1, 0]))
            z = self.value()
            self.nodes.append(helper.make_node("Softmax" if op == "Sqrt" else op, [y], [z], self.name("node", node)))
            self.output(z, [7, d])


def printed(name, most=60):
    """How the beginning of NAME shows on a terminal."""
    out = ""
    for c in name.decode("utf-8", "surrogateescape"):
        n = ord(c)
        plain = n == 9 or not (n < 32 or 0x7f <= n < 0xa0 or n == 0x61c or 0x200b <= n <= 0x200f or 0x2028 <= n <= 0x202e or
                               0x2060 <= n <= 0x206f or n == 0xfeff or 0xfff9 <= n <= 0xfffb or n >= 0xe0000 or
                               0xdc80 <= n <= 0xdcff)
        text = c if plain else "".join(f"\\x{b:02x}" for b in c.encode("utf-8", "surrogateescape"))
        if len((out + text).encode()) > most:
            break
        out += text
    return out.encode()


def tensor(array, name, names):
    """The bytes of a tensor of the placeholder NAME."""
    return encode(numpy_helper.from_array(np.asarray(array), name), names)
