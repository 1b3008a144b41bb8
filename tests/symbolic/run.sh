#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ONNX's node cases with symbolic dims (symbolic.py), and random elementwise ops and moves of data (random_moves.py;
# SEED, COUNT), evaluated. Every EACHth (100th) is compiled and run as well. KEEP: a folder that the cases stay in.
set -u
cd "$(dirname "$0")/../.." || exit 2
NEEDS=onnx
. tests/tools/evalcases.sh
"$BUILD/bin/dlcc" --list-ops >"$TMP/ops" || exit 1
"$PYTHON" -W ignore tests/symbolic/symbolic.py "$cases" "$TMP/ops" || exit 1
"$PYTHON" -W ignore tests/symbolic/random_moves.py "$cases" "${SEED:-1}" "${COUNT:-12}" || exit 1
run_cases "${EACH:-100}"
