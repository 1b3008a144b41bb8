#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the programs of this folder: run.sh [BUILD-FOLDER].
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
out=$build/examples
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
