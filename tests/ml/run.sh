#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The operators of ai.onnx.ml over random models, evaluated and compared with ONNX Runtime: random_ml.py makes the
# cases. SEED, COUNT: which, and how many of a kind. Every fourth is compiled and run as well. KEEP: a folder that
# the cases stay in.
set -u
cd "$(dirname "$0")/../.." || exit 2
NEEDS="onnx, onnxruntime"
. tests/tools/evalcases.sh
"$PYTHON" tests/ml/random_ml.py "$cases" "${SEED:-1}" "${COUNT:-4}" || exit 1
run_cases 4
