#!/usr/bin/env bash
# python.sh ARGS... -- the Python that setup.sh made (or QG_PYTHON).  Exit status 77,
# "skipped" to ctest, when there is none.
python=${QG_PYTHON:-$(dirname "$0")/../.venv/bin/python}
[ -x "$python" ] || { echo "no .venv: run tools/setup.sh" >&2; exit 77; }
exec "$python" "$@"
