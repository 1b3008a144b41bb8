# SPDX-License-Identifier: Apache-2.0
"""Trains the classifier of handwritten digits that the demo compiles: numpy alone, the same bytes each time.

    build/venv/bin/python3 examples/digits/train.py

Writes beside itself digits.onnx (a small CNN, input "scan" f32[N,1,8,8] in 0..1, output "logits" f32[N,10])
and heldout.bin (the scans that training never saw: int32 count, then 64 bytes 0..16 a scan, then a label a
byte). The scans are scikit-learn's load_digits: 1,797 of them, from the UCI repository.
"""

import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

HERE = os.path.dirname(os.path.abspath(__file__))
HELD_OUT = 397
CHANNELS = 16, 32
EPOCHS, BATCH, RATE = 40, 50, 2e-3


def patches(x):
    """x[n,c,h,w] with a border of zeros as [n,h,w,c*9]: the 3 x 3 window around each pixel."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def unpatch(g, c):
    """The transpose of patches."""
    n, h, w, _ = g.shape
    g = g.reshape(n, h, w, c, 3, 3)
    padded = np.zeros((n, c, h + 2, w + 2), g.dtype)
    for r in range(3):
        for s in range(3):
            padded[:, :, r:r + h, s:s + w] += g[:, :, :, :, r, s].transpose(0, 3, 1, 2)
    return padded[:, :, 1:-1, 1:-1]


def conv(x, w, b):
    return (patches(x) @ w.reshape(len(w), -1).T + b).transpose(0, 3, 1, 2)


def forward(p, x):
    """All that the way back needs; the logits last."""
    a = np.maximum(conv(x, p["w1"], p["b1"]), 0)
    n, c, h, w = a.shape
    blocks = a.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
    pooled = blocks.max(-1)
    d = np.maximum(conv(pooled, p["w2"], p["b2"]), 0)
    flat = d.reshape(n, -1)
    return a, blocks, pooled, d, flat, flat @ p["w3"].T + p["b3"]


def gradients(p, x, labels):
    a, blocks, pooled, d, flat, logits = forward(p, x)
    n = len(x)
    e = np.exp(logits - logits.max(1, keepdims=True))
    g = e / e.sum(1, keepdims=True)
    g[np.arange(n), labels] -= 1
    g /= n
    out = {"w3": g.T @ flat, "b3": g.sum(0)}
    g = ((g @ p["w3"]).reshape(d.shape) * (d > 0)).transpose(0, 2, 3, 1)
    out["w2"] = np.tensordot(g, patches(pooled), ((0, 1, 2), (0, 1, 2))).reshape(p["w2"].shape)
    out["b2"] = g.sum((0, 1, 2))
    g = unpatch(g @ p["w2"].reshape(len(p["w2"]), -1), pooled.shape[1])
    first = blocks.argmax(-1)[..., None] == np.arange(4)
    g = (g[..., None] * first).reshape(*g.shape, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(a.shape)
    g = (g * (a > 0)).transpose(0, 2, 3, 1)
    out["w1"] = np.tensordot(g, patches(x), ((0, 1, 2), (0, 1, 2))).reshape(p["w1"].shape)
    out["b1"] = g.sum((0, 1, 2))
    return out


def jitter(rng, x):
    """Moves each scan by up to one pixel."""
    out = np.zeros_like(x)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    dy, dx = rng.integers(0, 3, (2, len(x)))
    for i in range(len(x)):
        out[i] = padded[i, :, dy[i]:dy[i] + 8, dx[i]:dx[i] + 8]
    return out


def train(x, labels):
    rng = np.random.default_rng(1)
    shapes = {"w1": (CHANNELS[0], 1, 3, 3), "w2": (CHANNELS[1], CHANNELS[0], 3, 3), "w3": (10, CHANNELS[1] * 16)}
    p = {k: rng.normal(0, np.sqrt(2 / np.prod(s[1:])), s).astype(np.float32) for k, s in shapes.items()}
    p.update({"b" + k[1]: np.zeros(s[0], np.float32) for k, s in shapes.items()})
    m = {k: np.zeros_like(v) for k, v in p.items()}
    v = {k: np.zeros_like(w) for k, w in p.items()}
    step, steps = 0, EPOCHS * (len(x) // BATCH)
    for epoch in range(EPOCHS):
        order = rng.permutation(len(x))
        moved = jitter(rng, x) if epoch < EPOCHS - 5 else x
        for start in range(0, len(x) - BATCH + 1, BATCH):
            i = order[start:start + BATCH]
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for k, g in gradients(p, moved[i], labels[i]).items():  # Adam
                m[k] += 0.1 * (g - m[k])
                v[k] += 0.001 * (g * g - v[k])
                p[k] -= (rate / (1 - 0.9**step) * m[k] /
                         (np.sqrt(v[k] / (1 - 0.999**step)) + 1e-8)).astype(np.float32)
    return p


def write_model(p, path):
    nodes = [
        helper.make_node("Conv", ["scan", "w1", "b1"], ["c1"], "conv1", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2", "b2"], ["c2"], "conv2", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("Flatten", ["r2"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "w3", "b3"], ["logits"], "classify", transB=1),
    ]
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("scan", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(p[k], k) for k in sorted(p)])
    model = helper.make_model(graph, producer_name="examples/digits/train.py", ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model, full_check=True)
    with open(path, "wb") as f:
        f.write(model.SerializeToString(deterministic=True))


def main():
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    held, kept = order[:HELD_OUT], order[HELD_OUT:]
    x = (digits.images / 16).astype(np.float32)[:, None]
    p = train(x[kept], digits.target[kept])
    right = forward(p, x[held])[-1].argmax(1) == digits.target[held]
    print(f"held-out accuracy {right.mean():.4f}: {right.sum()} of {len(held)}")
    write_model(p, os.path.join(HERE, "digits.onnx"))
    with open(os.path.join(HERE, "heldout.bin"), "wb") as f:
        f.write(np.int32(len(held)).tobytes())
        f.write(digits.images[held].astype(np.uint8).tobytes())
        f.write(digits.target[held].astype(np.uint8).tobytes())


if __name__ == "__main__":
    main()
