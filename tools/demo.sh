#!/usr/bin/env bash
# demo.sh -- builds qg and quantizes a small demo network for two backends: shows the
# accuracy, the active quantizers, the sources of the error, and the explanation of one
# tensor.  Writes to build/demo only.
set -euo pipefail
cd "$(dirname "$0")/.."
trap 'echo "demo: line $LINENO failed: $BASH_COMMAND" >&2' ERR

bold= plain=
[ ! -t 1 ] || { bold=$(tput bold || true); plain=$(tput sgr0 || true); }
say() { printf '\n%s\n' "$bold$*$plain"; }
# show COMMAND...: prints the command as typed by a user, then runs it.
show() {
    printf '%s$ qg %s%s\n' "$bold" "$*" "$plain"
    build/qg "$@"
}

tools/setup.sh
echo "demo: building qg, a few minutes the first time (build/demo.log)"
[ -f build/CMakeCache.txt ] ||
    cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build build --target qg >build/demo.log || { cat build/demo.log; exit 1; }

model=configs/models/digits.onnx
calib=configs/data/digits_calib.npy
digits=configs/data/digits_test.npy
labels=configs/data/digits_labels.npy
rm -rf build/demo && mkdir -p build/demo

say "A small convolutional network reads handwritten digits, 8 x 8 pixels each. How well," \
    $'\n'"before any device is touched, will it read them in int8?"
show evaluate $model -d $digits --labels $labels

for backend in trt-int8 ncnn-int8; do
    snapshot=build/demo/$backend
    say "--- $backend: quantized with 64 digits, evaluated on 599 others"
    show quantize $model -b $backend -d $calib -o $snapshot
    show evaluate $snapshot -d $digits --labels $labels
    say "Endpoints by state:"
    python3 tools/dev/count_states.py $snapshot/quant.json
    say "Where does the error come from? The three worst endpoints:"
    show sensitivity $snapshot -d $digits --by endpoint --top 3
done

say "--- Why? The record of the first convolution's output for trt-int8:"
show explain build/demo/trt-int8 conv0.out0

say "--- The files"
for backend in trt-int8 ncnn-int8; do
    printf '%s\n' build/demo/$backend/*
done
say "Next: the same with your own model; see README.md."
