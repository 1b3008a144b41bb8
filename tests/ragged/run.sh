#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The graph dlrm_ragged of the folder BENCH beside ONNX Runtime (ragged.py). Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
case $(basename "$BUILD") in san | tsan)
	echo "Python cannot load models that are linked with a sanitizer"
	exit 77
	;;
esac
if [ ! -e "${BENCH:-../shared/bench}/graphs/dlrm_ragged.onnx" ]; then
	echo "BENCH has no graph dlrm_ragged"
	exit 77
fi
export BUILD PATH="$BUILD/bin:$PATH" PYTHONPATH="$PWD/python" PYTHONDONTWRITEBYTECODE=1
exec "${PYTHON:-build/venv/bin/python3}" tests/ragged/ragged.py
