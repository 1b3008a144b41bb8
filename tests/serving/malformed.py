# SPDX-License-Identifier: Apache-2.0
"""Malformed requests over HTTP and gRPC. A right request is changed in one way, of which the function's name tells; each is refused with a
text that says why, and the server answers right requests after it."""

import json
import random
import string

import numpy as np

HOSTILE = ["", "x" * 70000, "../../etc/passwd", "%s%n%x", "x\x00y", "\"}],{", "\u202e\U0001f600", "x\n\r\ty", "\x1b[2J", "INPUT0", " x", "x "]
HUGE = [2**62, 2**63 - 1, -(2**63), -1, -2, 2**31, 2**32 + 1, 2**40]


def hostile(r):
    return r.choice(HOSTILE) if r.random() < 0.7 else "".join(r.choice(string.printable) for _ in range(r.randrange(2, 40)))


def other_shape(r, shape):
    """A shape of another number of elements or of another rank."""
    shape = list(shape)
    kind = r.randrange(6)
    if kind == 0:
        return shape + [r.randrange(1, 4)] * r.randrange(1, 40)
    if kind == 1 and len(shape) > 1:
        return shape[:-1]
    if kind == 2:
        shape[r.randrange(len(shape))] = r.choice(HUGE)
    elif kind == 3:
        shape = [r.choice(HUGE) for _ in shape]
    elif kind == 4:
        shape[r.randrange(len(shape))] += r.randrange(1, 9)
    else:
        shape = [2**32, 2**32] + shape # the product is 0 modulo 2^64
    return shape


# ---- Faults: of a request as {name: [shape, datatype, bytes]}, its outputs, and the rest as REST ----

def wrong_shape(r, inputs, rest):
    one = r.choice(sorted(inputs))
    inputs[one][0] = other_shape(r, inputs[one][0])


def wrong_type(r, inputs, rest):
    one = r.choice(sorted(inputs))
    kinds = ["FP16", "FP32", "FP64", "INT8", "INT64", "UINT8", "BOOL", "BYTES", "BF16", "FP8", "", "fp32", "FP32 ", hostile(r)]
    inputs[one][1] = r.choice([k for k in kinds if k != inputs[one][1]])


def cut_off(r, inputs, rest):
    one = r.choice(sorted(inputs))
    inputs[one][2] = inputs[one][2][:r.randrange(len(inputs[one][2]))]


def too_long(r, inputs, rest):
    one = r.choice(sorted(inputs))
    inputs[one][2] += bytes(r.randrange(1, 100))


def absent_input(r, inputs, rest):
    del inputs[r.choice(sorted(inputs))]


def unknown_input(r, inputs, rest):
    inputs[hostile(r) + "?"] = [[1, 4], "FP32", bytes(16)]


def renamed_input(r, inputs, rest):
    one = r.choice(sorted(inputs))
    inputs[hostile(r).replace("\0", "") + "?"] = inputs.pop(one)  # the server takes a zero byte for the name's end


def unknown_output(r, inputs, rest):
    rest["outputs"] = [hostile(r) + "?"]


def unknown_model(r, inputs, rest):
    rest["model"] = r.choice(["none.dlcc", "none", ".dlcc", "..", rest["model"][:-1], rest["model"] + "x", "x" * 5000])


def unknown_version(r, inputs, rest):
    rest["version"] = r.choice(["7", "0", "x", "99999999999999999999", "1" * 5000])


def lying_strings(r, inputs, rest):
    """Lengths of strings that are beyond the data; other inputs lack a byte."""
    one = r.choice(sorted(inputs))
    data = bytearray(inputs[one][2])
    if inputs[one][1] == "BYTES":
        data[r.randrange(4)] ^= r.randrange(1, 256)
    else:
        del data[-1]
    inputs[one][2] = bytes(data)


FAULTS = [wrong_shape, wrong_type, cut_off, too_long, absent_input, unknown_input, renamed_input, unknown_output, unknown_model, unknown_version,
          lying_strings]


def over_http(inputs, rest):
    head = {"inputs": [{"name": n, "shape": s, "datatype": t, "parameters": {"binary_data_size": len(d)}} for n, (s, t, d) in inputs.items()],
            "parameters": {"binary_data_output": True}}
    if "outputs" in rest:
        head["outputs"] = [{"name": n, "parameters": {"binary_data": True}} for n in rest["outputs"]]
    return head, b"".join(d for _, _, d in inputs.values())


def send_http(connection, rest, text, data, headers=None):
    """(Whether the request was refused, the text)."""
    model = "".join(c if c.isalnum() or c in "._-" else "%" + format(ord(c), "02x") for c in rest["model"])
    version = f"/versions/{rest['version']}" if "version" in rest else ""
    status, _, body = connection.ask("POST", f"/v2/models/{model}{version}/infer", text + data,
                                     headers or {"Inference-Header-Content-Length": str(len(text))})
    if status == 200:
        return False, ""
    try:
        return True, json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return True, body.decode(errors="replace") if status in (404, 405) else ""  # a path that is not one of the protocol


def send_grpc(grpc, inputs, rest):
    m = grpc.messages.ModelInferRequest(model_name=rest["model"], model_version=rest.get("version", ""))
    for n, (s, t, d) in inputs.items():
        m.inputs.add(name=n, datatype=t, shape=s)
        m.raw_input_contents.append(d)
    for n in rest.get("outputs", []):
        m.outputs.add(name=n)
    found = grpc.ask(m)
    return isinstance(found, str), found


# ---- Faults of HTTP's JSON: its text is changed ----

VALUES = [None, True, -1, 1.5, 2**64, 1e300, "", "x", [], {}, [[]], [None], {"x": 1}]


def places(value, path=()):
    """The paths of all members and elements of VALUE."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def wrong_json(r, head):
    """HEAD's text with a member of another type; only the request's id and parameters may be refused or not."""
    path = r.choice([p for p in places(head) if p[-1] not in ("binary_data", "binary_data_output")])
    at = head
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = r.choice([v for v in VALUES if v != at[path[-1]]])
    return json.dumps(head).encode()


def noise(r, text):
    cut = bytearray(text)
    for _ in range(r.randrange(1, 6)):
        cut[r.randrange(len(cut))] = r.randrange(256)
    return bytes(cut[:r.randrange(1, len(cut) + 1)])


def run(connection, grpc, rights, count, alive):
    """Sends COUNT requests made from RIGHTS, {model: {name: array}}; ALIVE() checks right ones. GRPC may be null. Returns the faults as texts."""
    from server import pack

    found, texts = [], set()
    for seed in range(count):
        r = random.Random(seed)
        model = r.choice(sorted(rights))
        inputs = {name: [list(a.shape), *pack(a)] for name, a in rights[model].items()}
        rest = {"model": model}
        kind = r.randrange(10)
        fault = r.choice(FAULTS)
        if kind < 8:  # a fault that is surely one
            fault(r, inputs, rest)
            if kind < 4 and grpc:
                refused, text = send_grpc(grpc, inputs, rest)
            else:
                head, data = over_http(inputs, rest)
                refused, text = send_http(connection, rest, json.dumps(head).encode(), data)
            name = f"{fault.__name__} {'over gRPC' if kind < 4 and grpc else 'over HTTP'} (seed {seed})"
            if not refused:
                found.append(f"{name}: not refused: {model} {inputs if len(str(inputs)) < 400 else len(str(inputs))} {rest}")
            elif len(text) < 8:
                found.append(f"{name}: no reason: {text!r}")
        else:  # one that may leave a right request
            head, data = over_http(inputs, rest)
            text = wrong_json(r, head) if kind == 8 else noise(r, json.dumps(head).encode() + data)
            length = {"Inference-Header-Content-Length": str(r.choice([len(text), len(text) - 1, 0, 2**31, -1, "x"]))} if kind == 9 else None
            refused, text = send_http(connection, rest, text, data if kind == 8 else b"", length)
            if refused and len(text) < 8:
                found.append(f"changed {'JSON' if kind == 8 else 'bytes'} (seed {seed}): no reason: {text!r}")
        texts.add(text if isinstance(text, str) else "")
        if seed % 50 == 49 or seed == count - 1:
            alive()
    assert len(texts) > 20, "the texts do not tell what is wrong"
    return found
