#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the programs of this folder: run.sh [BUILD [OUT]]. BUILD has bin, lib and include, as the prefix of an
# installation has.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
out=${2:-$build/examples}
digits=$here/../digits
mkdir -p "$out"
cd "$out"

"$build/bin/dlcc" ${DLCC_FLAGS:-} "$digits/digits.onnx" -o digits.so
"$build/bin/dlcc" ${DLCC_FLAGS:-} "$digits/digits.onnx" -o digits.a
"$build/bin/dlcc" ${DLCC_FLAGS:-} "$here/smooth.onnx" -o smooth.a

link() { # program, archives
	${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra ${CFLAGS:-} -I. -I"$build/include" "$here/$1.c" -o "$@" -lm -lpthread -ldl
}
link dlopen
link threads digits.a
link two_models digits.a smooth.a
./dlopen ./digits.so digits
./threads
./two_models "$digits/heldout.bin"

# On the simulated GPU, where there is one.
if [ -e "$build/ptxsim/libcuda.so.1" ] && "$build/bin/dlcc" --list-targets | grep -q cuda:; then
	mkdir -p gpu && cd gpu
	for model in "$digits/digits" "$here/smooth"; do
		"$build/bin/dlcc" ${DLCC_FLAGS:-} "$model.onnx" -o "$(basename "$model").a" --target=cpu:v2,cuda:sm_80
	done
	link cuda_stream digits.a smooth.a
	LD_LIBRARY_PATH=$build/ptxsim ./cuda_stream "$digits/heldout.bin"
fi
