#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Structured ops over random attributes, shapes and element types, evaluated and compared with ONNX Runtime
# or ONNX's reference: tests/ops/random_ops.py makes the cases. SEED, COUNT: which, and how many of a kind.
set -u
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-$PWD/build}
PYTHON=${PYTHON:-python3}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM

"$PYTHON" -c 'import onnx, onnxruntime' 2>/dev/null || { echo "no onnx or onnxruntime"; exit 77; }
${CC:-cc} -std=gnu11 -g -O1 -I. -I"$BUILD/gen" -I"$BUILD/gen/frontend" -D_GNU_SOURCE -o "$TMP/evalcase" \
	tests/tools/evalcase.c "$BUILD/lib/libdlcc.a" -lprotobuf-c -lisl -lm -lpthread -ldl || exit 1
"$PYTHON" tests/ops/random_ops.py "$TMP/cases" "${SEED:-1}" "${COUNT:-12}" || exit 1
ls -d "$TMP"/cases/* | "$TMP/evalcase" >"$TMP/out" 2>&1
passed=$(grep -c ^PASS "$TMP/out")
failed=$(($(ls "$TMP/cases" | wc -l) - passed))
grep -v ^PASS "$TMP/out" | sed "s#$TMP/cases/##g"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
