#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `make layers` refuses an include from a folder of passes/ to a later one, from a layer to one above it, and of a strategy's private
# header, and says which file does it: each is added to a copy of the sources. Prints "N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 2
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
passed=0
failed=0
mkdir "$TMP/tests"
cp tests/layers.py "$TMP/tests"
cp -r base ir ops frontend passes codegen runtime tools "$TMP"

# FILE HEADER WHAT: an include of HEADER in FILE is refused, and the message says WHAT
refused() {
	printf '#include "%s"\n' "$2" >>"$TMP/$1"
	out=$(python3 "$TMP/tests/layers.py")
	status=$?
	cp "$1" "$TMP/$1"
	if [ "$status" -eq 1 ] && grep -q "^$1:[0-9]*: error: includes \"$2\".*$3" <<<"$out"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL %s with %s: exit %d: %s\n' "$1" "$2" "$status" "$out"
	fi
}

refused passes/kernel/fuse.c passes/schedule/cpu/cpu.h "only those before them"
refused passes/layout/panels.c passes/schedule/gpu/gpu.h "only those before them"
refused passes/forms/product.c passes/layout/panels.h "only those before them"
refused ir/dim/dim.c ops/op.h "ir/ may include"
refused tools/ptxsim/run.c ir/dim/dim.h "tools/ptxsim/ may include"
refused passes/schedule/cpu/row.c passes/schedule/cpu/gemm_impl.h "another strategy"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
