# SPDX-License-Identifier: Apache-2.0
# For scripts that make cases (folders with model.onnx and test_data_set_0) and run them: sourced, from the root. Sets
# BUILD, PYTHON, TMP and cases, the folder for them (KEEP: one that stays). NEEDS: the Python packages. ATOL: an absolute
# tolerance of floats.
BUILD=${BUILD:-$PWD/build}
PYTHON=${PYTHON:-python3}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM

"$PYTHON" -c "import $NEEDS" 2>/dev/null || { echo "no $NEEDS"; exit 77; }
cases=${KEEP:-$TMP/cases}
mkdir -p "$cases"

# Whether x.so gives the results of case $1, by the tolerance of ONNX's own cases or, since a step of bf16 alone is more than that,
# by the noise that dlrun measures.
judged() {
	"$BUILD/bin/dlrun" "$TMP/x.so" --rtol 1e-3 --atol "$(cat "$1/atol" 2>/dev/null || echo 1e-5)" --data "$1" || "$BUILD/bin/dlrun" "$TMP/x.so" --data "$1"
}

# Evaluates all cases, and compiles and runs every $1th of those that pass; prints what failed, and the counts.
run_cases() {
	local i=0 total passed c quick=
	[ -n "${DLCC_FLAGS:-}" ] || quick=--cc=tests/tools/clang-O0
	ls -d "$cases"/* | "$BUILD/tests/tools/evalcase" ${ATOL:+--atol=$ATOL} >"$TMP/out" 2>&1
	total=$(ls "$cases" | wc -l)
	for c in "$cases"/*; do
		i=$((i + 1))
		[ $((i % $1)) = 0 ] && grep -q "^PASS $c\$" "$TMP/out" || continue
		total=$((total + 1))
		if "$BUILD/bin/dlcc" -O1 $quick "$c/model.onnx" -o "$TMP/x.so" >"$TMP/said" 2>&1 &&
			judged "$c" >"$TMP/said" 2>&1; then
			echo "PASS compiled $c"
		else
			echo "FAIL compiled $c: $(tail -1 "$TMP/said")"
		fi >>"$TMP/compiled"
	done
	cat "$TMP/compiled" >>"$TMP/out"
	passed=$(grep -c ^PASS "$TMP/out")
	grep -v ^PASS "$TMP/out" | sed "s#$cases/##g"
	echo "$passed passed, $((total - passed)) failed"
	[ "$passed" = "$total" ]
}
