#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The GPU pack, a small one, on the simulated GPU, and the vectors that it records. Prints "N passed, N failed".
. "$(dirname "$0")/../simulated.sh"
passed=0 failed=0
check() { # WHAT COMMAND...
	what=$1
	shift
	if "$@" >"$TMP/out" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL: $what: $(tail -n 3 "$TMP/out" | tr '\n' ' ')"
	fi
}

# What no simulator runs is left to a real GPU: it is in the pack.
"$PYTHON" bench/gpu_pack/make.py --list >"$TMP/cases"
sed -n 's/^\([^#].*\): .*/\1/p' tests/heavy.txt >"$TMP/heavy"
while read -r heavy; do
	[ ! -d "${CORPUS:-../shared/corpus}/$heavy" ] || check "$heavy in the pack" grep -q "^$heavy " "$TMP/cases"
done <"$TMP/heavy"
check "make.py" "$PYTHON" bench/gpu_pack/make.py --build "$BUILD" --tiny "$TMP/pack"
mkdir "$TMP/sim"
ln -s "$BUILD/ptxsim/libcuda.so.1" "$TMP/sim"
check "fake.c" "${CC:-cc}" -std=gnu11 -O1 -Wall -Wextra -Werror -fPIC -shared -I. tests/gpu_pack/fake.c \
	"$BUILD/ptxsim/libcuda.so.1" -o "$TMP/sim/libcublas.so.13"
ln -s libcublas.so.13 "$TMP/sim/libcudnn.so.9"
toolkit=${CUDA_HOME:-/usr/local/cuda}/include
[ ! -e "$toolkit/cudnn.h" ] || [ ! -e "$toolkit/cublas_v2.h" ] || check "headers.c" "${CC:-cc}" -fsyntax-only -std=gnu11 -Wall -Wextra \
	-Werror -Wno-deprecated-declarations -I. -isystem "$toolkit" tests/gpu_pack/headers.c
check "run.sh" env PTXSIM_SM=90 "$TMP/pack/run.sh" --sim "$TMP/sim"
"$PYTHON" - "$TMP/product.onnx" <<'TXT'
import sys
sys.path.insert(0, "tests")
import onnx, samples
onnx.save(samples.model("m (float16[64,64] a, float16[64,96] b) => (float16[64,96] y) { y = MatMul(a, b) }"), sys.argv[1])
TXT
check "results.json" "$PYTHON" - "$TMP/pack/results.json" <<'TXT'
import json, sys
r = json.load(open(sys.argv[1]))
assert r["device"]["gpu"] == "ptxsim sm_90" and r["device"]["clock_khz"] > 0 and r["date"]
assert r["cases"] == {"passed": 5, "failed": 0} and r["failed"] == 0, r["cases"]
times = {t["name"]: t for t in r["times"] if "name" in t}
assert {"filled", "softmax", "gemm_float16_any", "prefill_float16_512", "decode_float16_1024"} <= set(times), times.keys()
assert r["starts"] == [] and r["torch"] == []
assert all(t["run"]["median_ms"] > 0 and "cuda:0" in t["run"]["device"] for t in times.values())
for library, size in ("cublas", ("m", 33)), ("cudnn", ("x", [2, 8, 9, 7])):
    by = {t["type"]: t for t in r["times"] if t.get("library") == library}
    assert list(by) == ["f32", "tf32", "f16", "bf16"] and all(t["median_ms"] > 0 and t[size[0]] == size[1] for t in by.values()), by
tried = [s["decision"] for s in r["sweep"]]
assert len(set(tried)) == len(tried) == 4 and all(" sm_90a: product mma f16 " in t for t in tried), tried
assert all(s["run"]["kernels"][0]["total_ms"] > 0 for s in r["sweep"])
assert r["vectors"].endswith(" 0 failed, 0 skipped"), r["vectors"]
TXT
check "a library that gives wrong results" sh -c "
	cd '$TMP/pack' && FAKE_WRONG=1 LD_LIBRARY_PATH='$TMP/sim' bin/tool conv f16 2 8 9 7 5 3 2 1 0.01 2>&1 | grep 'a result is'"
check "products.schedule" sh -c "
	grep -c ' sm_90a: product mma f16 ' '$TMP/pack/products.schedule' | grep -x 1 && '$BUILD/bin/dlcc' '$TMP/product.onnx' --target=cuda:sm_90a \\
	-Werror --schedule='$TMP/pack/products.schedule' -o '$TMP/product.ptx'"
check "the fastest decision" sh -c "
	printf '%s|{\"kernels\":[{\"total_ms\":%s,\"calls\":%s},{\"total_ms\":1,\"calls\":10}]}\n' 'x_1 sm_80: a' 20 10 'x_1 sm_80: b' 3 3 \
		'x_1 sm_80: c' 9 3 'x_10 sm_80: c' 9 3 | LD_LIBRARY_PATH='$TMP/sim' '$TMP/pack/bin/tool' best | tr '\n' ';' |
		grep -x 'x_1 sm_80: b  ; 1.1 ms;x_10 sm_80: c  ; 3.1 ms;'"
check "vectors, replayed in another order of warps" env PTXSIM_SEED=3 "$BUILD/ptxsim/check" --replay "$TMP/pack/vectors.bin"
later=$(grep -c 'ptxsim_device(90)' tests/ptxsim/check/matrix.c) # cases that need sm_90
check "vectors on an older GPU" env PTXSIM_SM=80 LD_LIBRARY_PATH="$BUILD/ptxsim" sh -c "
	cd '$TMP/pack' && bin/vectors --record old.bin | grep ' 0 failed, $later skipped' && cd '$PWD' && '$BUILD/ptxsim/check' --replay '$TMP/pack/old.bin'"
printf '\377' | dd of="$TMP/pack/vectors.bin" bs=1 seek=2003 conv=notrunc 2>/dev/null
check "vectors, one byte changed" sh -c "! '$BUILD/ptxsim/check' --replay '$TMP/pack/vectors.bin'"
for recorded in tests/ptxsim/vectors/*.bin; do
	[ -e "$recorded" ] && check "$recorded" "$BUILD/ptxsim/check" --replay "$recorded"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
