#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Faults put into generated C, by a C compiler that edits it first, are seen: sums that lose a term are out of eval's
# bound for the kernel, also where the rule for whole models would not see it. Prints "N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-build}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
passed=0
failed=0

cat >"$TMP/cc" <<'END'
#!/usr/bin/env bash
for arg; do
	[[ $arg == *.c && -n ${FAULT:-} ]] && sed -i "$FAULT" "$arg"
done
exec gcc "$@"
END
chmod +x "$TMP/cc"

# NAME, the node that sums, and the result: by default 1 + sum/100000
model() {
	cat >"$TMP/$1.dl" <<END
; data x=floats w=floats
; close
; sizes M=9 N=33 K=70
dlir 1
graph @main(%x: f32[M,K], %w: f32[K,N]) -> (%${3:-u}) {
  %small = Const {value = f32[](1e-05)} : f32[]
  %one = Const {value = f32[](1.0)} : f32[]
  %first = Const {value = i64[1](0)} : i64[1]
  %last = Const {value = i64[1](1)} : i64[1]
  %s = $2 : ?
  %t = Mul(%s, %small) : ?
  %u = Add(%t, %one) : ?
}
END
}
model tile "MatMul(%x, %w)"
model lanes "Softmax(%x)" s
model rows "ReduceSum(%w, %first)"

# What is expected of NAME's run (a pattern of the line), and options
expect() {
	local line
	line=$(echo "$TMP/$1.dl" | FAULT=$2 "$BUILD/tests/tools/batch" --cc="$TMP/cc" --jobs=1 ${4:-} "$TMP/out")
	if [[ $line == $3 ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1, $2 ${4:-}: $line"
	fi
}

# NAME, its fault, and whether the rule for whole models sees it
try() {
	expect "$1" "" "PASS*" --kernels
	expect "$1" "$2" "$3*"
	expect "$1" "$2" "FAIL*kernel*" --kernels
}
try tile 's/for (; k < end; k++) {/& if (k + 1 == n) continue;/' PASS
try lanes 's/\(int64_t r[0-9_]* = r[0-9_]*at[0-9_]*\);/\1 + 1;/' FAIL
try rows 's/\(for (int64_t r[0-9_]* = first[0-9_]*\);/\1 + 1;/; s/\(for (int64_t r[0-9_]* = first[0-9_]*\),/\1 + 1,/' PASS
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
