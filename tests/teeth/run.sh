#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Faults put into generated C, by a C compiler that edits it first, and into PTX, by the simulator that takes another text, are
# seen: sums that lose a term are out of eval's bound for the kernel, also where the rule for whole models would not see it, and on
# small integers they are other numbers; the sign of a zero is wrong where it is defined. Prints "N passed, N failed".
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

# A zero may have either sign where it depends on a maximum (docs/numerics.md), and nowhere else.
zeros() {
	cat >"$TMP/$1.dl" <<END
; sizes N=40
dlir 1
graph @main(%x: f32[N]) -> (%y) {
  %t = Neg(%x) : ?
  %y = $2 : ?
}
END
}
zeros maximum "Max(%t, %x)"
zeros negative "Identity(%t)"
for kernels in "" --kernels; do
	expect maximum 's/= \(dl_max_f32(.*)\);/= \1 + 0.0f;/' "PASS*" $kernels
	expect maximum 's/= \(dl_max_f32(.*)\);/= -(0.0f - \1);/' "PASS*" $kernels
	expect maximum 's/= \(dl_max_f32(.*)\);/= \1 + 1.0f;/' "FAIL*" $kernels
	expect negative "" "PASS*" $kernels
	expect negative 's/= -x_/= 0.0f - x_/' "FAIL*is 0, not -0*" $kernels
done

# The PTX in the C file of a run that kept its files, on stdin: its kernels, which are modules of their own, as one module.
ptx_of() {
	"${PYTHON:-python3}" -c 'import ast, re, sys
text = re.search(r"static const char ptx_\w+\[\] =\n(.*?)\t\"\";\n", sys.stdin.read(), re.S)[1]
first, *more = "".join(ast.literal_eval(line.strip()) for line in text.splitlines()).rstrip("\0").split("\0")
print(first + "".join(re.sub(r"(?m)^\.(version|target|address_size).*\n", "", m) for m in more), end="")'
}

# NAME, instruction OP, of which the first of each kernel adds nothing to its last operand, so that sums lose terms; and what a run
# says without a look at each kernel.
try_gpu() {
	expect "$1" "" "PASS*" "--gpu=sm_80 --keep --kernels"
	ptx_of <"$TMP/out/b0.all.c" >"$TMP/good.ptx"
	awk -v op="$2" '/^\.visible \.entry/ { kept = 0 }
		$1 == op && !kept { gsub(/[,;]/, ""); print "\tmov.b32 " $2 ", " $NF ";"; kept = 1; next } { print }' \
		"$TMP/good.ptx" >"$TMP/bad.ptx"
	cmp -s "$TMP/good.ptx" "$TMP/bad.ptx" && echo "no $2 in the PTX of $1"
	PTXSIM_REPLACE=$TMP/bad.ptx expect "$1" "" "FAIL*kernel \"*" "--gpu=sm_80 --kernels"
	PTXSIM_REPLACE=$TMP/bad.ptx expect "$1" "" "$3" --gpu=sm_80
}
if [ -e "$BUILD/ptxsim/libcuda.so.1" ] && "$BUILD/bin/dlcc" --list-targets | grep -q cuda:; then
	export LD_LIBRARY_PATH=$BUILD/ptxsim
	try_gpu tile fma.rn.f32 "FAIL*on small integers: *"
	try_gpu rows add.rn.f32 "FAIL*"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
