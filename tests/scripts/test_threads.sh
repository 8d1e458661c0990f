#!/usr/bin/env bash
# Contexts on several threads at once: their output equals that of a serial run, in this
# build; with QG_ALL=1 (tools/soak.sh threads) under ThreadSanitizer, too, which must
# report nothing and takes a build of its own.
set -u
build=${QG_BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

complain() {
    echo "FAILED: $1"
    head -40 "$work/log"
    exit 1
}

# run NAME PROGRAM
run() {
    "$2" "$work/$1" >"$work/log" 2>&1 || complain "$1: exit status $?"
    [ -s "$work/log" ] && complain "$1: is not silent"
    [ "$(find "$work/$1/threads" -type f | wc -l)" -ge 12 ] || complain "$1: too few files"
    diff -r "$work/$1/serial" "$work/$1/threads" >"$work/log" ||
        complain "$1: threads write other bytes"
    echo "$1: $(find "$work/$1/threads" -type f | wc -l) files, all the same"
}

run plain "$build/tests/threads"
[ "${QG_ALL:-}" ] || exit 0

. tests/scripts/tsan.sh
build_tsan threads qg_static qg_headers
export TSAN_OPTIONS=halt_on_error=1
"$tsan/tests/threads" --race >"$work/log" 2>&1 && complain "ThreadSanitizer sees no race"
run tsan "$tsan/tests/threads"

# Teams: the parts of random networks.
flags=$(pkg-config --static --libs yaml-0.1 libcjson libprotobuf-c libcrypto zlib)
${CC:-cc} -std=c11 -D_GNU_SOURCE -fsanitize=thread -g -I. -I"$tsan/include" \
    tests/prop/test_parts.c "$tsan/libqg.a" $flags -lcmocka -lm -o "$work/parts" \
    >"$work/log" 2>&1 || complain "test_parts: does not compile"
"$work/parts" 20 >"$work/log" 2>&1 || complain "test_parts: exit status $?"
echo "tsan: test_parts"

# The programs of docs/embedding.md under ThreadSanitizer, with the commands of the page.
ln -s "$PWD/configs" "$work/configs"
count=0
while read -r name arguments; do
    # Splitting is wanted: several words each.
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c11 -fsanitize=thread -g -I"$tsan/include/quantgraph" \
        "docs/examples/$name.c" "$tsan/libqg.a" $flags -lm -o "$work/$name" \
        >"$work/log" 2>&1 || complain "$name: does not compile"
    # shellcheck disable=SC2086
    (cd "$work" && "./$name" $arguments) >"$work/log" 2>&1 || complain "$name: exit status $?"
    count=$((count + 1))
done < <(sed -n 's/^\$ //p' docs/embedding.md)
[ "$count" -ge 11 ] || complain "docs/embedding.md: $count programs"
echo "tsan: $count programs of docs/embedding.md"
