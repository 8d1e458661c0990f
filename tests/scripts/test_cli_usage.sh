#!/usr/bin/env bash
# Wrong usage: exit status 2, one message, a reference to help.  The options are read
# from the help pages, so that a new one is tested without a line here.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/cli.sh

expect 2 'expected a verb' "$qg"
expect 2 "no verb 'quantise', did you mean 'quantize'" "$qg" quantise
expect 2 "no verb 'doctor', did you mean 'stats doctor'" "$qg" doctor
expect 2 "no verb 'inspct', did you mean 'dump'" "$qg" inspct
expect 2 "no verb 'xyzzy'$" "$qg" xyzzy
expect 2 "no verb 'xyzzy'" "$qg" help xyzzy
expect 2 "'more': unexpected argument" "$qg" version more
expect 2 'quantize: expected MODEL.onnx' "$qg" quantize
expect 2 'diff: expected FIRST SECOND' "$qg" diff one
expect 2 'quantize: expected -b BACKEND' "$qg" quantize m.onnx
expect 2 'quantize: expected -d DATA or --stats FILE' "$qg" quantize m.onnx -b x -o s
expect 2 'expected -d DATA or --stats FILE, not both' "$qg" quantize m.onnx -b x -d a --stats b -o s
expect 2 'quantize: expected -o SNAPSHOT' "$qg" quantize m.onnx -b x -d y
expect 2 'evaluate: expected --labels FILE' "$qg" evaluate m.onnx -d y
expect 2 "no option --bakcend, did you mean '--backend'" "$qg" quantize m.onnx --bakcend x
expect 2 "no option --jsn=3, did you mean '--json'" "$qg" list --jsn=3
expect 2 'no option -z' "$qg" list -z
expect 2 'no option -b' "$qg" list -b x
expect 2 "'b': only backends, profiles and targets have pages of their own" "$qg" list a -- b
expect 1 "'--json': no such topic" "$qg" list -- --json

expect 2 "--by: 'endpoint', expected graph, layer or cause; try .qg sensitivity --by endpoint." \
    "$qg" analyse s -d x --by endpoint

# What a message quotes is text, and as much of it as a line has room for.
expect 2 "--mode: '\\\\x1b\\[31mX', expected" "$qg" run m -d x -o y --mode $'\e[31mX'
expect 2 "no verb '\\\\xff\\\\xc2\\\\x85'" "$qg" $'\xff\xc2\x85'
expect 2 "no option --\\\\xff" "$qg" run $'--\xff'
long=$(printf '%0100000d' 0)
for words in "run m -d x -o y --mode $long" "run m -d x -o y --kernels $long" "$long" "run --$long" \
    "run m -d x -o y --samples $long" "version $long" "analyse s -d x --by $long"; do
    # shellcheck disable=SC2086
    said=$("$qg" $words 2>&1 >/dev/null)
    [ ${#said} -lt 1500 ] || complain "${words:0:40}: a message of ${#said} bytes"
done
expect 2 "--mode: '0{128}', expected" "$qg" run m -d x -o y --mode "$long"
for number in ' 3' $'\t3' '3 '; do
    expect 2 "--propose: '.*', expected a number like" "$qg" sensitivity s -d x --propose="$number"
    expect 2 "--lr: '.*', expected a number above 0" "$qg" tune s -d x -o y --lr="$number"
done

# An option that one of the verbs of stats has, and this one does not.
expect 2 'derive does not take --output; `qg quantize --stats` writes a snapshot' \
    "$qg" stats derive a.qgs --model m -b trt-int8 -o s
expect 2 'derive does not take --data' "$qg" stats derive a.qgs --model m -b x -d d
expect 2 'show does not take --output' "$qg" stats show a.qgs -o s
expect 2 'merge does not take --backend' "$qg" stats merge a.qgs -o s -b x
expect 2 'doctor does not take --set' "$qg" stats doctor m -d d --set 'bits=4'
expect 2 'collect does not take --observer' "$qg" stats collect m -d d -o s --observer kl

folder=$(mktemp -d)
cp configs/data/digits_calib.npy "$folder/s.npy"
for verb in "search s --budget bits=6" "stats collect configs/models/digits.onnx" "report s" "sensitivity s --propose 1%"; do
    # shellcheck disable=SC2086
    expect 2 "is the file '.*' that is read, expected another file" \
        "$qg" $verb -d "$folder/s.npy" -o "$folder/s.npy"
done
cmp -s configs/data/digits_calib.npy "$folder/s.npy" || complain "samples were replaced"

# Every option that reads, every one that writes, also through a link.
mkdir "$folder/snap"
for name in a.json net.param mine.yaml snap/model.onnx snap/quant.json snap/x.npy snap/trace.json; do
    echo read >"$folder/$name"
done
ln -s s.npy "$folder/link.npy"
ln -s snap "$folder/by-link"
program=$(realpath "$qg")
cd "$folder" || exit 1
while read -r words; do
    # shellcheck disable=SC2086
    expect 2 "': it (is the file '.*' that is read|replaces what is read from '.*')" "$program" $words
done <<END
quantize-tensor s.npy --observer kl --curve s.npy
quantize-tensor s.npy -o link.npy
export snap --format model-explorer --analysis a.json -o a.json
export snap --format model-explorer -o b.json --analysis a.json --report a.json
export snap --format ncnn-table --names net.param -o net.param
lint snap --target mine.yaml --fix -o mine.yaml
sensitivity snap -d s.npy --propose 1% -b mine.yaml -o mine.yaml
search snap -d s.npy --budget bits=6 --holdout link.npy -o s.npy
report snap -d s.npy --labels a.json -o a.json
quantize snap/model.onnx -b trt-int8 -d s.npy -o snap
import a.json --format aimet --model by-link/model.onnx -o snap
import snap/quant.json --format aimet --model m.onnx -o snap
trace snap -d snap/x.npy -o snap
trace snap -d snap -o by-link
trace snap -d snap -o snap/x.npy
probe snap --between a,b -d snap -o snap/x.npy
fit snap -d s.npy --against snap -o snap/trace.json
END
for name in a.json net.param mine.yaml snap/model.onnx snap/quant.json snap/x.npy snap/trace.json; do
    [ "$(cat "$folder/$name")" = read ] || complain "$name was replaced"
done
expect 1 'c.npy: the curve goes to the same file, expected another' \
    "$program" quantize-tensor s.npy --observer kl -o c.npy --curve ../"${folder##*/}"/c.npy
cd "$OLDPWD" || exit 1
rm -r "$folder"

verbs=$("$qg" help | sed -n 's/^  \([a-z]\+\)  .*/\1/p')
[ "$(wc -w <<<"$verbs")" -ge 10 ] || complain "help lists too few verbs: $verbs"
for verb in $verbs; do
    expect 0 '' "$qg" $verb --help
    page=$("$qg" $verb --help)
    [ "$page" = "$("$qg" help $verb)" ] || complain "two help pages for $verb"
    grep -q '^usage: qg '$verb <<<"$page" || complain "no usage of $verb"
    grep -A1 '^example:$' <<<"$page" | grep -q "^  qg $verb" || complain "no example of $verb"
    ! grep -nE ' $|.{89}' <<<"$page" || complain "help of $verb is too wide, or has spaces at an end"
    while read -r letter name argument; do
        repeats=no # whether it may be repeated
        case $verb-$name in
        *-policy | *-set | *-shape | *-verbose | compare-backend) repeats=yes ;;
        esac
        case $name in # a good value, a bad one
        samples | steps | top | jobs | raise-to | seed) good=3 bad='0 -1 1x 1e3 99999999999999999999 1000000001' ;;
        max-nodes | max-ratio) good=3 bad='0 -1 1x' ;;
        max-mem) good=900M bad='0 -1 M 1X 1MM 999K 99999999999999999999G' ;;
        mode)
            good=simulate bad=flaot
            case $verb in analyse | compare) bad='flaot float' ;; esac
            ;;
        by)
            good=group bad='grap graph'
            [ $verb = sensitivity ] || good=graph bad='grap group'
            ;;
        direction) good=all-but bad=both ;;
        estimate) good=gradient bad=guess ;;
        over) good=rules bad=all ;;
        require) good=integer bad='float int' ;;
        metric) good=nsr bad=nrs ;;
        kernels) good=fast bad=slow ;;
        fail-on) good=error bad=fatal ;;
        dispatcher) good=all-in bad=allin ;;
        *) good=x bad= ;;
        esac
        if [ -n "$argument" ]; then
            expect 2 "--$name needs a value" "$qg" $verb --$name
            expect 2 "--$name needs a value" "$qg" $verb --$name --json
            expect 2 "--$name: the value is empty" "$qg" $verb --$name=
            for value in $bad; do
                expect 2 "--$name: '$value', expected" "$qg" $verb --$name=$value
            done
            if [ $letter != - ]; then
                expect 2 "--$name needs a value" "$qg" $verb -$letter
                [ $repeats = yes ] ||
                    expect 2 "--$name is given twice" "$qg" $verb -$letter $good -$letter$good
            fi
        else
            expect 2 "--$name takes no value" "$qg" $verb --$name=yes
        fi
        twice="--$name${argument:+=$good}"
        [ $repeats = yes ] || expect 2 "--$name is given twice" "$qg" $verb $twice $twice
    done < <(sed -nE 's/^  (-(.),|   ) --([a-z-]+) ?([^ ]*).*/\2- \3 \4/; s/^(.)- /\1 /p; s/^- /- /p' \
        <<<"$page")
done
expect 2 "did you mean 'simulate'" "$qg" run m -d x -o y --mode simulat
finish
