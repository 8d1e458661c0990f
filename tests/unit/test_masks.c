/* What sessions warn of: values that hold a mask beside ordinary numbers, endpoints
 * without elements or with a range that is too small, biases beyond their codes. */
#include "tests/support/test.h"

#include "engine/calib/exponents.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "engine/report/report.h"
#include "engine/session/session.h"
#include "ops/families.h"
#include "tests/support/endpoints.h"
#include "tests/support/records.h"

typedef struct fixture {
    qg_ctx *ctx;
    qg_graph *g;
    qg_quant *q;
    qg_exponents *seen;
    char log[512];
} fixture;

static void write_log(void *ud, enum qg_log_level level, const char *text)
{
    fixture *f = ud;
    assert_int_equal(level, QG_LOG_WARNING);
    (void)snprintf(f->log, sizeof f->log, "%s", text);
}

static void open_graph(fixture *f, const char *body, const char *records)
{
    *f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    const char *text = qg_arena_printf(f->ctx->arena, "graph { opset 17; %s }", body);
    const qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    f->ctx->registry = &qg_ops_registry;
    assert_ok(f->ctx, qg_text_parse(f->ctx, &source, &f->g));
    assert_ok(f->ctx, qg_graph_normalize(f->g));
    assert_ok(f->ctx, qg_infer(f->g, NULL, 0));
    assert_ok(f->ctx, qg_quant_new(f->g, NULL, &f->q));
    add_records(f->ctx, f->q, records);
    f->seen = QG_NEWN(f->ctx->arena, f->g->value.n, qg_exponents);
}

static void close_graph(fixture *f)
{
    qg_graph_free(f->g);
    qg_ctx_free(f->ctx);
}

/* Value `name` has these two numbers. */
static void see(fixture *f, const char *name, float a, float b)
{
    float number[] = { a, b };
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, 1, (int64_t[]){ 2 });
    t.f32 = number;
    qg_exponents_add(&f->seen[qg_graph_value(f->g, name)->id], &t);
}

/* Value a with two numbers, and what reads it. */
static const struct {
    const char *body;
    float first, second;
    bool holds;
} mask[] = {
#define SOFT  "x = input f32[2]; a = Relu(x); y = Softmax(a); output y"
#define PLAIN "x = input f32[2]; a = Relu(x); y = Relu(a); output y"
#define MOVED "x = input f32[2]; a = Neg(x); y = Relu(a); z = Softmax(y); output z"
#define SUM   "x = input f32[2]; a = Neg(x); y = Add(a, x); z = Softmax(y); output z"
    {PLAIN,  -8192, 64,    true }, /* sure: from -8192 on, 64 times any other */
    { PLAIN, -8192, 128,   false},
    { PLAIN, -4096, 1,     false},
    { PLAIN, -8192, -8192, false}, /* nothing else is there */
    { SOFT,  -4096, 1,     true }, /* before a Softmax less will do */
    { SOFT,  -512,  64,    true },
    { SOFT,  -256,  1,     false},
    { SOFT,  -8192, 0,     false}, /* 0 is no number */
    { PLAIN, 8192,  1,     false},
    { SOFT,  8192,  1,     false}, /* a positive one is none just there */
    { SOFT,  4096,  1,     false},
    { MOVED, 8192,  1,     true },
    { SUM,   8192,  1,     true },
    { SUM,   -8192, 1,     true },
};

static void masks_are_large_and_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mask / sizeof *mask; i++) {
        fixture f;
        qg_strange found = { 0 };
        open_graph(&f, mask[i].body, "");
        see(&f, "a", mask[i].first, mask[i].second);
        assert_ok(f.ctx, qg_masks_describe(f.g, f.seen, false, f.ctx->arena, &found));
        if ((found.masks != NULL) != mask[i].holds)
            fail_msg("%g %g in %s", (double)mask[i].first, (double)mask[i].second,
                     mask[i].body);
        close_graph(&f);
    }
}

/* A mask in a = -x from -8192 on; quantizers at a, at its reader, or at an operand of
 * its node that is wide enough and holds no mask itself. */
static const struct {
    const char *records;
    bool spoils;
} grid[] = {
    {"",            false},
    { "a.o0=s1/0",  true },
    { "y.i0=s1/0",  true },
    { "a.i0=u33/0", true },
    { "a.i0=u32/0", false}, /* 8160 */
    { "y.o0=s99/0", false},
};

static void quantizers_spoil_masks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof grid / sizeof *grid; i++) {
        fixture f;
        qg_strange found = { 0 };
        open_graph(&f, "x = input f32[2]; a = Neg(x); y = Relu(a); output y",
                   grid[i].records);
        see(&f, "a", -8192, 1);
        assert_ok(f.ctx, qg_masks_describe(f.g, f.seen, true, f.ctx->arena, &found));
        if ((found.masks != NULL) != grid[i].spoils)
            fail_msg("%s", grid[i].records);
        close_graph(&f);
    }
}

/* Three are named; the policy has the producers and readers, by an id of these. */
static void masks_are_named_and_kept_in_float(void **state)
{
    (void)state;
    static const char *const name[] = { "a", "b", "c", "d" };
    static const char *const want[] = {
        "1 value holds a mask beside ordinary numbers, of which a grid keeps only the "
        "mask: a",
        "2 values hold a mask beside ordinary numbers, of which a grid keeps only the "
        "mask: a, b",
        "3 values hold a mask beside ordinary numbers, of which a grid keeps only the "
        "mask: a, b, c",
        "4 values hold a mask beside ordinary numbers, of which a grid keeps only the "
        "mask: a, b, c, ...",
    };
    static const char *const nodes[] = { "node: [\"a\", \"b\"]",
                                         "node: [\"a\", \"b\", \"c\"]",
                                         "node: [\"a\", \"b\", \"c\", \"d\"]",
                                         "node: [\"a\", \"b\", \"c\", \"d\", \"e\"]" };
    for (size_t n = 1; n <= 4; n++) {
        fixture f;
        qg_strange found = { 0 };
        open_graph(&f,
                   "x = input f32[2]; a = Neg(x); b = Neg(a); c = Neg(b); d = Neg(c)\n"
                   "e = Neg(d); g = Neg(e); output g",
                   "");
        f.ctx->log = (qg_log){ .write = write_log, .ud = &f };
        for (size_t k = 0; k < n; k++)
            see(&f, name[k], -8192, 1);
        assert_ok(f.ctx, qg_masks_policy(f.g, f.ctx->arena, &found));
        assert_null(found.policy); /* nothing is marked yet */
        assert_ok(f.ctx, qg_masks_describe(f.g, f.seen, false, f.ctx->arena, &found));
        assert_string_equal(found.masks, want[n - 1]);
        assert_ok(f.ctx, qg_masks_policy(f.g, f.ctx->arena, &found));
        if (!strstr(found.policy, nodes[n - 1]))
            fail_msg("%s lacks %s", found.policy, nodes[n - 1]);
        assert_non_null(strstr(found.policy, "set: {platform: fp32}"));
        qg_warn_strange(f.ctx, &found);
        assert_non_null(strstr(f.log, want[n - 1]));
        assert_non_null(strstr(f.log, found.policy));
        close_graph(&f);
    }
}

/* --- endpoints in sentences --- */

/* Three names at most, and forms of one and of several. */
static void endpoints_are_named(void **state)
{
    (void)state;
    static const char *const names[] = { "n.in0", "n.in0, n.in1", "n.in0, n.in1, n.in2",
                                         "n.in0, n.in1, n.in2, ..." };
    bench b;
    fixture f = { 0 };
    qg_strange found = { 0 };
    bench_open(&b, 4, 0);
    b.ctx->log = (qg_log){ .write = write_log, .ud = &f };
    const qg_tqc *const *t = (const qg_tqc *const *)b.t;
    assert_ok(b.ctx, qg_warn_empty(b.ctx, b.ctx->arena, t, 0));
    assert_ok(b.ctx, qg_warn_small(b.ctx, b.ctx->arena, t, 0));
    assert_ok(b.ctx, qg_masks_infinite(&b.graph, t, 0, b.ctx->arena, &found));
    assert_string_equal(f.log, "");
    assert_null(found.infinite);
    for (size_t n = 1; n <= 4; n++) {
        qg_arena *a = b.ctx->arena;
        const char *list = names[n - 1];
        assert_ok(b.ctx, qg_warn_empty(b.ctx, a, t, n));
        assert_string_equal(
            f.log,
            qg_arena_printf(a,
                            "%zu %s no element in any sample, so nothing gives a "
                            "scale, and %s in float: %s",
                            n, n == 1 ? "endpoint has" : "endpoints have",
                            n == 1 ? "stays" : "stay", list));
        assert_ok(b.ctx, qg_warn_small(b.ctx, a, t, n));
        assert_string_equal(
            f.log, qg_arena_printf(
                       a,
                       "%zu %s smaller than the least scale (min-scale) "
                       "resolves, and %s few codes or only zero: %s",
                       n, n == 1 ? "endpoint has a range" : "endpoints have ranges",
                       n == 1 ? "uses" : "use", list));
        assert_ok(b.ctx, qg_masks_infinite(&b.graph, t, n, a, &found));
        assert_string_equal(
            found.infinite,
            qg_arena_printf(a,
                            "%zu %s a mask of -inf, which no scale reaches, and %s in "
                            "float without a policy: %s",
                            n, n == 1 ? "endpoint holds" : "endpoints hold",
                            n == 1 ? "stays" : "stay", list));
    }
    bench_close(&b);
}

/* A bias of 8 bits in steps of 0.5 x 0.5 may reach 128 and -129 steps. */
static void biases_beyond_their_codes(void **state)
{
    (void)state;
    static const struct {
        const char *bias;
        bool warns;
    } row[] = {
        {"[0.0, 32.0]",    false},
        { "[0.0, 32.25]",  true },
        { "[-32.25, 0.0]", false},
        { "[-32.5, 0.0]",  true },
        { "[1.0, -1.0]",   false},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        fixture f;
        qg_tqc *t;
        const qg_scheme scheme = scheme_of('s');
        const char *body = "x = input f32[1,2]; w = const f32[2,2] fill(1.0); "
                           "b = const f32[2] ";
        char text[160];
        (void)snprintf(text, sizeof text, "%s%s; y = Gemm(x, w, b); output y", body,
                       row[i].bias);
        open_graph(&f, text, "y.i0=u0.5/0 y.i1=s0.5/0");
        qg_node *n = qg_graph_node(f.g, "y");
        f.q->author = "test";
        assert_ok(f.ctx, qg_quant_add(f.q, n, false, 2, &scheme, &t));
        assert_ok(f.ctx, qg_tqc_derive(f.q, t, QG_DERIVE_BIAS, n->tin[0], n->tin[1]));
        f.ctx->log = (qg_log){ .write = write_log, .ud = &f };
        assert_ok(f.ctx, qg_warn_saturated(f.q, f.ctx->arena));
        assert_string_equal(f.log, ""); /* not baked */
        assert_ok(f.ctx, qg_tqc_set_state(f.q, t, QG_TQC_PASSIVE_BAKED));
        assert_ok(f.ctx, qg_warn_saturated(f.q, f.ctx->arena));
        assert_string_equal(
            f.log, row[i].warns
                       ? "quantize: 1 bias has values beyond the codes of the grid, "
                         "which saturate, since the scale is that of input times "
                         "weight: y.in2, with 8 bits"
                       : "");
        close_graph(&f);
    }
}

QG_TEST_MAIN(cmocka_unit_test(masks_are_large_and_apart),
             cmocka_unit_test(quantizers_spoil_masks),
             cmocka_unit_test(masks_are_named_and_kept_in_float),
             cmocka_unit_test(endpoints_are_named),
             cmocka_unit_test(biases_beyond_their_codes))
