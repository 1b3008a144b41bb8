#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the model, links it into digits.c, and reads the held-out scans: run.sh [BUILD-FOLDER].
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
out=$build/demo
mkdir -p "$out"
cd "$out"

start=$(date +%s%N)
"$build/bin/dlcc" ${DLCC_FLAGS:-} "$here/digits.onnx" -o digits.a --name=digits
end=$(date +%s%N)
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra ${CFLAGS:-} -I. -I"$build/include" "$here/digits.c" digits.a -lm -lpthread -ldl \
	-o digits
./digits "$here/heldout.bin"
printf 'compiled in  %d ms: digits.onnx to digits.a, %d KiB\n' $(((end - start) / 1000000)) \
	$(($(stat -c %s digits.a) / 1024))

"$build/bin/dlcc" ${DLCC_FLAGS:-} "$here/digits.onnx" -o model.c --name=digits
"$build/bin/dlcc" ${DLCC_FLAGS:-} "$here/digits.onnx" --dump-ir=infer -o model.so >before.dl
"$build/bin/dlcc" ${DLCC_FLAGS:-} "$here/digits.onnx" --dump-ir=fuse -o model.so >after.dl
cat <<TXT

Where to look next, in $out:
  model.c      the C that dlcc wrote: $(grep -c . model.c) lines, kernels named after the model's nodes
  before.dl    the model as dlcc reads it, types inferred
  after.dl     the same after fusion: a kernel per anchor, with what follows it
The program is examples/digits/digits.c; README.md is a tour of the compiler, file by file.
TXT
