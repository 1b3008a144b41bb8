# SPDX-License-Identifier: Apache-2.0
"""Runs test_*.py of this folder, and prints a line for each failure and "N passed, N failed, N skipped". run.py [NAME ...] runs
the tests whose names contain one of these."""

import os
import sys
import unittest

import numpy

numpy.seterr(all="ignore")  # ONNX's cases overflow and divide by zero by design
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "python")]


class Lines(unittest.TestResult):
    """A result that prints each failure as a line."""

    def __init__(self):
        super().__init__()
        self.passed = 0

    def addSuccess(self, test):
        self.passed += 1

    def tell(self, test, error):
        lines = str(error[1]).strip().splitlines() or [""]
        print(f"FAIL: {test.id()}: {error[0].__name__}: {' '.join(lines)[:300]}", flush=True)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.tell(test, error)

    def addError(self, test, error):
        super().addError(test, error)
        self.tell(test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error:
            self.tell(subtest, error)


def main():
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{name}*" for name in sys.argv[1:]] or None
    result = Lines()
    loader.discover(HERE).run(result)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.passed} passed, {failed} failed" + (f", {len(result.skipped)} skipped" if result.skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
