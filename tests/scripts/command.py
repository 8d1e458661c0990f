"""The command line as the scripts of this folder call it.  Environment: QG, the program,
and QG_ALL."""
import json
import os
import subprocess

QG = os.path.abspath(os.environ.get("QG", "build/qg"))
EVERYTHING = bool(os.environ.get("QG_ALL"))  # else a part of the longest tests, as in CI


def qg(*words, fails=None, status=1, warns=None):
    """stdout of a run that succeeds, its stderr containing the text warns; with fails, the
    stderr of a run that ends with this status and contains the text there."""
    run = subprocess.run([QG, *map(str, words)], capture_output=True, text=True)
    expected, text = (status, fails) if fails else (0, warns or "")
    assert run.returncode == expected and text in run.stderr, \
        (words, run.returncode, run.stderr)
    return run.stderr if fails else run.stdout


def answer(*words):
    """The report that a run prints with --json."""
    return json.loads(qg(*words, "--json"))
