#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package: test_*.py here, and the examples of docs/python.md. run.sh [NAME ...]; prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
case $(basename "$BUILD") in san | tsan)
	echo "Python cannot load models that are linked with a sanitizer"
	exit 77
	;;
esac
export BUILD PATH="$BUILD/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
exec "${PYTHON:-build/venv/bin/python3}" tests/python/run.py "$@"
