#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the model, links it into digits.c, and reads the held-out scans; then the same for GPUs, on a simulated one:
# run.sh [BUILD [OUT]]. BUILD has bin, lib and include, as the prefix of an installation has.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
out=${2:-$build/demo}
mkdir -p "$out"
cd "$out"

link() { # SOURCE FOLDER: SOURCE.c with the model in FOLDER
	${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra ${CFLAGS:-} "-I$2" -I"$build/include" "$here/$1.c" "$2/digits.a" -lm -lpthread -ldl \
		-o "$1"
}

start=$(date +%s%N)
"$build/bin/dlcc" ${DLCC_FLAGS:-} "$here/digits.onnx" -o digits.a --name=digits
end=$(date +%s%N)
link digits .
./digits "$here/heldout.bin"
printf 'compiled in  %d ms: digits.onnx to digits.a, %d KiB\n' $(((end - start) / 1000000)) \
	$(($(stat -c %s digits.a) / 1024))

# For a GPU: lines around the first product of the first kernel that multiplies, and what the whole computes.
gpu=
if "$build/bin/dlcc" --list-targets | grep -q cuda:; then
	mkdir -p gpu
	"$build/bin/dlcc" ${DLCC_FLAGS:-} "$here/digits.onnx" --target=cuda:sm_80 -o model.ptx
	"$build/bin/dlcc" ${DLCC_FLAGS:-} "$here/digits.onnx" --target=cuda:sm_80 -o gpu/digits.a --name=digits
	awk '/^\/\/ .*\(/ { name = substr($0, 4) }
		/^\$L/ { if (product) exit; n = shared = 0 }
		{ line[n++] = $0 }
		/ld\.shared/ { shared = 1 }
		shared && /fma|mma/ { product = product ? product : n }
		END {
			printf "\nfor a GPU, from the inner loop of %s:\n", name
			from = product > 6 ? product - 6 : 0
			for (i = from; i < n && i < from + 10; i++)
				print "    " line[i]
			print ""
		}' model.ptx
	link devices gpu
	if [ -e "$build/ptxsim/libcuda.so.1" ]; then
		LD_LIBRARY_PATH=$build/ptxsim ./devices "$here/heldout.bin"
	fi
	gpu=$'\n'"  model.ptx    the same for GPUs: $(grep -c . model.ptx) lines, for sm_80 and later"
else
	printf '\nfor a GPU    nothing: this dlcc was built without LLVM, for CPUs alone\n'
fi

"$build/bin/dlcc" ${DLCC_FLAGS:-} "$here/digits.onnx" -o model.c --name=digits
"$build/bin/dlcc" ${DLCC_FLAGS:-} "$here/digits.onnx" --dump-ir=infer -o model.so >before.dl
"$build/bin/dlcc" ${DLCC_FLAGS:-} "$here/digits.onnx" --dump-ir=fuse -o model.so >after.dl
cat <<TXT

Where to look next, in $out:
  model.c      the C that dlcc wrote: $(grep -c . model.c) lines, kernels named after the model's nodes$gpu
  before.dl    the model as dlcc reads it, types inferred
  after.dl     the same after fusion: each kernel is a convolution or product and what follows it
The program is examples/digits/digits.c, for two devices devices.c; README.md names ten files of the compiler to begin with.
TXT
