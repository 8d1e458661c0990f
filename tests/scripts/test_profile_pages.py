"""docs/profiles matches the profile files; titles of profiles that no runtime confirmed
contain 'from documentation', and no others do; a row's source is a place that a reader can
open."""
import json
import os
import pathlib
import re
import subprocess
import sys

QG = os.path.abspath(os.environ.get("QG", "build/qg"))


def ask(*words):
    done = subprocess.run([QG, "list", "profiles", *words, "--json"], text=True,
                          capture_output=True, check=True)
    return json.loads(done.stdout)


def faults(name):
    page = ask(name)
    if (page["evidence"] == "documentation") != ("from documentation" in page["title"]):
        yield f"{name}: title '{page['title']}' with evidence {page['evidence']}"
    for row in page["kernels"]:
        for path in re.findall(r"\b((?:docs|tests)/[\w/.-]+\w)", row["source"]):
            if not pathlib.Path(path).exists():
                yield f"{row['at']}: source '{path}' does not exist"
        if not re.search(r"[/.]|Guide", row["source"]):
            yield f"{row['at']}: source '{row['source']}' is no place"


def main():
    failed = subprocess.run([sys.executable, "tools/dev/profile_pages.py", "--check"],
                            env={**os.environ, "QG": QG}).returncode
    names = [row["profile"] for row in ask()["profiles"]]
    found = [f for name in names for f in faults(name)]
    print(*found, sep="\n")
    print(f"{len(names)} profiles, {len(found)} faults")
    return failed or len(found) > 0 or not names


sys.exit(main())
