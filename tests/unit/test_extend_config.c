/* Backends, pipelines and policies that are texts of the host. */
#include "tests/support/test.h"

#include "engine/core/hash.h"
#include "engine/quant/endpoint.h"
#include "engine/quant/tqc.h"
#include "engine/snapshot/model.h"
#include "tests/support/host.h"

static const char *const MODEL = "graph \"g\" {\n"
                                 "  opset 17\n"
                                 "  x = input f32[1,3,8,8]\n"
                                 "  w = const f32[4,3,3,3] ramp(-1, 1)\n"
                                 "  c = Conv conv(x, w)\n"
                                 "  y = Relu act(c)\n"
                                 "  output y\n"
                                 "}\n";

static void add(host *h, const char *path, const char *text)
{
    assert_ok(h->ctx, qg_add_config(h->ctx, path, text, strlen(text)));
}

static qg_status quantize(host *h, const char *backend, const char *policy,
                          qg_model **out)
{
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work.data = "random:4";
    o.policy = &policy;
    o.n_policy = policy != NULL;
    *out = host_open(h, host_model(h, "m.onnx", MODEL));
    return qg_model_quantize(*out, &o, NULL);
}

static const qg_tqc *endpoint(qg_model *m, const char *name)
{
    const qg_tqc *t = qg_tqc_named(m->graph, name);
    if (!t)
        fail_msg("%s has no TQC", name);
    return t;
}

/* A text extends a text that extends a file; name and path mean the same. */
static void backends_extend_each_other(void **state)
{
    host *h = *state;
    static const char *const names[] = { "child", "child.yaml", "backends/child.yaml" };
    char hash[3][QG_HASH_TEXT];
    qg_model *m;
    add(h, "backends/child.yaml", "name: child\nextends: parent\n");
    add(h, "backends/parent.yaml",
        "name: parent\nextends: trt-int8\nrules:\n  - id: six-bits\n"
        "    match: {op: Conv, slot: weight}\n    set: {bits: 6}\n    why: a test\n"
        "    source: a test\n");
    for (size_t i = 0; i < 3; i++) {
        assert_ok(h->ctx, quantize(h, names[i], NULL, &m));
        const qg_tqc *t = endpoint(m, "conv.in1");
        assert_int_equal(t->scheme.bits, 6);
        const qg_origin *o = &m->quant->backend->rule.at[t->rule].origin;
        assert_string_equal(o->file, "backends/parent.yaml");
        (void)snprintf(hash[i], sizeof hash[i], "%s", m->info.manifest.backend_sha256);
        qg_model_close(m);
    }
    assert_string_equal(hash[0], hash[1]);
    assert_string_equal(hash[0], hash[2]);
    host_assert_listed(h, "backends", "backends/child.yaml");
}

/* Another text, another hash: the manifest covers it. */
static void hashes_cover_texts(void **state)
{
    host *h = *state;
    qg_model *a, *b;
    add(h, "backends/one.yaml", "name: one\nextends: trt-int8\n");
    add(h, "backends/two.yaml", "name: one\nextends: trt-int8 # another\n");
    assert_ok(h->ctx, quantize(h, "one", NULL, &a));
    assert_ok(h->ctx, quantize(h, "two", NULL, &b));
    assert_string_not_equal(a->info.manifest.backend_sha256,
                            b->info.manifest.backend_sha256);
    qg_model_close(a);
    qg_model_close(b);
}

/* It goes before the file of the configuration folder, for children of that, too. */
static void a_text_goes_before_the_file(void **state)
{
    host *h = *state;
    qg_model *m;
    add(h, "backends/trt-int8.yaml",
        "name: trt-int8\nextends: int8-base\ndefaults: {rounding: half-up}\n");
    assert_ok(h->ctx, quantize(h, "trt-int8", NULL, &m));
    assert_int_equal(endpoint(m, "conv.in0")->scheme.rounding, QG_ROUND_HALF_UP);
    qg_model_close(m);
}

static void policies_and_pipelines_are_named(void **state)
{
    host *h = *state;
    static const char *const names[] = { "patch", "policies/patch.yaml" };
    qg_model *m;
    add(h, "policies/patch.yaml",
        "rules:\n  - id: four\n    match: {op: Conv, slot: weight}\n"
        "    set: {bits: 4}\n");
    add(h, "pipelines/short.yaml",
        "name: short\nwhy: a test\npasses: [dispatch, rules, passive, "
        "calibrate-parameters, calibrate-activations, bake]\n");
    add(h, "backends/mine.yaml", "name: mine\nextends: trt-int8\npipeline: short\n");
    for (size_t i = 0; i < 2; i++) {
        assert_ok(h->ctx, quantize(h, "mine", names[i], &m));
        assert_int_equal(endpoint(m, "conv.in1")->scheme.bits, 4);
        /* the pipeline has no `fuse` */
        assert_int_equal(endpoint(m, "conv.out0")->state, QG_TQC_ACTIVATED);
        qg_model_close(m);
    }
}

/* A profile that is a text: listed, shown, extended, and named by a backend. */
static void profiles_are_texts_too(void **state)
{
    host *h = *state;
    qg_report *r;
    qg_model *m;
    assert_fails(h->ctx, qg_profile_page(h->ctx, "npu", &r), QG_ECONFIG,
                 "unknown profile 'npu'");
    add(h, "profiles/npu.yaml",
        "name: npu\nextends: tflite-reference\n-kernels: [sum]\nkernels:\n"
        "  - {id: sum, use: add, form: mantissa, why: a test, source: a test}\n");
    host_assert_listed(h, "profiles", "profiles/npu.yaml");
    assert_ok(h->ctx, qg_profile_page(h->ctx, "npu", &r));
    qg_report_free(r);
    add(h, "backends/mine.yaml", "name: mine\nextends: tflite-int8\nprofile: npu\n");
    assert_ok(h->ctx, quantize(h, "mine", NULL, &m));
    assert_string_equal(m->quant->backend->profile, "npu");
    qg_model_close(m);
    add(h, "backends/typo.yaml", "name: typo\nextends: tflite-int8\nprofile: npv\n");
    assert_fails(h->ctx, quantize(h, "typo", NULL, &m), QG_ECONFIG,
                 "backends/typo.yaml:3: profile: 'npv', did you mean 'npu', expected");
    qg_model_close(m);
}

static void messages_name_the_path(void **state)
{
    host *h = *state;
    qg_model *m;
    add(h, "backends/bad.yaml", "name: bad\nextends: trt-int8\nbits: 3\n");
    assert_fails(h->ctx, quantize(h, "bad", NULL, &m), QG_ECONFIG,
                 "backends/bad.yaml:3: ");
    qg_model_close(m);
    add(h, "backends/orphan.yaml", "name: orphan\nextends: trt-int9\n");
    assert_fails(h->ctx, quantize(h, "orphan", NULL, &m), QG_ECONFIG,
                 "backends/orphan.yaml:2: extends: unknown backend 'trt-int9', did you "
                 "mean 'trt-int8'");
    qg_model_close(m);
    assert_fails(h->ctx, quantize(h, "orphn", NULL, &m), QG_ECONFIG,
                 "did you mean 'orphan'");
    qg_model_close(m);
}

static void other_paths_are_refused(void **state)
{
    host *h = *state;
    static const char *const paths[] = {
        "mine.yaml",
        "backends/mine",
        "backends/.yaml",
        "backends/a/b.yaml",
        "schema/quant.yaml",
        "/backends/mine.yaml",
        "backends/../x/mine.yaml",
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        assert_fails(h->ctx, qg_add_config(h->ctx, paths[i], "", 0), QG_ECONFIG,
                     "expected backends/NAME.yaml");
    assert_fails(h->ctx, qg_add_config(h->ctx, "backends/a.yaml", NULL, 0), QG_ECONFIG,
                 "expected a text");
    add(h, "backends/a.yaml", "name: a\n");
    assert_fails(h->ctx, qg_add_config(h->ctx, "backends/a.yaml", "", 0), QG_ECONFIG,
                 "the name is in use");
}

QG_TEST_MAIN(WITH_HOST(backends_extend_each_other), WITH_HOST(hashes_cover_texts),
             WITH_HOST(a_text_goes_before_the_file),
             WITH_HOST(policies_and_pipelines_are_named),
             WITH_HOST(profiles_are_texts_too), WITH_HOST(messages_name_the_path),
             WITH_HOST(other_paths_are_refused))
