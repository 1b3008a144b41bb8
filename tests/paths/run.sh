#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every option of the programs, and of Python's compile, that takes a file, a folder or a word, with 300 forms of those that are
# hostile or wrong (test_paths.py). Prints "N passed, N failed".
#	run.sh [NAME ...]       the options whose names contain one of these; TESTS=all run.sh: all forms for each
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
case $(basename "$BUILD") in tsan) echo "these tests have no threads"; exit 77 ;; esac
TMP=$(mktemp -d) || exit 2
trap 'chmod -R u+rwx "$TMP"; rm -rf "$TMP"' EXIT INT TERM
chmod 755 "$TMP"
"${PYTHON:-build/venv/bin/python3}" tests/paths/test_paths.py "$BUILD" "$TMP" "$@"
