# cli.sh -- shared by the tests of the command line; sourced by them.
#   $qg, $work   the command; a scratch folder that is removed when the test ends
#   expect RC PATTERN COMMAND...   runs it; RC 0: stderr is empty; else stdout is empty,
#       stderr is one line that matches PATTERN (RC 2: and one that refers to help), and
#       nothing is left at $work/out
# The script ends with `finish`.
qg=${QG:-build/qg}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0 checks=0

complain() {
    echo "FAILED: $1"
    sed 's/^/    stderr: /' "$work/stderr"
    failures=$((failures + 1))
}

expect() {
    local want=$1 pattern=$2 rc=0 line
    shift 2
    checks=$((checks + 1))
    "$@" >"$work/stdout" 2>"$work/stderr" </dev/null || rc=$?
    mapfile -t line <"$work/stderr"
    if [ $rc -ne "$want" ]; then
        complain "$*: exit status $rc, expected $want"
    elif [ ${#line[@]} -ne "$want" ]; then
        complain "$*: ${#line[@]} lines on stderr, expected $want"
    elif [ "$want" -ne 0 ] && [ -s "$work/stdout" ]; then
        complain "$*: writes to stdout though it fails"
    elif [ "$want" -ne 0 ] && ! [[ ${line[0]} =~ $pattern ]]; then
        complain "$*: the message does not match '$pattern'"
    elif [ "$want" -eq 2 ] && [[ ${line[-1]} != 'see `qg '* ]]; then
        complain "$*: does not say where help is"
    elif [ "$want" -ne 0 ] && [ -e "$work/out" ]; then
        complain "$*: leaves $(ls -A "$work/out") behind"
        rm -rf "$work/out"
    fi
}

# npy FILE DTYPE SHAPE: the elements come from stdin.
npy() {
    local head="{'descr': '$2', 'fortran_order': False, 'shape': ($3,), }" n
    n=$((64 - (11 + ${#head}) % 64 + ${#head}))
    {
        printf '\x93NUMPY\x01\x00'
        printf "\\x$(printf %02x $((n % 256 + 1)))\\x$(printf %02x $(((n + 1) / 256)))"
        printf "%-${n}s\n" "$head"
        cat
    } >"$1"
}

finish() {
    echo "$checks checks, $failures failed"
    [ $failures -eq 0 ]
    exit
}
