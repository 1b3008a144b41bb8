#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random products and convolutions on every kind of CPU that can be had here: this one, at each of its levels, and 64-bit Arm where
# aarch64-linux-gnu-gcc and qemu-aarch64 are installed (apt-get install gcc-aarch64-linux-gnu qemu-user). Prints "N passed, N failed, N skipped".
#	run.sh [SEED]           TESTS=all run.sh: 2,000 products and 500 convolutions a CPU
set -u
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-build} PYTHON=${PYTHON:-build/venv/bin/python3}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
[ "${TESTS:-}" = all ] && sizes="2000 500" || sizes="4 1"
# shellcheck disable=SC2086
exec "$PYTHON" tests/cpus/cpus.py "$BUILD" "$TMP" "${1:-1}" $sizes
