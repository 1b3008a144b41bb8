#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Small models that were compiled wrong once (models.py), at levels of -O and on the simulated GPU. Without TESTS=all every model is
# compiled once, and a share of them is optimised, compiled by gcc, and run on the GPU. Prints "N passed, N failed".
#	run.sh        needs BUILD/bin, BUILD/tests, BUILD/ptxsim, and numpy, onnx and onnxruntime in build/venv
. "$(dirname "$0")/../simulated.sh"
"$PYTHON" tests/reduced/models.py "$TMP/cases" || exit 1
# The C compilers' optimisations take most of the time, and the proofs of schedules, which are the same for every compiler.
levels="-O0 -O2@4" gcc="-O0 --no-proofs --kernels@3" gpu="-O0@2"
[ "${TESTS:-}" = all ] && levels="-O0 -O1 -O2 -O3" gcc="-O3 --kernels" gpu=-O0
for path in $levels "--cc=gcc $gcc" "--gpu=sm_80 $gpu"; do
	each=1 # @EACH: the options before it are for one case in so many
	case $path in *@*) each=${path#*@} path=${path%@*} ;; esac
	mkdir -p "$TMP/out"
	# shellcheck disable=SC2086
	find "$TMP/cases" -mindepth 1 -maxdepth 1 | sort | awk "NR % $each == 0" |
		LD_LIBRARY_PATH="$BUILD/ptxsim" "$BUILD/tests/tools/batch" $path "$TMP/out" | sed "s|$TMP/cases/||; s|^|$path |"
done >"$TMP/verdicts"
grep -vE '^-[^:]* PASS ' "$TMP/verdicts"
passed=$(grep -cE ' PASS ' "$TMP/verdicts")
failed=$(grep -cE ' (FAIL|SKIP) ' "$TMP/verdicts")
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
