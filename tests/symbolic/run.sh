#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ONNX's node cases with symbolic dims (symbolic.py), and random elementwise ops and moves of data (random_moves.py;
# SEED, COUNT), evaluated. Every EACHth (20th) is compiled and run as well. KEEP: a folder that the cases stay in.
set -u
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-$PWD/build}
PYTHON=${PYTHON:-python3}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM

"$PYTHON" -c 'import onnx' 2>/dev/null || { echo "no onnx"; exit 77; }
${CC:-cc} -std=gnu11 -g -O1 -I. -I"$BUILD/gen" -I"$BUILD/gen/frontend" -D_GNU_SOURCE -o "$TMP/evalcase" \
	tests/tools/evalcase.c "$BUILD/lib/libdlcc.a" -lprotobuf-c -lisl -lm -lpthread -ldl || exit 1
cases=${KEEP:-$TMP/cases}
mkdir -p "$cases"
"$BUILD/bin/dlcc" --list-ops >"$TMP/ops" || exit 1
"$PYTHON" -W ignore tests/symbolic/symbolic.py "$cases" "$TMP/ops" || exit 1
"$PYTHON" -W ignore tests/symbolic/random_moves.py "$cases" "${SEED:-1}" "${COUNT:-12}" || exit 1
ls -d "$cases"/* | "$TMP/evalcase" >"$TMP/out" 2>&1
total=$(ls "$cases" | wc -l)

i=0
for c in "$cases"/*; do
	i=$((i + 1))
	[ $((i % ${EACH:-20})) = 0 ] && grep -q "^PASS $c\$" "$TMP/out" || continue
	total=$((total + 1))
	if "$BUILD/bin/dlcc" -O1 "$c/model.onnx" -o "$TMP/x.so" >"$TMP/said" 2>&1 &&
		"$BUILD/bin/dlrun" "$TMP/x.so" --rtol 1e-3 --atol 1e-5 --data "$c" >"$TMP/said" 2>&1; then
		echo "PASS compiled $c"
	else
		echo "FAIL compiled $c: $(tail -1 "$TMP/said")"
	fi
done >>"$TMP/out"

passed=$(grep -c ^PASS "$TMP/out")
grep -v ^PASS "$TMP/out" | sed "s#$cases/##g"
echo "$passed passed, $((total - passed)) failed"
[ "$passed" = "$total" ]
