#!/usr/bin/env bash
# coverage.sh [FOLDER [LABEL...]] -- lines and branches that the tests execute, measured by
# gcov over the suites of the labels (unit, prop and scripts) together, in a build of its own
# in FOLDER (build-coverage).  Fails below the goals: lines 95 %, branches 85 %, every
# folder 90 % and 75 %, no file without an executed line.  FOLDER/counts keeps what each test
# has executed; with labels, the counts of other suites are those of their last run.  Takes a
# build and all suites at -O1 with counters, which is hours on two cores.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-coverage}
[ $# = 0 ] || shift
labels=${*:-unit prop scripts}
# Little optimization, which would join lines; without assertions, whose branches no test may
# take.
nice -n 19 cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DQG_TESTS=ON \
    -DQG_COVERAGE=ON -DCMAKE_C_FLAGS_RELEASE="-O1 -DNDEBUG" >/dev/null
nice -n 19 cmake --build "$build"
[ $# != 0 ] || rm -rf "$build/counts"
for label in $labels; do # a failing suite is counted with what it has executed
    nice -n 19 ctest --test-dir "$build" -L "^$label\$" -j2 --timeout 1800 || true
done
nice -n 19 tools/python.sh tools/dev/coverage.py "$build"
