#!/usr/bin/env bash
# check_install.sh BUILD -- installs BUILD into a temporary folder, looks at what arrived,
# builds a C program against it through pkg-config, and runs that program and qg.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix" >/dev/null

for file in bin/qg include/quantgraph/qg.h libqg.so libqg.a quantgraph.pc \
    share/quantgraph/backends/trt-int8.yaml; do
    find "$prefix" -path "*/$file" | grep -q . || { echo "not installed: $file"; exit 1; }
done

pc=$(find "$prefix" -name quantgraph.pc)
from_pc() {
    PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --define-variable=prefix="$prefix" \
        "$@" quantgraph
}
# Splitting is wanted: pkg-config prints several words.
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror -o "$prefix/user" tests/support/installed/main.c \
    $(from_pc --cflags --libs)
cd "$prefix" # nothing may come from the source tree by accident
LD_LIBRARY_PATH=$(from_pc --variable=libdir) ./user share/quantgraph snapshot
for file in snapshot/model.onnx snapshot/quant.json; do
    [ -s $file ] || { echo "the installed library did not write $file"; exit 1; }
done
bin/qg list backends | grep -q trt-int8 || { echo "qg list backends lacks trt-int8"; exit 1; }
