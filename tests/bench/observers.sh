#!/usr/bin/env bash
# observers.sh [-b BACKEND]... [-o OBSERVER]... -- the networks and samples of the table in
# docs/calibration.md#which-observer, from ../shared and configs, through observers.py.
set -eu
shared=${SHARED:-../shared}
m=$shared/models
s=$m/standins
exec "$(dirname "$0")/../../tools/python.sh" "$(dirname "$0")/observers.py" networks \
    "$m/ultraface-rfb-320.onnx" photos:32x3x240x320:-1:1:1 photos:16x3x240x320:-1:1:2 \
    "$m/kws_float.onnx" "$shared/data/kws_dev.npz#input_1:0:100" "$shared/data/kws_dev.npz#input_1:100:300" \
    "$m/mnist-8.onnx" digits:configs/data/digits_calib.npy digits:configs/data/digits_test.npy \
    configs/models/digits.onnx configs/data/digits_calib.npy configs/data/digits_test.npy \
    "$s/mobilenet_a.onnx" photos:32x3x64x64:-2:2:3 photos:16x3x64x64:-2:2:4 \
    "$s/yolo_a.onnx" photos:32x3x96x96:0:1:5 photos:16x3x96x96:0:1:6 \
    "$s/vit_a.onnx" photos:32x3x32x32:-1:1:7 photos:16x3x32x32:-1:1:8 \
    "$s/effnet_a.onnx" photos:32x3x64x64:-2:2:9 photos:16x3x64x64:-2:2:10 \
    "$@"
