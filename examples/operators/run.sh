#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles a model whose operators operators.dl defines, and compares it with what NumPy computes, on the CPU and on a
# simulated GPU: run.sh [BUILD [OUT]]. BUILD has bin, lib and include, as the prefix of an installation has.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
out=${2:-$build/examples/operators}
mkdir -p "$out/test_data_set_0"
cd "$out"
cp "$here/model.onnx" .
cp "$here/"*put_0.pb test_data_set_0

"$build/bin/dlcc" --check --op="$here/operators.dl" model.onnx
"$build/bin/dlcc" ${DLCC_FLAGS:-} --op="$here/operators.dl" model.onnx -o model.so
"$build/bin/dlrun" model.so --data .

# On the simulated GPU, where there is one.
if [ -e "$build/ptxsim/libcuda.so.1" ] && "$build/bin/dlcc" --list-targets | grep -q cuda:; then
	"$build/bin/dlcc" ${DLCC_FLAGS:-} --op="$here/operators.dl" --target=cuda:sm_80 model.onnx -o model-gpu.so
	LD_LIBRARY_PATH=$build/ptxsim "$build/bin/dlrun" model-gpu.so --data . --device cuda
fi
