#!/usr/bin/env python3
"""Writes docs/profiles/NAME.md for every profile, from `qg list profiles NAME`.

usage: tools/dev/profile_pages.py [--check]      QG: the program
  --check   writes nothing; fails when a page is missing, stale or without a profile
"""
import sys

import pages

NOTE = "<!-- Made by tools/dev/profile_pages.py from configs/profiles; do not edit. -->"
INTRO = """A profile is the integer arithmetic of one runtime on one instruction set: a YAML file with one row
per kind of operator. An operator without a row is not computed in integers by that runtime, or no
formula is known for it. The words are explained in
[profile.h](../../engine/number/profile.h) and [requant.h](../../engine/number/requant.h);
[add a profile]({docs}/add-a-profile.md) is a walk-through.
""".format(docs="..")


def page(name):
    p = pages.ask("profiles", name)
    lines = [f"# {name}", NOTE, "", p["title"], ""]
    if p["parent"]:
        lines.append(f"- extends: [{p['parent']}]({p['parent']}.md)")
    lines += [f"- {key}: `{p[key]}`" for key in ("evidence", "activation", "weight", "bias")]
    lines += [f"- float operators between integer ones: {'yes' if p['islands'] else 'no'}",
              "", "## Kernels", "The first row that fits an operator counts.", ""]
    return pages.text(lines + pages.statements(p["kernels"], ("use", "fits", "computes")))


def main():
    rows = pages.ask("profiles")["profiles"]
    want = {f"{r['profile']}.md": page(r["profile"]) for r in rows}
    want["README.md"] = pages.text(
        ["# Profiles", NOTE, "", INTRO,
         *(f"- [{r['profile']}]({r['profile']}.md): {r['title']}" for r in rows)])
    return pages.write("profiles", "profile_pages.py", want)


sys.exit(main())
