#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Structured ops over random attributes, shapes and element types, evaluated and compared with ONNX Runtime
# or ONNX's reference: tests/ops/random_ops.py makes the cases. SEED, COUNT: which, and how many of a kind.
# Every fourth is compiled and run as well. KEEP: a folder that the cases stay in.
set -u
cd "$(dirname "$0")/../.." || exit 2
NEEDS="onnx, onnxruntime"
. tests/tools/evalcases.sh
[ "${TESTS:-}" = all ] && COUNT=${COUNT:-12}
"$PYTHON" tests/ops/random_ops.py "$cases" "${SEED:-1}" "${COUNT:-4}" || exit 1
run_cases 4
