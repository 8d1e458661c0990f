#!/usr/bin/env bash
# CMake rejects oneDNN 3.x with a message and continues without it, and accepts 2.x.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }

configure() { # MAJOR: with a header of that version
    mkdir -p "$work/include/oneapi/dnnl"
    touch "$work/include/oneapi/dnnl/dnnl.h" "$work/libdnnl.so"
    printf '#define DNNL_VERSION_MAJOR %s\n#define DNNL_VERSION_MINOR 0\n' "$1" \
        >"$work/include/oneapi/dnnl/dnnl_version.h"
    rm -rf "$work/build"
    cmake -S . -B "$work/build" -DQG_TESTS=OFF -DDNNL_INCLUDE="$work/include" \
        -DDNNL_LIBRARY="$work/libdnnl.so" 2>&1
}

out=$(configure 3 | tr -s ' \n' ' ')
[[ $out == *"oneDNN 3.x in $work/include has another C API, expected 2.x"* ]] ||
    fail "3.x is not refused by name: $out"
[[ $out == *"oneDNN not used: the reference kernels do all the work"* ]] ||
    fail "3.x is used: $out"
[[ $out == *"Configuring done"* ]] || fail "does not configure beside 3.x: $out"
out=$(configure 2)
[[ $out != *"oneDNN not used"* && $out == *"Configuring done"* ]] ||
    fail "2.x is not used: $out"
echo ok
