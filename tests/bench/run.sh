#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench/run.py on a tiny model, beside ONNX Runtime, in some seconds. Prints "N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 2
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
build/venv/bin/python3 tests/bench/test_bench.py "${BUILD:-build}" "$TMP"
