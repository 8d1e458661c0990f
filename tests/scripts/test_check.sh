#!/usr/bin/env bash
# Every check of tools/check.sh passes on a small clean tree and fails, with the message
# that names the place, on each violation planted in a copy of it.
set -u
tools=$PWD/tools
tools/python.sh -c 'import yaml' || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

mkdir -p "$work"/clean/{engine/{core,ir},ops,passes,configs/backends,docs,tests/{ops,passes,unit}}
cd "$work/clean" || exit 1
cat >engine/core/a.h <<'EOF'
/* a.h -- a number.
 * Units: none. */
#ifndef QG_ENGINE_CORE_A_H
#define QG_ENGINE_CORE_A_H

int qg_a(int x); /* x, doubled */

#endif
EOF
cat >engine/core/a.c <<'EOF'
#include "engine/core/a.h"

#include <assert.h>

int qg_a(int x)
{
    assert(x < 1000);
    return 2 * x;
}
EOF
cat >engine/ir/check.c <<'EOF'
/* What holds between passes. */
static const qg_check_rule rule[] = {
    { "one-producer", "a value has one producer", one_producer },
};
const char *qg_rule(void)
{
    return rule[0].id;
}
EOF
echo 'static const char *const op[] = { .name = "Relu" };' >ops/unary.c
printf 'op Relu 13\n' >tests/ops/relu.case
echo 'PASS(fuse_batchnorm)' >passes/passes.def
echo 'graph' >tests/passes/fuse-batchnorm.qgt
echo '/* breaks rule one-producer; loads tiny-int8 */' >tests/unit/test_ir.c
cat >configs/backends/tiny-int8.yaml <<'EOF'
name: tiny-int8
rules:
  - {id: weights, match: {slot: weight}, why: one scale per channel, source: a page}
EOF
python3 "$tools/check_layers.py" --table >DESIGN.md
printf '\n## 3. Rooms\n2. An order.\n' >>DESIGN.md
mkdir docs/evidence
printf '# Defects\n### D01\n' >docs/evidence/ppq-defects.md
printf '# Observers\n## ncnn KL\nSee [D01](ppq-defects.md#d01).\n' >docs/evidence/observers.md
cat >>tests/passes/fuse-batchnorm.qgt <<'EOF'
# References that lead somewhere: docs/evidence/observers.md#ncnn-kl, D01 and D01 again,
# DESIGN.md, section 3, DESIGN 3.2, docs/evidence/observers.md, "ncnn KL", README.md,
# docs/IR.md of ONNX.
EOF
"$tools/dev/rooms.py" . --svg docs/rooms.svg
printf '# Title\n\nSee [title](#title) and `engine/core/a.h`.\n' >README.md

run() { # CHECK: in the current folder
    if [ "$1" = rooms ]; then
        "$tools/dev/rooms.py" . --check 2>&1
    else
        "$tools/python.sh" "$tools/check_$1.py" 2>&1
    fi
}

passes() {
    local out
    out=$(cd "$work/clean" && run "$1") && return
    echo "check_$1 fails on the clean tree:" "$out"
    failures=$((failures + 1))
}

# fails CHECK TEXT COMMAND: after COMMAND in a copy, CHECK fails and says TEXT.
fails() {
    local out rc
    rm -rf "$work/copy" && cp -r "$work/clean" "$work/copy"
    out=$(cd "$work/copy" && eval "$3" && run "$1")
    rc=$?
    [ $rc -eq 1 ] && [[ $out == *"$2"* ]] && return
    printf 'check_%s after: %s\n  exit %d, expected 1 and "%s", got:\n%s\n' \
        "$1" "$3" $rc "$2" "$out"
    failures=$((failures + 1))
}

# each CHECK TEXT FILE PATTERN X...: CHECK fails, and says TEXT, for every line of a new
# FILE, which holds one line per X: PATTERN with X for %s.
each() {
    local out n
    rm -rf "$work/copy" && cp -r "$work/clean" "$work/copy"
    # shellcheck disable=SC2059
    printf "$4\n" "${@:5}" >"$work/copy/$3"
    out=$(cd "$work/copy" && run "$1")
    for ((n = 1; n <= $# - 4; n++)); do
        [[ $'\n'$out == *$'\n'"$3:$n: $2"* ]] && continue
        printf 'check_%s takes %s, expected "%s"\n' "$1" "${*:n+4:1}" "$2"
        failures=$((failures + 1))
    done
}

lines() { # N: a function of N lines
    echo 'int qg_long(void)'
    echo '{'
    for ((i = 0; i < $1 - 4; i++)); do echo "    qg_a($i);"; done
    echo '    return 0;'
    echo '}'
}

for check in layers rooms meaning calls headers budget evidence text; do passes $check; done

fails layers 'engine/core/a.c:10: core may not include ir' \
    "echo '#include \"engine/ir/graph.h\"' >>engine/core/a.c"
fails layers 'yaml.h is for engine/config/yaml.c only' \
    "echo '#include <yaml.h>' >>engine/core/a.c"
fails layers 'written from the repository root' \
    "echo '#include \"a.h\"' >>engine/core/a.c"
fails layers 'tools may not include core' \
    "mkdir tools && echo '#include \"engine/core/a.h\"' >tools/qg.c"

fails layers 'engine/attic/b.c: attic has no row' 'mkdir engine/attic && echo >engine/attic/b.c'
fails layers 'engine/b.inc: engine has no row' 'echo >engine/b.inc'
fails layers 'engine/core/b.def:1: core may not include ir' \
    "echo '#include \"engine/ir/graph.h\"' >engine/core/b.def"
each layers 'an include is a plain path' engine/core/b.c '#include %s' \
    '"engine/core/../ir/graph.h"' MACRO '<../ops/b.h>' '"./engine/core/a.h"'
each layers 'angle brackets are for headers from outside' engine/core/b.c '#include <%s/a.h>' \
    engine/core tests configs
fails layers 'openmpi/mpi.h is for engine/exec/mpi.c only' \
    "echo '/**/ #include <openmpi/mpi.h>' >>engine/core/a.c"
fails layers 'DESIGN.md: no table' 'rm DESIGN.md'
fails layers 'DESIGN.md:4: | number | core ir |: tools/check_layers.py has | number | core |' \
    "sed -i 's/^| number | core |/| number | core ir |/' DESIGN.md"
fails layers '| tools | nothing |: tools/check_layers.py has no such row' \
    "sed -i 's/^| tools | api |/&\n| tools | nothing |/' DESIGN.md"
# A circle can only be planted in a copy of the check.
circle() {
    sed 's/"core": .*/"core": ["ir"],/' "$tools/check_layers.py" >"$work/check_layers.py"
    PYTHONPATH=$tools python3 "$work/check_layers.py"
}
[[ $(circle) == *'core names ir, which is not a row above it'* ]] || {
    echo 'check_layers takes a table with a circle:' "$(circle)"
    failures=$((failures + 1))
}

fails rooms 'docs/rooms.svg: not as tools/dev/rooms.py' \
    "echo '#include \"engine/core/a.h\"' >>engine/ir/check.c"
fails rooms 'docs/rooms.svg: not as tools/dev/rooms.py' 'rm docs/rooms.svg'
fails rooms 'engine/core/b.c: in a circle with engine/core/c.c' \
    "echo 'int qg_b(void) { return qg_c(); }' >engine/core/b.c
     echo 'int qg_c(void) { return qg_b(); }' >engine/core/c.c"
fails rooms 'engine/core/b.h: in a circle with engine/core/c.h' \
    "echo '#include \"engine/core/c.h\"' >engine/core/b.h
     echo '#include \"engine/core/b.h\"' >engine/core/c.h"
fails rooms 'engine/core/a.c: uses qg_rule of engine/ir/check.c: core may not include ir' \
    "echo 'const char *qg_rule(void);' >>engine/core/a.c"
fails rooms 'engine/core/b.h: uses qg_table of ops/b.inc: core may not include ops' \
    "echo 'const int qg_table[2][2];' >ops/b.inc
     echo 'extern const int qg_table[2][2];' >engine/core/b.h"
fails rooms 'engine/core/b.c: helper is seen by other files' \
    "printf 'int *helper(int x,\n            int y)\n{\n}\n' >engine/core/b.c"
fails rooms 'engine/core/b.c: last is seen by other files' "echo 'int last;' >engine/core/b.c"

fails meaning 'engine/core/a.c:10: names a tool: as_openvino' \
    "echo 'int as_openvino(void);' >>engine/core/a.c"
fails meaning 'ops/ncnn_pool.c:1: names a tool: ops/ncnn_pool.c' 'echo >ops/ncnn_pool.c'
fails meaning 'engine/ir/b.c:1: names a tool: "not for TensorRT"' \
    "echo 'const char *t = \"not for TensorRT\";' >engine/ir/b.c"
each meaning 'names a tool: ' engine/ir/b.c 'int %s;' OrtMode isTrt useNcnn trtexec \
    MNNQuantizer forCoreML forTensorRT ascend_x
fails meaning 'engine/ir/b.def:1: names a tool: "forTensorRT"' \
    "echo 'ROW(\"forTensorRT\")' >engine/ir/b.def"
fails meaning 'passes/b.c:2: names a tool: ppq' \
    "printf 'static int ppq_b(void);\nint b(bool ppq) { return ppq_b(); }\n' >passes/b.c"
fails meaning 'passes/b.c:1: names a tool: ppq_b' "echo 'int ppq_b(void);' >passes/b.c"
fails meaning 'engine/ir/b.c:1: names a tool: ppq_b' \
    "echo 'static int ppq_b(void);' >engine/ir/b.c"
fails meaning 'engine/ir/b.c:1: names an operator: Relu' \
    "echo 'const char *t = \"Relu\";' >engine/ir/b.c"
fails meaning 'passes/b.c:1: looks an operator up' \
    "echo 'int b(void) { return n->op == qg_op_find(r, NULL, \"My\", 1); }' >passes/b.c"
asks="never compares an operator's name"
each meaning "$asks" passes/b.c 'int qg_b(const qg_op *d) { return %s; }' \
    '!strcmp(n->op->name, x)' 'f(n->op->name)' 'n->op->name[0]' 'x == n->op->name' 'd->name'
each meaning "$asks" engine/ir/b.c 'int qg_b(const qg_op *d) { return %s; }' \
    '!strcmp(d->name, x)' 'memcmp(x, n->op->name, 4)' 'strstr(n->op->name, x)' \
    'strcasecmp(x, op->name)' 'op->name[0]' 'x == n->op->name' '*op->name'
each meaning "$asks" engine/ir/b.c 'void qg_b(void) { const char *k = %s; }' 'n->op->name'
each meaning 'never tests for a quirk' passes/b.c 'int qg_b(void) { return %s; }' \
    'm >> QG_QUIRK_PPQ_X & 1' '1ull << (QG_QUIRK_PPQ_X)' 'bit(QG_QUIRK_PPQ_X)' \
    'q->quirks & QG_QUIRK(PPQ_X)' 'b->quirks != 0' 'q->quirks & 4' '!q->quirks' \
    'bit(q->quirks)' 'quirks & 4'
fails meaning 'passes/b.c:1: never tests for a quirk' \
    "echo 'void qg_b(void) { if (q->quirks) f(); }' >passes/b.c"
fails meaning 'a pass names no operator' \
    "echo 'int qg_b(void) { return strcmp(x, \"My\"); }' >passes/b.c"
not_null='an assert that only repeats that a parameter is not NULL'
each meaning "$not_null" ops/b.c 'void b(int *x, int n) { assert(%s); }' \
    x 'NULL != x' '!!x' '(x) && "text"' '!!(x != NULL)'
fails meaning "ops/b.c:1: $not_null" \
    "echo 'void b(int *x, int (*f)(int)) { assert(x != NULL && f); }' >ops/b.c"
cat >"$work/clean/passes/c.c" <<'EOF'
/* What rules of meaning allow, and what comments cite: ncnn, Relu. */
static int ppq_c(int *x, int n)
{
    int *y = x + n, shorten = 0;
    assert(x && n);
    assert(y);
    assert(!"no such case");
    swap(qg_range_quirks(q->quirks), (qg_range){ 0, q->quirks });
    q->quirks = b->quirks;
    return fail("%s %s", n->op->name, qg_quirk_name(QG_QUIRK_PPQ_OFFSET));
}
static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_OFFSET, "meaning", "ppq/core", behaviours, c, ppq_c),
    { 0 },
};
EOF
passes meaning
rm "$work/clean/passes/c.c"

fails calls 'engine/core/a.c:10: the library never prints' \
    "echo 'void qg_b(void) { printf(\"b\"); }' >>engine/core/a.c"
fails calls 'the library never exits' "echo 'void qg_b(void) { abort(); }' >>ops/unary.c"
fails calls 'from arenas' "echo 'void qg_b(void *p) { free(p); }' >passes/b.c"
fails calls 'tests/unit/b.c:1: prints no values' \
    "echo 'void b(void) { assert_true(f(a[0]) == p->b && c); }' >tests/unit/b.c"
body='void qg_b(void) { %s; }'
each calls 'the library never prints' passes/b.c "$body" 'dprintf(2, x)' 'vfprintf(stderr, x, y)' \
    'fputs(x, stdout)' 'putc(x, stderr)' 'write(2, x, n)'
each calls 'the library never exits' passes/b.c "$body" '_Exit(1)' 'raise(6)'
each calls 'the library starts no programs' engine/core/b.inc "$body" 'system(x)' 'popen(x, y)' 'fork()'
each calls 'the library reads neither environment' ops/b.def "$body" 'secure_getenv(x)' 'putenv(x)' \
    'f(environ)' 'newlocale(x, y, z)' 'uselocale(x)'
each calls 'not repeatable' ops/b.c "$body" 'rand_r(x)' 'getrandom(x, 1, 0)' 'lrand48()' \
    'gettimeofday(x, y)' 'gmtime(x)'
each calls 'the time is of engine/core/clock.h' engine/ir/b.c "$body" 'clock_gettime(x, y)'
each calls 'depends on the locale' engine/ir/b.c "$body" 'strtold(x, y)' 'fscanf(x, y)' 'vsscanf(x, y, z)'
each calls 'unbounded' engine/ir/b.c "$body" 'strcpy(x, y)' 'strcat(x, y)'
each calls 'operators and passes take memory' ops/b.c "$body" 'strdup(x)' 'aligned_alloc(64, n)' \
    'posix_memalign(x, 64, n)' 'asprintf(x, y)'

fails headers 'does not compile alone' "sed -i 's/int qg_a(int x)/size_t qg_a(int x)/' engine/core/a.h"
fails headers 'guard is not QG_ENGINE_CORE_A_H' "sed -i 's/CORE_A_H/A_H/' engine/core/a.h"
fails headers 'b_body.h: no file comment' 'echo "REAL x;" >ops/b_body.h'
fails headers 'no file comment' "sed -i 1,2d engine/core/a.h"

fails budget 'engine/core/a.c:10: qg_long has 81 lines, at most 80' \
    'lines 81 >>engine/core/a.c'
fails budget 'functions, median lines: 15, budget <= 14' \
    'lines 15 >ops/b.c; lines 15 >ops/c.c; lines 15 >ops/d.c'
fails budget 'functions, p90 lines: 41, budget <= 40' 'lines 41 >ops/b.c'
fails budget 'qg_b has 7 parameters' \
    "echo 'int qg_b(int a, int b, int c, int d, int e, int (*f)(int, int), int g) { return a; }' >ops/b.c"
fails budget 'NAME has 7 parameters' \
    "printf 'static int NAME(b)(int a, int b, int c, int d, int e, int f, int g)\n{\n}\n' >ops/b.c"
fails budget '801 lines, at most 800' 'yes "int a;" | head -801 >ops/b.c'
fails budget '89 columns' 'printf "/*%085d*/\n" 0 >ops/b.c'
fails budget 'comment share: 3%, budget 15-30%' 'yes "int a;" | head -110 >ops/b.c'
fails budget 'of it in headers: 38%' 'yes "/* a */" | head -4 >ops/b.c'
fails budget 'unmatched brace' 'echo "}" >>ops/unary.c'

fails evidence 'tiny-int8.yaml:3: rule weights has no why' \
    "sed -i 's/why: [^,]*, //' configs/backends/tiny-int8.yaml"
fails evidence 'tiny-int8.yaml:3: rule weights has no source' \
    "sed -i 's/source: a page/source: \"\"/' configs/backends/tiny-int8.yaml"
fails evidence 'tiny-int8.yaml:4: rule id weights is taken by line 3' \
    'sed -n 3p configs/backends/tiny-int8.yaml >line && cat line >>configs/backends/tiny-int8.yaml'
fails evidence 'verifier rule one-producer: no test names it' \
    "sed -i 's/one-producer/one-producers/' tests/unit/test_ir.c"
fails evidence 'no tests/passes/fuse-batchnorm*.qgt' 'rm tests/passes/*'
fails evidence 'operator Relu: no test names it' 'echo "op Relu6 1" >tests/ops/relu.case'
fails evidence 'operator Elu: no test names it' "echo 'ROW(\"Elu\", 6, elu)' >>ops/unary.c"
fails evidence 'no test names this backend' "sed -i 's/tiny-int8//' tests/unit/test_ir.c"

dead() { # WHY REFERENCE: a comment with it is refused
    fails evidence "passes/b.c:1: $1" "echo '/* Source: $2. */' >passes/b.c"
}
dead 'D02: not in docs/evidence/ppq-defects.md' 'D01, D02'
dead 'spec/ppq.md: no such page' 'spec/ppq.md 3.4'
dead 'algorithms.md: no such page' 'algorithms.md 4.1 [read]'
dead 'docs/evidence/grids.md: no such page' 'docs/evidence/grids.md'
dead 'docs/evidence/observers.md: no heading ppq-kl' 'docs/evidence/observers.md#ppq-kl'
dead 'docs/evidence/observers.md: no heading ppq-kl' 'docs/evidence/observers.md "PPQ KL"'
dead 'DESIGN.md: no section 4' 'DESIGN.md, section 4'
dead 'DESIGN.md: no section 3.4' 'DESIGN 3.4'
dead 'design 4: leads nowhere' 'design 4 (states)'
dead 'spec 2: leads nowhere' 'spec 2.3'
dead 'vectors/a: leads nowhere' 'vectors/a.json'
fails evidence 'tiny-int8.yaml:3: spec/peers.md: no such page' \
    "sed -i 's/source: a page/source: spec\/peers.md 4.2/' configs/backends/tiny-int8.yaml"
fails evidence 'fuse-batchnorm.qgt:5: D03: not in' "echo '# D03' >>tests/passes/fuse-batchnorm.qgt"
fails evidence 'DESIGN.md: no section 5' "echo 'See section 5.' >>DESIGN.md"

fails text 'README.md:4: path of one machine' "echo 'cd /ho''me/me' >>README.md"
fails text 'address of a registry' "echo 'pip --index''-url x' >>README.md"
fails text 'README.md:4: link to x.md: no such file' "echo '[x](x.md)' >>README.md"
fails text 'link to #nothing: no such heading' "echo '[x](#nothing)' >>README.md"
fails text '`engine/core/b.h`: no such file' "echo '\`engine/core/b.h\`' >>README.md"
fails text 'a.c:10: write TO''DO(name, issue)' "echo '// TO''DO later' >>engine/core/a.c"
fails text 'white space at the end' "printf 'a \n' >>README.md"
fails text 'README.md:4: write contains, specifies, requires' "echo 'a file says' >>README.md"
fails text 'README.md:4: write plain technical English' "echo 'see who rounds' >>README.md"
fails text 'conflict marker' "printf '<<<<''<<< main\n' >>README.md"

[ $failures -eq 0 ] || { echo "$failures checks are not what they should be"; exit 1; }
echo "every check passes on the clean tree and fails on each of its violations"
