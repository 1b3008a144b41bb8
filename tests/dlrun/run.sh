#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of dlrun on the artifacts of tests/runtime. Prints "N passed, N failed".
#	run.sh [BUILD]        needs BUILD/bin/dlrun, and numpy and onnx in build/venv
set -u
cd "$(dirname "$0")/../.." || exit 2
CC=${CC:-cc}
BUILD=${1:-build}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
so="$CC -std=gnu11 -I. -D_GNU_SOURCE -fPIC -fvisibility=hidden -shared -DBESIDE"
$CC -std=gnu11 -I. -D_GNU_SOURCE tests/runtime/test_runtime.c tests/runtime/test_calls.c tests/runtime/test_threads.c tests/runtime/test_weights.c -o "$TMP/t" -lpthread -ldl &&
	hash=$("$TMP/t" --weights "$TMP/nonzero.weights") &&
	$so tests/runtime/relu_mul.c runtime/*.c -o "$TMP/relu_mul.so" &&
	$so "-DWEIGHTS_HASH=$hash" tests/runtime/nonzero.c runtime/*.c -o "$TMP/nonzero.so" || {
	echo "0 passed, 1 failed"
	exit 1
}
build/venv/bin/python3 tests/dlrun/test_dlrun.py "$BUILD/bin/dlrun" "$TMP"
