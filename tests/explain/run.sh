#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dlcc --explain with a trace: measured times, and what is no trace of the model. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${BUILD:-build}" && pwd)
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
cd "$tmp" || exit 2

check() { # what, status, a pattern of the output, arguments of dlcc
	local what=$1 status=$2 pattern=$3
	shift 3
	out=$("$build/bin/dlcc" "$@" 2>&1)
	if [ $? -eq "$status" ] && grep -q -- "$pattern" <<<"$out"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL: %s: %s\n' "$what" "$out"
	fi
}

cat >product.dl <<'DL'
dlir 1
graph @main(%x: f32[M,48], %w: f32[48,80]) -> (%y) {
  %m = MatMul(%x, %w) : ?  @"a\nname, \x1b[1m"(MatMul)
  %y = Relu(%m) : ?  @"act"(Relu)
}
DL
sed 's/a.nname[^"]*/other/' product.dl >other.dl
"$build/bin/dlcc" product.dl -o product.so && "$build/bin/dlrun" product.so --profile=t.json --roof=100,10 --seconds=0.02 --dim=M=7 >/dev/null || exit 1
echo '{"traceEvents": [], "otherData": {"kernels": [{"name": "a' >cut.json
printf '[%.0s' $(seq 100000) >deep.json
echo '{"otherData": {"kernels": [{"name": "x", "runs": 0}]}}' >zero.json

check "a measured time" 0 'measured: [0-9.]* [um]s, [0-9.e+]* times that' --explain=t.json product.dl
check "the sizes of the trace" 0 'predicted: 1.89 us, bound by memory; measured' --explain=t.json --target=cpu:v3 product.dl
check "names are escaped" 0 'MatMul "a\\x0aname, \\x1b\[1m"' --explain=t.json product.dl
check "no sizes of its own" 1 'of one core$' --explain=t.json --target=cpu:generic other.dl
check "another model's trace" 1 'which the model does not have' --explain=t.json other.dl
check "a file that is cut" 1 'is not a trace of kernels' --explain=cut.json product.dl
check "deeply nested" 1 'is not a trace of kernels' --explain=deep.json product.dl
check "no runs" 1 'is not a trace of kernels' --explain=zero.json product.dl
check "no file" 1 'cannot be read' --explain=none.json product.dl
check "a text has no kernels" 2 '--explain changes nothing in copy.dl; it is for .so' --explain product.dl -o copy.dl
check "the trace as output" 2 'is the file of --explain' --explain=t.so product.dl -o product.so --explain=product.so
check "GPUs, too" 0 'for sm_80; predicted times' --explain product.dl --target=cuda:sm_80
sed 's/,80\]/,N]/' product.dl >variants.dl
check "the last variant" 0 '^  otherwise$' --explain variants.dl --target=cuda:sm_80
cat >quarters.dl <<'DL'
dlir 1
graph @main(%x: f32[N,4]) -> (%y) {
  %k = Const {value = i64[3](2, -1, 8)} : ?
  %y = Reshape(%x, %k) : ?
}
DL
broken='^note: no run has these sizes, since 4\*N == 16\*floor(N, 4) does not hold; give others by --dim NAME=N$'
check "sizes that the model excludes" 0 "$broken" --explain quarters.dl
check "sizes that it allows" 0 'of one core$' --explain quarters.dl --dim N=8

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
