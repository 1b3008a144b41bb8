#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Changes of emitted PTX that the simulator must notice (mutate.py). Prints "N passed, N failed".
#	run.sh        a share; TESTS=all run.sh: all of the sample
. "$(dirname "$0")/../simulated.sh"
[ "${TESTS:-}" = all ] && count=200 || count=20
"$PYTHON" tests/mutate/mutate.py --build "$BUILD" --count "$count" "$TMP"
