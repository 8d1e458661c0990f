#!/usr/bin/env python3
"""The Python blocks of docs/python.md run, in order."""
import os
import pathlib
import re
import tempfile
import unittest

from package import main, qg

PAGE = pathlib.Path("docs/python.md").read_text()


class Docs(unittest.TestCase):
    def test_blocks(self):
        names = {}
        self.addCleanup(os.chdir, os.getcwd())
        for name in ("two-thirds", "floor", "HardTanh"):
            self.addCleanup(qg.forget, name)
        blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
        self.assertGreater(len(blocks), 8)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for number, block in enumerate(blocks):
                with self.subTest(number):
                    exec(compile(block, f"block {number}", "exec"), names)
        self.assertEqual(len(names["largest"]), 6)
        self.assertEqual(names["wide"]["conv0.in0"].bits, 16)
        self.assertEqual(names["s5"]["conv0.in0"].quantizer, "floor")
        self.assertEqual(names["s5"]["conv1.out0"].observer, "two-thirds")


if __name__ == "__main__":
    main()
