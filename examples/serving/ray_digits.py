# SPDX-License-Identifier: Apache-2.0
"""Ray Serve with a compiled model, which batches requests: ray_digits.py digits.so [HOST [PORT]].

    curl -d '{"scan": [[0, 0, 5, ...], ...]}' http://127.0.0.1:8000/

A scan is 1 x 8 x 8, as in examples/digits; the answer is {"digit": 3}."""
import os
import sys
import time

from ray import serve


@serve.deployment
class Digits:
    def __init__(self, path):
        import dlcc  # in the worker, which has a process of its own

        self.model = dlcc.load(path, threads=1)

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.002)
    async def digits(self, scans):
        import numpy as np

        return self.model(np.stack(scans)).argmax(-1).tolist()

    async def __call__(self, request):
        import numpy as np

        scan = np.array((await request.json())["scan"], np.float32).reshape(1, 8, 8)
        return {"digit": await self.digits(scan)}


def main(path, host="127.0.0.1", port="8000"):
    serve.start(http_options={"host": host, "port": int(port)})
    serve.run(Digits.bind(os.path.abspath(path)))
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
