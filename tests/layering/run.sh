#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Includes that `make layers` refuses: from a folder of passes/ to a later one, from a layer to one above it, of a strategy's private
# header; each is added to a copy of the sources, and the message says which file does it. Prints "N passed, N failed".
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
printf 'bool b(Kernel *k) { return stmt_contraction(k, 0, 0); }\n' >>"$TMP/passes/layout/layout.c"
if python3 "$TMP/tests/layers.py" >"$TMP/out"; grep -q '^passes/layout/layout.c:[0-9]*: error: recognises a contraction by itself' "$TMP/out"; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "FAIL passes/layout/layout.c may call stmt_contraction"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
