#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The memory that runs of compiled models need at most, for operators whose obvious form needs more than their operands and results:
# transforms, results whose sizes the elements decide. Prints "N passed, N failed".
#	run.sh [NAME]	needs BUILD/bin, and numpy and onnx in build/venv. NAME: the cases with NAME in theirs
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
"${PYTHON:-build/venv/bin/python3}" tests/memory/test_memory.py "$BUILD" "$TMP" "$@"
