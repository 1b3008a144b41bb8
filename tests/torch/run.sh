#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# torch.compile(backend="dlcc") and dlcc.export beside eager PyTorch (check.py), with the Python of build/venv-torch, or $PYTHON, if
# that has torch; skipped if none has. `python3 -m venv build/venv-torch && build/venv-torch/bin/pip install torch onnx onnxscript` makes one.
cd "$(dirname "$0")/../.." || exit 1
PATH=$(cd "${BUILD:-build}" && pwd)/bin:$PATH
export PATH
for python in build/venv-torch/bin/python3 "$PYTHON"; do
	if "$python" -c 'import torch, onnxscript' 2>"${TMPDIR:-/tmp}/torch-missing"; then
		PYTHONPATH=python exec "$python" tests/torch/check.py
	fi
done
echo "no Python with torch and onnxscript: $(tail -n 1 "${TMPDIR:-/tmp}/torch-missing")"
exit 77
