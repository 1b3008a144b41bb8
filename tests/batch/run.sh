#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random graphs with a size that is called a batch: each of its elements by itself gives what it gives in the batch. run.sh [SEED COUNT].
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
case $(basename "$BUILD") in san | tsan)
	echo "Python cannot load models that are linked with a sanitizer"
	exit 77
	;;
esac
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
"${PYTHON:-build/venv/bin/python3}" tests/batch/test_batch.py "$BUILD" "$TMP" "${1:-1}" "${2:-30}"
