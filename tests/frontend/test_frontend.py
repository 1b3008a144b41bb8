# SPDX-License-Identifier: Apache-2.0
"""Tests of the model reader: test_frontend.py FE BUILD FOLDER, run by run.sh. FE is fe.c built."""

import os
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import attributes
import upgrades

FE, BUILD, FOLDER = sys.argv[1:4]
passed = failed = 0


def check(ok, what, shown=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL {what}: {shown}")


def at(*names):
    path = os.path.join(FOLDER, *names)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def write(path, data):
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.SerializeToString())
    return path


class Server:
    """A process of FE that does one command after the other; a new one follows after a crash."""

    def __init__(self):
        self.outputs = [open(at(name), "ab+", buffering=0) for name in ("fe.out", "fe.err")]
        self.process = None

    def start(self):
        reading, writing = os.pipe()
        self.process = subprocess.Popen([FE, "-serve", str(writing)], stdin=subprocess.PIPE, stdout=self.outputs[0], stderr=self.outputs[1],
                                        pass_fds=[writing])
        os.close(writing)
        self.status = os.fdopen(reading)

    def printed(self):
        """What was printed since the last call, to stdout and to stderr."""
        texts = []
        for f in self.outputs:
            f.seek(0)
            texts.append(f.read())
            f.truncate(0)
        return texts

    def run(self, *args):
        """The status, -1 where the process ended instead, and what was printed."""
        if not self.process:
            self.start()
        self.process.stdin.write("\t".join(args).encode() + b"\n")
        self.process.stdin.flush()
        said = self.status.readline()
        status = int(said) if said else -1
        if not said:
            self.end()
        out, err = self.printed()
        return status, out, err.decode()

    def end(self):
        """The status of the process when it ends: sanitizers report leaks then."""
        process, self.process = self.process, None
        process.stdin.close()
        self.status.close()
        return process.wait()


server = Server()
fe = server.run


def refused(name, model, pattern):
    """The model is refused by exactly the diagnostic PATTERN, and nothing crashes."""
    path = model if isinstance(model, str) else write(at("m.onnx"), model)
    status, _, err = fe(path)
    errors = [line for line in err.splitlines() if ": error: " in line]
    check(status == 1 and len(errors) == 1 and re.search(pattern, errors[0]), name, (status, err[:600]))


def accepted(name, model, pattern=""):
    path = model if isinstance(model, str) else write(at("m.onnx"), model)
    status, out, err = fe("-p", path)
    check(status == 0 and re.search(pattern, out.decode(), re.S), name, (status, err[:600], out.decode()[:600]))


# ---- Wire ----

def varint(v):
    out = b""
    while v > 127:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def field(number, contents):
    return varint(number << 3 | 2) + varint(len(contents)) + contents


def relu(opset=22, shape=("N", 4), ir=10, **kw):
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    return model_of([node], [("x", shape)], ["y"], opset=opset, ir=ir, **kw)


def model_of(nodes, inputs, outputs, opset=22, ir=10, inits=(), functions=(), opsets=()):
    ins = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    graph = helper.make_graph(nodes, "g", ins, outs, list(inits))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *opsets], ir_version=ir,
                             functions=list(functions))


def ranks():
    """Inputs whose types say no rank: the body tells it, or does not."""
    w = numpy_helper.from_array(np.ones((2, 3, 1, 1), np.float32), "w")
    conv = [node("Conv", ["r", "w"], ["y"], "conv")]
    accepted("rank of a convolution", model_of([node("Relu", ["x"], ["r"]), *conv], [("x", None)], ["y"], inits=[w]),
             r"%x: f32\[x_dim0,x_dim1,x_dim2,x_dim3\]")
    accepted("ranks of two inputs", model_of([helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]), node("MatMul", ["t", "z"], ["m"]),
                                              helper.make_node("Transpose", ["z"], ["y"], perm=[2, 0, 1])],
                                             [("x", None), ("z", None)], ["m", "y"]),
             r"%x: f32\[x_dim0,x_dim1\], %z: f32\[z_dim0,z_dim1,z_dim2\]")
    declared = relu(shape=None)
    declared.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", "c"]))
    accepted("rank of a declared result", declared, r"%x: f32\[x_dim0,x_dim1,x_dim2\]")
    refused("no rank fits", model_of([helper.make_node("Transpose", ["x"], ["r"], perm=[1, 0]), *conv], [("x", None)], ["y"], inits=[w]),
            "rank is not known")


def test_wire():
    good = relu(inits=[numpy_helper.from_array(np.ones(400, np.float32), "w")]).SerializeToString()
    crashes = []
    for n in range(len(good)):
        path = write(at("m.onnx"), good[:n]) if n % 16 == 0 or n < 100 else None
        if path:
            status, _, err = fe(path)
            # A prefix that ends between two fields is a sound message, of another model.
            if status not in (0, 1) or "Sanitizer" in err:
                crashes.append(n)
    check(not crashes, "prefixes", crashes)
    refused("empty", b"", "empty")
    refused("text", b"hello, this is no model at all, but a text\n" * 20, "not a valid ONNX file")
    refused("group", good + b"\x0b\x0c", "wire type")
    refused("field zero", good + b"\x02\x00", "number")
    refused("long varint", good + b"\x28" + b"\xff" * 10 + b"\x01", "too long")
    refused("length past the end", good + b"\xca\x01\xff\xff\xff\xff\x0f", "past the end")
    refused("huge length", good + b"\xca\x01" + b"\xff" * 9 + b"\x01", "past the end")
    refused("field given twice", good + field(7, b""), '"graph" is given twice')
    refused("wire type of another field", good + b"\x38\x01", 'wire type 0')
    refused("zero byte in a name", field(7, field(2, b"a\0b")), "zero byte")
    refused("no graph", b"\x08\x0a", "no graph")
    refused("directory", FOLDER, "not a regular file")
    refused("no file", at("none.onnx"), "No such file")
    accepted("unknown fields", good + field(777, b"abc") + b"\xc8\x3e\x05")
    # raw_ref is the reader's own: a file cannot name a range by it.
    tensor = field(8, b"w") + b"\x10\x01" + b"\x08\x02" + varint(10000 << 3) + b"\x00"
    refused("raw_ref in a file", field(7, field(5, tensor) + field(1, field(1, b"w") + field(2, b"y") +
            field(4, b"Relu")) + field(12, field(1, b"y"))) + b"\x08\x0a" + field(8, b"\x10\x16"), "holds 0")
    nested = b""
    for _ in range(5000):
        nested = field(1, field(4, b"If") + field(5, field(1, b"g") + field(6, nested)))
    refused("nested subgraphs", field(7, nested), "nested too deeply")
    nested = b""
    for _ in range(5000):
        nested = field(4, field(1, nested))
    refused("nested types", field(7, field(11, field(2, nested))), "nested too deeply")
    refused("too many elements", field(7, b"\x0a\x00" * 4000000), "more elements")
    two = field(9, b"\0" * 2000)
    refused("data in pieces", field(7, field(5, two + field(4, b"\0" * 2000))), "several pieces")


def test_large():
    """3 GiB of raw data inside the model, mostly a hole."""
    n, path = 3 << 30, at("large.onnx")
    tensor = field(8, b"w") + b"\x10\x02" + b"\x08" + varint(n) + b"\x4a" + varint(n)
    node = field(1, field(1, b"w") + field(2, b"y") + field(3, b"id") + field(4, b"Identity"))
    rest = node + field(12, field(1, b"y"))
    body = b"\x2a" + varint(len(tensor) + n) + tensor
    with open(path, "wb") as f:
        f.write(b"\x08\x0a" + field(8, b"\x10\x16") + b"\x3a" + varint(len(body) + n + len(rest)) + body)
        f.seek(n, 1)
        f.write(rest)
    status, out, err = fe(path)
    check(status == 0, "3 GiB of raw data", err)
    os.unlink(path)


# ---- Tensors ----

TYPES = {
    "FLOAT": "f32", "UINT8": "u8", "INT8": "i8", "UINT16": "u16", "INT16": "i16", "INT32": "i32", "INT64": "i64",
    "STRING": "str", "BOOL": "bool", "FLOAT16": "f16", "DOUBLE": "f64", "UINT32": "u32", "UINT64": "u64",
    "BFLOAT16": "bf16", "FLOAT8E4M3FN": "f8e4m3fn", "FLOAT8E4M3FNUZ": "f8e4m3fnuz", "FLOAT8E5M2": "f8e5m2",
    "FLOAT8E5M2FNUZ": "f8e5m2fnuz", "UINT4": "u4", "INT4": "i4", "FLOAT4E2M1": "f4e2m1", "FLOAT8E8M0": "f8e8m0",
    "UINT2": "u2", "INT2": "i2", "FLOAT6E2M3": "f6e2m3", "FLOAT6E3M2": "f6e3m2",
}


def read(tensor, flag="-t"):
    return fe(flag, write(at("t.pb"), tensor))


def test_tensors():
    rng = np.random.default_rng(3)
    for name, text in TYPES.items():
        code = TensorProto.DataType.Value(name)
        if name == "STRING":
            t = helper.make_tensor("t", code, [2, 2], [b"a", b"", b"long one", "\u00e9".encode()])
            want = b"a\0\0long one\0\xc3\xa9\0"
            check(read(t)[1] == f"{text} 2 2\n".encode() + want, name, read(t))
            continue
        for shape in ([3, 5], [], [0, 4], [700]):
            n = int(np.prod(shape))
            values = rng.integers(0, 2, n)
            typed = helper.make_tensor("t", code, shape, values.tolist())
            raw = numpy_helper.from_array(numpy_helper.to_array(typed), "t")
            want = f"{' '.join([text, *map(str, shape)])}\n".encode() + raw.raw_data
            check(raw.data_type == code and read(raw)[1] == want, f"{name} {shape} raw", read(raw)[2])
            check(read(typed)[1] == want, f"{name} {shape} typed", (read(typed), want))
    t = helper.make_tensor("t", TensorProto.FLOAT, [2], [1, 2])
    for name, change, pattern in (
            ("negative dim", lambda t: t.dims.__setitem__(0, -2), "dim 0 of the tensor is -2"),
            ("too few values", lambda t: t.dims.__setitem__(0, 3), "3 values, and the file holds 2"),
            ("overflow", lambda t: t.dims.extend([1 << 40, 1 << 40]), "64 bits"),
            ("overflow beside 0", lambda t: t.dims.extend([1 << 40, 1 << 40, 0]), "64 bits"),
            ("rank", lambda t: t.dims.extend([1] * 20), "rank 21"),
            ("complex", lambda t: setattr(t, "data_type", TensorProto.COMPLEX64), "complex"),
            ("unknown type", lambda t: setattr(t, "data_type", 77), "77"),
            ("no type", lambda t: t.ClearField("data_type"), "no element type"),
            ("raw of another size", lambda t: setattr(t, "raw_data", b"abc"), "8 bytes, and the file holds 3"),
            ("large data of another type", lambda t: (t.dims.__setitem__(0, 2048), t.float_data.extend([0] * 1022),
             setattr(t, "data_type", TensorProto.FLOAT16)), "another element type")):
        bad = TensorProto()
        bad.CopyFrom(t)
        change(bad)
        status, _, err = read(bad)
        check(status == 1 and re.search(pattern, err), name, err)


def sparse(values, indices, shape):
    return helper.make_sparse_tensor(numpy_helper.from_array(values, "s"),
                                     numpy_helper.from_array(np.array(indices, np.int64)), shape)


def test_sparse():
    v = np.array([1, 2], np.float32)
    want = np.zeros((2, 3), np.float32)
    want[0, 1], want[1, 2] = v
    for indices in ([1, 5], [[0, 1], [1, 2]]):
        out = read(sparse(v, indices, [2, 3]), "-s")
        check(out[1] == b"f32 2 3\n" + want.tobytes(), f"sparse {indices}", out)
    for indices, shape, pattern in (([1, 6], [2, 3], "outside"), ([-1, 2], [2, 3], "outside"),
                                    ([[0, 0], [0, 3]], [2, 3], "outside"), ([1, 2, 3], [2, 3], "do not fit"),
                                    ([1, 2], [1 << 33], "MiB")):
        status, _, err = read(sparse(v, indices, shape), "-s")
        check(status == 1 and pattern in err, f"sparse {indices} {shape}", err)


def external(location, offset=None, length=None, n=4):
    t = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[n], data_location=TensorProto.EXTERNAL)
    for k, v in (("location", location), ("offset", offset), ("length", length)):
        if v is not None:
            t.external_data.add(key=k, value=str(v))
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    return model_of([node], [("x", (4,))], ["y"], inits=[t])


def test_external():
    write(at("ext", "w.bin"), bytes(64))
    write(at("ext", "sub", "w.bin"), bytes(64))
    write(at("secret.bin"), bytes(64))
    for link, target in (("link.bin", "../secret.bin"), ("inner.bin", "sub/w.bin")):
        os.symlink(target, at("ext", link))
    os.mkfifo(at("ext", "fifo"))
    path = at("ext", "m.onnx")

    def put(*args, **kw):
        return write(path, external(*args, **kw))
    for location in ("w.bin", "./w.bin", "sub/w.bin", "inner.bin"):
        accepted(f"external {location}", put(location))
    accepted("external range", put("w.bin", 48, 16))
    for location in ("../secret.bin", at("secret.bin"), "sub/../../secret.bin", "..", "", "sub/.."):
        refused(f"external {location}", put(location), "only files in the model's folder|location")
    refused("link out of the folder", put("link.bin"), "leads out")
    refused("absent", put("none.bin"), "no such file")
    twice = external("none.bin")
    twice.graph.initializer.add().CopyFrom(twice.graph.initializer[0])
    twice.graph.initializer[1].name = "v"
    twice.graph.node[0].input[0] = "v"
    err = fe("-p", write(path, twice))[2]
    check(err.count("no such file") == 1 and err.count("error") == 1, "absent, of two weights", err)
    refused("fifo", put("fifo"), "not a regular file")
    refused("folder", put("sub"), "not a regular file")
    refused("past the end", put("w.bin", 49), "past the end")
    refused("offset overflow", put("w.bin", (1 << 64) - 8), "past the end")
    for offset in ("-4", "1e2", "99999999999999999999", "", " 4"):
        refused(f"offset {offset!r}", put("w.bin", offset), "not a number")
    refused("length", put("w.bin", 0, 64), "16 bytes, and the file holds 64")
    refused("no location", put(None), "location is missing")
    # The layout of a hub's cache: both files are links into another folder.
    write(at("hub", "blobs", "data"), bytes(64))
    write(at("hub", "blobs", "model"), external("model.onnx_data"))
    os.makedirs(at("hub", "snap"))
    for link, target in (("model.onnx", "model"), ("model.onnx_data", "data")):
        os.symlink(f"../blobs/{target}", os.path.join(FOLDER, "hub", "snap", link))
    accepted("hub cache", os.path.join(FOLDER, "hub", "snap", "model.onnx"))


# ---- Import ----

def node(op, ins, outs, name="", **attrs):
    return helper.make_node(op, ins, outs, name=name, **attrs)


def test_import():
    x = [("x", ("N", 4))]
    accepted("relu", relu(), r"x: f32\[N, ?4\].*Relu.*relu")
    accepted("unnamed nodes", model_of([node("Abs", ["x"], ["a"]), node("Relu", ["a"], ["y"])], x, ["y"]), "Relu_1")
    accepted("unsorted nodes", model_of([node("Relu", ["a"], ["y"], "r"), node("Abs", ["b"], ["a"], "a"),
                                         node("Neg", ["x"], ["b"], "n")], x, ["y"]), "Neg.*Abs.*Relu")
    refused("cycle", model_of([node("Add", ["x", "b"], ["a"], "p"), node("Abs", ["a"], ["b"], "q")], x, ["b"]),
            "depends on its own result")
    refused("undefined", model_of([node("Add", ["x", "b"], ["y"], "p")], x, ["y"]), '"p" \\(Add\\): "b" is used')
    refused("undefined output", model_of([node("Abs", ["x"], ["y"])], x, ["z"]), '"z"')
    refused("result twice", model_of([node("Abs", ["x"], ["y"]), node("Neg", ["x"], ["y"])], x, ["y"]), "also the name of another")
    refused("result is an input", model_of([node("Abs", ["x"], ["x"])], x, ["x"]), "also the name of another|own result")
    refused("input twice", model_of([node("Abs", ["x"], ["y"])], x + x, ["y"]), "two inputs")
    refused("operand missing", model_of([node("Add", ["x"], ["y"], "p")], x, ["y"]), "at least 2")
    refused("operand omitted", model_of([node("Add", ["", "x"], ["y"], "p")], x, ["y"]), "operand 1 is missing")
    refused("operands too many", model_of([node("Abs", ["x", "x"], ["y"])], x, ["y"]), "at most 1")
    refused("op", model_of([node("Frob", ["x"], ["a"], "p"), node("Frob", ["a"], ["y"])], x, ["y"]),
            '"p" \\(Frob\\): not supported')
    refused("internal op", model_of([node("Kernel", ["x"], ["y"])], x, ["y"]), "not supported")
    refused("domain", model_of([node("Frob", ["x"], ["y"], "p", domain="com.microsoft")], x, ["y"]),
            '"p" \\(com.microsoft.Frob\\): not supported; `dlcc --list-ops`')
    refused("unknown domain", model_of([node("Gelu", ["x"], ["y"], domain="org.example")], x, ["y"]),
            '\\(org.example.Gelu\\): not supported, as no operator of domain "org.example" is')
    refused("a row of another domain", model_of([node("microsoft_Gelu", ["x"], ["y"])], x, ["y"]), "not supported")
    accepted("com.microsoft", model_of([node("Gelu", ["x"], ["y"], domain="com.microsoft")], x, ["y"]))
    accepted("ai.onnx", model_of([node("Relu", ["x"], ["y"], domain="ai.onnx")], x, ["y"]))
    for name in ("?", "None", "none", "-1", "-", "*", " ", "-12", "?!"):
        accepted(f"placeholder {name}", relu(shape=(name, name)), r"%x: f32\[x_dim0,x_dim1\]")
    for name in ("Nonesuch", "_", "N-1", "批"):
        accepted(f"dim {name}", relu(shape=(name, name)), r"%x: f32\[([^,]+),\1\]")
    refused("opset", relu(opset=29), "opset 29")
    refused("IR version 2", relu(ir=2), "IR version 2")
    refused("IR version 15", relu(ir=15), "IR version 15")
    model = relu()
    del model.opset_import[:]
    refused("no opset", model, "opset_import")
    refused("no outputs", model_of([node("Abs", ["x"], ["y"])], x, []), "no outputs")
    refused("unknown rank", relu(shape=None), '"x": its rank is not known, and does not follow from its use')
    ranks()
    several = model_of([node("Add", ["x", "b"], ["y"], "p"), node("Frob", ["x"], ["z"], "q"),
                        node("Abs", ["y"], ["w"])], x, ["w"])
    status, _, err = fe(write(at("m.onnx"), several))
    check(status == 1 and err.count(": error: ") == 2, "several faults, each once", err)


def test_attributes():
    x = [("x", (2,))]
    for name, value, text in (("value_float", 1.5, "f32"), ("value_int", 3, "i64"), ("value_ints", [1, 2], r"i64\[2\]"),
                              ("value_floats", [1.0], r"f32\[1\]"), ("value", numpy_helper.from_array(
                                  np.ones((2, 1), np.int8)), r"i8\[2, ?1\]"),
                              ("sparse_value", sparse(np.ones(2, np.float32), [0, 1], [4]), r"f32\[4\]")):
        accepted(f"Constant {name}", model_of([node("Constant", [], ["c"], "k", **{name: value}),
                                               node("Identity", ["c"], ["y"])], x, ["y"]), text)
    of_sparse = node("Relu", ["x"], ["y"], "p")
    of_sparse.attribute.add(name="a", type=onnx.AttributeProto.SPARSE_TENSOR)
    refused("attribute of another type", model_of([of_sparse], x, ["y"]), 'attribute "a" is of type SPARSE_TENSOR; expected')
    of_map = model_of([node("Relu", ["x"], ["y"])], x, ["y"])
    of_map.graph.input[0].type.CopyFrom(helper.make_map_type_proto(TensorProto.INT64, of_map.graph.input[0].type))
    refused("map", of_map, '"x": its type is a map whose values are not scalars, which is not supported')
    refused("Constant without a value", model_of([node("Constant", [], ["y"], "k")], x, ["y"]), "has no value")
    bad = node("Elu", ["x"], ["y"], alpha=1.0)
    bad.attribute.append(bad.attribute[0])
    refused("attribute twice", model_of([bad], x, ["y"]), "given twice")
    untyped = node("Elu", ["x"], ["y"], alpha=1.5)
    untyped.attribute[0].ClearField("type")
    accepted("attribute without a type", model_of([untyped], x, ["y"]), "alpha *= *1.5")


def test_dims():
    ins = [("p", ("B", "past")), ("s", ("B", "seq")), ("m", ("B", "past + seq")), ("o", ("a-b", 2))]
    model = model_of([node("Relu", ["m"], ["y"]), node("Relu", ["o"], ["z"]), node("Add", ["p", "s"], ["w"])], ins,
                     ["y", "z", "w"])
    accepted("dim that is a sum", model, r"m: f32\[B, ?(past \+ seq|seq \+ past)\]")
    accepted("dim of an odd name", model, r'o: f32\[\$?"?a-b"?, ?2\]')
    accepted("dims without names", relu(shape=(None, None)), r"x: f32\[x_dim0, ?x_dim1\]")
    accepted("sum of unknown names", relu(shape=("a + b", 2)), r'f32\[\$"a \+ b", ?2\]')


def function(name, ins, outs, nodes, attributes=(), protos=(), overload=""):
    f = helper.make_function("my", name, ins, outs, nodes, [helper.make_opsetid("", 22), helper.make_opsetid("my", 1)],
                             list(attributes), list(protos))
    f.overload = overload
    return f


def call(name, ins, outs, overload="", label="call", **attrs):
    n = node(name, ins, outs, label, domain="my", **attrs)
    n.overload = overload
    return n


def with_functions(nodes, functions):
    return model_of(nodes, [("x", (4,))], ["y"], functions=functions, opsets=[helper.make_opsetid("my", 1)])


def test_functions():
    def ref(op, ins, outs, name, attr, to, kind):
        n = node(op, ins, outs, name)
        n.attribute.append(onnx.AttributeProto(name=attr, ref_attr_name=to, type=kind))
        return n
    elu = ref("Elu", ["a"], ["b"], "elu", "alpha", "slope", onnx.AttributeProto.FLOAT)
    default = function("F", ["a"], ["b"], [elu], protos=[helper.make_attribute("slope", 0.25)])
    accepted("default of an attribute", with_functions([call("F", ["x"], ["y"])], [default]),
             "alpha *= *0.25.*call/elu")
    accepted("attribute of the call", with_functions([call("F", ["x"], ["y"], slope=0.5)], [default]), "alpha *= *0.5")
    outer = function("G", ["a"], ["b"], [ref("F", ["a"], ["b"], "f", "slope", "s", onnx.AttributeProto.FLOAT)],
                     attributes=["s"])
    outer.node[0].domain = "my"
    accepted("attribute through two calls", with_functions([call("G", ["x"], ["y"], s=0.75)], [default, outer]),
             "alpha *= *0.75.*call/f/elu")
    two = [function("H", ["a"], ["b"], [node(op, ["a"], ["b"], "n")], overload=o) for op, o in
           (("Abs", ""), ("Neg", "neg"))]
    accepted("overload", with_functions([call("H", ["x"], ["y"], overload="neg")], two), "Neg")
    refused("functions twice", with_functions([call("H", ["x"], ["y"])], [two[0], two[0]]), "defined twice")
    shadow = function("S", ["x"], ["y"], [node("Abs", ["x"], ["t"]), node("Neg", ["t"], ["y"])])
    accepted("names of a body are its own", with_functions([call("S", ["x"], ["t"]), call("S", ["t"], ["y"],
             label="again")], [shadow]), "call/Abs_0.*call/Neg_1.*again/Abs_0")
    clip = function("C", ["a", "lo", "hi"], ["b"], [node("Clip", ["a", "lo", "hi"], ["b"], "clip")])
    accepted("omitted operand of a call", with_functions([call("C", ["x"], ["y"])], [clip]), "Clip")
    refused("recursion", with_functions([call("R", ["x"], ["y"])], [function("R", ["a"], ["b"],
            [call("R", ["a"], ["b"])])]), "calls itself")
    refused("too many operands", with_functions([call("S", ["x", "x"], ["y"])], [shadow]), "called with 2")
    many = [function("E0", ["a"], ["b"], [node("Abs", ["a"], ["b"])])]
    for i in range(40):
        many.append(function(f"E{i + 1}", ["a"], ["b"], [call(f"E{i}", ["a"], ["t"]), call(f"E{i}", ["t"], ["b"])]))
    status, _, err = fe(write(at("m.onnx"), with_functions([call("E40", ["x"], ["y"])], many)))
    check(status == 1 and "too large once" in err, "exponential inlining", err[:300])
    wide = {"attributes": function("A", ["a"], ["b"], [node("Abs", ["a"], ["b"])], attributes=[f"a{i}" for i in range(60000)]),
            "inputs": function("A", ["a"] + [f"i{i}" for i in range(60000)], ["b"], [node("Abs", ["a"], ["b"])])}
    for what, fn in wide.items():
        calls = [call("A", [f"x{i}" if i else "x"], ["y" if i == 999 else f"x{i + 1}"], label=f"c{i}") for i in range(1000)]
        status, _, err = fe(write(at("m.onnx"), with_functions(calls, [fn])))
        check(status == 1 and err.count("too large once") == 1, f"many {what} of a function, many calls", err[:300])


def test_duplicates():
    c = [numpy_helper.from_array(np.array(v, np.float32), "w") for v in (1, 2)]
    add = node("Add", ["x", "w"], ["y"], "add")
    model = model_of([add], [("x", (2,))], ["y"], inits=c)
    status, out, err = fe("-p", write(at("m.onnx"), model))
    check(status == 0 and "warning" in err and "1 constant is ignored" in err, "initialiser twice", err)
    model = model_of([add], [("x", (2,))], ["y"], inits=c * 3)
    status, out, err = fe("-p", write(at("m.onnx"), model))
    check(status == 0 and err.count("warning") == 1 and "5 constants are ignored" in err, "one warning for all", err)


def test_fuzz():
    rng = np.random.default_rng(5)
    seeds = [relu(), external("none.bin"), with_functions([call("H", ["x"], ["y"])], [function("H", ["a"], ["b"],
             [node("Abs", ["a"], ["b"], "n")])])]
    seeds += [m for _, m, _, _ in list(upgrades.cases())[::6]]
    w = numpy_helper.from_array(rng.standard_normal((20, 20)).astype(np.float32), "w")
    seeds.append(model_of([node("MatMul", ["x", "w"], ["y"])], [("x", ("N", 20))], ["y"], inits=[w]))
    for i, seed in enumerate(seeds):
        status, out, err = fe("-fuzz", "1000", str(i), write(at("m.onnx"), seed))
        check(status == 0, f"fuzz {i}", err[:2000])


def test_upgrades():
    """Old opsets against what their specification says, through the interpreter."""
    evalcase = os.path.join(BUILD, "tests", "tools", "evalcase")
    for name, model, ins, outs in upgrades.cases():
        folder = at("up", name)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data)
        path = write(os.path.join(folder, "model.onnx"), model)
        for kind, arrays in (("input", ins), ("output", outs)):
            for i, a in enumerate(arrays):
                proto = numpy_helper.from_array(a, getattr(model.graph, kind)[i].name)
                write(os.path.join(data, f"{kind}_{i}.pb"), proto)
        if os.path.exists(evalcase):
            r = subprocess.run([evalcase, folder], capture_output=True, timeout=60)
            check(r.stdout.startswith(b"PASS"), f"upgrade {name}", (r.stdout + r.stderr).decode()[:300])
        else:
            check(fe(path)[0] == 0, f"upgrade {name}", fe(path)[2])


def test_schemas():
    """Every attribute of a schema of the standard is taken, and no other."""
    with open("ir/graph/ops.def") as f:
        operators = set(re.findall(r"^OP\((\w+),(?!.*INTERNAL)", f.read(), re.M)) - {"Constant"}
    check(len(operators) > 200, "operators are read", len(operators))
    for name, model in attributes.cases(operators):
        err = fe(write(at("m.onnx"), model))[2]
        check("has no attribute" not in err and "of kind" not in err, f"attributes of {name}", err[:300])
    for name, model in attributes.strange(operators):
        refused(f"attribute unheard_of of {name}", model, f'node "n" .*has no attribute "unheard_of"')
    count = 0
    for name, attribute, model in attributes.absent(operators):
        refused(f"attribute {attribute} of {name}", model, f'node "n" .*attribute "{attribute}"')
        count += 1
    check(count > 800, "attributes of other versions are tried", count)
    count = 0
    for name, model, names in attributes.microsoft(operators):
        refused(f"attributes of com.microsoft.{name}", model,
                f'has no attribute "unheard_of"; the newest form of the operator takes {", ".join(names) or "none"}$')
        model.graph.node[0].attribute.pop(0)
        err = fe(write(at("m.onnx"), model))[2]
        check("has no attribute" not in err and "of kind" not in err, f"kinds of the attributes of com.microsoft.{name}", err[:300])
        count += 1
    check(count == len([o for o in operators if o.startswith("microsoft_")]), "operators of com.microsoft are those of ONNX Runtime", count)
    accepted("attribute for tools", model_of([node("Relu", ["x"], ["y"], __pad=1)], [("x", (2, 3))], ["y"]), "__pad")
    for op, attrs, pattern in (
            ("Conv", {"stride": [2, 2]}, r'\(Conv\): has no attribute "stride"; the newest form of the operator takes auto_pad, dilations, group, '
                                         r"kernel_shape, pads, strides$"),
            ("ReduceSum", {"axes": [1]}, r'has no attribute "axes": from opset 13 on it is an input of the operator$'),
            ("Clip", {"min": 1.0}, r'has no attribute "min": from opset 11 on it is an input of the operator$'),
            ("Unsqueeze", {"axes": [1]}, r'has no attribute "axes": from opset 13 on it is an input of the operator$'),
            ("Abs", {"alpha": 1.0}, r'has no attribute "alpha"; the newest form of the operator takes none$'),
            ("Softmax", {"axis": 1.5}, r'attribute "axis" is of kind float, and the operator takes int$'),
            ("Softmax", {"axis": attributes.VALUES["GRAPH"]}, r'attribute "axis" is of kind graph, and the operator takes int$'),
            ("If", {"then_branch": 1, "else_branch": attributes.VALUES["GRAPH"]}, r'is of kind int, and the operator takes graph$')):
        refused(f"{op} with {list(attrs)}", model_of([node(op, ["x", "x"][:1 + (op == "Conv")], ["y"], **attrs)], [("x", (2, 3))], ["y"]), pattern)


for test in (test_wire, test_large, test_tensors, test_sparse, test_external, test_import, test_attributes, test_dims,
             test_functions, test_duplicates, test_fuzz, test_upgrades, test_schemas):
    test()
check(server.end() == 0, "no leaks", server.printed()[1].decode()[:2000])
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
