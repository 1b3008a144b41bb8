# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/python.md print what they say."""

import doctest
import os
import shutil
import tempfile
import unittest

from models import DIGITS, ROOT


class Docs(unittest.TestCase):
    def test_examples(self):
        here, printed = os.getcwd(), []
        parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
        with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as f:
            text = f.read()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DIGITS, folder)
            os.chdir(folder)
            os.environ["XDG_CACHE_HOME"] = folder
            try:
                result = runner.run(parser.get_doctest(text, {}, "docs/python.md", None, 0), out=printed.append)
            finally:
                os.chdir(here)
        self.assertEqual(result.failed, 0, "".join(printed)[-600:])
        self.assertGreater(result.attempted, 10)
