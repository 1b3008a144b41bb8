#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Products with quantised weights, from models and by --weights-as, beside NumPy (weight_only.py). run.sh [TEST ...];
# prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd) PYTHON=${PYTHON:-build/venv/bin/python3}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
"$PYTHON" tests/weight_only/weight_only.py "$BUILD" "$TMP" "$@"
