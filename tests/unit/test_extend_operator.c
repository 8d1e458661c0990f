/* Operators of a host take part in everything that those of the build do. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/ir/text.h"
#include "engine/onnx/import.h"
#include "engine/quant/endpoint.h"
#include "engine/quant/tqc.h"
#include "engine/snapshot/model.h"
#include "tests/support/host.h"

#define CONV                                                                           \
    "graph \"g\" {\n"                                                                  \
    "  ir 8\n"                                                                         \
    "  opset 17\n"                                                                     \
    "  opset \"com.example\" 1\n"                                                      \
    "  x = input f32[1,3,8,8]\n"                                                       \
    "  w = const f32[4,3,3,3] ramp(-1, 1)\n"                                           \
    "  c = Conv conv(x, w) pads=[1, 1, 1, 1]\n"

static const char *const MODEL =
    CONV "  y = \"com.example::HardTanh\" act(c)\n  output y\n}\n";
static const char *const CLIP = CONV "  low = const f32[] [-1.0]\n"
                                     "  high = const f32[] [1.0]\n"
                                     "  y = Clip act(c, low, high)\n  output y\n}\n";

static const char BACKEND[] =
    "name: mine\n"
    "extends: trt-int8\n"
    "+quantizes: [HardTanh]\n"
    "fusions:\n"
    "  - id: compute-any-activation\n"
    "    pattern: {c: {trait: compute}, a: {trait: activation, in: [c]}}\n"
    "    where: {c.out0: {consumers: 1, graph-output: no}, same-platform: [c, a]}\n"
    "    silence: {c.out0: a.out0, a.in0: a.out0}\n"
    "    why: pointwise operators run on the accumulator\n"
    "    source: a test\n";

static qg_status same_infer(void *ud, const qg_call *c)
{
    const qg_tensor *x = qg_call_input(c, 0);
    (void)ud;
    *qg_call_output(c, 0) = *x;
    qg_call_output(c, 0)->data = NULL;
    return QG_OK;
}

static qg_status hard_tanh(void *ud, const qg_call *c)
{
    const qg_tensor *x = qg_call_input(c, 0);
    qg_tensor *y = qg_call_output(c, 0);
    (void)ud;
    for (int64_t i = 0; i < qg_tensor_count(x); i++)
        y->f32[i] = fminf(fmaxf(x->f32[i], -1), 1);
    return QG_OK;
}

static qg_operator hard_tanh_operator(void)
{
    qg_operator o;
    qg_operator_init(&o, sizeof o);
    o.name = "HardTanh";
    o.domain = "com.example";
    o.traits = "activation elementwise monotone pure";
    o.in_place = 1;
    o.infer = same_infer;
    o.run = hard_tanh;
    return o;
}

static void add_hard_tanh(host *h, float limit)
{
    qg_operator o = hard_tanh_operator();
    o.clamp_low = -limit;
    o.clamp_high = limit;
    assert_ok(h->ctx, qg_add_operator(h->ctx, &o));
    assert_ok(h->ctx,
              qg_add_config(h->ctx, "backends/mine.yaml", BACKEND, sizeof BACKEND - 1));
}

static qg_tqc_state state_of(qg_model *m, const char *endpoint)
{
    const qg_tqc *t = qg_tqc_named(m->graph, endpoint);
    if (!t)
        fail_msg("%s has no TQC", endpoint);
    return t->state;
}

static void computes_what_the_built_in_one_does(void **state)
{
    host *h = *state;
    size_t n, k;
    add_hard_tanh(h, 0); /* without a clamp: its own function runs */
    const char *path = host_model(h, "mine.onnx", MODEL);
    qg_model *m = host_open(h, path);
    const char *own = host_run(h, m, "float", "y", &n);
    qg_model_close(m);
    m = host_open(h, host_model(h, "clip.onnx", CLIP));
    const char *clip = host_run(h, m, "float", "y", &k);
    qg_model_close(m);
    assert_int_equal(n, k);
    assert_memory_equal(own, clip, n);
    host_assert_listed(h, "ops", "com.example.HardTanh");
}

/* The clamp may be absorbed by the convolution's kernel; the bits are the same. */
static void fuses_by_trait_and_simulates_as_the_built_in_one(void **state)
{
    host *h = *state;
    size_t n, k;
    add_hard_tanh(h, 1);
    qg_model *m = host_quantize(h, host_model(h, "mine.onnx", MODEL), "mine", NULL, 1);
    assert_int_equal(state_of(m, "conv.out0"), QG_TQC_OVERLAPPED);
    assert_int_equal(state_of(m, "act.in0"), QG_TQC_OVERLAPPED);
    assert_int_equal(state_of(m, "act.out0"), QG_TQC_ACTIVATED);
    const char *own = host_run(h, m, "simulate", "y", &n);
    qg_model_close(m);
    m = host_quantize(h, host_model(h, "clip.onnx", CLIP), "trt-int8", NULL, 4);
    const char *clip = host_run(h, m, "simulate", "y", &k);
    qg_model_close(m);
    assert_int_equal(n, k);
    assert_memory_equal(own, clip, n);
}

static void is_exported_with_its_domain(void **state)
{
    host *h = *state;
    static const char *const formats[] = { "onnx-qdq", "openvino-fq" };
    qg_graph *g;
    add_hard_tanh(h, 1);
    qg_model *m = host_quantize(h, host_model(h, "mine.onnx", MODEL), "mine", NULL, 1);
    qg_format_options o;
    qg_format_options_init(&o, sizeof o);
    for (size_t i = 0; i < 2; i++) {
        const char *path = host_path(h, "out.onnx");
        o.format = formats[i];
        assert_ok(h->ctx, qg_model_export(m, &o, path, NULL));
        assert_ok(h->ctx, qg_onnx_import(h->ctx, path, NULL, &g));
        assert_int_equal(qg_graph_opset(g, "com.example"), 1);
        assert_non_null(qg_graph_node(g, "act"));
        assert_string_equal(qg_graph_node(g, "act")->op->domain, "com.example");
        qg_graph_free(g);
    }
    o.format = "openvino-ir";
    assert_fails(h->ctx, qg_model_export(m, &o, host_path(h, "out.xml"), NULL),
                 QG_EUNSUPPORTED, "HardTanh");
    qg_report *r = NULL;
    assert_ok(h->ctx, qg_model_dump(m, &r));
    assert_non_null(strstr(qg_report_text(r), "com.example::HardTanh"));
    qg_report_free(r);
    qg_model_close(m);
}

/* Elsewhere the node is kept, of an unknown operator. */
static void snapshots_run_where_it_is_registered(void **state)
{
    host *h = *state;
    size_t n, k;
    qg_ctx *other;
    add_hard_tanh(h, 1);
    qg_model *m = host_quantize(h, host_model(h, "mine.onnx", MODEL), "mine", NULL, 1);
    const char *folder = host_path(h, "snap"), *own = host_run(h, m, NULL, "y", &n);
    assert_ok(h->ctx, qg_model_save(m, folder));
    qg_model_close(m);
    m = host_open(h, folder);
    const char *again = host_run(h, m, NULL, "y", &k);
    assert_int_equal(n, k);
    assert_memory_equal(own, again, n);
    qg_model_close(m);
    assert_int_equal(qg_open(NULL, &other), QG_OK);
    assert_ok(other, qg_model_open(other, folder, NULL, &m));
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work.data = "random:1";
    assert_fails(other, qg_model_run(m, &o, h->dir, NULL), QG_EUNSUPPORTED,
                 "run: node 'act' (com.example.HardTanh): its operator is unknown");
    qg_model_close(m);
    qg_close(other);
}

/* --- a compute operator, with attributes --- */

static qg_status scaled_infer(void *ud, const qg_call *c)
{
    const qg_tensor *x = qg_call_input(c, 0), *w = qg_call_input(c, 1);
    int64_t dim[2] = { x->dim[0], w->dim[1] };
    (void)ud;
    if (x->rank != 2 || w->rank != 2)
        return qg_fail(qg_call_ctx(c), QG_EMODEL, "expected two matrices");
    qg_tensor_init(qg_call_output(c, 0), QG_F32, 2, dim);
    return QG_OK;
}

/* y = factor * x w */
static qg_status scaled_run(void *ud, const qg_call *c)
{
    const qg_tensor *x = qg_call_input(c, 0), *w = qg_call_input(c, 1);
    qg_tensor *y = qg_call_output(c, 0);
    float factor;
    (void)ud;
    QG_TRY(qg_call_float(c, "factor", 1, &factor));
    double *sum = qg_call_scratch(c, (size_t)w->dim[1] * sizeof *sum);
    if (!sum)
        return QG_ENOMEM;
    for (int64_t i = 0; i < x->dim[0]; i++) {
        memset(sum, 0, (size_t)w->dim[1] * sizeof *sum);
        for (int64_t k = 0; k < w->dim[0]; k++)
            for (int64_t j = 0; j < w->dim[1]; j++)
                sum[j] += (double)x->f32[i * x->dim[1] + k] * w->f32[k * w->dim[1] + j];
        for (int64_t j = 0; j < w->dim[1]; j++)
            y->f32[i * w->dim[1] + j] = factor * (float)sum[j];
    }
    return QG_OK;
}

static const char *const SCALED = "graph \"g\" {\n"
                                  "  ir 8\n"
                                  "  opset 17\n"
                                  "  opset \"com.example\" 2\n"
                                  "  x = input f32[2,4]\n"
                                  "  w = const f32[4,3] ramp(-1, 1)\n"
                                  "  y = \"com.example::Scaled\" s(x, w) %s\n"
                                  "  output y\n"
                                  "}\n";
static const char COMPUTES[] = "name: computes\n"
                               "extends: trt-int8\n"
                               "+quantizes: [Scaled]\n"
                               "rules:\n"
                               "  - id: weights\n"
                               "    match: {trait: compute, slot: weight}\n"
                               "    set: {policy: [per-channel, linear, symmetric]}\n"
                               "    why: a test\n"
                               "    source: a test\n";

static void add_scaled(host *h)
{
    qg_operator o;
    qg_operator_init(&o, sizeof o);
    o.name = "Scaled";
    o.domain = "com.example";
    o.since = 2;
    o.min_in = o.max_in = 2;
    o.in_roles = "dw";
    o.traits = "compute, pure";
    o.weight_axis = 1;
    o.infer = scaled_infer;
    o.run = scaled_run;
    assert_ok(h->ctx, qg_add_operator(h->ctx, &o));
    assert_ok(h->ctx, qg_add_config(h->ctx, "backends/computes.yaml", COMPUTES,
                                    sizeof COMPUTES - 1));
}

static void weights_are_rounded_by_role_and_axis(void **state)
{
    host *h = *state;
    char text[512];
    add_scaled(h);
    (void)snprintf(text, sizeof text, SCALED, "factor=2.0");
    qg_model *m = host_quantize(h, host_model(h, "s.onnx", text), "computes", NULL, 2);
    const qg_tqc *w = qg_tqc_named(m->graph, "s.in1");
    assert_non_null(w);
    assert_int_equal(w->state, QG_TQC_BAKED);
    assert_int_equal(w->scheme.axis, 1);
    assert_int_equal(w->nparam, 3);
    assert_int_equal(state_of(m, "s.in0"), QG_TQC_ACTIVATED);
    assert_int_equal(state_of(m, "s.out0"), QG_TQC_ACTIVATED);
    qg_model_close(m);
}

static void faults_of_a_call_name_the_node(void **state)
{
    host *h = *state;
    char text[512];
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work.data = "random:1";
    add_scaled(h);
    (void)snprintf(text, sizeof text, SCALED, "factor=[1.0, 2.0]");
    qg_model *m = host_open(h, host_model(h, "s.onnx", text));
    assert_fails(h->ctx, qg_model_run(m, &o, NULL, NULL), QG_EMODEL, "node 's'");
    qg_model_close(m);
    const char *path = host_model(
        h, "rank.onnx",
        "graph \"g\" {\n  opset 17\n  opset \"com.example\" 2\n  x = input f32[4]\n"
        "  w = const f32[4,3] ramp(-1, 1)\n  y = \"com.example::Scaled\" s(x, w)\n"
        "  output y\n}\n");
    assert_fails(h->ctx, qg_model_open(h->ctx, path, NULL, &m), QG_EMODEL,
                 "node 's' (Scaled): expected two matrices");
}

/* Types that no engine could work with, and failures without a message. */
static qg_status no_type(void *ud, const qg_call *c)
{
    (void)c;
    return ud ? QG_EDATA : QG_OK;
}

static void functions_that_break_the_contract_are_named(void **state)
{
    host *h = *state;
    int silent;
    static const char text[] = "graph \"g\" {\n  opset 17\n  opset \"com.example\" 1\n"
                               "  x = input f32[4]\n  y = \"com.example::%s\" n(x)\n"
                               "  output y\n}\n";
    char model[256];
    qg_model *m;
    qg_operator o = hard_tanh_operator();
    o.infer = no_type;
    assert_ok(h->ctx, qg_add_operator(h->ctx, &o));
    o.name = "Silent";
    o.ud = &silent;
    assert_ok(h->ctx, qg_add_operator(h->ctx, &o));
    (void)snprintf(model, sizeof model, text, "HardTanh");
    assert_fails(h->ctx,
                 qg_model_open(h->ctx, host_model(h, "m.onnx", model), NULL, &m),
                 QG_EMODEL, "set no valid type and dims of output 0");
    (void)snprintf(model, sizeof model, text, "Silent");
    assert_fails(h->ctx,
                 qg_model_open(h->ctx, host_model(h, "m.onnx", model), NULL, &m),
                 QG_EDATA, "node 'n' (Silent): operator Silent: the host's function");
}

static qg_status open_infer(void *ud, const qg_call *c)
{
    (void)ud;
    qg_tensor_init(qg_call_output(c, 0), QG_F32, 2, (const int64_t[]){ -1, -1 });
    return QG_OK;
}

static qg_status other_infer(void *ud, const qg_call *c)
{
    (void)ud;
    qg_tensor_init(qg_call_output(c, 0), QG_F32, 1, (const int64_t[]){ 7 });
    return QG_OK;
}

static qg_status count_run(void *ud, const qg_call *c)
{
    qg_tensor *y = qg_call_output(c, 0);
    for (int64_t i = 0; i < qg_tensor_count(y); i++)
        y->f32[i] = 5;
    ++*(int *)ud;
    return QG_OK;
}

/* A kernel takes over a clamp only where the output has the type of the input. */
static void a_clamp_with_an_output_of_its_own_is_not_absorbed(void **state)
{
    host *h = *state;
    qg_status (*const infer[])(void *, const qg_call *) = { other_infer, open_infer };
    const char *const domain[] = { "com.example", "com.open" };
    int runs = 0;
    for (int i = 0; i < 2; i++) {
        float x[3 * 8 * 8] = { 0 };
        char text[512];
        qg_session *s;
        qg_model *m;
        qg_tensor in, out = { 0 };
        qg_operator o = hard_tanh_operator();
        o.domain = domain[i];
        o.clamp_low = -1;
        o.clamp_high = 1;
        o.infer = infer[i];
        o.run = count_run;
        o.ud = &runs;
        assert_ok(h->ctx, qg_add_operator(h->ctx, &o));
        (void)snprintf(text, sizeof text,
                       CONV "  y = \"%s::HardTanh\" act(c)\n  output y\n}\n",
                       domain[i]);
        assert_ok(h->ctx, qg_model_open_text(h->ctx, text, strlen(text), &m));
        assert_ok(h->ctx, qg_session_new(m, NULL, &s));
        qg_tensor_init(&in, QG_F32, 4, (const int64_t[]){ 1, 3, 8, 8 });
        in.f32 = x;
        qg_status status = qg_session_run(s, &in, 1, &out, 1);
        if (i == 0) {
            assert_int_equal(status, QG_OK);
            assert_int_equal(runs, 1);
            assert_int_equal(qg_tensor_count(&out), 7);
        } else {
            assert_int_equal(status, QG_EMODEL);
            assert_non_null(strstr(qg_session_message(s), "still unknown"));
        }
        qg_session_free(s);
        qg_model_close(m);
    }
}

static void what_is_no_operator_is_refused(void **state)
{
    host *h = *state;
    qg_operator o = hard_tanh_operator(), good = o;
#define REFUSE(change, text)                                                           \
    do {                                                                               \
        o = good;                                                                      \
        change;                                                                        \
        assert_fails(h->ctx, qg_add_operator(h->ctx, &o), QG_ECONFIG, text);           \
    } while (0)
    REFUSE(o.name = NULL, "name ''");
    REFUSE(o.name = "Hard Tanh", "name 'Hard Tanh'");
    REFUSE(o.traits = "activaton", "trait 'activaton': unknown");
    REFUSE(o.traits = "control", "not available to operators of a host");
    REFUSE(o.in_roles = "dx", "in_roles");
    REFUSE(o.since = 0, "since");
    REFUSE(o.max_in = 0, "counts of slots");
    REFUSE(o.in_place = 2, "in_place");
    REFUSE(o.weight_axis = 0, "weight_axis");
    REFUSE(o.run = NULL, "infer or run is NULL");
    REFUSE((o.traits = "pure", o.clamp_high = 1), "clamp_low");
    REFUSE((o.name = "Conv", o.domain = NULL), "'Conv': the name is in use");
    REFUSE(o.size = 0, "qg_operator: size 0");
    struct {
        qg_operator o;
        void *later;
    } newer = { good, NULL };
    newer.o.size = sizeof newer;
    newer.later = &o;
    assert_fails(h->ctx, qg_add_operator(h->ctx, &newer.o), QG_ECONFIG,
                 "qg_operator: a field after byte");
    newer.later = NULL;
    assert_ok(h->ctx, qg_add_operator(h->ctx, &newer.o));
    REFUSE((void)0, "'HardTanh': the name is in use");
    o.since = 2; /* another meaning from opset 2 on */
    assert_ok(h->ctx, qg_add_operator(h->ctx, &o));
}

/* Workers have contexts that were forked from this one. */
static void forks_see_it(void **state)
{
    host *h = *state;
    add_hard_tanh(h, 1);
    qg_ctx *fork = qg_ctx_fork(h->ctx);
    assert_non_null(fork);
    const qg_op *op = qg_op_find(fork->registry, "com.example", "HardTanh", 1);
    assert_non_null(op);
    assert_ptr_equal(op, qg_op_find(h->ctx->registry, "com.example", "HardTanh", 7));
    qg_ctx_free(fork);
}

QG_TEST_MAIN(WITH_HOST(computes_what_the_built_in_one_does),
             WITH_HOST(fuses_by_trait_and_simulates_as_the_built_in_one),
             WITH_HOST(is_exported_with_its_domain),
             WITH_HOST(snapshots_run_where_it_is_registered),
             WITH_HOST(weights_are_rounded_by_role_and_axis),
             WITH_HOST(faults_of_a_call_name_the_node),
             WITH_HOST(functions_that_break_the_contract_are_named),
             WITH_HOST(a_clamp_with_an_output_of_its_own_is_not_absorbed),
             WITH_HOST(what_is_no_operator_is_refused), WITH_HOST(forks_see_it))
