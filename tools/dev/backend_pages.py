#!/usr/bin/env python3
"""Writes docs/backends/NAME.md for every backend, from `qg list backends NAME`.

usage: tools/dev/backend_pages.py [--check]      QG: the program
  --check   writes nothing; fails when a page is missing, stale or without a backend
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "backends"
QG = os.path.abspath(os.environ.get("QG", "build/qg"))
NOTE = "<!-- Made by tools/dev/backend_pages.py from configs/backends; do not edit. -->"


def ask(*words):
    done = subprocess.run([QG, "list", *words, "--json"], cwd=ROOT, text=True,
                          capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


def statements(title, intro, rows, fields):
    if not rows:
        return []
    lines = [f"## {title}", intro, ""]
    for row in rows:
        file = row["at"].rpartition(":")[0]
        lines += [f"**{row['id']}** ({file})", ""]
        lines += [f"- {field}: `{row[field]}`" for field in fields if row[field]]
        lines += [f"- why: {row['why']}", f"- source: {row['source']}", ""]
    return lines


def page(name):
    b = ask("backends", name)
    lines = [f"# {name}", NOTE, "", b["title"] or "", ""]
    lines += [f"- {key}: `{b[key]}`" for key in ("pipeline", "dispatch", "profile",
                                                 "quirks", "defaults") if b[key]]
    for row in b.get("pass_parameters", []):
        lines.append(f"- pass {row['pass']}: `{row['parameter']}: {row['value']:g}`")
    lines += ["", f"Quantizes {b['quantizes']}.", ""]
    if b["passive"]:
        lines += [f"Outputs follow the input at {b['passive']}.", ""]
    lines += statements("Rules",
                        "In order; a later rule overrides earlier ones field by field.",
                        b["rules"], ("match", "set"))
    lines += statements("Fusions", "Values inside a fused kernel are not quantized.",
                        b["fusions"], ("pattern", "silence"))
    lines += statements("Sharing", "Endpoints that must share a scale; of several matching "
                        "entries, the last one applies.",
                        b["sharing"], ("match", "align", "spread"))
    return "\n".join(lines).rstrip() + "\n"


def index(rows):
    lines = ["# Backends", NOTE, ""]
    lines += [f"- [{r['name']}]({r['name']}.md): {r['title'] or ''}" for r in rows]
    return "\n".join(lines) + "\n"


def main():
    rows = ask("backends")["backends"]
    name = next(k for k in rows[0] if k in ("name", "backend"))
    rows = [{"name": r[name], "title": r["title"]} for r in rows]
    want = {f"{r['name']}.md": page(r["name"]) for r in rows}
    want["README.md"] = index(rows)
    have = {p.name: p.read_text() for p in PAGES.glob("*.md")} if PAGES.is_dir() else {}
    stale = sorted(n for n in want.keys() | have.keys() if want.get(n) != have.get(n))
    if "--check" in sys.argv:
        for n in stale:
            print(f"docs/backends/{n} is not current, expected tools/dev/backend_pages.py "
                  "to have been run")
        print(f"{len(want) - len(stale)} of {len(want)} pages are current")
        return len(stale) > 0
    PAGES.mkdir(parents=True, exist_ok=True)
    for n in stale:
        if n in want:
            (PAGES / n).write_text(want[n])
        else:
            (PAGES / n).unlink()
    print(f"{len(stale)} of {len(want)} pages written")
    return 0


sys.exit(main())
