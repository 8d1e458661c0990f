/* Backend files: inheritance, overrides, the exact complaint about what is wrong. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/core/reads.h"
#include "engine/core/file.h"
#include "engine/config/backend_yaml.h"
#include "engine/config/override.h"
#include "engine/config/pipeline_yaml.h"
#include "engine/calib/observer.h"
#include "engine/quant/quirk.h"
#include "ops/families.h"
#include "passes/passes.h"
#include "tests/support/scratch.h"

static const char *const folder = QG_CONFIG_DIR "/backends";

typedef struct fixture {
    qg_ctx *ctx;
    char dir[32];
    const char *search[2];
} fixture;

static fixture open_fixture(void)
{
    fixture f = { .ctx = qg_ctx_new(qg_alloc_libc), .dir = "/tmp/qg_backend_XXXXXX" };
    f.ctx->registry = &qg_ops_registry;
    f.ctx->config_dir = QG_CONFIG_DIR;
    assert_non_null(mkdtemp(f.dir));
    f.search[1] = folder;
    return f;
}

static void close_fixture(fixture *f)
{
    assert_int_equal(scratch_remove(f->dir), 0);
    qg_ctx_free(f->ctx);
}

static qg_status load(fixture *f, const char *name, qg_backend **out)
{
    f->search[0] = f->dir;
    return qg_backend_load(f->ctx, f->ctx->arena, name,
                           (qg_search){ .dir = f->search, .n = 2 }, out);
}

/* Writes dir/<name>.yaml and loads it. */
static qg_status load_text(fixture *f, const char *name, const char *text,
                           qg_backend **out)
{
    const char *file = qg_arena_printf(f->ctx->arena, "%s/%s.yaml", f->dir, name);
    qg_reads_forget(f->ctx);
    assert_ok(f->ctx, qg_file_write(f->ctx, file, text, strlen(text)));
    return load(f, name, out);
}

static const qg_rule *rule_named(const qg_backend *b, const char *id)
{
    for (size_t i = 0; i < b->rule.n; i++)
        if (strcmp(b->rule.at[i].origin.id, id) == 0)
            return &b->rule.at[i];
    return NULL;
}

static void every_backend_loads(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const char **name;
    size_t n;
    qg_search search = { .dir = &folder, .n = 1 };
    assert_ok(f.ctx, qg_config_names(f.ctx, f.ctx->arena, search, &name, &n));
    assert_cmp_int(n, >=, 4);
    for (size_t i = 0; i < n; i++) {
        qg_backend *b;
        assert_ok(f.ctx, load(&f, name[i], &b));
        assert_string_equal(b->name, name[i]);
        for (size_t k = 0; k < b->rule.n; k++) {
            assert_non_null(b->rule.at[k].origin.why);
            assert_non_null(b->rule.at[k].origin.source);
        }
        const char *dir = QG_CONFIG_DIR "/pipelines";
        qg_pipeline p;
        assert_ok(f.ctx, qg_pipeline_load(f.ctx, f.ctx->arena, b->pipeline,
                                          (qg_search){ .dir = &dir, .n = 1 }, &p));
        for (size_t k = 0; k < p.n; k++)
            assert_non_null(qg_pass_find(qg_passes, p.pass[k]));
    }
    close_fixture(&f);
}

static void children_replace_extend_and_remove(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qg_backend *base, *b;
    assert_ok(f.ctx, load(&f, "int8-base", &base));
    assert_ok(
        f.ctx,
        load_text(&f, "mine",
                  "name: mine\nextends: int8-base\n"
                  "+quantizes: [Erf]\n-quantizes: [Softmax]\npassive: [Reshape]\n"
                  "defaults: {rounding: half-up, bits: 4}\n"
                  "quirks: [ppq-split-groups]\n"
                  "-sharing: [resize-input]\n"
                  "rules:\n"
                  "  - {id: weight, match: {slot: weight},\n"
                  "     set: {bits: 6}, why: w, source: s}\n"
                  "  - {id: new, match: {trait: [compute, pure]}, why: w, source: s,\n"
                  "     set: {observer: minmax, min-scale: 1e-5}}\n",
                  &b));
    assert_int_equal(b->quantizes.n, base->quantizes.n);
    assert_string_equal(b->quantizes.at[b->quantizes.n - 1], "Erf");
    assert_int_equal(b->passive.n, 1);
    assert_int_equal(b->sharing.n, base->sharing.n - 1);
    assert_int_equal(b->rule.n, base->rule.n + 1);
    assert_ptr_equal(rule_named(b, "weight"), &b->rule.at[0]);
    assert_int_equal(b->rule.at[0].origin.line, 10);
    assert_int_equal(b->rule.at[0].set.fields, QG_SET_BITS);
    assert_int_equal(rule_named(b, "new")->node.traits, QG_OP_COMPUTE | QG_OP_PURE);
    assert_cmp_f64(rule_named(b, "new")->set.observer.value[QG_PARAM_MIN_SCALE], ==,
                   1e-5);
    assert_int_equal(b->defaults.scheme.bits, 4);
    assert_int_equal(b->defaults.scheme.qmin, -8); /* bits alone keep the shape */
    assert_int_equal(b->defaults.scheme.qmax, 7);
    assert_int_equal(b->defaults.scheme.rounding, QG_ROUND_HALF_UP);
    assert_string_equal(b->defaults.observer.name, "mse");
    assert_int_equal(b->quirks, QG_QUIRK(PPQ_SPLIT_GROUPS));
    assert_int_equal(b->file.n, 2);
    close_fixture(&f);
}

#define HEAD         "name: bad\nextends: int8-base\n"
#define RULE(what)   HEAD "rules:\n  - {id: r, why: w, source: s, " what "}\n"
#define EMPTY(match) RULE("match: {" match "}, set: {bits: 4}")
#define FUSION(what) HEAD "fusions:\n  - {id: f, why: w, source: s, " what "}\n"

/* One wrong thing each, and what is said about it behind "<dir>/bad.yaml:". */
/* clang-format off */
static const struct {
    const char *text, *message;
} bad[] = {
    { HEAD "qantizes: [Conv]\n",
      "3: backend: unknown key 'qantizes', did you mean 'quantizes'" },
    { "name: bad\n",
      "1: backend: key 'quantizes' is missing, expected a value here or in a parent" },
    { HEAD "quantizes: [Conv, Cnov]\n",
      "3: quantizes: unknown operator 'Cnov', did you mean 'Conv'" },
    { HEAD "quantizes: [Conv, Conv]\n", "3: quantizes: 'Conv' is in the list already" },
    { HEAD "-quantizes: [Erf]\n", "3: -quantizes: 'Erf' is not in the list" },
    { HEAD "quantizes: Conv\n", "3: quantizes: expected a list of words" },
    { HEAD "dispatch: persus\n",
      "3: dispatch: 'persus', did you mean 'perseus', expected conservative, "
      "aggressive, pointwise, all-in, perseus or pplnn" },
    { HEAD "with-quirk: [ppq-bias-add-rank]\n",
      "3: with-quirk: expected a map from quirks to sections" },
    { HEAD "with-quirk: {ppq-nothing: {passive: []}}\n",
      "3: with-quirk ppq-nothing: unknown quirk, expected one of `qg list quirks`" },
    { HEAD "with-quirk: {ppq: {passive: []}}\n",
      "3: with-quirk ppq: unknown quirk, expected one of `qg list quirks`" },
    { HEAD "with-quirk: {ppq-bias-add-rank: {title: x}}\n",
      "3: with-quirk ppq-bias-add-rank: unknown key 'title'" },
    { HEAD "quirks: [ppq-bias-add-rank]\n"
           "with-quirk: {ppq-bias-add-rank: {dispatch: x}}\n",
      "4: dispatch: 'x', expected conservative" },
    { HEAD "defaults: {variant: [fnuz, fnuz]}\n",
      "3: defaults: variant: 'fnuz', expected none, or fnuz, ppq-ties or wide, once" },
    { HEAD "profile: tensort\n",
      "3: profile: 'tensort', did you mean 'tensorrt', expected cmsis-nn, ncnn-x86, " },
    { HEAD "quirks: [pqp]\n", "3: quirks: unknown quirk 'pqp', did you mean 'ppq'" },
    { HEAD "quirks: [ppq-splt-groups]\n",
      "3: quirks: unknown quirk 'ppq-splt-groups', did you mean 'ppq-split-groups'" },
    { HEAD "defaults: {bits: 33}\n",
      "3: defaults: bits: '33', expected an integer from 2 to 32" },
    { HEAD "defaults: {range: [-129, 127]}\n",
      "3: defaults: range [-129, 127] does not fit 8 bits, expected within [-128, "
        "127]" },
    { HEAD "defaults: {policy: [per-channel, linear, symmetric]}\n",
      "3: defaults: policy without per-tensor" },
    { HEAD "defaults: {axis: 1}\n", "3: defaults: a field that only rules may set" },
    { HEAD "-rules: [nothing]\n", "3: -rules: unknown id 'nothing'" },
    { HEAD "rules:\n  - {match: {}, set: {bits: 4}}\n",
      "4: rule: key 'id' is missing" },
    { HEAD "rules:\n  - {id: r, source: s, match: {}, set: {bits: 4}}\n",
      "4: rule r: key 'why' is missing" },
    { HEAD "rules:\n  - {id: r, why: w, match: {}, set: {bits: 4}}\n",
      "4: rule r: key 'source' is missing" },
    { HEAD "rules:\n  - {id: r, why: w, source: s, match: {}, set: {bits: 4}}\n"
        "  - {id: r, why: w, source: s, match: {}, set: {bits: 4}}\n",
      "5: id 'r' is already defined in line 4" },
    { RULE("match: {slots: in0}, set: {bits: 4}"),
      "4: rule r: unknown key 'slots', did you mean 'slot'" },
    { RULE("match: {slot: wieght}, set: {bits: 4}"),
      "4: rule r: unknown slot 'wieght', did you mean 'weight'" },
    { RULE("match: {op: Relu, slot: weight}, set: {bits: 4}"),
      "4: rule r: operator Relu has no slot 'weight', expected an input (in0, ..., at "
      "most 1) or an output (out0, ..., at most 1)" },
    { RULE("match: {op: [Conv, Relu], slot: in1}, set: {bits: 4}"),
      "4: rule r: operator Relu has no slot 'in1'" },
    { RULE("match: {trait: computing}, set: {bits: 4}"),
      "4: rule r: unknown trait 'computing', did you mean 'compute', expected one of "
      "`qg list traits`" },
    { RULE("match: {constant: maybe}, set: {bits: 4}"),
      "4: rule r: constant: 'maybe', expected yes or no" },
    { RULE("match: {dims: 3}, set: {bits: 4}"), "4: rule r: dims: expected a list" },
    { RULE("match: {}, set: {}"), "4: rule r: set: has no field, expected one" },
    { RULE("match: {}, set: {bit: 4}"),
      "4: rule r: unknown key 'bit', did you mean 'bits'" },
    { RULE("match: {}, set: {bits: four}"),
      "4: rule r: bits: 'four', expected an integer" },
    { RULE("match: {}, set: {bits: 6, range: [-31, 32]}"),
      "4: rule r: range [-31, 32] does not fit 6 bits, expected within [-32, 31]" },
    { RULE("match: {}, set: {range: [1]}"), "4: rule r: range: expected [qmin, qmax]" },
    { RULE("match: {}, set: {rounding: half-evn}"),
      "4: rule r: rounding: 'half-evn', did you mean 'half-even'" },
    { RULE("match: {}, set: {policy: [per-tensor, linear]}"),
      "4: rule r: policy [per-tensor linear], expected one granularity" },
    { RULE("match: {}, set: {policy: [per-tensor, floating, symmetric]}"),
      "one of symmetric or asymmetric; floating with symmetric, power-of-2 and no "
      "dynamic" },
    { RULE("match: {}, set: {policy: [per-tensor, linear, symetric]}"),
      "4: rule r: policy word 'symetric', did you mean 'symmetric', expected each of "
      "`qg list policies` once" },
    { RULE("match: {}, set: {policy: [per-tensor, exponential, symmetric]}"),
      "4: rule r: policy word 'exponential', expected floating, or linear with "
      "power-of-2: exponential is not implemented" },
    { RULE("match: {}, set: {axis: out}"),
      "4: rule r: axis: 'out', expected out-channel or an integer from 0 to 7" },
    { RULE("match: {}, set: {observer: minmx}"),
      "4: rule r: unknown observer 'minmx', did you mean 'minmax'" },
    { RULE("match: {}, set: {percentile: 2}"),
      "4: rule r: percentile: '2', expected a number from 0.5 to 1" },
    { RULE("match: {}, set: {state: baked}"),
      "4: rule r: state: 'baked', expected initial, fp32, soi" },
    { RULE("match: {}, set: {visibility: no}"),
      "4: rule r: visibility: 'no', expected" },
    { RULE("match: {}, set: {derive: wieght}"),
      "4: rule r: derive: 'wieght', expected none or bias" },
    { RULE("match: {}, set: {platform: gpu}"),
      "4: rule r: platform: 'gpu', expected quantized, fp32 or soi" },
    { RULE("match: {op: Conv}, set: {platform: ncnn-int8}"),
      "4: rule r: platform: 'ncnn-int8', expected quantized, fp32 or soi: a "
      "network has one backend" },
    { FUSION("pattern: {c: {}}, silence: {c.out0: d.out0}"),
      "4: fusion f: c.out0: endpoint 'd.out0', expected NODE.in0 or "
      "NODE.out0" },
    { FUSION("pattern: {c: {op: Conv}}, where: {c.out1: {consumers: 1}}, silence: "
             "fp32, float: [c]"),
      "4: fusion f: endpoint 'c.out1': its operator has fewer outputs, expected at "
      "most out0" },
    { FUSION("pattern: {c: {op: BatchNormalization}}, silence: {c.out5: c.out4}"),
      "endpoint 'c.out5': its operator has fewer outputs, expected at most out4" },
    { FUSION("pattern: {c: {op: [Relu, Add]}}, silence: {c.in1: c.in2}"),
      "endpoint 'c.in2': its operator has fewer inputs, expected at most in1" },
    { FUSION("pattern: {c: {}, d: {}}, silence: {c.out0: d.out0}"),
      "other nodes are not connected to it" },
    { FUSION("pattern: {d: {in: c}, c: {}}, silence: {c.out0: d.out0}"),
      "4: fusion f: in: unknown node 'c', expected one of the pattern, "
      "producers first" },
    { FUSION("pattern: {c: {}, d: {in: c}}, where: {c.out0: {consumer: 1}}, silence: "
        "{c.out0: d.out0}"),
      "4: fusion f: unknown key 'consumer', did you mean 'consumers'" },
    { FUSION("pattern: {c: {}, d: {in: c}}, silence: {c.out0: d.out0}, float: [e]"),
      "4: fusion f: float: unknown node 'e', expected one of the pattern, "
      "producers first" },
    { FUSION("pattern: {c: {}, d: {in: c}}, silence: {c.out0: d.out0}, once: 2"),
      "4: fusion f: once: '2', expected yes or no" },
    { FUSION("pattern: {c: {}}"), "4: fusion f: key 'silence' is missing" },
    { FUSION("pattern: {}, silence: {c.out0: d.out0}"),
      "4: fusion f: pattern: expected a map of 1 to 16 nodes" },
    { HEAD "sharing:\n  - {id: s, why: w, source: s, match: {op: Add}, align: big}\n",
      "4: sharing s: align: 'big', expected none, large, output or input" },
    { HEAD "sharing:\n  - {id: s, why: w, source: s, match: {slot: in0}, align: "
        "large}\n", "4: sharing s: unknown key 'slot', expected one of op, "
        "trait, node, attr" },
    { EMPTY("node: []"), "rule r: node: an empty list matches nothing" },
    { EMPTY("value: []"), "rule r: value: an empty list matches nothing" },
    { EMPTY("op: []"), "rule r: op: an empty list matches nothing" },
    { EMPTY("trait: []"), "rule r: trait: an empty list matches nothing" },
    { EMPTY("slot: []"), "rule r: slot: an empty list matches nothing" },
    { EMPTY("attr: {group: []}"), "rule r: group: an empty list matches nothing" },
};
/* clang-format on */

static void every_fault_says_where_and_what(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fixture f = open_fixture();
        qg_backend *b = NULL;
        const char *want = qg_arena_printf(f.ctx->arena, "%s", bad[i].message);
        qg_status s = load_text(&f, "bad", bad[i].text, &b);
        const char *got = qg_ctx_message(f.ctx);
        if (s != QG_ECONFIG || !strstr(got, "/bad.yaml:") || !strstr(got, want) ||
            !(strstr(got, "expected") || strstr(got, "did you mean")))
            fail_msg("%s\ngave: %s: %s\nnot:  %s", bad[i].text, qg_status_name(s), got,
                     want);
        assert_null(b);
        close_fixture(&f);
    }
}

static void families_that_can_not_be(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qg_backend *b = NULL;
    assert_fails(
        f.ctx, load(&f, "trt-int9", &b), QG_ECONFIG,
        "backend: unknown backend 'trt-int9', did you mean 'trt-int8', expected "
        "a path or one of `qg list backends`");
    assert_fails(f.ctx, load(&f, "openvino", &b), QG_ECONFIG,
                 "did you mean 'openvino-int8', expected");
    assert_fails(f.ctx, load(&f, "ppl", &b), QG_ECONFIG,
                 "did you mean 'ppl-cuda-int8', 'ppl-dsp-int8' or 'ppl-dsp-ti-int8', "
                 "expected");
    assert_fails(f.ctx, load(&f, "none/x.yaml", &b), QG_EIO, "none/x.yaml");
    assert_fails(f.ctx, load_text(&f, "a", "name: a\nextends: a\n", &b), QG_ECONFIG,
                 "/a.yaml:2: extends: 'a' is its own ancestor");
    assert_fails(f.ctx, load_text(&f, "c", "name: c\nextends: nobody\n", &b),
                 QG_ECONFIG, "unknown backend 'nobody'");
    assert_null(b);
    close_fixture(&f);
}

static void overrides_are_rules_at_the_end(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qg_backend *b;
    assert_ok(f.ctx, load(&f, "trt-int8", &b));
    size_t n = b->rule.n;
    assert_ok(f.ctx,
              qg_backend_set(f.ctx, f.ctx->arena, "op=Conv_3  slot=in0,in1 bits=4", b));
    assert_ok(f.ctx, qg_backend_set(f.ctx, f.ctx->arena,
                                    "op=Conv,Gemm range=[-7,7] bits=4 state=fp32", b));
    assert_int_equal(b->rule.n, n + 2);
    const qg_rule *r = &b->rule.at[n];
    assert_true(r->is_override);
    assert_string_equal(r->origin.id, "set:1");
    assert_string_equal(r->origin.why, "op=Conv_3  slot=in0,in1 bits=4");
    assert_string_equal(r->node.node[0], "Conv_3"); /* no operator is called so */
    assert_int_equal(r->node.n_op, 0);
    assert_int_equal(r->at.n_slot, 2);
    assert_int_equal(r->set.scheme.bits, 4);
    r = &b->rule.at[n + 1];
    assert_string_equal(r->origin.id, "set:2");
    assert_int_equal(r->node.n_op, 2);
    assert_int_equal(r->set.scheme.qmin, -7);
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"bits",                 "--set:3: 'bits', expected key=value"              },
        { "slott=in0 bits=4",    "--set:3: unknown key 'slott', did you mean 'slot'"},
        { "bits=4 bits=5",       "--set:3: 'bits' is set twice"                     },
        { "slot=in0 bits=77",    "--set:3: set:3: bits: '77', expected an integer"  },
        { "slot=in0",            "set:3: set: has no field, expected one like bits" },
        { "op=Conv,Cnov bits=4", "unknown operator 'Cnov', did you mean 'Conv'"     },
        { "pass=gptq",           "'pass=gptq run=yes' switches it on"               },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(f.ctx, qg_backend_set(f.ctx, f.ctx->arena, wrong[i].text, b),
                     QG_ECONFIG, wrong[i].message);
    assert_int_equal(b->rule.n, n + 2);
    close_fixture(&f);
}

static void patches_need_no_reasons(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qg_backend *b;
    static const char patch[] =
        "rules:\n  - {id: p, match: {op: Conv}, set: {bits: 4}}\n"
        "-fusions: [swish]\n";
    const char *path = qg_path_join(f.ctx->arena, f.dir, "p.yaml");
    assert_ok(f.ctx, load(&f, "trt-int8", &b));
    size_t rules = b->rule.n, fusions = b->fusion.n;
    qg_reads_forget(f.ctx);
    assert_ok(f.ctx, qg_file_write(f.ctx, path, patch, sizeof patch - 1));
    assert_ok(f.ctx, qg_backend_patch(f.ctx, f.ctx->arena, path, b));
    assert_int_equal(b->rule.n, rules + 1);
    assert_int_equal(b->fusion.n, fusions - 1);
    assert_true(b->rule.at[rules].is_override);
    assert_null(b->rule.at[rules].origin.why);
    assert_string_equal(b->name, "trt-int8");
    qg_reads_forget(f.ctx);
    assert_ok(f.ctx, qg_file_write(f.ctx, path, "extends: x\n", 11));
    assert_fails(f.ctx, qg_backend_patch(f.ctx, f.ctx->arena, path, b), QG_ECONFIG,
                 "p.yaml:1: extends: a policy patch has no parent");
    close_fixture(&f);
}

static void a_patch_comes_after_options(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qg_backend *b;
    static const char patch[] =
        "after-set: [\"op=Conv slot=in1 bits=4\", \"pass=align run=no\"]\n"
        "rules:\n  - {id: p, match: {op: Conv}, set: {bits: 8}}\n";
    const char *path = qg_path_join(f.ctx->arena, f.dir, "p.yaml");
    assert_ok(f.ctx, load(&f, "trt-int8", &b));
    size_t n = b->rule.n, settings = b->setting.n;
    qg_reads_forget(f.ctx);
    assert_ok(f.ctx, qg_file_write(f.ctx, path, patch, sizeof patch - 1));
    assert_ok(f.ctx, qg_backend_patch(f.ctx, f.ctx->arena, path, b));
    assert_ok(f.ctx, qg_backend_set(f.ctx, f.ctx->arena, "pass=align run=no", b));
    assert_ok(f.ctx, qg_backend_set(f.ctx, f.ctx->arena, "op=Conv slot=in1 bits=4", b));
    assert_int_equal(b->setting.n, settings + 1);
    assert_int_equal(b->rule.n, n + 2); /* each once, in front of the patch */
    assert_string_equal(b->rule.at[n].origin.id, "set:1");
    assert_string_equal(b->rule.at[n + 1].origin.id, "p");
    assert_ok(f.ctx, qg_backend_set(f.ctx, f.ctx->arena, "op=Conv slot=in1 bits=5", b));
    assert_string_equal(b->rule.at[n + 2].origin.id, "set:2");
    assert_fails(f.ctx,
                 load_text(&f, "a", "name: a\nafter-set: [\"op=Conv bits=4\"]\n", &b),
                 QG_ECONFIG, "a backend has no options of a run");
    close_fixture(&f);
}

static void pipelines_are_strict(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const char *path = qg_path_join(f.ctx->arena, f.dir, "p.yaml");
    static const char text[] = "name: p\nwhy: w\npases: [fuse]\n";
    qg_pipeline p;
    qg_reads_forget(f.ctx);
    assert_ok(f.ctx, qg_file_write(f.ctx, path, text, sizeof text - 1));
    assert_fails(f.ctx,
                 qg_pipeline_load(f.ctx, f.ctx->arena, path, (qg_search){ 0 }, &p),
                 QG_ECONFIG,
                 "p.yaml:3: pipeline: unknown key 'pases', did you mean "
                 "'passes'");
    const char *dir = QG_CONFIG_DIR "/pipelines";
    assert_fails(f.ctx,
                 qg_pipeline_load(f.ctx, f.ctx->arena, "defualt",
                                  (qg_search){ .dir = &dir, .n = 1 }, &p),
                 QG_ECONFIG, "unknown pipeline 'defualt', did you mean 'default'");
    close_fixture(&f);
}

static void expect_setting(const qg_pass_setting *s, const char *pass,
                           const char *param, double value)
{
    assert_string_equal(s->pass, pass);
    assert_string_equal(s->param, param);
    assert_cmp_f64(s->value, ==, value);
}

static void passes_take_parameters(void **state)
{
    (void)state;
    fixture f = open_fixture();
    qg_backend *b;
    assert_ok(f.ctx, load_text(&f, "x",
                               "name: x\nextends: int8-base\npasses:\n  align: no\n"
                               "  equalize: {run: yes, threshold: 0.25}\n",
                               &b));
    assert_ok(f.ctx, qg_backend_set(f.ctx, f.ctx->arena,
                                    "pass=bias-correct block=2  run=yes", b));
    assert_int_equal(b->setting.n, 5);
    expect_setting(&b->setting.at[0], "align", "run", 0);
    expect_setting(&b->setting.at[1], "equalize", "run", 1);
    expect_setting(&b->setting.at[2], "equalize", "threshold", 0.25);
    assert_int_equal(b->setting.at[2].line, 5);
    expect_setting(&b->setting.at[3], "bias-correct", "block", 2);
    expect_setting(&b->setting.at[4], "bias-correct", "run", 1);
    assert_string_equal(b->setting.at[4].file, "--set");
    close_fixture(&f);
}

static void wrong_parameters_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"passes: [align]\n",
         "x.yaml:3: passes: expected a map from pass to yes, no"                    },
        { "passes: {align: never}\n",
         "x.yaml:3: passes: align: 'never', expected a number, yes or no"           },
        { "passes: {align: 'yes'}\n",
         "align: the text 'yes', expected a number, yes or no (true or false)"      },
        { "passes: {align: [1]}\n",
         "x.yaml:3: passes: align: expected yes, no or a map of parameters"         },
        { "passes: {align: {x: {}}}\n", "x.yaml:3: passes: align: expected a number"},
    };
    static const char *const set[][2] = {
        {"pass=align",
         "'pass=align': no parameter, expected a pass and its parameters"       },
        { "pass= run=no",         "expected a pass and its parameters"          },
        { "pass=align run=",      "parameters of a pass, expected key=value"    },
        { "pass=align run no",    "parameters of a pass, expected key=value"    },
        { "pass=align run=maybe", "align: 'maybe', expected a number, yes or no"},
    };

    fixture f = open_fixture();
    qg_backend *b;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *text = qg_arena_printf(
            f.ctx->arena, "name: x\nextends: int8-base\n%s", wrong[i].text);
        assert_fails(f.ctx, load_text(&f, "x", text, &b), QG_ECONFIG, wrong[i].message);
    }
    assert_ok(f.ctx, load(&f, "int8-base", &b));
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
        assert_fails(f.ctx, qg_backend_set(f.ctx, f.ctx->arena, set[i][0], b),
                     QG_ECONFIG, set[i][1]);
    f.ctx->message[0] = 0; /* what is no number leaves no message of a failed try */
    assert_ok(f.ctx, qg_backend_set(f.ctx, f.ctx->arena, "pass=align run=no", b));
    assert_string_equal(qg_ctx_message(f.ctx), "");
    close_fixture(&f);
}

static void pipelines_hold_parameters(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const char *path = qg_path_join(f.ctx->arena, f.dir, "p.yaml");
    static const char good[] =
        "name: p\nwhy: w\npasses:\n - fuse\n - {equalize: no}\n - {align: {run: 1}}\n";
    static const char two[] = "name: p\nwhy: w\npasses: [{a: no, b: no}]\n";
    qg_pipeline p;
    qg_reads_forget(f.ctx);
    assert_ok(f.ctx, qg_file_write(f.ctx, path, good, sizeof good - 1));
    assert_ok(f.ctx, qg_pipeline_load(f.ctx, f.ctx->arena, path, (qg_search){ 0 }, &p));
    assert_int_equal(p.n, 3);
    assert_string_equal(p.pass[1], "equalize");
    assert_int_equal(p.line[2], 6);
    assert_int_equal(p.setting.n, 2);
    expect_setting(&p.setting.at[0], "equalize", "run", 0);
    expect_setting(&p.setting.at[1], "align", "run", 1);
    qg_reads_forget(f.ctx);
    assert_ok(f.ctx, qg_file_write(f.ctx, path, two, sizeof two - 1));
    assert_fails(
        f.ctx, qg_pipeline_load(f.ctx, f.ctx->arena, path, (qg_search){ 0 }, &p),
        QG_ECONFIG, "p.yaml:3: passes: a map of 2 passes, expected a single pass");
    close_fixture(&f);
}

static void globs(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool fits;
    } row[] = {
        {"",                   "",                                     true },
        { "*",                 "",                                     true },
        { "a*",                "abc",                                  true },
        { "*c",                "abc",                                  true },
        { "a?c",               "abc",                                  true },
        { "a?c",               "ac",                                   false},
        { "*b*",               "abc",                                  true },
        { "*bb*",              "abcb",                                 false},
        { "a*b*c",             "aXbYbZc",                              true },
        { "a*b*c",             "aXbY",                                 false},
        { "Conv_[1]",          "Conv_[1]",                             true },
        { "a\\*c",             "a*c",                                  true },
        { "a\\*c",             "abc",                                  false},
        { "a\\?c",             "a?c",                                  true },
        { "a\\?c",             "abc",                                  false},
        { "a\\\\*",            "a\\bc",                                true },
        { "a\\b",              "a\\b",                                 true },
        { "*\\*",              "abc*",                                 true },
        { "****************x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        assert_int_equal(qg_glob(row[i].pattern, row[i].text), row[i].fits);
}

QG_TEST_MAIN(cmocka_unit_test(every_backend_loads),
             cmocka_unit_test(children_replace_extend_and_remove),
             cmocka_unit_test(every_fault_says_where_and_what),
             cmocka_unit_test(families_that_can_not_be),
             cmocka_unit_test(overrides_are_rules_at_the_end),
             cmocka_unit_test(patches_need_no_reasons),
             cmocka_unit_test(a_patch_comes_after_options),
             cmocka_unit_test(pipelines_are_strict),
             cmocka_unit_test(passes_take_parameters),
             cmocka_unit_test(wrong_parameters_are_refused),
             cmocka_unit_test(pipelines_hold_parameters), cmocka_unit_test(globs))
