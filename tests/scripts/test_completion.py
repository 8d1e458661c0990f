#!/usr/bin/env python3
"""qg completion: every verb and option of the help is in each form; bash and zsh accept
theirs, and bash completes verbs, options and choices; man formats the page without
complaint.  --plot: bars in proportion to the numbers, as wide as the terminal."""
import contextlib
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tempfile

from command import QG, answer, qg

MODEL, DATA = "configs/models/digits.onnx", "configs/data/digits_calib.npy"


def verbs():
    """{verb: long options}, from the help pages."""
    names = re.findall(r"^  ([a-z][a-z-]+) +\S", qg("help").partition("A first session")[0], re.M)
    return {n: re.findall(r"^  (?:-\w, |    )--([a-z-]+)", qg(n, "--help"), re.M) for n in names}


def checked(*words, **more):
    run = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    assert run.returncode == 0 and not run.stderr, (words, run.stderr)
    return run.stdout


def test_contents(known):
    plain = {form: qg("completion", form).replace("\\-", "-")
             for form in ("bash", "zsh", "fish", "man")}
    for verb, options in known.items():
        assert "help" in options, verb
        for form, text in plain.items():
            assert verb in text, (form, verb)
            for option in options:
                spelled = f" -l {option}" if form == "fish" else f"--{option}"
                assert spelled in text, (form, verb, option)


def test_bash(root):
    (root / "qg").write_text(qg("completion", "bash"))
    def complete(*words):
        script = (f". {root}/qg; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _qg; "
                  'echo "${COMPREPLY[*]}"')
        return checked("bash", "-c", script).split()
    assert complete("qg", "quantize-") == ["quantize-tensor"]
    assert complete("qg", "analyse", "--met") == ["--metric"]
    assert complete("qg", "analyse", "--by", "''") == ["graph", "layer", "cause"]
    assert complete("qg", "analyse", "snap") == []  # then bash completes files


def test_install_files(root):
    """The script of the build, whose generator may not have made the folder."""
    to = root / "shell" / "bash"
    checked("cmake", f"-DQG={QG}", "-DFORM=bash", f"-DTO={to}", "-P", "tools/completion.cmake")
    assert to.read_text() == qg("completion", "bash")


def test_readers(root):
    for form, reader in (("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"]),
                         ("man", ["man", "--warnings", "-l"])):
        (root / form).write_text(qg("completion", form))
        if shutil.which(reader[0]):
            text = checked(*reader, root / form, env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "80"})
            assert form != "man" or "infer-backend" in text
        else:
            print(f"not checked: {form}, {reader[0]} is missing")


def bars(text):
    """{label: (number, bar)} below the page."""
    rows = re.findall(r"^(\S.{31}) +(-?[\d.e+-]+)(?: %)? ?([#-]*)$", text.rpartition("\n\n")[2], re.M)
    return {label.strip(): (float(number), bar) for label, number, bar in rows}


def test_plot(root):
    qg("quantize", MODEL, "-b", "trt-int8", "-d", DATA, "-o", root / "snap")
    call = "analyse", root / "snap", "-d", DATA, "--by", "layer"
    rows = answer(*call, "--plot")["errors"]
    drawn = bars(qg(*call, "--plot"))
    assert list(drawn) == [r["name"] for r in rows], drawn
    longest = max(len(bar) for _, bar in drawn.values())
    assert 20 < longest <= 80
    for r in rows:
        expected = r["error"] / rows[0]["error"] * longest
        assert expected <= len(drawn[r["name"]][1]) < expected + 1, r
    qg("stats", "collect", MODEL, "-d", DATA, "-o", root / "s.qgs")
    value = answer("stats", "show", root / "s.qgs")["statistics"][0]["value"]
    shown = bars(qg("stats", "show", root / "s.qgs", value, "--plot"))
    bins = answer("stats", "show", root / "s.qgs", value)["bins"]
    total = sum(b["count"] for b in bins)
    assert 2 <= len(shown) <= 32
    assert abs(sum(n for n, _ in shown.values()) - total) <= 1e-3 * total, (shown, total)
    assert "#" not in qg(*call, "--plot", "--json")


def test_width(root):
    """On a terminal of 120 columns the longest line has nearly as many."""
    master, slave = pty.openpty()
    subprocess.run(["stty", "cols", "120", "rows", "40"], stdin=slave, check=True)
    subprocess.run([QG, "analyse", root / "snap", "-d", DATA, "--plot", "--by", "layer"],
                   stdout=slave, stderr=subprocess.DEVNULL, check=True)
    os.close(slave)
    text = ""
    with contextlib.suppress(OSError):  # EIO: all is read, and nobody writes any more
        while True:
            text += os.read(master, 1 << 16).decode()
    assert 110 <= max(len(line.rstrip()) for line in text.splitlines()) <= 120, text


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        test_contents(verbs())
        test_bash(root)
        test_install_files(root)
        test_readers(root)
        test_plot(root)
        test_width(root)
    qg("completion", "csh", status=2, fails="'csh': expected bash, zsh, fish or man")


main()
