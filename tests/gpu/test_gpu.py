# SPDX-License-Identifier: Apache-2.0
"""Artifacts with code for GPUs, run by dlrun under the simulator: test_gpu.py BUILD DIR [TEST ...]. Each part adds its tests."""

import sys

import devices  # noqa: F401
import products  # noqa: F401
import rows  # noqa: F401
import runs  # noqa: F401
import tools  # noqa: F401
import weights  # noqa: F401
from harness import samples, tests

if __name__ == "__main__":
    sys.exit(samples.run_all(tests, sys.argv[3:]))
