#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Operands whose dims are known only at run time broadcast as numpy's: 0 with 1 gives 0. Evaluated, and compiled and run.
set -u
cd "$(dirname "$0")/../.." || exit 2
NEEDS=onnx
. tests/tools/evalcases.sh
"$PYTHON" -W ignore tests/broadcast/cases.py "$cases" || exit 1
run_cases 1
