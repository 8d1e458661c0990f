#!/usr/bin/env bash
# check.sh [--quick] -- all checks that do not run the program.
#   --quick   only checks without a build: format, layers, meaning, calls, headers,
#             budgets, evidence, text.  Under 20 seconds.
# Without --quick also: gcc and clang build everything without warnings, and the suites
# pass as clang compiles them, with AddressSanitizer and UBSan.
set -u
cd "$(dirname "$0")/.." || exit 1
case "${1:-}" in
'' | --quick) ;;
*)
    echo "usage: tools/check.sh [--quick]" >&2
    exit 2
    ;;
esac

failed=0
# step NAME COMMAND...: prints one line when it passes, else its output.
step() {
    local name=$1 out rc start=$SECONDS
    shift
    out=$("$@" 2>&1)
    rc=$?
    [ $rc -eq 0 ] && verdict=ok || verdict=FAILED failed=1
    printf '%-10s %-7s %2d s\n' "$name" "$verdict" $((SECONDS - start))
    [ -z "$out" ] || printf '%s\n' "$out" | sed 's/^/    /'
}

format() {
    local places
    clang-format --version >/dev/null || return 1
    places=$(python3 tools/check_source.py | xargs -d '\n' -P"$(nproc)" -n 20 \
        clang-format --dry-run 2>&1 | grep -E '^[^ ]+:[0-9]+:[0-9]+:')
    [ -z "$places" ] && return
    echo "$places" | cut -d: -f1,2 | sort -t: -k1,1 -k2,2n -u |
        awk -F: '!seen[$1]++ { print $1 ":" $2 ": not as clang-format -i writes it" }'
    return 1
}

layers() {
    local rc=0
    python3 tools/check_layers.py || rc=1
    python3 tools/dev/rooms.py --check || rc=1
    return $rc
}

# builds DIR [CMAKE-OPTION...]
builds() {
    local log
    log=$(mktemp)
    cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DQG_TESTS=ON \
        -DQG_WERROR=ON "${@:2}" >"$log" 2>&1 && cmake --build "$1" >>"$log" 2>&1
    local rc=$?
    [ $rc -eq 0 ] || grep -Ei 'error|warning|FAILED' -A3 "$log" | head -40
    rm "$log"
    return $rc
}

# Compiles everything with clang and with AddressSanitizer and UBSan, and runs the suites.
sanitized() {
    local out
    builds build-sanitized -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=None \
        -DQG_ASAN=ON || return 1
    out=$(ctest --test-dir build-sanitized -L 'unit|prop' -j"$(nproc)" --output-on-failure)
    local rc=$?
    [ $rc -eq 0 ] || printf '%s\n' "$out" | tail -40
    return $rc
}

step format format
step layers layers
step meaning python3 tools/check_meaning.py
step calls python3 tools/check_calls.py
step headers python3 tools/check_headers.py
step budget python3 tools/check_budget.py
step evidence tools/python.sh tools/check_evidence.py
step text python3 tools/check_text.py
if [ "${1:-}" != --quick ]; then
    step gcc builds build
    step clang sanitized
fi
[ $failed -eq 0 ] || echo "check: failed"
exit $failed
