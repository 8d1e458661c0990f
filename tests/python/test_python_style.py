#!/usr/bin/env python3
"""ruff and mypy (strict) over the Python package, its generated modules included."""
import importlib.util
import pathlib
import subprocess
import sys
import unittest

from package import main, qg

CONFIG = pathlib.Path("bindings/python/pyproject.toml").resolve()
PACKAGE = pathlib.Path(qg.__file__).parent


class Style(unittest.TestCase):
    def clean(self, tool, *words, folder):
        if importlib.util.find_spec(tool) is None:
            self.skipTest(f"{tool} is not installed")
        run = subprocess.run([sys.executable, "-m", tool, *words], cwd=folder, text=True,
                             capture_output=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_ruff(self):
        self.clean("ruff", "check", "--no-cache", "--config", str(CONFIG), ".",
                   folder=CONFIG.parent)

    def test_mypy(self):
        self.clean("mypy", "--config-file", str(CONFIG), "--cache-dir", "/dev/null", "-p",
                   "quantgraph", folder=PACKAGE.parent)


if __name__ == "__main__":
    main()
