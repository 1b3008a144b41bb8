#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Models that are long or deeply nested, under the usual stack and under `ulimit -s 64`: a result, or a diagnostic (test_deep.py).
# Prints "N passed, N failed". TESTS=all run.sh: models of 100,000 nodes
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
case $(basename "$BUILD") in san | tsan)
	echo "sanitizers need stacks of their own size"
	exit 77
	;;
esac
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
"${PYTHON:-build/venv/bin/python3}" tests/deep/test_deep.py "$BUILD" "$TMP"
