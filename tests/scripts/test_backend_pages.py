"""docs/backends matches the backend files, and the backends imported from AIMET
configurations match the current output of import-backend."""
import os
import pathlib
import subprocess
import sys
import tempfile

QG = os.path.abspath(os.environ.get("QG", "build/qg"))


def main():
    failed = subprocess.run([sys.executable, "tools/dev/backend_pages.py", "--check"],
                            env={**os.environ, "QG": QG}).returncode
    for source in sorted(pathlib.Path("tests/data/aimet").glob("*.json")):
        kept = pathlib.Path(f"configs/backends/aimet-{source.stem}.yaml")
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / kept.name
            subprocess.run([QG, "import-backend", str(source), "--format", "aimet", "-o",
                            str(made)], check=True, stdout=subprocess.DEVNULL)
            if made.read_text() != kept.read_text():
                print(f"{kept} is not what {source} becomes")
                failed = 1
    return failed


sys.exit(main())
