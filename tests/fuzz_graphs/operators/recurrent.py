# SPDX-License-Identifier: Apache-2.0
"""RNN, GRU and LSTM, whose results are computed by recurrent_run where ONNX Runtime cannot."""

import numpy as np

from grow import SETS, TYPES, one_node, session
from operators.rows import row

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
# Activations, with the number of their parameters. ScaledTanh and Affine have no defaults that all agree on.
ACTIVATIONS = {"Relu": 0, "Tanh": 0, "Sigmoid": 0, "Softsign": 0, "Softplus": 0, "LeakyRelu": 1, "Elu": 1, "HardSigmoid": 2, "ScaledTanh": 2,
               "Affine": 2}
# By which a state may be multiplied in each step without growing: an LSTM by its gate, a GRU by 1 less its gate.
STABLE = {"LSTM": ["Tanh", "Sigmoid", "Softsign", "HardSigmoid", "ScaledTanh"], "GRU": ["Sigmoid", "HardSigmoid"]}


def recurrent_run(op, operands, results, attributes, dirs, hidden):
    """Computes a recurrent node: ONNX Runtime takes one with the time first, and with a step and a sequence at least; and the last state of
    a sequence of no steps, which is its first one, is 0 there."""
    names = [o and f"i{k}" for k, o in enumerate(operands)]
    by_name = [o and o.name for o in operands]
    made = session(one_node(op, names, [f"o{k}" for k in range(results)], {k: a for k, a in attributes.items() if k != "layout"},
                            {f"i{k}": (o.type, o.rank) for k, o in enumerate(operands) if o}))
    batch_first = attributes.get("layout", 0)

    def run(feed):
        given = {n: feed[v] for n, v in zip(names, by_name) if n}
        if batch_first:
            given.update({n: np.ascontiguousarray(given[n].swapaxes(0, 1)) for n in ("i0", "i5", "i6") if n in given})
        steps, batch = given["i0"].shape[:2]
        zeros = np.zeros((dirs, batch, hidden), given["i0"].dtype)
        values = made(given) if steps and batch else \
            [np.zeros((steps,) + zeros.shape, zeros.dtype), given.get("i5", zeros), given.get("i6", zeros)]
        if "i4" in given:
            for last, first in zip(values[1:], ("i5", "i6")):
                last[:, given["i4"] == 0] = given.get(first, zeros)[:, given["i4"] == 0]
        if batch_first:
            values = [v.transpose(2, 0, 1, 3) if v.ndim == 4 else v.swapaxes(0, 1) for v in values]
        return values
    return run


@row(*GATES)
def recurrent(g, op):
    r = g.random
    batch_first, direction = r.random() < 0.3 and not g.nesting, r.choice(("forward", "reverse", "bidirectional"))
    dirs, gates, hidden, inner = 2 if direction == "bidirectional" else 1, GATES[op], r.choice((1, 2, 3, 5, 8, 16)), r.choice((1, 2, 4, 7, 16))
    v = g.pick(lambda v: all(len(set(v.sizes(i))) == 1 for i in (2,)) and max(v.sizes(0) + v.sizes(1)) <= 40, types=("float32",), rank=3)
    if v is None or r.random() < 0.3:
        v = g.new("float32", [g.new_sizes(), g.new_sizes(), (inner,) * SETS], exact=False)
    if v is None or (g.nesting and 0 in v.sizes(0) + v.sizes(1)):          # of which ONNX Runtime ends with SIGFPE
        return None
    v = g.within(v, -9, 9)
    if v is None:
        return None
    inner = v.sizes(2)[0]
    steps, batch = (v.sizes(1), v.sizes(0)) if batch_first else (v.sizes(0), v.sizes(1))

    def weights(*sizes):
        w = g.elements(v.type, sizes, False) * TYPES[v.type].type(0.5)
        return g.feed([w] * SETS, exact=False)
    operands = [v, weights(dirs, gates * hidden, inner), weights(dirs, gates * hidden, hidden), "", "", "", "", ""]
    state = [batch, (dirs,) * SETS, (hidden,) * SETS] if batch_first else [(dirs,) * SETS, batch, (hidden,) * SETS]
    if r.random() < 0.6:
        operands[3] = weights(dirs, 2 * gates * hidden)
    if r.random() < 0.4:
        least = 1 if g.nesting else 0                         # recurrent_run does not mend what a body has
        operands[4] = g.feed([np.array([min(r.choice((least, 1, t, r.randint(least, t))), t) for _ in range(b)], np.int32) for t, b in zip(steps, batch)])
    if r.random() < 0.4:
        operands[5] = g.new(v.type, state, exact=False)
    if op == "LSTM" and r.random() < 0.4:
        operands[6] = g.new(v.type, state, exact=False)
    if op == "LSTM" and r.random() < 0.3:
        operands[7] = weights(dirs, 3 * hidden)
    attributes = {"direction": direction, "hidden_size": hidden}
    if batch_first:
        attributes["layout"] = 1
    if r.random() < 0.3 and op != "LSTM":                     # ONNX Runtime does not clip what its last activation takes
        attributes["clip"] = r.choice((0.5, 2.0))
    if op == "GRU":
        attributes["linear_before_reset"] = r.randrange(2)
    if op == "LSTM" and r.random() < 0.3:
        attributes["input_forget"] = 1
    if r.random() < 0.5:
        chosen = [r.choice(list(ACTIVATIONS)) for _ in range(FUNCTIONS[op] * dirs)]
        if max(steps) > 3 and op != "RNN":
            # A state that grows in each step makes roundings grow, until it overflows. ONNX Runtime clips gates to the
            # largest float, also without the attribute `clip`; dlcc and the standard do not.
            chosen[::FUNCTIONS[op]] = [r.choice(STABLE[op]) for _ in range(dirs)]
        attributes["activations"] = chosen
        for name, least in ("activation_alpha", 1), ("activation_beta", 2):
            count = sum(ACTIVATIONS[f] >= least for f in chosen)
            if count:
                attributes[name] = [r.choice((0.25, 0.5, 1.0)) for _ in range(count)]
    if any(o is None for o in operands):
        return None
    while operands[-1] == "":
        operands.pop()
    results = r.randint(1, 3 if op == "LSTM" else 2)
    return g.node(op, operands, results, run=lambda: recurrent_run(op, operands, results, attributes, dirs, hidden), **attributes)
