#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# f32 networks in halves on the simulated GPU, and full-size ones as PTX (halves.py). run.sh [TEST ...]; prints "N passed, N failed".
. "$(dirname "$0")/../simulated.sh"
"$PYTHON" tests/halves/halves.py "$BUILD" "$TMP" "$@"
