#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random numbers: the generator's published vectors, the values of every operator that uses it, on the CPU with
# several numbers of threads and on the simulated GPU, and the warning without a seed. Prints "N passed, N failed".
. "$(dirname "$0")/../simulated.sh"
"$PYTHON" tests/random/check.py "$BUILD" "$TMP"
