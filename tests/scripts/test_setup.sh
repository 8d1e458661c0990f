#!/usr/bin/env bash
# setup.sh does nothing when nothing is missing, and prints instructions when it cannot
# install.  Runs on a copy with stand-ins for apt, dpkg, pip and the user's id.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{tools,bin,.venv/bin}
cp tools/{setup.sh,packages.txt,requirements.txt} "$work/tools"
cd "$work" || exit 1
fail() { echo "$*"; exit 1; }

fake() { # NAME TEXT: a command of that name
    printf '#!/bin/sh\n%s\n' "$2" >"bin/$1" && chmod +x "bin/$1"
}
for name in apt-get python3; do fake $name "echo $name \"\$@\" >>$work/called"; done
fake python '' && mv bin/python .venv/bin/python
fake dpkg-query "sed 's/^/installed /' $work/tools/packages.txt"
for tool in bash dirname sed grep comm sort sha256sum cat rm env; do
    ln -s "$(command -v $tool)" bin/$tool
done
setup() { PATH=$work/bin tools/setup.sh 2>&1; }
stamp() { echo "$(sha256sum <tools/requirements.txt) $work" >.venv/stamp; }

stamp
SECONDS=0
out=$(setup) || fail "fails with nothing missing: $out"
[ -z "$out" ] && [ ! -e called ] || fail "does something with nothing missing: $out"
[ $SECONDS -le 2 ] || fail "takes $SECONDS s with nothing missing"

echo 'no-such-package' >>tools/packages.txt
fake dpkg-query "sed '/no-such/d; s/^/installed /' $work/tools/packages.txt"
fake id 'echo 1000'
out=$(setup) && fail "succeeds without a package and without root: $out"
[[ $out == *'not root and no sudo'*'apt-get install no-such-package'* ]] ||
    fail "does not say what to do: $out"

fake id 'echo 0'
out=$(setup) || fail "fails as root: $out"
grep -q '^apt-get install .* no-such-package$' called || fail "does not install: $(cat called)"
fake apt-get 'exit 100'
out=$(setup) && fail "succeeds although apt-get fails: $out"
[[ $out == *'could not install: no-such-package'* ]] || fail "unclear: $out"

sed -i '/no-such/d' tools/packages.txt
fake python3 'exit 1'
echo 'another==1' >>tools/requirements.txt
out=$(setup) && fail "succeeds although the new requirement was not installed: $out"
[ ! -e .venv/stamp ] || fail "leaves a stamp on a venv that was not made"
echo "setup is quiet when nothing is missing and clear when it cannot go on"
