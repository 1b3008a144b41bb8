# SPDX-License-Identifier: Apache-2.0
"""Classifiers with trained weights after dlcc --int8, beside themselves in f32.

    agreement.py DLCC CORPUS MODEL.onnx      the classifier of examples/digits; the others are searched in CORPUS/models

Each model gets 32 samples to calibrate with and 500 other inputs, from data that comes with scikit-learn and from the files of the Python
packages that the tests pin. It is quantised without a budget; where fewer than 99 % of the inputs get the same class as in f32, with smaller and smaller
budgets (--max-error), which keep layers in f32. The model that is then written as ONNX runs in ONNX Runtime, with its optimisations off:
on AVX2 these let sums of bytes saturate. Prints a table, and an error for each model that no budget brings to 99 %, or whose written
form gives fewer than 99 % of the inputs the same class.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import sklearn

import dlcc

SAMPLES, INPUTS, WANTED = 32, 500, 0.99
BUDGETS = None, "0.05", "0.02", "0.01", "0.005"


def resized(x, height, width):
    """Bilinear, of [rows, columns, ...]."""
    def points(size, count):
        at = np.clip((np.arange(count) + 0.5) * size / count - 0.5, 0, size - 1)
        low = np.minimum(at.astype(int), size - 2)
        return low, at - low
    (i, u), (j, v) = points(x.shape[0], height), points(x.shape[1], width)
    more = (1,) * (x.ndim - 2)
    u, v = u.reshape(-1, 1, *more), v.reshape(1, -1, *more)
    rows = x[i] * (1 - u) + x[i + 1] * u
    return rows[:, j] * (1 - v) + rows[:, j + 1] * v


def digits(count, rng, size, ink):
    """Handwritten digits at SIZE, in a border as MNIST's, moved and of another contrast; INK is the largest value, or None: they have
    the mean and the deviation of MNIST."""
    from sklearn.datasets import load_digits
    images = load_digits().images[rng.permutation(1797)[:count]]
    out = np.zeros((count, 1, size, size), np.float32)
    inner = size * 5 // 7
    for y, x in zip(out, images):
        top, left = (size - inner) // 2 + rng.integers(-2, 3, 2)
        y[0, top:top + inner, left:left + inner] = resized(x / 16, inner, inner) * rng.uniform(0.8, 1) * (ink or 1)
    return out if ink else (out - np.float32(0.1307)) / np.float32(0.3081)


def scans(count, rng):
    """Handwritten digits of 8 by 8, with noise."""
    from sklearn.datasets import load_digits
    x = load_digits().images[rng.permutation(1797)[:count], None] / 16
    return np.clip(x + rng.normal(0, 0.05, x.shape), 0, 1).astype(np.float32)


def photographs(count, rng, height, width, low, high):
    """Parts of two photographs, mirrored and of other brightness, at this size, from LOW to HIGH."""
    from sklearn.datasets import load_sample_images
    images = load_sample_images().images
    out = []
    for i in range(count):
        x = images[i % len(images)].astype(np.float32) / 255
        rows = int(rng.integers(height, x.shape[0] + 1))
        columns = min(x.shape[1], rows * width // height)
        top, left = rng.integers(0, x.shape[0] - rows + 1), rng.integers(0, x.shape[1] - columns + 1)
        x = resized(x[top:top + rows, left:left + columns], height, width)
        x = x[:, ::rng.choice((-1, 1))] * rng.uniform(0.7, 1.3)
        out.append(np.clip(x, 0, 1).transpose(2, 0, 1) * (high - low) + low)
    return np.array(out, np.float32)


def texts(count, rng):
    """The first and the last 1,024 bytes of parts of packages' files, as numbers; 256 stands for none."""
    names = [n for package in (np, onnx, sklearn) for kind in ("py", "pyi", "h", "c", "pyx", "txt", "md", "rst", "csv", "json", "html", "css", "build", "proto")
             for n in sorted(glob.glob(f"{os.path.dirname(package.__file__)}/**/*.{kind}", recursive=True)) if os.path.getsize(n) > 200]
    out = np.full((count, 2048), 256, np.int32)
    for y in out:
        text = open(names[rng.integers(len(names))], "rb").read().strip()
        start = int(rng.integers(0, max(1, len(text) // 2)))
        text = text[start:start + int(rng.integers(200, 20000))].strip()
        head, tail = text[:1024], text[-1024:]
        y[:len(head)] = list(head)
        y[2048 - len(tail):] = list(tail)
    return out


MODELS = {
    "digits": scans,
    "cls/mnist_burn_o16": lambda n, rng: digits(n, rng, 28, None),
    "cls/mnist_cntk8": lambda n, rng: digits(n, rng, 28, 255),
    "cls/mnist_rten_o18_fn": lambda n, rng: digits(n, rng, 28, None),
    "cls/winml_imageclassifier": lambda n, rng: photographs(n, rng, 32, 32, 0, 1),
    "cls/ppocr_angle_cls": lambda n, rng: photographs(n, rng, 48, 192, -1, 1),
    "nlp/magika_v3": texts,
}


def classes(artifact, inputs, batch):
    model = dlcc.load(artifact)
    return np.concatenate([np.asarray(model(inputs[i:i + batch])).reshape(min(batch, len(inputs) - i), -1).argmax(1)
                           for i in range(0, len(inputs), batch)])


def written(path, inputs, batch):
    """Classes by ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: inputs[i:i + batch]})[0].reshape(min(batch, len(inputs) - i), -1).argmax(1)
                           for i in range(0, len(inputs), batch)])


def fixed_batch(path):
    graph = onnx.load(path, load_external_data=False).graph
    known = {t.name for t in graph.initializer}
    first = next(v for v in graph.input if v.name not in known)
    return first.type.tensor_type.shape.dim[0].dim_value == 1


def judge(program, name, path, make, folder):
    """Prints rows of the table. Returns what is wrong, or None."""
    rng = np.random.default_rng(7)
    together = make(SAMPLES + INPUTS, rng)
    samples, inputs = together[:SAMPLES], together[SAMPLES:]
    batch = 1 if fixed_batch(path) else 16
    os.makedirs(f"{folder}/samples")
    for i, x in enumerate(samples):
        np.save(f"{folder}/samples/{i}.npy", x[None])
    said = subprocess.run([program, path, "-o", f"{folder}/f32.so"], capture_output=True, text=True, check=False)
    if said.returncode:
        return said.stderr.strip()
    want = classes(f"{folder}/f32.so", inputs, batch)
    for budget in BUDGETS:
        options = ["--int8", f"--calibrate={folder}/samples"] + ([f"--max-error={budget}"] if budget else [])
        said = subprocess.run([program, path, *options, "-o", f"{folder}/int8.so"], capture_output=True, text=True, check=False)
        layers = re.search(r"int8: (\d+ of \d+) layers, with ([0-9.]+%)", said.stdout + said.stderr)
        if said.returncode or not layers:
            return said.stderr.strip() or "the compiler says nothing of layers"
        got = classes(f"{folder}/int8.so", inputs, batch)
        same = (got == want).mean()
        row = f"| {name} | {budget or 'none'} | {layers[1]} | {layers[2]} | {len(set(want.tolist()))} | {same:.1%} |"
        if same < WANTED:
            print(row, "|", flush=True)
            continue
        subprocess.run([program, path, *options, "-o", f"{folder}/int8.onnx"], capture_output=True, check=True)
        alike = (written(f"{folder}/int8.onnx", inputs, batch) == got).mean()
        print(row, f"{alike:.1%} |", flush=True)
        return None if alike >= WANTED else f"ONNX Runtime gives {alike:.1%} of the inputs the same class"
    return f"no budget gives {WANTED:.0%} of {INPUTS} inputs the same class"


def main(program, corpus, digits_model):
    lost = 0
    print("| model | budget | layers in int8 | their multiply-adds | classes in f32 | same class in int8 | in ONNX Runtime as in dlcc |\n"
          "|---|---|---|---|---|---|---|")
    for name, make in MODELS.items():
        path = digits_model if name == "digits" else os.path.join(corpus, "models", name, "model.onnx")
        if not os.path.exists(path):
            print(f"| {name} | is not there | | | | | |")
            continue
        with tempfile.TemporaryDirectory() as folder:
            why = judge(program, name, path, make, folder)
        if why:
            print(f"error: {name}: {why}")
            lost += 1
    return lost > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
