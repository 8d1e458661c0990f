#!/usr/bin/env bash
# soak.sh [PART...] [MINUTES=N] -- the long tests, by hand: each part runs all that it has, or
# for MINUTES (60 by default) where there is no end.  Parts: suites (all of what tools/test.sh
# runs a part of), faults, fuzz, mutants, python (its suites with the wheel, and with
# AddressSanitizer), threads (ThreadSanitizer); all of them when none is named.  Needs a build
# in build/ (QG_BUILD).
set -eu
cd "$(dirname "$0")/.."
build=${QG_BUILD:-build}
export QG=${QG:-$build/qg} QG_BUILD=$build
minutes=60 parts=() all=(suites faults fuzz mutants python threads)
for word in "$@"; do
    case $word in
    MINUTES=*) minutes=${word#MINUTES=} ;;
    suites | faults | fuzz | mutants | python | threads) parts+=("$word") ;;
    *)
        echo "soak: '$word', expected ${all[*]} or MINUTES=N" >&2
        exit 2
        ;;
    esac
done
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")
failed=()

try() { # NAME COMMAND...
    local name=$1 status=0
    shift
    echo "== $name"
    "$@" || status=$?
    case $status in
    0) ;;
    77) echo "skipped" ;;
    *) failed+=("$name") ;;
    esac
}

for part in "${parts[@]}"; do
    case $part in
    suites)
        try suites env QG_ALL=1 ctest --test-dir "$build" -j"$(nproc)" --timeout 7200 \
            --output-on-failure
        ;;
    faults)
        for script in test_interrupted test_faults; do
            try "$script --all" tools/python.sh "tests/scripts/$script.py" --all
        done
        try "test_search 100" tools/python.sh tests/scripts/test_search.py 100
        ;;
    fuzz)
        sources=(tests/fuzz/fuzz_*.c)
        for source in "${sources[@]}"; do
            name=$(basename "$source" .c)
            try "$name" tests/fuzz/run.sh "${name#fuzz_}" \
                $((minutes * 60 / ${#sources[@]}))
        done
        ;;
    mutants)
        try coverage tools/coverage.sh build-coverage
        try mutants tools/python.sh tools/mutate.py build-coverage
        ;;
    python)
        try wheel bindings/python/check_wheel.sh
        try "wheel --asan" bindings/python/check_wheel.sh --asan
        ;;
    threads)
        for script in test_threads races_of_verbs; do
            try "$script" env QG_ALL=1 bash "tests/scripts/$script.sh"
        done
        ;;
    esac
done
[ ${#failed[@]} = 0 ] || { printf 'soak: failed: %s\n' "${failed[*]}"; exit 1; }
echo "soak: ok"
