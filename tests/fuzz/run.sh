#!/usr/bin/env bash
# run.sh NAME SECONDS -- fuzzes tests/fuzz/fuzz_NAME.c with libFuzzer (clang).
#   Seeds: tests/fuzz/corpus/NAME (every past finding, kept) and what seeds.txt names.
#   New inputs go to build/fuzz/NAME; a finding is left there as crash-*: make it small
#   with -minimize_crash=1, fix it, and keep it in tests/fuzz/corpus/NAME.
# TIMEOUT: seconds that one input may take (20); more on a busy machine.
# The first run of any NAME builds the library with clang and sanitizers, minutes on two
# cores; then all seeds, and SECONDS of new inputs.
# Every seed is run first, so `run.sh NAME 1` is a regression test.
set -eu
cd "$(dirname "$0")/../.."
[ $# -eq 2 ] || { echo "usage: tests/fuzz/run.sh NAME SECONDS" >&2; exit 2; }
name=$1 seconds=$2
read -r _ max seeds < <(grep "^$name " tests/fuzz/seeds.txt) ||
    { echo "tests/fuzz/seeds.txt has no line for $name" >&2; exit 2; }
seeds=$(sed 's/\*[0-9]*//g' <<<"$seeds") # counts are for the replay
command -v clang >/dev/null || { echo "no clang: skipped" >&2; exit 77; }

echo "fuzz_$name: building with clang and sanitizers, minutes the first time" >&2
build=build/fuzz/tree
flags="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -g -O1"
options=()
[ -f build/generated/onnx.proto ] &&
    options+=("-DQG_ONNX_PROTO=$PWD/build/generated/onnx.proto")
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang \
    "-DCMAKE_C_FLAGS=$flags" -DQG_MPI=OFF "${options[@]}" >/dev/null
cmake --build $build --target qg_static -j"${JOBS:-2}" >/dev/null
libraries=$(pkg-config --libs yaml-0.1 libcjson libprotobuf-c libcrypto zlib)
sources=("tests/fuzz/fuzz_$name.c")
case $name in # what reads ONNX files
onnx | lower | *_import) sources+=(tests/fuzz/onnx_mutator.c) ;;
esac
# shellcheck disable=SC2086
clang -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -g -O1 -I. \
    -I$build/generated -D_DEFAULT_SOURCE -D_GNU_SOURCE "${sources[@]}" $build/libqg.a \
    $libraries \
    -ldnnl -lgomp -lstdc++ -lm -lpthread -o "build/fuzz/fuzz_$name"

mkdir -p "build/fuzz/$name"
# shellcheck disable=SC2086
"build/fuzz/fuzz_$name" -max_total_time="$seconds" -max_len=$max -timeout="${TIMEOUT:-20}" \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="build/fuzz/$name/" \
    "build/fuzz/$name" $seeds
