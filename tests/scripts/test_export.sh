#!/usr/bin/env bash
# qg export, qg import: messages, --strict, the loss report, the same bytes each time.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/cli.sh

model=configs/models/digits.onnx data=configs/data/digits_calib.npy
quantize() { # NAME BACKEND OPTIONS...
    local name=$1 backend=$2
    shift 2
    expect 0 '' "$qg" quantize $model -b "$backend" -d $data -n 16 -o "$work/$name" "$@"
}
same() { cmp -s "$1" "$2" || complain "$1 and $2 differ"; }
rows() { # FILE.json ASPECT: how many losses of it
    grep -c "\"lost\": \"$2\"" "$1"
}

quantize trt trt-int8 --jobs 1
quantize trt2 trt-int8 --jobs 2
quantize ncnn ncnn-int8

# Words and options.
expect 2 'export: expected --format FORMAT' "$qg" export "$work/trt" -o "$work/out"
expect 2 'export: expected -o FILE' "$qg" export "$work/trt" --format onnx-qdq
expect 1 "format 'onnx-qdp': no such format, expected one of .*did you mean 'onnx-qdq'" \
    "$qg" export "$work/trt" --format onnx-qdp -o "$work/out"
expect 1 "format 'onnx-qdq': weights 'ints', expected int or float, did you mean 'int'" \
    "$qg" export "$work/trt" --format onnx-qdq --weights ints -o "$work/out"
expect 1 "format 'onnx-qdq': placement 'x', expected ort, trt or openvino" \
    "$qg" export "$work/trt" --format onnx-qdq --placement x -o "$work/out"
expect 1 'is not quantized, expected a snapshot' \
    "$qg" export $model --format onnx-qdq -o "$work/out"
expect 1 'No such file' "$qg" export "$work/trt" --format onnx-qdq -o "$work/no/out"
expect 1 'No such file' "$qg" export "$work/trt" --format onnx-qdq -o "$work/out" \
    --report "$work/no/report"

# The same bytes for any number of workers, and each time.
for jobs in trt trt2; do
    expect 0 '' "$qg" export "$work/$jobs" --format onnx-qdq -o "$work/$jobs.onnx" \
        --report "$work/$jobs.json"
done
same "$work/trt.onnx" "$work/trt2.onnx"
nodes="quantizers as nodes.*the first is '[^']+'.*, expected a snapshot .qg import"
expect 1 "has $nodes --format onnx-qdq" "$qg" analyse "$work/trt.onnx" -d "$data"
expect 1 "has [0-9]+ $nodes --format onnx-qdq .* mode float or integer" \
    "$qg" run "$work/trt.onnx" -d "$data" --mode simulate -o "$work/out"
tells() { # PATTERN COMMAND...: succeeds, with one warning
    local pattern="^qg: warning: $1$"
    shift
    checks=$((checks + 1))
    "$@" >"$work/stdout" 2>"$work/stderr" || complain "$*: exit status $?"
    [ "$(grep -cE "$pattern" "$work/stderr")" = 1 ] || complain "$*: no '$pattern'"
}
own="has [0-9]+ quantizers of its own, the first is node '[^']+' .QuantizeLinear., which"
tells "mode float: .*trt.onnx: $own round as in the file .*" \
    "$qg" run "$work/trt.onnx" -d "$data" -n 4 -o "$work/ran"
tells "quantize: .*trt.onnx: $own stay as they are.*" \
    "$qg" quantize "$work/trt.onnx" -b trt-int8 -d "$data" -n 4 -o "$work/twice"
same "$work/trt/quant.json" "$work/trt2/quant.json"
expect 0 '' "$qg" export "$work/trt" --format onnx-qdq -o "$work/again.onnx" --strict
same "$work/trt.onnx" "$work/again.onnx"
[ "$(rows "$work/trt.json" .)" = 0 ] || complain 'trt-int8 loses something'

# The loss report, in text and JSON, and as an error.
expect 0 '' "$qg" export "$work/ncnn" --format onnx-qdq -o "$work/ncnn.onnx" \
    --report "$work/ncnn.json"
[ "$(rows "$work/ncnn.json" rounding)" -gt 8 ] || complain 'no rounding lost for ncnn'
[ "$(rows "$work/ncnn.json" range)" -gt 4 ] || complain 'no range lost for ncnn'
expect 0 '' "$qg" export "$work/ncnn" --format onnx-qdq -o "$work/ncnn.onnx" \
    --report "$work/ncnn.txt"
grep -q 'rounding .*rounding half-away-from-zero; readers of the file use half-even$' "$work/ncnn.txt" ||
    complain 'no rounding in the text report'
expect 1 "format 'onnx-qdq' cannot represent .* \\(and [0-9]+ more\\), expected no loss with --strict" \
    "$qg" export "$work/ncnn" --format onnx-qdq --strict -o "$work/out"
[ -z "$(ls "$work" | grep '^out')" ] || complain 'a refused export leaves something behind'
expect 1 "format 'onnx-qdq': can only be exported|contains the graph" \
    "$qg" import "$work/trt.onnx" --format onnx-qdq --model $model -o "$work/out"

# Duplicates are written once: the snapshot can be read again.
quantize twice trt-int8 --set 'op=Conv slot=weight bits=4' --set 'op=Gemm slot=weight bits=4'
expect 0 '' "$qg" export "$work/twice" --format onnx-qdq --placement ort \
    -o "$work/twice.onnx"

# TensorRT refuses what it cannot run, by name.
quantize asym trt-int8 --set 'op=Conv slot=in0 policy=per-tensor,linear,asymmetric range=0,255'
expect 1 'in0: TensorRT .*expected a scheme for TensorRT or another --placement' \
    "$qg" export "$work/asym" --format onnx-qdq --placement trt -o "$work/out"

quantize narrow trt-int8 --set 'op=Conv slot=in0 bits=4'
expect 1 "in0: TensorRT has activations of 5 to 8 bits .weights also of 4.; activation '.*' has 4 bits, expected a scheme for TensorRT or another --placement" \
    "$qg" export "$work/narrow" --format onnx-qdq -o "$work/out"

# What is there stays: files of a snapshot, the other file of the same command, second
# files that something else wrote, models that are exports, policies of others.
cp -r "$work/trt" "$work/kept"
for file in model.onnx quant.json; do
    expect 1 "$file: is a file of a snapshot, expected another name" \
        "$qg" export "$work/kept" --format onnx-qdq -o "$work/kept/$file"
done
expect 1 'quant.json: is a file of a snapshot' \
    "$qg" lint "$work/kept" --target ort --sarif "$work/kept/quant.json"
expect 1 'the report goes to the same file' \
    "$qg" export "$work/kept" --format csv -o "$work/one.csv" --report "$work/one.csv"
expect 1 'the report goes to the same file' \
    "$qg" export "$work/kept" --format csv -o "$work/one.csv" --report "$work/./one.csv"
same "$work/kept/model.onnx" "$work/trt/model.onnx"
same "$work/kept/quant.json" "$work/trt/quant.json"
echo foreign > "$work/second.bin"
expect 1 'second.bin, which is there without the first' \
    "$qg" export "$work/trt" --format openvino-ir -o "$work/second.xml"
[ "$(cat "$work/second.bin")" = foreign ] || complain 'openvino-ir replaced second.bin'
expect 0 '' "$qg" export "$work/trt" --format openvino-ir -o "$work/killed.xml"
rm "$work/killed.xml" # as a kill between the two leaves it
expect 0 '' "$qg" export "$work/trt" --format openvino-ir -o "$work/killed.xml"
echo foreign > "$work/node.json.bits.json"
expect 1 'node.json.bits.json, which is there without' \
    "$qg" export "$work/trt" --format model-explorer -o "$work/node.json"
expect 1 'trt.onnx, which is another export' \
    "$qg" export "$work/trt" --format csv -o "$work/trt.csv"
same "$work/trt.onnx" "$work/again.onnx"
program=$(realpath "$qg")
echo 'rules: []' > "$work/policy.yaml"
cd "$work" || exit 1
expect 2 'policy.yaml is there and not a file of qg' \
    "$program" lint kept --target ort --fix
cd - > /dev/null || exit 1

finish
