/* The table of formats: what an endpoint uses, what is lost, words of options, and that
 * nothing half-written stays. */
#include "tests/support/faulty.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/formats/formats.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"

static const char network[] = "graph \"g\" {\n"
                              "  opset 11\n"
                              "  x = input f32[1,4,6,6]\n"
                              "  w = const f32[3,4,3,3] seed(1)\n"
                              "  b = const f32[3] seed(2)\n"
                              "  c = Conv c (x, w, b)\n"
                              "  y = Softmax y (c) axis=1\n"
                              "  output y, c\n"
                              "}\n";

static const qg_backend backend = { .name = "test-int8" };
static const qg_scheme int8 = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                                .rounding = QG_ROUND_HALF_EVEN,
                                .bits = 8,
                                .axis = -1,
                                .qmin = -128,
                                .qmax = 127 };

typedef struct records {
    qg_graph *g;
    qg_quant *q;
    qg_tqc *in, *weight, *bias, *out,
        *last; /* of c.in0, c.in1, c.in2, c.out0, y.out0 */
} records;

static qg_status add(records *r, qg_node *n, bool is_output, uint32_t slot,
                     const qg_scheme *s, qg_tqc **t)
{
    const float weight[] = { 0.05f, 0.02f, 0.01f };
    const float bias[] = { 0.05f * 0.05f, 0.05f * 0.02f, 0.05f * 0.01f };
    const float *scale = s->bits == 32 ? bias : weight;
    QG_TRY(qg_quant_add(r->q, n, is_output, slot, s, t));
    QG_TRY(qg_tqc_set_param(r->q, *t, s->policy & QG_PER_CHANNEL ? 3 : 1, scale, NULL));
    QG_TRY(qg_tqc_set_state(r->q, *t, QG_TQC_ACTIVATED));
    return qg_tqc_is_constant(*t) ? qg_tqc_set_state(r->q, *t, QG_TQC_BAKED) : QG_OK;
}

static qg_status fill(records *r)
{
    qg_scheme channel = int8, bias = int8;
    channel.policy = QG_PER_CHANNEL | QG_LINEAR | QG_SYMMETRIC;
    channel.axis = 0;
    bias.policy = channel.policy;
    bias.axis = 0;
    bias.bits = 32;
    bias.qmin = INT32_MIN;
    bias.qmax = INT32_MAX;
    QG_TRY(qg_graph_normalize(r->g));
    QG_TRY(qg_infer(r->g, NULL, 0));
    QG_TRY(qg_quant_new(r->g, &backend, &r->q));
    qg_node *c = qg_graph_node(r->g, "c"), *y = qg_graph_node(r->g, "y");
    c->platform = y->platform = QG_PLATFORM_QUANTIZED;
    QG_TRY(add(r, c, false, 0, &int8, &r->in));
    QG_TRY(add(r, c, false, 1, &channel, &r->weight));
    QG_TRY(add(r, c, false, 2, &bias, &r->bias));
    QG_TRY(add(r, c, true, 0, &int8, &r->out));
    return add(r, y, true, 0, &int8, &r->last);
}

static qg_status make(qg_ctx *ctx, records *r)
{
    qg_text_source text = { NULL, network, sizeof network - 1, NULL };
    *r = (records){ 0 };
    ctx->registry = &qg_ops_registry;
    QG_TRY(qg_text_parse(ctx, &text, &r->g));
    qg_status s = fill(r);
    if (s != QG_OK)
        qg_graph_free(r->g);
    return s;
}

static const qg_snapshot_info no_info;

static qg_status export(qg_ctx *ctx, records *r, const char *path, bool strict,
                        size_t *lost)
{
    qg_export e = { .ctx = ctx, .quant = r->q, .info = &no_info, .path = path };
    QG_TRY(qg_export_begin(&e, "onnx-qdq", NULL));
    qg_status s = qg_export_run(&e, strict);
    if (s == QG_OK)
        assert_string_equal(e.file.at[0], path);
    *lost = e.loss.n;
    for (size_t i = 1; i < e.loss.n; i++)
        assert_cmp_int(e.loss.at[i - 1].tqc->id, <=, e.loss.at[i].tqc->id);
    qg_export_end(&e);
    qg_export_end(&e);
    return s;
}

/* What is asked of an endpoint goes by its state, then by its scheme. */
static void aspects(void **state)
{
    records r;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    (void)state;
    assert_ok(ctx, make(ctx, &r));
    assert_int_equal(qg_tqc_aspects(r.in, QG_ROUND_HALF_EVEN), 0);
    assert_int_equal(qg_tqc_aspects(r.weight, QG_ROUND_HALF_EVEN), QG_SAYS_PER_CHANNEL);
    qg_scheme s = int8;
    s.bits = 6;
    s.qmin = -31;
    s.qmax = 31;
    s.rounding = QG_ROUND_HALF_UP;
    s.policy |= QG_POWER_OF_2;
    assert_ok(ctx, qg_tqc_set_scheme(r.q, r.in, &s));
    assert_int_equal(qg_tqc_aspects(r.in, QG_ROUND_HALF_EVEN),
                     QG_SAYS_BITS | QG_SAYS_RANGE | QG_SAYS_ROUNDING |
                         QG_SAYS_POWER_OF_2);
    s = int8;
    s.policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC;
    assert_ok(ctx, qg_tqc_set_scheme(r.q, r.out, &s));
    assert_int_equal(qg_tqc_aspects(r.out, QG_ROUND_HALF_EVEN), 0);
    assert_ok(ctx, qg_tqc_set_param(r.q, r.out, 1, &(float){ 1 }, &(int32_t){ 3 }));
    assert_int_equal(qg_tqc_aspects(r.out, QG_ROUND_HALF_EVEN), QG_SAYS_OFFSET);
    assert_ok(ctx, qg_tqc_lend(r.q, r.last, r.out));
    assert_int_equal(qg_tqc_aspects(r.last, QG_ROUND_HALF_EVEN),
                     QG_SAYS_SHARING | QG_SAYS_OFFSET);
    assert_ok(ctx, qg_tqc_switch_off(r.q, r.last, false));
    assert_int_equal(qg_tqc_aspects(r.last, QG_ROUND_HALF_EVEN), QG_SAYS_STATE);
    assert_ok(ctx, qg_tqc_switch_on(r.q, r.last));
    assert_ok(ctx, qg_tqc_join(r.q, r.last, r.in));
    assert_int_equal(qg_tqc_aspects(r.last, QG_ROUND_HALF_EVEN), QG_SAYS_SILENT);
    assert_string_equal(qg_aspect_word(QG_SAYS_POWER_OF_2), "power-of-2");
    qg_graph_free(r.g);
    qg_ctx_free(ctx);
}

static void words(void **state)
{
    records r;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const char *option[QG_N_FORMAT_OPTION] = { NULL };
    (void)state;
    assert_ok(ctx, make(ctx, &r));
    qg_export e = { .ctx = ctx, .quant = r.q, .info = &no_info, .path = "/tmp/x" };
    assert_fails(
        ctx, qg_export_begin(&e, "onnx-qqd", NULL), QG_ECONFIG,
        "format 'onnx-qqd': no such format, expected one of `qg list formats`, "
        "did you mean 'onnx-qdq'");
    option[QG_FORMAT_WEIGHTS] = "flaot";
    assert_fails(ctx, qg_export_begin(&e, "onnx-qdq", option), QG_ECONFIG,
                 "format 'onnx-qdq': weights 'flaot', expected int or float, did you "
                 "mean 'float'");
    assert_ok(ctx, qg_export_begin(&e, "onnx-qdq", NULL));
    assert_string_equal(e.option[QG_FORMAT_WEIGHTS], "int");
    assert_string_equal(e.option[QG_FORMAT_PLACEMENT], "ort");
    qg_export_end(&e);
    qg_graph_free(r.g);
    qg_ctx_free(ctx);
}

/* A loss is a row, an error with --strict, and then there is no file. */
static void strict(void **state)
{
    records r;
    size_t lost;
    char path[] = "/tmp/qg_format_XXXXXX";
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    (void)state;
    assert_non_null(mkdtemp(path));
    const char *file = qg_path_join(ctx->arena, path, "q.onnx");
    assert_ok(ctx, make(ctx, &r));
    assert_ok(ctx, export(ctx, &r, file, true, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(unlink(file), 0);
    float *first = (float *)qg_tqc_param(r.bias).scale, said = *first;
    *first = 1; /* of its own: kernels would read it as input x weight */
    assert_fails(
        ctx, export(ctx, &r, file, true, &lost), QG_EUNSUPPORTED,
        "export: c.in2: format 'onnx-qdq' cannot represent endpoint: written as "
        "float values on its grid: the scale of an int32 bias is read as input "
        "x weight, expected no loss with --strict");
    *first = said;
    assert_ok(ctx, qg_tqc_switch_off(r.q, r.out, false));
    assert_fails(
        ctx, export(ctx, &r, file, true, &lost), QG_EUNSUPPORTED,
        "export: c.out0: format 'onnx-qdq' cannot represent state: a disabled or "
        "uncalibrated quantizer, expected no loss with --strict");
    assert_int_equal(access(file, F_OK), -1);
    assert_ok(ctx, export(ctx, &r, file, false, &lost));
    assert_int_equal(lost, 1);
    assert_int_equal(unlink(file), 0);
    assert_fails(ctx, export(ctx, &r, "/tmp/qg_no_such/x", false, &lost), QG_EIO, "");
    assert_int_equal(rmdir(path), 0); /* nothing else was left */
    qg_graph_free(r.g);
    qg_ctx_free(ctx);
}

static qg_status whole_export(qg_alloc alloc, void *ud)
{
    records r;
    size_t lost;
    qg_ctx *ctx = qg_ctx_new(alloc);
    if (!ctx)
        return QG_ENOMEM;
    qg_status s = make(ctx, &r);
    if (s == QG_OK) {
        s = export(ctx, &r, ud, false, &lost);
        qg_graph_free(r.g);
    }
    qg_ctx_free(ctx);
    return s;
}

/* The opset of the network is old: copying, upgrading and writing are all there. */
static void out_of_memory(void **state)
{
    char path[] = "/tmp/qg_format_memory.onnx";
    (void)state;
    every_request_may_fail(whole_export, path, 20);
    unlink(path);
}

QG_TEST_MAIN(cmocka_unit_test(aspects), cmocka_unit_test(words),
             cmocka_unit_test(strict), cmocka_unit_test(out_of_memory))
