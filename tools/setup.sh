#!/usr/bin/env bash
# setup.sh -- installs missing prerequisites for building and testing on Debian 12: the
# packages of packages.txt (as root or through sudo) and the Python packages of
# requirements.txt (in .venv).  Returns in well under a second when nothing is missing.
# Proxies, mirrors and certificates are those of the environment and of apt and pip.
# QG_SKIP_APT=1 skips the packages.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "setup: $*" >&2; exit 1; }

missing_packages() {
    comm -23 <(grep -v '^#' tools/packages.txt | sort) \
        <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null |
            sed -n 's/^installed //p' | sort -u)
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else # sudo drops the environment: pass the variables that apt reads
        local keep=() name
        for name in http_proxy https_proxy no_proxy; do
            [ -z "${!name:-}" ] || keep+=("$name=${!name}")
        done
        sudo env "${keep[@]}" "$@"
    fi
}

install_packages() {
    local packages
    command -v dpkg-query >/dev/null || die "no dpkg here: install the equivalents of" \
        "tools/packages.txt by hand, then run again with QG_SKIP_APT=1"
    mapfile -t packages < <(missing_packages)
    [ ${#packages[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
        die "cannot install packages: not root and no sudo; as root, run:" \
            "apt-get install ${packages[*]}"
    echo "setup: installing ${packages[*]}"
    as_root apt-get update -qq || echo "setup: apt-get update failed; trying without" >&2
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
        die "apt-get could not install: ${packages[*]}"
}

# The stamp is written last: an incomplete or moved venv is created again.
install_venv() {
    local want
    want="$(sha256sum <tools/requirements.txt) $PWD"
    [ "$(cat .venv/stamp 2>/dev/null)" = "$want" ] && [ -x .venv/bin/python ] && return 0
    echo "setup: making .venv with $(grep -vc '^#' tools/requirements.txt) Python packages"
    rm -rf .venv
    python3 -m venv .venv || die "python3 -m venv failed"
    .venv/bin/python -m pip install -q -r tools/requirements.txt ||
        die "pip could not install tools/requirements.txt (Python 3.11 or newer needed)"
    echo "$want" >.venv/stamp
}

[ -n "${QG_SKIP_APT:-}" ] || install_packages
install_venv
