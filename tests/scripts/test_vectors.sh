#!/bin/bash
# Reference vectors: the subset in the tree always, the whole of ../shared when it is there.
# A wrong number must be found: the last step changes one and expects failure.
set -e
run=$QG_BUILD/tests/vectors
"$run" tests/data/vectors

whole=()
for folder in ../shared/vectors ../shared/goldens/tflite; do
    if [ -d "$folder" ]; then
        whole+=("$folder")
    else
        echo "$folder: skipped, not there"
    fi
done
[ ${#whole[@]} -eq 0 ] || "$run" "${whole[@]}"

# A copy with one number changed must fail with status 1 and say where.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cp tests/data/vectors/tflite_gemmlowp.json "$folder"
sed -i 's/\[7, 1.5, 1610612736, 1, 11\]/[7, 1.5, 1610612736, 1, 12]/' \
    "$folder/tflite_gemmlowp.json"
rc=0
out=$("$run" "$folder") || rc=$?
if [ $rc -ne 1 ] || ! grep -q 'result is 11, expected 12' <<<"$out"; then
    echo "a wrong expectation was not found: status $rc"
    echo "$out"
    exit 1
fi
