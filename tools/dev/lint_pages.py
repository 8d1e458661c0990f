#!/usr/bin/env python3
"""Writes docs/lint/NAME.md for every target of `qg lint`, from `qg list targets NAME`.

usage: tools/dev/lint_pages.py [--check]      QG: the program
  --check   writes nothing; fails when a page is missing, stale or without a target
"""
import sys

import pages

NOTE = "<!-- Made by tools/dev/lint_pages.py from configs/lint; do not edit. -->"
INTRO = """A target is a runtime with its kernels and rules: a YAML file in configs/lint. [qg
lint]({docs}/lint.md) explains the words.
""".format(docs="..")


KERNELS = """The first row that fits a node counts. [Fates and conditions]({docs}/lint.md#words) are explained
there; `qg list predicates` has the meaning of every condition.""".format(docs="..")


def page(name):
    p = pages.ask("targets", name)
    lines = [f"# {name}", NOTE, "", p["title"], ""]
    if p["kernels"]:
        lines += ["## Kernels", KERNELS, ""]
        lines += pages.statements(p["kernels"], ("of", "as", "when"))
    lines += ["## Rules", ""]
    return pages.text(lines + pages.statements(
        p["rules"], ("level", "at_each", "of", "when", "remedy", "fix")))


def main():
    rows = pages.ask("targets")["targets"]
    want = {f"{r['target']}.md": page(r["target"]) for r in rows}
    want["README.md"] = pages.text(
        ["# Targets of qg lint", NOTE, "", INTRO,
         *(f"- [{r['target']}]({r['target']}.md): {r['title']}" for r in rows)])
    return pages.write("lint", "lint_pages.py", want)


sys.exit(main())
