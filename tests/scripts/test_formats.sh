#!/usr/bin/env bash
# The formats openvino-fq, openvino-ir and ppq-json, and imports: the same bytes each
# time, the same simulation after import, and the messages of rejected input.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/cli.sh

model=configs/models/digits.onnx data=configs/data/digits_calib.npy
same() { cmp -s "$1" "$2" || complain "$1 and $2 differ"; }
# Reference kernels: an Add for the bias gives the sum of the convolution, on any CPU.
simulate() { # SNAPSHOT OUTPUT
    expect 0 '' "$qg" run "$1" -d configs/data/digits_test.npy -n 32 --kernels reference \
        -o "$2"
}

exact_rows=0
rc=0
"$qg" import $model --format onnx-qdq -o "$work/float" >/dev/null 2>"$work/stderr" || rc=$?
[ $rc -eq 0 ] && grep -q 'digits.onnx: contains no quantizers of format' "$work/stderr" ||
    complain 'a float model is imported without a word'
for backend in trt-int8 openvino-int8 ncnn-int8; do
    s=$work/$backend
    expect 0 '' "$qg" quantize $model -b $backend -d $data -n 16 -o "$s"
    simulate "$s" "$s.out"
    for format in onnx-qdq openvino-fq ppq-json; do
        x=$s.$format
        file=$x.onnx model_of=()
        [ $format = ppq-json ] && file=$x.json model_of=(--model "$x.onnx")
        expect 0 '' "$qg" export "$s" --format $format -o "$file" --json
        exact=$(grep -c '"changed_results": 0,' "$work/stdout")
        expect 0 '' "$qg" import "$file" --format $format "${model_of[@]}" -o "$x"
        simulate "$x" "$x.out"
        exact_rows=$((exact_rows + exact)) # else the report lists the differences
        [ $exact -eq 0 ] || same "$s.out/logits.npy" "$x.out/logits.npy"
        mkdir -p "$work/again"
        expect 0 '' "$qg" export "$s" --format $format -o "$work/again/$(basename "$file")"
        same "$file" "$work/again/$(basename "$file")"
        # Importing what an import exports changes nothing more.
        [ $format = ppq-json ] && continue
        expect 0 '' "$qg" export "$x" --format $format -o "$x.second.onnx"
        expect 0 '' "$qg" import "$x.second.onnx" --format $format -o "$x.second"
        simulate "$x.second" "$x.second.out"
        same "$x.out/logits.npy" "$x.second.out/logits.npy"
    done
    for again in 1 2; do
        expect 0 '' "$qg" export "$s" --format openvino-ir -o "$work/$again.xml"
    done
    same "$work/1.xml" "$work/2.xml"
    same "$work/1.bin" "$work/2.bin"
done
[ $exact_rows -ge 3 ] || complain "only $exact_rows round trips must be exact"

# What is refused, and that nothing is left behind.
s=$work/trt-int8
mkdir "$work/none"
expect 1 "export: .*none/x.bin: this is the file of the constants, expected a name for the XML" \
    "$qg" export "$s" --format openvino-ir -o "$work/none/x.bin"
expect 1 "export: .*none/x.onnx: this is the file of the model, expected a name for the file beside it" \
    "$qg" export "$s" --format ppq-json -o "$work/none/x.onnx"
cp configs/models/digits.onnx "$work/mine.onnx"
expect 1 "export: .*mine.csv: the model goes to .*mine.onnx, which another program wrote, expected another name" \
    "$qg" export "$s" --format csv -o "$work/mine.csv"
same configs/models/digits.onnx "$work/mine.onnx"
"$qg" export "$s" --format csv -o "$work/own.csv" >/dev/null && "$qg" export "$s" --format csv -o "$work/own.csv" >/dev/null ||
    complain "an export cannot be repeated"
expect 1 "format 'openvino-fq' cannot represent endpoint: backend 'trt-int8' is not one for OpenVINO.*and 53 more.*expected no loss with --strict" \
    "$qg" export "$s" --format openvino-fq --strict -o "$work/none/x.onnx"
expect 1 "format 'ppq-json': weights|has no option 'weights'" \
    "$qg" export "$s" --format ppq-json --weights float -o "$work/none/x.json"
[ -z "$(ls "$work/none")" ] || complain "a refused export leaves $(ls "$work/none")"
expect 1 "format 'ppq-json': does not contain the graph, expected --model" \
    "$qg" import "$s.ppq-json.json" --format ppq-json -o "$work/none/s"
expect 1 "format 'openvino-ir': can only be exported" \
    "$qg" import "$work/1.xml" --format openvino-ir -o "$work/none/s"
expect 1 "dispatchings.conv0: the model has no such node" \
    "$qg" import "$s.ppq-json.json" --format ppq-json --model tests/models/conv_relu.onnx \
    -o "$work/none/s"
[ -z "$(ls "$work/none")" ] || complain "a refused import leaves $(ls "$work/none")"

# A name that is two words to the readers of a file.
python3 - "$work/spaced.onnx" <<'END' 2>/dev/null || true
import sys
import onnx
m = onnx.load("tests/models/conv_relu.onnx")
for n in m.graph.node:
    n.name = "the " + n.output[0]
    n.output[:] = [o if o in [x.name for x in m.graph.output] else "a " + o for o in n.output]
    n.input[:] = ["a " + i if any("a " + i in k.output for k in m.graph.node) else i for i in n.input]
onnx.save(m, sys.argv[1])
END
if [ -f "$work/spaced.onnx" ]; then
    expect 0 '' "$qg" quantize "$work/spaced.onnx" -b tengine-int8 -d random:2 -o "$work/spaced"
    for f in tengine-scale ncnn-table; do
        expect 1 "format '$f': name '.* .*': it has a space" \
            "$qg" export "$work/spaced" --format "$f" -o "$work/none/x.txt"
    done
    [ -z "$(ls "$work/none")" ] || complain "a refused name leaves $(ls "$work/none")"
fi

# An operator without a layer is named.
if "$qg" quantize ../shared/goldens/ppq/models/topk_gather.onnx -b trt-int8 -d random:4 \
    -o "$work/topk" >/dev/null 2>&1; then
    expect 1 "export to OpenVINO IR: node '.*' \\(TopK\\): .*has no layer here" \
        "$qg" export "$work/topk" --format openvino-ir -o "$work/none/x.xml"
fi

finish
