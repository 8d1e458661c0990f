#!/usr/bin/env bash
# races_of_verbs.sh -- tune, search and sensitivity with two threads under ThreadSanitizer,
# which must report nothing: by hand, and by tools/soak.sh threads.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
calib=configs/data/digits_calib.npy labels=configs/data/digits_labels.npy
count=0

complain() {
    echo "FAILED: $1"
    head -60 "$work/log"
    exit 1
}

. tests/scripts/tsan.sh
build_tsan qg
export TSAN_OPTIONS=exitcode=66

# quiet VERB...: fails on a warning of the sanitizer, and on any other failure
quiet() {
    "$tsan/qg" "$@" -j2 >"$work/log" 2>&1 || complain "$*: exit status $?"
    grep -q ThreadSanitizer "$work/log" && complain "$*"
    count=$((count + 1))
}

quiet quantize configs/models/digits.onnx -b tflite-int8 -d $calib --samples 12 -o "$work/s"
tune=(tune "$work/s" -d "$calib" --samples 12 --steps 6 -o "$work/t")
for method in lsq adaquant adaround brecq bias; do
    quiet "${tune[@]}" --method $method
    quiet "${tune[@]}" --method $method --qdrop
done
for gradient in lsq-plus tqt pact nncf nncf-asymmetric; do
    quiet "${tune[@]}" --gradient $gradient
done
for loss in mse kd "labels --labels $labels"; do
    # Splitting is wanted: several words.
    # shellcheck disable=SC2086
    quiet "${tune[@]}" --loss $loss
done
for by in node endpoint group; do
    quiet sensitivity "$work/s" -d $calib --samples 8 --by $by
done
quiet sensitivity "$work/s" -d $calib --samples 8 --by group --propose 0.5% -o "$work/p.yaml"
for estimate in measured gradient; do
    quiet search "$work/s" -d $calib --samples 8 --budget bits=6 --choices 4,8 \
        --estimate $estimate -o "$work/p.yaml"
done
quiet search configs/models/digits.onnx -d $calib --samples 4 --over rules -b trt-int8

# Bodies, which the threads share.
if tools/python.sh tests/scripts/control_networks.py "$work"; then
    for name in if loop nested scan; do
        quiet quantize "$work/$name.onnx" -b trt-int8 -d "$work/data.npy" \
            --set 'op=Gemm slot=in1 bits=4' -o "$work/$name"
        quiet tune "$work/$name" -d "$work/data.npy" --steps 6 -o "$work/t"
        quiet tune "$work/$name" -d "$work/data.npy" --steps 6 --loss mse -o "$work/t"
        quiet run "$work/$name" -d "$work/data.npy" -o "$work/o"
        quiet analyse "$work/$name" -d "$work/data.npy"
        quiet sensitivity "$work/$name" -d "$work/data.npy"
    done
fi
echo "$count commands without a race"
