#!/usr/bin/env bash
# check_install.sh BUILD -- installs BUILD into a temporary folder, looks at what arrived,
# builds C programs against it through pkg-config, and runs them and qg.  The programs of
# docs/arrays.md are among them: they use every installed header.
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
# Every header stands alone: what it includes is installed, too.
include=$(from_pc --variable=includedir)/quantgraph
for header in $(cd "$include" && find . -name '*.h' | sort); do
    (cd "$prefix" && cc -std=c11 -Wall -Wextra -Werror -fsyntax-only -I"$include" -x c \
        "$include/$header") || { echo "an installed header does not compile: $header"; exit 1; }
done
if command -v c++ >/dev/null; then
    (cd "$prefix" && echo '#include <qg.h>' |
        c++ -Wall -Wextra -Werror -fsyntax-only -I"$include" -x c++ -)
fi
# Splitting is wanted: pkg-config prints several words.
# shellcheck disable=SC2046
LD_LIBRARY_PATH=$(from_pc --variable=libdir) python3 tests/scripts/test_docs.py \
    docs/arrays.md $(from_pc --cflags --libs) -lm
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror -o "$prefix/user" tests/support/installed/main.c \
    $(from_pc --cflags --libs)
cd "$prefix" # nothing may come from the source tree by accident
LD_LIBRARY_PATH=$(from_pc --variable=libdir) ./user share/quantgraph snapshot
for file in snapshot/model.onnx snapshot/quant.json; do
    [ -s $file ] || { echo "the installed library did not write $file"; exit 1; }
done
bin/qg list backends | grep -q trt-int8 || { echo "qg list backends lacks trt-int8"; exit 1; }
