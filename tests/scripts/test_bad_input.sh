#!/usr/bin/env bash
# Bad input: one clear message, exit status 1, nothing half-written.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/cli.sh

model=configs/models/digits.onnx
data=configs/data/digits_calib.npy
out=$work/out

quantize() { # MODEL BACKEND DATA [OPTION...]
    "$qg" quantize "$1" -b "$2" -d "$3" -o "$out" "${@:4}"
}

# --- models ---
: >"$work/empty.onnx"
expect 1 'missing.onnx: No such file' quantize "$work/missing.onnx" trt-int8 $data
expect 1 'empty.onnx: the file is empty' quantize "$work/empty.onnx" trt-int8 $data
expect 1 'unknown_op.*FancyNorm|FancyNorm is not known' \
    quantize tests/models/malformed/unknown_op.onnx trt-int8 $data
expect 1 'configs: |is a directory|model.onnx: No such file' quantize configs trt-int8 $data
expect 1 'README.md: ' quantize README.md trt-int8 $data
small=tests/models/conv_relu.onnx
size=$(wc -c <$small)
for ((n = 1; n < size; n += 1 + size / 60)); do
    head -c $n $small >"$work/cut.onnx"
    expect 1 'cut.onnx|no opset|graph' quantize "$work/cut.onnx" trt-int8 random:1
done
for m in tests/models/malformed/*.onnx; do
    expect 1 '^qg: dump: ' "$qg" dump "$m"
done

# --- backends ---
yaml() { printf '%b' "$2" >"$work/$1.yaml"; }
yaml key 'name: x\nextends: int8-base\nruels: []\n'
yaml slot 'name: x\nextends: int8-base\nrules:\n  - {id: a, match: {slto: in0}, set: {bits: 4}, why: w, source: s}\n'
yaml ids 'name: x\nextends: int8-base\nrules:\n  - {id: [a]}\n  - {id: [a]}\n'
yaml value 'name: x\nextends: int8-base\ndefaults: {rounding: half-evn}\n'
yaml range 'name: x\nextends: int8-base\ndefaults: {bits: 4, range: [-128, 127]}\n'
yaml syntax 'name: [\n'
yaml empty ''
yaml after '# c\nrules: []\nafter-set: foo\n'
yaml after2 'rules: []\nafter-set:\n  - op=Conv bits=4\n  - slot=in0 bits=99\n'
yaml self 'name: self\nextends: self\n'
expect 1 "unknown backend 'trt-int9', did you mean 'trt-int8'" quantize $model trt-int9 $data
expect 1 "after.yaml:3: after-set: 'foo', expected key=value" \
    quantize $model trt-int8 $data --policy "$work/after.yaml"
expect 1 "after2.yaml:4: after-set: set:2: bits: '99', expected an integer from 2 to 32" \
    quantize $model trt-int8 $data --policy "$work/after2.yaml"
expect 1 'conv0.in0: axis 1: per-tensor has none, expected per-channel or block' \
    quantize $model trt-int8 $data --set 'slot=in0 axis=1'
expect 1 "backend: 'LICENSE' is a file, expected one whose name ends in .yaml, or one of" \
    quantize $model LICENSE $data
expect 1 'missing.yaml: No such file' quantize $model "$work/missing.yaml" $data
expect 1 "key.yaml:3: .*unknown key 'ruels', did you mean 'rules'" quantize $model "$work/key.yaml" $data
expect 1 "slot.yaml:4: .*unknown key 'slto', did you mean 'slot'" quantize $model "$work/slot.yaml" $data
expect 1 'ids.yaml:4: rule: id: a list, expected a text' quantize $model "$work/ids.yaml" $data
expect 1 "value.yaml:3: .*half-evn.*half-even" quantize $model "$work/value.yaml" $data
expect 1 'range \[-128, 127\] does not fit 4 bits' quantize $model "$work/range.yaml" $data
expect 1 'syntax.yaml:[0-9]+: ' quantize $model "$work/syntax.yaml" $data
expect 1 'empty.yaml:1: the file is empty' quantize $model "$work/empty.yaml" $data
expect 1 'self' quantize $model "$work/self.yaml" $data
expect 1 "config-dir '.*nowhere': No such file or directory, expected a folder" quantize $model trt-int8 $data --config-dir "$work/nowhere"
expect 1 "config-dir '.*empty.yaml': Not a directory, expected a folder" quantize $model trt-int8 $data --config-dir "$work/empty.yaml"

# --- data ---
zeros() { head -c $1 /dev/zero; }
zeros 1024 | npy "$work/fine.npy" '<f4' 4,1,8,8
zeros 896 | npy "$work/shape.npy" '<f4' 4,1,7,8
zeros 128 | npy "$work/rank.npy" '<f4' 4,8
zeros 2048 | npy "$work/complex.npy" '<c8' 4,1,8,8
zeros 256 | npy "$work/text.npy" '|S1' 4,1,8,8
zeros 100 | npy "$work/short.npy" '<f4' 4,1,8,8
zeros 0 | npy "$work/none.npy" '<f4' 0,1,8,8
{ zeros 700; printf '\x00\x00\xc0\x7f'; zeros 320; } | npy "$work/nan.npy" '<f4' 4,1,8,8
{ zeros 700; printf '\x00\x00\x80\x7f'; zeros 320; } | npy "$work/inf.npy" '<f4' 4,1,8,8
: >"$work/empty.npy"
expect 0 '' "$qg" run $model -d "$work/fine.npy" -o "$work/fine"
for verb in quantize run; do
    try() {
        if [ $verb = run ]; then
            "$qg" run $model -d "$1" -o "$out"
        else
            quantize $model trt-int8 "$1"
        fi
    }
    expect 1 'missing.npy: No such file' try "$work/missing.npy"
    expect 1 'empty.npy: is not a .npy' try "$work/empty.npy"
    expect 1 'short.npy: .*needs 1024 bytes, the file has 100' try "$work/short.npy"
    expect 1 "shape.npy: .*'image' is float32\[4,1,7,8\], expected float32\[1,1,8,8\]" try "$work/shape.npy"
    expect 1 "rank.npy: .*'image' is float32\[4,8\], expected" try "$work/rank.npy"
    expect 1 'complex.npy: ' try "$work/complex.npy"
    expect 1 'text.npy: ' try "$work/text.npy"
    expect 1 'none.npy: contains no samples' try "$work/none.npy"
    expect 1 "nan.npy: sample 2 of input 'image' contains NaN" try "$work/nan.npy"
    expect 1 'expected random:N' try random:0
    expect 1 'expected random:N' try random:many
    expect 1 'expected .npy' try $model
done
expect 1 "sample 2 of input 'image' in .*inf.npy gives a NaN or an infinity" quantize $model trt-int8 "$work/inf.npy"

# --- output that cannot be written is found before the work: the data is never read ---
touch "$work/file"
for where in "$work/file" "$work/file/below" /proc/nowhere; do
    expect 1 "output '$where': cannot be written: " \
        "$qg" quantize $model -b trt-int8 -d "$work/missing.npy" -o "$where"
    expect 1 "output '$where': cannot be written: " \
        "$qg" run $model -d "$work/missing.npy" -o "$where"
done
mkdir "$work/theirs" && cp $model "$work/theirs/model.onnx"
expect 1 'not part of a snapshot' "$qg" quantize $model -b trt-int8 -d $data -o "$work/theirs"
mkdir "$work/notes" && echo mine >"$work/notes/quant.json"
expect 1 'not part of a snapshot' "$qg" quantize $model -b trt-int8 -d $data -o "$work/notes"
expect 0 mine cat "$work/notes/quant.json"
cmp -s $model "$work/theirs/model.onnx" || complain "a model that is not ours was overwritten"
expect 1 'cannot write to stdout' bash -c "'$qg' list ops >/dev/full"

# --- options that only the library can judge ---
expect 1 "observer 'minmx'.*did you mean 'minmax'" quantize $model trt-int8 $data --observer minmx
expect 1 "quirk 'ppq-ofset" quantize $model trt-int8 $data --quirks ppq-ofset-without-qmin
expect 1 "'fus': no such pass.*did you mean 'fuse'" \
    quantize $model trt-int8 $data --dump-after fus --dump-dir "$work/dumps"
[ ! -e "$work/dumps" ] || complain 'a refused --dump-after made its folder'
expect 1 "node 'Conv_99' does not exist" quantize $model trt-int8 $data --set 'op=Conv_99 bits=4'
expect 1 "operator or node 'Convv' does not exist, did you mean 'Conv'" \
    quantize $model trt-int8 $data --set 'op=Convv bits=4'
expect 1 "axis: 'outchannel', expected out-channel or an integer" \
    quantize $model trt-int8 $data --set 'slot=weight axis=outchannel'
expect 1 "axis: '9', expected an integer from 0 to 7" \
    quantize $model trt-int8 $data --set 'slot=weight axis=9'
expect 1 "'imaeg': no such graph input, did you mean 'image', expected 'image'" \
    quantize $model trt-int8 $data --shape imaeg=1x1x8x8
mkdir "$work/afolder"
expect 1 "backend: 'afolder' is a folder" bash -c \
    "cd '$work' && '$(realpath "$qg")' quantize '$PWD/$model' -b afolder -d random:1 -o s"
printf 'layout: nchw\nfiles: nophotos\n' >"$work/photos.yaml"
expect 1 "photos.yaml:2: files: '.*nophotos': No such file" \
    quantize $model trt-int8 "$work/photos.yaml"
"$qg" quantize $model -b openvino-int8 -d $data -o "$work/suffix" >/dev/null
"$qg" export "$work/suffix" --format openvino-ir -o "$work/suffix.onnx" 2>&1 >/dev/null |
    grep -q "suffix of other formats, expected .xml of openvino-ir" ||
    complain "export of openvino-ir to .onnx: no warning"
expect 1 "'bist', did you mean 'bits'" quantize $model trt-int8 $data --set 'op=Conv bist=4'
expect 1 'has no field, expected one' quantize $model trt-int8 $data --set 'slot=weight'
expect 1 'missing.yaml: No such file' quantize $model trt-int8 $data --policy "$work/missing.yaml"
expect 1 "key.yaml:" quantize $model trt-int8 $data --policy "$work/key.yaml"
expect 1 "shape: 'image'" quantize $model trt-int8 $data --shape image
expect 1 "image.*rank 2" quantize $model trt-int8 $data --shape image=1x2
expect 1 "nope.*no such graph input" quantize $model trt-int8 $data --shape nope=1x1x8x8
expect 1 'matches no value' "$qg" run $model -d $data --dump 'zzz*' -o "$out"

# --- wrong kind of thing ---
snapshot=$work/snapshot
expect 0 '' "$qg" quantize $model -b trt-int8 -d $data -o "$snapshot"
expect 1 'is a snapshot' quantize "$snapshot" trt-int8 $data
expect 1 'not quantized' "$qg" run $model -d $data --mode simulate -o "$out"
expect 1 'not quantized' "$qg" analyse $model -d $data
expect 1 'not quantized' "$qg" explain $model conv0
zeros 240 | npy "$work/labels.npy" '<f4' 60
expect 1 'labels: .*expected one integer' \
    "$qg" evaluate $model -d $data --labels "$work/labels.npy"
zeros 80 | npy "$work/few.npy" '<i8' 10
expect 1 'labels: .*is int64\[599\], expected one integer for each of 64 samples' \
    "$qg" evaluate $model -d $data --labels configs/data/digits_labels.npy
expect 0 "" "$qg" evaluate $model -d $data -n 20 --labels configs/data/digits_labels.npy
expect 1 'labels: .*is int64\[10\], expected one integer for each of 64 samples' \
    "$qg" evaluate $model -d $data --labels "$work/few.npy"
{ zeros 504; printf '\012\0\0\0\0\0\0\0'; } | npy "$work/beyond.npy" '<i8' 64
expect 1 'labels: .*beyond.npy: 10 \(number 64\), expected a class from 0 to 9' \
    "$qg" evaluate $model -d $data --labels "$work/beyond.npy"
expect 1 "no such topic.*did you mean 'backends'" "$qg" list backend
expect 1 "'conv00.out0': no such.*did you mean 'conv0.out0'" "$qg" explain "$snapshot" conv00.out0
expect 1 "'conv0' \(Conv\): has no in7" "$qg" explain "$snapshot" conv0.in7
expect 1 'no such node, value or endpoint' "$qg" explain "$snapshot" ''

# --- damaged snapshots ---
damage() { # SED-SCRIPT
    rm -rf "$work/damaged" && cp -r "$snapshot" "$work/damaged" &&
        sed -i "$1" "$work/damaged/quant.json"
}
damage '$d'
expect 1 'quant.json' "$qg" dump "$work/damaged"
damage 's/"state": "BAKED"/"state": "BAKD"/'
expect 1 'quant.json: tqcs\[[0-9]+\].state' "$qg" dump "$work/damaged"
rm "$work/damaged/quant.json"
expect 1 'quant.json: No such file' "$qg" dump "$work/damaged"

finish
