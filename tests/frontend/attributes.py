# SPDX-License-Identifier: Apache-2.0
"""Nodes with all attributes that the standard gives their operator, in every version of its schema: cases(operators) yields
(name, model), strange(operators) models with one attribute that no operator has, and absent(operators) nodes with one that
another version of their operator has. microsoft(operators) yields (name, model, attributes) of ONNX Runtime's own operators."""

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

VALUES = {"INT": 1, "FLOAT": 1.0, "STRING": "x", "INTS": [1, 1], "FLOATS": [1.0], "STRINGS": ["x"],
          "TENSOR": onnx.numpy_helper.from_array(np.ones(1, np.float32)), "TYPE_PROTO": helper.make_tensor_type_proto(TensorProto.FLOAT, [2]),
          "GRAPH": helper.make_graph([], "g", [], [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])])}


def attribute(name, a):
    kind = str(a.type).split(".")[-1]
    if a.default_value.name:
        return a.default_value
    if name == "to" and kind == "STRING":  # Cast in opset 1
        return helper.make_attribute(name, "FLOAT")
    return helper.make_attribute(name, VALUES[kind])


def model(schema, *more, opset=None):
    node = helper.make_node(schema.name, ["x"] * max(schema.min_input, min(1, schema.max_input)),
                            [f"y{i}" for i in range(max(1, schema.min_output))], name="n", domain=schema.domain)
    node.attribute.extend(attribute(k, a) for k, a in schema.attributes.items())
    node.attribute.extend(more)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                              [helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)])
    opsets = {"": 21, schema.domain: opset or schema.since_version}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in opsets.items()])


def schemas(operators):
    """The schemas, of all versions, of OPERATORS, as the table in ir/graph/ops.def names them."""
    for s in onnx.defs.get_all_schemas_with_history():
        if ({"": "", "ai.onnx.ml": "ml_"}.get(s.domain, "?") + s.name) in operators:
            yield s


def cases(operators):
    for s in schemas(operators):
        yield f"{s.name}_{s.since_version}", model(s)


def strange(operators):
    for s in schemas(operators):
        yield f"{s.name}_{s.since_version}", model(s, helper.make_attribute("unheard_of", 1))


NEWEST = {"": 28, "ai.onnx.ml": 5}
RENAMED = {"Upsample": "Resize", "Scatter": "ScatterElements"}


def absent(operators):
    """(name, attribute, model): the node has the attribute, under the kind that another version of its operator gives it. The model's
    opset is the first and the last one in which the node has its schema. Before opset 6 "consumed_inputs" is no attribute of
    another version: it was a hint that has no effect, and import takes it everywhere."""
    history = {}
    for s in schemas(operators):
        history.setdefault((s.domain, s.name), []).append(s)
    for (domain, name), versions in history.items():
        versions.sort(key=lambda s: s.since_version)
        ends = [s.since_version for s in versions[1:]] + [NEWEST[domain] + 1]
        others = {(k, str(a.type)): a for s in versions + history.get((domain, RENAMED.get(name)), []) for k, a in s.attributes.items()}
        for s, end in zip(versions, ends):
            own = {(k, str(a.type)) for k, a in s.attributes.items()}
            for (k, kind), a in others.items():
                if (k, kind) in own or (k == "consumed_inputs" and s.since_version < 6):
                    continue
                for opset in sorted({s.since_version, end - 1}):
                    m = model(s, opset=opset)
                    kept = [x for x in m.graph.node[0].attribute if x.name != k]
                    del m.graph.node[0].attribute[:]
                    m.graph.node[0].attribute.extend(kept + [attribute(k, a)])
                    yield f"{name} in opset {opset}", k, m


def microsoft(operators):
    """Nodes of com.microsoft with all attributes that ONNX Runtime gives their operator and one that it does not, and the first's names."""
    for s in get_all_operator_schema():
        if s.domain != "com.microsoft" or "microsoft_" + s.name not in operators:
            continue
        node = helper.make_node(s.name, ["x"] * s.min_input, ["y0"], name="n", domain=s.domain, unheard_of=1)
        for k, a in s.attributes.items():
            kind = str(a.type).split(".")[-1]
            node.attribute.append(helper.make_attribute(k, VALUES[kind]))
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                                  [helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)])
        yield s.name, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(s.domain, 1)]), sorted(s.attributes)
