#!/usr/bin/env bash
# same_bytes.sh OLD NEW [MODEL.onnx...] -- shows that a refactoring changed no result:
# builds both commits and compares, byte for byte, the results of `qg` for every backend
# x model: quant.json and model.onnx, the text dump, every export format, the outputs
# and inner values of a simulated run, explanations, and the reports of the questions.
# OLD, NEW: any commit; NEW may be `.`, the working tree. Without MODEL: digits, mnist
# and those of ../shared/models, else small ones of tests/models. Work is kept in
# build-same/COMMIT, so that OLD is built and run once. Exit status: 0 the same, 1
# different (listed), 2 usage or a build that failed.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,9s/^# //p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/../.."
root=$PWD
old=$1 new=$2
shift 2
if [ $# -gt 0 ]; then
    models=("$@")
else
    shared=../shared/models
    models=(configs/models/digits.onnx tests/models/mnist-8.onnx)
    if [ -d $shared ]; then
        for name in kws_float standins/effnet_a standins/mobilenet_a standins/vit_a \
            standins/yolo_a ultraface-rfb-320; do
            models+=("$shared/$name.onnx")
        done
    else
        models+=(tests/models/{conv_relu,function_call,body_capture,optional_slots}.onnx)
    fi
fi

# build COMMIT FOLDER: FOLDER/src is checked out, FOLDER/build/qg made.
build() {
    local commit=$1 folder=$2 source=$2/src
    mkdir -p "$folder"
    if [ "$commit" = . ]; then
        source=$root
    elif [ ! -d "$source" ]; then
        git worktree prune
        git worktree add -q --detach "$source" "$commit"
        [ ! -d .venv ] || ln -s "$root/.venv" "$source/.venv"
    fi
    { cmake -S "$source" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release &&
        cmake --build "$folder/build" --target qg; } >"$folder/build.log" 2>&1 ||
        { tail -30 "$folder/build.log" >&2; exit 2; }
}

# keep NAME COMMAND...: stores its output and exit status as files of this folder.
keep() {
    local name=$1 status=0
    shift
    "$@" >"$name.out" 2>"$name.err" </dev/null || status=$?
    echo $status >"$name.status"
    [ $status -eq 0 ] || rm -f "$name.out"
}

# results QG BACKEND MODEL FOLDER: creates all files that are compared.
results() {
    local qg=$1 backend=$2 model=$3
    mkdir -p "$4"
    cd "$4"
    keep quantize "$qg" quantize "$model" -b "$backend" -d random:4 -o snap
    rm -f quantize.out # holds times
    [ -f snap/quant.json ] || return 0
    keep dump "$qg" dump snap
    keep run "$qg" run snap -d random:2 --dump '*' -o outputs
    rm -f run.out # times again
    keep analyse "$qg" analyse snap -d random:2 --by layer --json
    node=$(sed -n 's/.*"node": "\([^"]*\)".*/\1/p' snap/quant.json | tail -1)
    keep explain "$qg" explain snap "$node" --json
    keep explain-group "$qg" explain snap "group:$node.out0"
    for format in onnx-qdq openvino-fq openvino-ir ppq-json; do
        keep "export-$format" "$qg" export snap --format $format -o "export-$format.file"
    done
    [ "$backend" != trt-int8 ] || {
        keep sensitivity "$qg" sensitivity snap -d random:1 --json
        keep price "$qg" price snap -d random:1 --json
    }
}

# all FOLDER: creates the results of every backend and model, unless they exist.
all() {
    local folder=$1 qg=$1/build/qg backend model name
    [ "$(cat "$folder/complete" 2>/dev/null)" != "${models[*]}" ] || return 0
    rm -rf "$folder/out"
    mkdir -p "$folder/out"
    for backend in $("$qg" list backends --json | sed -n 's/.*"backend": "\([^"]*\)".*/\1/p'); do
        (cd "$folder/out" && keep "page-$backend" "$qg" list backends "$backend" --json)
        for model in "${models[@]}"; do
            name=$(basename "$model" .onnx)
            printf '%s\0' "$qg" "$backend" "$(realpath "$model")" \
                "$folder/out/$backend/$name"
        done
    done | xargs -0 -n 4 -P "$(nproc)" bash -c 'results "$@"' results
    echo "${models[*]}" >"$folder/complete"
}
export -f keep results

at() { # the folder of a commit
    [ "$1" = . ] && echo "$root/build-same/working-tree" ||
        echo "$root/build-same/$(git rev-parse --short "$1^{commit}")"
}
a=$(at "$old") b=$(at "$new")
[ "$new" != . ] || rm -rf "$b/complete"
build "$old" "$a"
build "$new" "$b"
all "$a"
all "$b"
count=$(cd "$a/out" && find . -type f | wc -l)
made=$(find "$a/out" -name quant.json | wc -l)
if differs=$(diff -rq "$a/out" "$b/out"); then
    echo "same bytes: $count files of $made snapshots (${#models[@]} models)"
else
    echo "$differs" | sed "s|$root/build-same/||g"
    echo "different: $(echo "$differs" | wc -l) of $count files"
    exit 1
fi
