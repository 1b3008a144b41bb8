#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Quantised models beside ONNX Runtime and eval (quantised.py). run.sh [MODEL.onnx ...]; prints "N passed, N failed". Without
# MODEL: the classifier of examples/digits, quantised in three ways, and with TESTS=all the quantised graphs under BENCH.
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
case $(basename "$BUILD") in san | tsan)
	echo "Python cannot load models that are linked with a sanitizer"
	exit 77
	;;
esac
export BUILD PATH="$BUILD/bin:$PATH" PYTHONPATH="$PWD/python" PYTHONDONTWRITEBYTECODE=1
exec "${PYTHON:-build/venv/bin/python3}" tests/quantised/quantised.py "$@"
