#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dlcc --int8 --calibrate=DIR on the classifier of examples/digits: its errors on scans that neither training nor the samples have, the
# model that it writes as ONNX beside ONNX Runtime, budgets, layouts of samples, and samples that are refused. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${BUILD:-build}" && pwd)
root=$PWD
model=$root/examples/digits/digits.onnx
python=$root/build/venv/bin/python3
. tests/check.sh
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
dlcc=$build/bin/dlcc

"$python" "$root/tests/calibrate/data.py" make "$root/examples/digits/heldout.bin" || exit 2

says() { # status, pattern of a line, arguments
	local want=$1 pattern=$2 got
	shift 2
	"$dlcc" "$model" "$@" >out 2>&1
	got=$?
	[ $got = "$want" ] && grep -Eq -- "$pattern" out || { echo "status $got: $(tail -n 3 out)"; return 1; }
}
# One diagnostic, and no output is left behind.
refuses() { # pattern, folder of samples
	says 1 "$1" --int8 --calibrate="$2" -o refused.so && [ "$(grep -c error: out)" = 1 ] && [ ! -e refused.so ] &&
		[ -z "$(ls -A | grep '^\.dlcc')" ] || { cat out; return 1; }
}
runs() { # artifact, folder of outputs
	"$build/bin/dlrun" "$1" -i scan=held_out.npy -o "$2" >out 2>&1 || { cat out; return 1; }
}
judges() { "$python" "$root/tests/calibrate/data.py" "$@"; }
same_plan() { says 0 'int8: 3 of 3' --int8 --calibrate="$1" -o other.onnx && cmp -s digits8.onnx other.onnx; }

read_again() { "$dlcc" digits8.onnx -o again.so && runs ./again.so again && cmp -s int8/logits.npy again/logits.npy; }
within() { runs ./budget.so budget && judges within "$1" budget/logits.npy "$model"; }

check "the table" says 0 '^int8: 3 of 3 layers, with 100.00% of their multiply-adds; the results. error on 8 samples: 0.00' --int8 --calibrate=samples -o digits8.so
check "progress on a terminal" shows "$python" ": calibrating: sample 8 of 8" "$dlcc" "$model" --int8 --calibrate=samples -o shown.so
check "each layer" grep -Eq '^ *[0-9.e-]+ +83.72%  int8 +(all|squares|smooth|smooth squares) +conv2 \(Conv\), input 0 to' out
check "it runs" runs ./digits8.so int8
check "errors" judges errors int8/logits.npy
check "as ONNX" says 0 '^int8: 3 of 3' --int8 --calibrate=samples -o digits8.onnx
check "ONNX Runtime" judges beside digits8.onnx int8/logits.npy
check "dlcc reads it again" read_again
check "a layer that stays in floats" says 0 'f32 .* conv1 \(Conv\).*: in floats by --keep' --int8 --calibrate=samples --keep=conv1 -o keep.so
check "a budget" says 0 '^int8: [12] of 3 layers' --int8 --calibrate=samples --max-error=0.006 -o budget.so
check "a budget that allows none" says 0 '^int8: 0 of 3 layers.*: 0$' --int8 --calibrate=samples --max-error=0 -o none.so
check "a budget that is kept" within 0.006
check "folders of .pb files" same_plan sets
check "a folder a sample" same_plan folders
check "one sample of several scans" says 0 'on 1 samples' --int8 --calibrate=whole -o whole.so

check "no folder" refuses 'nowhere: error: No such file' nowhere
check "no samples" refuses 'empty: error: no samples' empty
check "another shape" refuses 'it is f32\[1,1,7,8\], and input "scan" is f32\[N,1,8,8\]' shape
check "another type" refuses 'it is f64\[1,1,8,8\], and input "scan" is' type
check "NaN" refuses 'nan/1.npy: error: element 3 is infinite or NaN' nan
check "another name" refuses 'the model has no input of this name' name
check "an input twice" refuses 'input "scan" has another file' twice
check "no array" refuses 'not a .npy' broken
check "an unknown layer" says 1 '--keep=conv7: no layer' --int8 --calibrate=samples --keep=conv7 -o refused.so
check "no samples given" says 2 '--int8 wants samples' --int8 -o refused.so
check "no --int8" says 2 '--calibrate is for --int8 and --activations-as' --calibrate=samples -o refused.so
check "a budget that is not a number" says 2 '--max-error=much' --int8 --calibrate=samples --max-error=much -o refused.so
check "sizes in a written model" judges sizes "$dlcc"
check "the opset of a written model" judges opset "$dlcc"
check "branches and loops in a written model" judges control "$dlcc"
if [ -e "$build/ptxsim/libcuda.so.1" ] && "$dlcc" --list-targets | grep -q cuda:; then
	halves() { says "$1" "$2" --target=cuda:sm_80 --activations-as=bf16 --weights-as=bf16 --calibrate=samples "${@:3}" -o halves.so; }
	on_gpu() { LD_LIBRARY_PATH=$build/ptxsim "$build/bin/dlrun" ./halves.so --device cuda -i scan=held_out.npy -o halves >out 2>&1 &&
		judges within "$1" halves/logits.npy "$model"; }
	check "halves" halves 0 '^bf16: 4 of 4 kernels; the results. error on 8 samples: 0.00[23]'
	check "halves on the GPU" on_gpu 0.004
	check "halves within a budget" halves 0 '^bf16: [123] of 4 kernels; the results. error on 8 samples: 0.001' --max-error=0.002
	check "a kernel that stays in f32" grep -Eq '^ *[0-9.e-]+  f32 by the budget: .*conv1' out
	check "halves within a budget on the GPU" on_gpu 0.003
	check "no halves" halves 0 '^bf16: [01] of 4 kernels; the results. error on 8 samples: 0$' --max-error=0
	check "a kernel that is named" halves 0 '^bf16: 3 of 3 kernels; .*: 0.001' --keep=conv1
	check "halves without a GPU" says 2 'a target: --target=cuda' --activations-as=bf16 --calibrate=samples -o refused.so
	check "a budget without samples" says 2 'wants samples' --target=cuda:sm_80 --activations-as=f16 --max-error=0.1 -o refused.so
fi
if [ "${TESTS:-}" = all ] && [ -d "${CORPUS:-}/models" ]; then
	agrees() { PYTHONPATH=$root/python "$python" "$root/tests/calibrate/agreement.py" "$dlcc" "$CORPUS" "$model"; }
	agrees >agreement 2>&1
	status=$?
	cat agreement
	check "trained classifiers keep their classes" [ $status = 0 ]
fi
echo "$passed passed, $failed failed"
