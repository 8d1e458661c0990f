"""Pages of docs that are made from `qg list TOPIC NAME`."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
QG = os.path.abspath(os.environ.get("QG", "build/qg"))


def ask(*words):
    """The JSON of `qg list WORDS`."""
    done = subprocess.run([QG, "list", *words, "--json"], cwd=ROOT, text=True,
                          capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


def statements(rows, fields):
    """Lines for the rows of a table with reasons, sources and places."""
    lines = []
    for row in rows:
        file = row["at"].rpartition(":")[0]
        lines += [f"**{row['id']}** ({file})", ""]
        lines += [f"- {field}: `{row[field]}`" for field in fields if row[field]]
        lines += [f"- why: {row['why']}", f"- source: {row['source']}", ""]
    return lines


def text(lines):
    return "\n".join(lines).rstrip() + "\n"


def write(topic, script, want):
    """Writes want {file: text} to docs/TOPIC and removes other pages there; with --check
    only compares.  The exit code."""
    folder = ROOT / "docs" / topic
    have = {p.name: p.read_text() for p in folder.glob("*.md")} if folder.is_dir() else {}
    stale = sorted(n for n in want.keys() | have.keys() if want.get(n) != have.get(n))
    if "--check" in sys.argv:
        for n in stale:
            print(f"docs/{topic}/{n} is not current, expected tools/dev/{script} to have "
                  "been run")
        print(f"{len(want) - len(stale)} of {len(want)} pages are current")
        return len(stale) > 0
    folder.mkdir(parents=True, exist_ok=True)
    for n in stale:
        if n in want:
            (folder / n).write_text(want[n])
        else:
            (folder / n).unlink()
    print(f"{len(stale)} of {len(want)} pages written")
    return 0
