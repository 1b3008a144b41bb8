# SPDX-License-Identifier: Apache-2.0
"""Descriptions: sizes that are batches, and the metadata of the ONNX file, whatever texts it has."""

import os
import subprocess
import tempfile
import unittest

import dlcc
import models
import onnx
from models import compiled

HOSTILE = ['a "quote"', "back\\slash\\", "new\nline\ttab", "??/ ??= trigraphs", "%s%n %d", "*/ int x; /*", "\x01\x7f\x1b[31m", "snowman \u2603 \U0001f600", "",
           "${HOME} $(touch pwned) `touch pwned`", "\\x41\\u0042 \\0", "a" * 70000]


class Describe(unittest.TestCase):
    def test_batch(self):
        """Only sizes along which elements are computed independently."""
        with compiled("(float[b,s] x, float[s,3] w) => (float[b,3] y, float[s,3] z) { y = MatMul(x, w) z = Softmax <axis = 0> (w) }") as model:
            self.assertEqual({s.name: s.independent for s in model.describe().symbols}, {"b": True, "s": False})
            self.assertIn("0 <= b, a batch", str(model.describe()))

    def test_no_metadata(self):
        with compiled("(float[n] x) => (float[n] y) { y = Relu(x) }") as model:
            self.assertEqual(model.describe().metadata, dlcc.Metadata())

    def test_metadata(self):
        """The texts come back as they are, also through the IR's text, and through a quantised ONNX file but for the producer."""
        proto = models.model("(float[n,32] x, float[32,32] w) => (float[n,32] y) { y = MatMul(x, w) }")
        proto.producer_name, proto.producer_version, proto.domain = HOSTILE[:3]
        proto.doc_string, proto.graph.name, proto.graph.doc_string = HOSTILE[3:6]
        proto.model_version = -2**63
        properties = {text[:20] + str(i): text for i, text in enumerate(HOSTILE)}
        onnx.helper.set_model_props(proto, properties)
        expected = dlcc.Metadata(*HOSTILE[:6], -2**63, properties)
        with tempfile.TemporaryDirectory() as folder:
            path, text, again, written = (os.path.join(folder, n) for n in ("m.onnx", "m.dl", "again.dl", "written.onnx"))
            onnx.save(proto, path)
            for source, out in ((path, text), (text, again)):
                subprocess.run(["dlcc", source, "-o", out], check=True)
            subprocess.run(["dlcc", path, "-o", written], check=True)
            with open(text, "rb") as a, open(again, "rb") as b:
                self.assertEqual(a.read(), b.read())
            for source in (path, text):
                with dlcc.compile(source, level=0) as model:
                    self.assertEqual(model.describe().metadata, expected)
            found = onnx.load(written)
            self.assertEqual({p.key: p.value for p in found.metadata_props}, properties)
            self.assertEqual((found.producer_name, found.model_version, found.doc_string), ("dlcc", -2**63, HOSTILE[3]))
