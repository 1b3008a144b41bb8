#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Long and wide models: what a compile costs grows as the model does. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
exec build/venv/bin/python3 tests/bounds/test_bounds.py "$(cd "${BUILD:-build}" && pwd)/bin/dlcc"
