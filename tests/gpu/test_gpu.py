# SPDX-License-Identifier: Apache-2.0
"""Artifacts with code for GPUs, run by dlrun under the simulator: test_gpu.py BUILD DIR [TEST ...]. Each part adds its tests."""

import os
import sys

import devices  # noqa: F401
import products  # noqa: F401
import routines  # noqa: F401
import rows  # noqa: F401
import runs  # noqa: F401
import tools  # noqa: F401
import weights  # noqa: F401
from harness import samples, tests


def elsewhere(test):
    """TEST on a GPU whose blocks have less shared memory than those of sm_80, for which its code is."""
    def run():
        os.environ["PTXSIM_SM"] = "86"
        try:
            test()
        finally:
            del os.environ["PTXSIM_SM"]
    run.__name__ = test.__name__ + "_elsewhere"
    return run


if __name__ == "__main__":
    computed = [t for t in tests if t.__module__ in ("products", "rows")]
    sys.exit(samples.run_all(tests + [elsewhere(t) for t in samples.share(computed, 24)], sys.argv[3:]))
