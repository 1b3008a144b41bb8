#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A slice of `make fuzz`: 200 mutated files through the compiler, in process, a fifth of them loop trees.
set -u
cd "$(dirname "$0")/../.." || exit 2
"${BUILD:-build}/tests/fuzz/fuzz" --count=200 --jobs=1 --text=20 build/cases/onnx tests/errors/trees*.dl
