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

check "make.py" "$PYTHON" bench/gpu_pack/make.py --build "$BUILD" --tiny "$TMP/pack"
check "run.sh" env PTXSIM_SM=90 "$TMP/pack/run.sh" --sim "$BUILD/ptxsim"
check "results.json" "$PYTHON" - "$TMP/pack/results.json" <<'TXT'
import json, sys
r = json.load(open(sys.argv[1]))
assert r["device"]["gpu"] == "ptxsim sm_90" and r["device"]["clock_khz"] > 0 and r["date"]
assert r["cases"] == {"passed": 3, "failed": 0} and r["failed"] == 0, r["cases"]
times = {t["name"]: t for t in r["times"] if "name" in t}
assert {"filled", "softmax", "gemm_float16_any"} <= set(times), times.keys()
assert all(t["run"]["median_ms"] > 0 and "cuda:0" in t["run"]["device"] for t in times.values())
assert r["vectors"].endswith(" 0 failed, 0 skipped"), r["vectors"]
TXT
check "vectors, replayed in another order of warps" env PTXSIM_SEED=3 "$BUILD/ptxsim/check" --replay "$TMP/pack/vectors.bin"
check "vectors on an older GPU" env PTXSIM_SM=80 LD_LIBRARY_PATH="$BUILD/ptxsim" sh -c "
	cd '$TMP/pack' && bin/vectors --record old.bin | grep ' 0 failed, 4 skipped' && cd '$PWD' && '$BUILD/ptxsim/check' --replay '$TMP/pack/old.bin'"
printf '\377' | dd of="$TMP/pack/vectors.bin" bs=1 seek=2003 conv=notrunc 2>/dev/null
check "vectors, one byte changed" sh -c "! '$BUILD/ptxsim/check' --replay '$TMP/pack/vectors.bin'"
for recorded in tests/ptxsim/vectors/*.bin; do
	[ -e "$recorded" ] && check "$recorded" "$BUILD/ptxsim/check" --replay "$recorded"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
