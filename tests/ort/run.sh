#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dlcc.ort beside ONNX Runtime: values, types and exception classes of both, programs that say import onnxruntime, and the cache.
# run.sh [NAME ...]; prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
case $(basename "$BUILD") in san | tsan)
	echo "Python cannot load models that are linked with a sanitizer"
	exit 77
	;;
esac
PATH="$BUILD/bin:$PATH" BUILD=$BUILD PYTHONDONTWRITEBYTECODE=1 exec "${PYTHON:-build/venv/bin/python3}" tests/ort/test_ort.py "$@"
