/* Factors and shifts per channel that move into weights and biases. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/ir/affine.h"

enum { CHANNELS = 3 };
static double factor[CHANNELS], offset[CHANNELS];
static qg_status answer = QG_OK;

/* An operator that answers with what the test has set. */
static qg_status affine(qg_ctx *ctx, const qg_node *node, size_t n, double *scale,
                        double *shift)
{
    assert_int_equal(n, CHANNELS);
    for (size_t c = 0; c < n; c++) {
        assert_cmp_f64(scale[c], ==, 1); /* x itself, as long as nothing is written */
        assert_cmp_f64(shift[c], ==, 0);
    }
    memcpy(scale, factor, sizeof factor);
    memcpy(shift, offset, sizeof offset);
    return answer == QG_OK ? QG_OK
                           : qg_node_fail(ctx, answer, "affine", node, "not affine");
}

static const qg_op op = { .name = "Map", .affine = affine };
static const qg_node node = { .name = "m", .op = &op };

static void set(double a, double b, double c, double x, double y, double z)
{
    memcpy(factor, (double[]){ a, b, c }, sizeof factor);
    memcpy(offset, (double[]){ x, y, z }, sizeof offset);
}

static void maps_follow_each_other(void **state)
{
    qg_ctx *ctx = *state;
    qg_affine f;
    assert_ok(ctx, qg_affine_identity(ctx, ctx->arena, CHANNELS, &f));
    assert_int_equal(f.channels, CHANNELS);
    assert_false(f.scales);
    set(1, 1, 1, 0.5, 0, -2);
    assert_ok(ctx, qg_affine_then(ctx, ctx->arena, &node, &f));
    assert_false(f.scales); /* shifts alone */
    set(2, 1, -3, 1, 4, 8);
    assert_ok(ctx, qg_affine_then(ctx, ctx->arena, &node, &f));
    assert_true(f.scales);
    assert_memory_equal(f.scale, ((double[]){ 2, 1, -3 }), sizeof factor);
    assert_memory_equal(f.shift, ((double[]){ 2, 4, 14 }), sizeof factor);
    set(1, 1, 1, 0, 0, 0);
    assert_ok(ctx, qg_affine_then(ctx, ctx->arena, &node, &f));
    assert_true(f.scales); /* it did before */
    set(5, 0.5, 1, 0, 0, 1);
    assert_ok(ctx, qg_affine_then(ctx, ctx->arena, &node, &f));
    assert_memory_equal(f.scale, ((double[]){ 10, 0.5, -3 }), sizeof factor);
    assert_memory_equal(f.shift, ((double[]){ 10, 2, 15 }), sizeof factor);
}

/* One factor of the last or first channel is enough. */
static void any_factor_scales(void **state)
{
    qg_ctx *ctx = *state;
    for (int c = 0; c < CHANNELS; c++) {
        qg_affine f;
        assert_ok(ctx, qg_affine_identity(ctx, ctx->arena, CHANNELS, &f));
        set(1, 1, 1, 0, 0, 0);
        factor[c] = 2;
        assert_ok(ctx, qg_affine_then(ctx, ctx->arena, &node, &f));
        assert_true(f.scales);
    }
}

static void numbers_must_be_finite(void **state)
{
    qg_ctx *ctx = *state;
    qg_affine f;
    assert_ok(ctx, qg_affine_identity(ctx, ctx->arena, CHANNELS, &f));
    set(2, INFINITY, 1, 0, 0, 0);
    assert_fails(ctx, qg_affine_then(ctx, ctx->arena, &node, &f), QG_EUNSUPPORTED,
                 "affine: node 'm' (Map): factor or shift of channel 1 is not finite, "
                 "expected numbers");
    set(2, 2, 2, 0, 0, NAN);
    assert_fails(ctx, qg_affine_then(ctx, ctx->arena, &node, &f), QG_EUNSUPPORTED,
                 "channel 2 is not finite");
    answer = QG_EMODEL;
    assert_fails(ctx, qg_affine_then(ctx, ctx->arena, &node, &f), QG_EMODEL,
                 "not affine");
    answer = QG_OK;
    for (int c = 0; c < CHANNELS; c++) { /* as it was */
        assert_cmp_f64(f.scale[c], ==, 1);
        assert_cmp_f64(f.shift[c], ==, 0);
    }
    assert_false(f.scales);
}

static void weights_are_scaled_along_an_axis(void **state)
{
    qg_ctx *ctx = *state;
    float data[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    static const float rows[] = { 2, 4, 6, 8, 2.5f, 3, 3.5f, 4, -9, -10, -11, -12 };
    static const float columns[] = { 2, 1, -3, 8, 2.5f, -6, 14, 4, -9, 20, 5.5f, -12 };
    qg_affine f = {
        CHANNELS, (double[]){2,  0.5, -1},
         (double[]){ 0, 0,   0 },
         true
    };
    qg_tensor w, *out;
    qg_tensor_init(&w, QG_F32, 2, (int64_t[]){ 3, 4 });
    w.f32 = data;
    assert_true(qg_affine_fits(&f, &w, 0));
    assert_false(qg_affine_fits(&f, &w, 1));
    assert_false(qg_affine_fits(&f, &w, 2)); /* it has no such axis */
    assert_false(qg_affine_fits(&f, &w, -1));
    assert_ok(ctx, qg_affine_weight(ctx, ctx->arena, &f, &w, 0, &out));
    assert_memory_equal(out->f32, rows, sizeof rows);
    assert_cmp_f64(data[0], ==, 1);
    qg_tensor_init(&w, QG_F32, 2, (int64_t[]){ 4, 3 });
    w.f32 = data;
    assert_true(qg_affine_fits(&f, &w, 1));
    assert_ok(ctx, qg_affine_weight(ctx, ctx->arena, &f, &w, 1, &out));
    assert_memory_equal(out->f32, columns, sizeof columns);
    f.scales = false;
    assert_true(qg_affine_fits(&f, &w, -1)); /* nothing to scale */
    assert_true(qg_affine_fits(&f, &w, 0));
    qg_tensor_init(&w, QG_F32, 2, (int64_t[]){ 0, 3 });
    w.f32 = data;
    assert_ok(ctx, qg_affine_weight(ctx, ctx->arena, &f, &w, 1, &out));
    assert_int_equal(qg_tensor_count(out), 0);
}

static void biases_are_scaled_and_shifted(void **state)
{
    static const struct {
        int64_t n; /* -1: none */
        float beta, want[CHANNELS];
    } row[] = {
        {3,   1, { 3, 4.5f, -1 }    }, /* 1 2 3 times 2 .5 -1, plus 1 3.5 2 */
        { 1,  1, { 3, 4, 1 }        }, /* 1 for all */
        { -1, 1, { 1, 3.5f, 2 }     },
        { 3,  2, { 2.5f, 2.75f, -2 }}
    }; /* half of the shift */
    qg_ctx *ctx = *state;
    qg_affine f = {
        CHANNELS, (double[]){2,  0.5, -1},
         (double[]){ 1, 3.5, 2 },
         true
    };
    float data[] = { 1, 2, 3 };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_tensor b, *out;
        qg_tensor_init(&b, QG_F32, 1, (int64_t[]){ row[i].n < 0 ? 0 : row[i].n });
        b.f32 = data;
        assert_ok(ctx, qg_affine_bias(ctx, ctx->arena, &f, row[i].n < 0 ? NULL : &b,
                                      row[i].beta, &out));
        assert_int_equal(out->rank, 1);
        assert_int_equal(out->dim[0], CHANNELS);
        assert_memory_equal(out->f32, row[i].want, sizeof row[i].want);
    }
}

QG_TEST_MAIN(WITH_CTX(maps_follow_each_other), WITH_CTX(any_factor_scales),
             WITH_CTX(numbers_must_be_finite),
             WITH_CTX(weights_are_scaled_along_an_axis),
             WITH_CTX(biases_are_scaled_and_shifted))
