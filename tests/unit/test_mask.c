/* Masks of -inf: in which values they are no fault, and which numbers are one. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/calib/mask.h"
#include "engine/ir/text.h"
#include "ops/families.h"

/* A chain of four nodes before a Softmax, one of five, one through a product, and a
 * value that a product and a Softmax read. */
static const char text[] = "graph { x = input f32[4]\n"
                           "a1 = Relu(x)\na2 = Relu(a1)\na3 = Relu(a2)\na4 = Relu(a3)\n"
                           "a5 = Softmax(a4)\noutput a5\n"
                           "y = input f32[4]\nb1 = Relu(y)\n"
                           "b2 = Relu(b1)\nb3 = Relu(b2)\nb4 = Relu(b3)\n"
                           "b5 = Relu(b4)\nb6 = Softmax(b5)\noutput b6\n"
                           "z = input f32[4,4]\nc1 = MatMul(z, z)\n"
                           "c2 = Softmax(c1)\noutput c2\n"
                           "s = input f32[4,4]\nd1 = MatMul(s, s)\noutput d1\n"
                           "d2 = Softmax(s)\noutput d2\n"
                           "t = input f32[4]\ne1, e2 = Split(t) num_outputs=2\n"
                           "e3 = Softmax(e2)\noutput e3\noutput e1 }";

typedef struct fixture {
    qg_ctx *ctx;
    qg_graph *g;
} fixture;

static int open_fixture(void **state)
{
    static fixture f;
    qg_text_source source = { .name = "g", .text = text, .size = sizeof text - 1 };
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f.ctx->registry = &qg_ops_registry;
    assert_ok(f.ctx, qg_text_parse(f.ctx, &source, &f.g));
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    qg_graph_free(f->g);
    qg_ctx_free(f->ctx);
    return 0;
}

/* The Softmax may be the fifth node, not the sixth; a product ends the way to it. */
static void a_softmax_is_near(void **state)
{
    static const struct {
        const char *name;
        bool near;
    } row[] = {
        {"x",   true },
        { "a4", true },
        { "y",  false},
        { "b1", true },
        { "z",  false},
        { "c1", true },
        { "s",  true },
        { "d1", false},
        { "t",  true },
        { "e1", false},
        { "a5", false}
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const qg_value *v = qg_graph_value(f->g, row[i].name);
        if (qg_feeds_softmax(v) != row[i].near)
            fail_msg("%s: expected %d", row[i].name, row[i].near);
        assert_int_equal(qg_may_hold_mask(v), !v->is_input || row[i].near);
    }
}

/* An initializer that is listed as an input is no data of a sample. */
static void constants_may_hold_one(void **state)
{
    fixture *f = *state;
    qg_value *y = qg_graph_value(f->g, "y");
    qg_tensor t = { .dtype = QG_F32 };
    assert_false(qg_may_hold_mask(y));
    y->constant = &t;
    assert_true(qg_may_hold_mask(y));
    y->constant = NULL;
}

static void numbers_beside_a_mask_are_finite(void **state)
{
    static const struct {
        float x[3];
        bool mask;
    } row[] = {
        {{ -INFINITY, 1, 2 },         true },
        { { 0, 1, -INFINITY },        true },
        { { 0, -1, 2 },               false},
        { { -INFINITY, NAN, 0 },      false},
        { { -INFINITY, 0, INFINITY }, false},
        { { INFINITY, 0, 0 },         false},
        { { 1, 2, NAN },              false}
    };
    fixture *f = *state;
    const qg_value *inner = qg_graph_value(f->g, "b2");
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, 1, (int64_t[]){ 3 });
    assert_ok(f->ctx, qg_tensor_alloc(f->ctx, f->ctx->arena, &t));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        memcpy(t.data, row[i].x, sizeof row[i].x);
        if (qg_holds_mask(inner, &t) != row[i].mask)
            fail_msg("row %zu: expected %d", i, row[i].mask);
        assert_false(qg_holds_mask(qg_graph_value(f->g, "y"), &t));
    }
    double wide = -INFINITY;
    qg_tensor_init(&t, QG_F64, 1, (int64_t[]){ 1 });
    t.data = &wide;
    assert_false(qg_holds_mask(inner, &t)); /* only float32 is quantized */
}

/* The channels of a value together: one with -inf is enough, one fault too. */
static void statistics_tell_masks(void **state)
{
    static const struct {
        qg_stats_channel channel[2];
        bool mask;
    } row[] = {
        {{ { .infinities = 1 }, { .zeros = 1 } },                   true },
        { { { .zeros = 1 }, { .infinities = 2 } },                  true },
        { { { .zeros = 3 }, { .count = 1 } },                       false},
        { { { .infinities = 1 }, { .nans = 1 } },                   false},
        { { { .infinities = 1 }, { .infinities = 1, .above = 1 } }, false},
        { { { .infinities = 1, .above = 1 }, { .infinities = 1 } }, false}
    };
    fixture *f = *state;
    qg_stats *s;
    qg_stats_value *v;
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, 2, (int64_t[]){ 1, 2 });
    assert_ok(f->ctx, qg_stats_new(f->ctx, &s));
    assert_ok(f->ctx, qg_stats_add_value(s, "b2", &t, 1, 0, &v));
    assert_int_equal(v->channels, 2);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        memcpy(v->channel, row[i].channel, sizeof row[i].channel);
        if (qg_stats_hold_mask(qg_graph_value(f->g, "b2"), v) != row[i].mask)
            fail_msg("row %zu: expected %d", i, row[i].mask);
        assert_false(qg_stats_hold_mask(qg_graph_value(f->g, "y"), v));
    }
    qg_stats_free(s);
}

#define WITH_FIXTURE(test)                                                             \
    cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)

QG_TEST_MAIN(WITH_FIXTURE(a_softmax_is_near), WITH_FIXTURE(constants_may_hold_one),
             WITH_FIXTURE(numbers_beside_a_mask_are_finite),
             WITH_FIXTURE(statistics_tell_masks))
