#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The PTX interpreter on PTX that others made. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
exec "${BUILD:-build}/ptxsim/check" "$@"
