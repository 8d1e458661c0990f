#!/usr/bin/env python3
"""Writes docs/backends/NAME.md for every backend, from `qg list backends NAME`.

usage: tools/dev/backend_pages.py [--check]      QG: the program
  --check   writes nothing; fails when a page is missing, stale or without a backend
"""
import sys

import pages

NOTE = "<!-- Made by tools/dev/backend_pages.py from configs/backends; do not edit. -->"


def section(title, intro, rows, fields):
    return [f"## {title}", intro, "", *pages.statements(rows, fields)] if rows else []


def page(name):
    b = pages.ask("backends", name)
    lines = [f"# {name}", NOTE, "", b["title"] or "", ""]
    lines += [f"- {key}: `{b[key]}`" for key in ("pipeline", "placement", "dispatch",
                                                 "profile", "quirks", "defaults") if b.get(key)]
    for row in b.get("pass_parameters", []):
        lines.append(f"- pass {row['pass']}: `{row['parameter']}: {row['value']:g}`")
    lines += ["", f"Quantizes {b['quantizes']}.", ""]
    if b["passive"]:
        lines += [f"Outputs follow the input at {b['passive']}.", ""]
    lines += section("Rules",
                     "In order; a later rule overrides earlier ones field by field.",
                     b["rules"], ("match", "set"))
    lines += section("Fusions", "Values inside a fused kernel are not quantized.",
                     b["fusions"], ("pattern", "silence"))
    lines += section("Sharing", "Endpoints that must share a scale; of several matching "
                     "entries, the last one applies.",
                     b["sharing"], ("match", "align", "spread"))
    return pages.text(lines)


def main():
    rows = pages.ask("backends")["backends"]
    want = {f"{r['backend']}.md": page(r["backend"]) for r in rows}
    want["README.md"] = pages.text(
        ["# Backends", NOTE, "",
         *(f"- [{r['backend']}]({r['backend']}.md): {r['title'] or ''}" for r in rows)])
    return pages.write("backends", "backend_pages.py", want)


sys.exit(main())
