#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of the model reader: its sources under ASan + UBSan, driven by test_frontend.py.
set -u
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-$PWD/build}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
CFLAGS="-std=gnu11 -g -O1 -I. -I$BUILD/gen -I$BUILD/gen/frontend -D_GNU_SOURCE -fsanitize=address,undefined
	-fno-sanitize-recover=undefined"

objects=()
for f in frontend/*.c tests/frontend/fe.c "$BUILD"/gen/frontend/onnx.pb-c.c; do
	o=$TMP/$(basename "$f" .c).o
	${CC:-cc} $CFLAGS -c "$f" -o "$o" || exit 1
	objects+=("$o")
done
# What stands below the reader is not under test here.
${CC:-cc} $CFLAGS -o "$TMP/fe" "${objects[@]}" "$BUILD/lib/libdlcc.a" "$BUILD/lib/libdlrt.a" -lprotobuf-c -lisl -lm -lpthread -ldl || exit 1
"${PYTHON:-python3}" tests/frontend/test_frontend.py "$TMP/fe" "$BUILD" "$TMP"
