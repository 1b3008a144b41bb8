#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Changes of emitted PTX that the simulator must notice (mutate.py). Prints "N passed, N failed".
#	run.sh        a share; TESTS=all run.sh: all of the sample
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-build}
if [ ! -e "$BUILD/ptxsim/libcuda.so.1" ] || ! "$BUILD/bin/dlcc" --list-targets | grep -q cuda:; then
	echo "dlcc makes no code for GPUs, or the simulator was not built"
	exit 77
fi
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
[ "${TESTS:-}" = all ] && count=200 || count=40
"${PYTHON:-build/venv/bin/python3}" tests/mutate/mutate.py --build "$BUILD" --count "$count" "$TMP"
