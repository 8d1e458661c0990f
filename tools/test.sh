#!/usr/bin/env bash
# test.sh -- sets up, builds, checks, tests.  ctest's summary ends the output and its exit
# status is this script's.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DQG_TESTS=ON
cmake --build build
tools/check.sh
exec ctest --test-dir build --output-on-failure -j"$(nproc)"
