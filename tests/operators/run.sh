#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Models with operators that a file defines, through --op and the Python package. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
root=$PWD
build=$(cd "${BUILD:-build}" && pwd)
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
"$root/build/venv/bin/python3" "$root/tests/operators/models.py" "$build"
