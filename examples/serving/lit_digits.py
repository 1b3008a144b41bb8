# SPDX-License-Identifier: Apache-2.0
"""LitServe with a compiled model, which batches requests: lit_digits.py digits.so [HOST [PORT]].

    curl -d '{"scan": [[0, 0, 5, ...], ...]}' -H 'Content-Type: application/json' http://127.0.0.1:8000/predict

A scan is 1 x 8 x 8, as in examples/digits; the answer is {"digit": 3}."""
import sys

import dlcc
import litserve
import numpy as np


class Digits(litserve.LitAPI):
    def __init__(self, path, **options):
        super().__init__(**options)
        self.path = path

    def setup(self, device):
        self.model = dlcc.load(self.path)

    def decode_request(self, request):
        return np.array(request["scan"], np.float32).reshape(1, 8, 8)

    def batch(self, scans):
        return np.stack(scans)

    def predict(self, scans):
        return self.model(scans).argmax(-1)

    def unbatch(self, digits):
        return list(digits)

    def encode_response(self, digit):
        return {"digit": int(digit)}


def main(path, host="127.0.0.1", port="8000"):
    # one thread of dlcc for each worker would be threads=1 in dlcc.load; here one worker has all processors
    server = litserve.LitServer(Digits(path, max_batch_size=16, batch_timeout=0.002), accelerator="cpu", workers_per_device=1)
    server.run(host=host, port=int(port), generate_client_file=False)


if __name__ == "__main__":  # LitServe's workers import this file
    main(*sys.argv[1:])
