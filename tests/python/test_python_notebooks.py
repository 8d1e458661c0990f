#!/usr/bin/env python3
"""The notebooks of docs/notebooks execute, and print the tables that are stored in them."""
import importlib.util
import pathlib
import unittest

import notebook
from package import main

BOOKS = pathlib.Path("docs/notebooks")


class Notebooks(unittest.TestCase):
    def check(self, name):
        _, different = notebook.run(BOOKS / f"{name}.ipynb")
        self.assertEqual([], different)

    def test_from_ppq(self):
        self.check("from-ppq")

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
    def test_fusion_policy(self):
        self.check("fusion-policy")

    def test_nncf_factor(self):
        self.check("nncf-factor")

    def test_all_of_them_are_tested(self):
        self.assertEqual(sorted(p.stem for p in BOOKS.glob("*.ipynb")),
                         ["from-ppq", "fusion-policy", "nncf-factor"])

    def test_a_difference_is_found(self):
        self.assertEqual(notebook.texts(notebook.execute("print(1)\n1 + 1", {})), ["1\n", "2"])


if __name__ == "__main__":
    main()
