#!/usr/bin/env bash
# check_install.sh BUILD -- installs BUILD into a temporary folder, looks at what arrived,
# and builds and runs a C program against it through pkg-config.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix" >/dev/null

[ -f engine/api/qg.h ] || { echo "no engine/api/qg.h yet: not compiled against"; exit 0; }
for file in bin/qg include/qg.h 'lib/*/libqg.so' 'lib/*/libqg.a' share/quantgraph/backends; do
    compgen -G "$prefix/$file" >/dev/null ||
        compgen -G "$prefix/${file/\/\*/}" >/dev/null ||
        { echo "not installed: $file"; exit 1; }
done

pc=$(find "$prefix" -name quantgraph.pc)
from_pc() {
    PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --define-variable=prefix="$prefix" \
        "$@" quantgraph
}
# Word splitting is wanted: pkg-config prints several arguments.
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror -o "$prefix/user" tests/support/installed/main.c \
    $(from_pc --cflags --libs)
LD_LIBRARY_PATH=$(from_pc --variable=libdir) "$prefix/user"
