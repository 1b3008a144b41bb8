# SPDX-License-Identifier: Apache-2.0
"""Finds model cases in ONNX's layout (model.onnx, test_data_set_K/{input,output}_N.pb), and the operators in each.

The cases that the installed onnx package contains and generates are written to build/cases/onnx once; they are a superset
of its release's backend tests. CORPUS/small.tar.zst is unpacked to build/cases/small; CORPUS/models is read in place.
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections import namedtuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = os.path.join(ROOT, "build", "cases")
CORPUS = os.environ.get("CORPUS") or os.path.join(ROOT, "..", "shared", "corpus")
VERSION = "3"  # of the files in build/cases: after a change they are written again

# name; folder; ops: names of operators, also of those in model-local functions, with their domain if it is not ONNX's
Case = namedtuple("Case", "name dir ops")


def write_value(path, value, info):
    from onnx import TensorProto, numpy_helper

    kind = info.type.WhichOneof("value")
    if isinstance(value, TensorProto):
        proto = TensorProto()
        proto.CopyFrom(value)
        proto.name = info.name
    elif kind == "sequence_type":
        proto = numpy_helper.from_list(value, info.name)
    elif kind == "optional_type":
        proto = numpy_helper.from_optional(value, info.name)
    else:
        proto = numpy_helper.from_array(value, info.name)
    with open(path, "wb") as f:
        f.write(proto.SerializeToString())


def write_onnx_cases(out):
    """Writes the package's cases: those that its modules compute, and the models that it contains."""
    import onnx.backend.test
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        folder = os.path.join(out, case.name)
        os.makedirs(folder)
        with open(os.path.join(folder, "model.onnx"), "wb") as f:
            f.write(case.model.SerializeToString())
        for k, (inputs, outputs) in enumerate(case.data_sets):
            data = os.path.join(folder, f"test_data_set_{k}")
            os.makedirs(data)
            for role, values, infos in (("input", inputs, case.model.graph.input),
                                        ("output", outputs, case.model.graph.output)):
                for i, (value, info) in enumerate(zip(values, infos)):
                    write_value(os.path.join(data, f"{role}_{i}.pb"), value, info)
    carried = os.path.join(os.path.dirname(onnx.backend.test.__file__), "data")
    for model in glob.glob(os.path.join(carried, "*", "*", "model.onnx")):
        folder = os.path.dirname(model)
        if os.path.isdir(os.path.join(folder, "test_data_set_0")):
            name = os.path.basename(folder)
            if not os.path.exists(os.path.join(out, name)):
                os.symlink(folder, os.path.join(out, name))


def unpack(archive, out):
    zstd = subprocess.Popen(["zstd", "-dcq", archive], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", out], stdin=zstd.stdout, check=True)
    if zstd.wait():
        raise RuntimeError(f"{archive}: zstd failed")


def once(name, stamp, make):
    """The folder build/cases/NAME; MAKE(folder) writes it unless it was written with the same STAMP."""
    out = os.path.join(CASES, name)
    mark = out + ".stamp"
    if not (os.path.exists(mark) and open(mark).read() == stamp):
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        make(out)
        with open(mark, "w") as f:
            f.write(stamp)
    return out


def model_ops(model):
    local = {(f.domain, f.name) for f in model.functions}
    ops = set()

    def walk(nodes):
        for node in nodes:
            if (node.domain, node.op_type) not in local:
                standard = node.domain in ("", "ai.onnx")
                ops.add(node.op_type if standard else f"{node.domain}.{node.op_type}")
            for attr in node.attribute:
                for graph in [attr.g] if attr.HasField("g") else attr.graphs:
                    walk(graph.node)

    walk(model.graph.node)
    for function in model.functions:
        walk(function.node)
    return sorted(ops)


def find(folder):
    """The cases under FOLDER."""
    import onnx

    cases = []
    for path in sorted(glob.glob(os.path.join(folder, "**", "model.onnx"), recursive=True)):
        where = os.path.dirname(path)
        model = onnx.load(path, load_external_data=False)
        cases.append(Case(os.path.relpath(where, folder), where, model_ops(model)))
    return cases


def indexed(name, stamp, folder):
    """find(FOLDER), cached in build/cases/NAME.json for this STAMP."""
    path = os.path.join(CASES, name + ".json")
    if os.path.exists(path):
        kept = json.load(open(path))
        if kept["stamp"] == stamp:
            return [Case(*row) for row in kept["cases"]]
    cases = find(folder)
    with open(path, "w") as f:
        json.dump({"stamp": stamp, "cases": cases}, f)
    return cases


def index(corpus, suites):
    """{suite: [Case]} for those of `onnx`, `small`, `models` in SUITES whose files exist."""
    warnings.filterwarnings("ignore")
    os.makedirs(CASES, exist_ok=True)
    found = {}
    if "onnx" in suites:
        with open(os.path.join(ROOT, "tests", "requirements.txt")) as f:
            stamp = VERSION + f.read()
        found["onnx"] = indexed("onnx", stamp, once("onnx", stamp, write_onnx_cases))
    archive = os.path.join(corpus, "small.tar.zst")
    if "small" in suites and os.path.exists(archive):
        stamp = f"{VERSION} {archive} {os.path.getsize(archive)}"
        found["small"] = indexed("small", stamp, once("small", stamp, lambda out: unpack(archive, out)))
    models = os.path.join(corpus, "models")
    if "models" in suites and os.path.isdir(models):
        found["models"] = indexed("models", f"{VERSION} {models}", models)
    return found


if __name__ == "__main__":
    for suite, cases in index(CORPUS, ["onnx", "small", "models"]).items():
        print(suite, len(cases), "cases,", len({op for case in cases for op in case.ops}), "ops")
