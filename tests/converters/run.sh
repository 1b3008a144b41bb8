#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Models of scikit-learn, LightGBM and XGBoost through their converters (converted.py), evaluated and compared with ONNX
# Runtime. Every EACHth (8th) is compiled and run as well. KEEP: a folder that the cases stay in.
set -u
cd "$(dirname "$0")/../.." || exit 2
ATOL=1e-5 # scores are sums with small results, and 1 - p of a probability p
NEEDS="onnx, onnxruntime, sklearn, skl2onnx"
. tests/tools/evalcases.sh
PYTHONPATH=tests OMP_NUM_THREADS=1 "$PYTHON" tests/converters/converted.py "$cases" || exit 1
run_cases "${EACH:-8}"
