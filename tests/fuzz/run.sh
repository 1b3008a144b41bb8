#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A slice of `make fuzz`: 200 mutated files through the compiler, in process.
set -u
cd "$(dirname "$0")/../.." || exit 2
"${BUILD:-build}/tests/fuzz/fuzz" --count=200 --jobs=1 build/cases/onnx
