/* qg_scheme_apply: parameters it finds, what it reports, what it refuses. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/quant/apply.h"

static float x[6] = { -1, 0.5f, 2, 10, -20, 30 }, y[6];
static float low[2], high[2], scale[2];
static int32_t offset[2];

static void tensors(qg_tensor *from, qg_tensor *to)
{
    qg_tensor_init(from, QG_F32, 2, (int64_t[]){ 2, 3 });
    *to = *from;
    from->f32 = x;
    to->f32 = y;
}

enum {
    WHOLE = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
    CHANNELS = QG_PER_CHANNEL | QG_LINEAR | QG_SYMMETRIC
};

static qg_apply int8(uint16_t policy, int16_t axis)
{
    return (qg_apply){
        .scheme = {.policy = policy,
                   .bits = 8,
                   .axis = axis,
                   .qmin = -128,
                   .qmax = 127 },
        .room = { low,               high,   scale, offset},
    };
}

static void finds_its_parameters(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_tensor from, to;
    qg_applied a;
    tensors(&from, &to);
    qg_apply how = int8(CHANNELS | QG_DYNAMIC, 0); /* dynamic gives the same */
    for (int round = 0; round < 2; round++) {
        assert_ok(ctx, qg_scheme_apply(ctx, &how, &from, &to, &a));
        assert_int_equal(a.param.n, 2);
        assert_cmp_f64(a.param.scale[0], ==, 4.0f / 255);
        assert_cmp_f64(a.param.scale[1], ==, 60.0f / 255);
        assert_int_equal(a.scheme.policy, CHANNELS);
        assert_int_equal(a.error.count, 6);
        assert_int_equal(a.saturated, 1); /* 30 is 127.5 steps: 128 */
        how.scheme.policy = CHANNELS;
    }
    assert_cmp_f64(qg_error_max(&a.error), <, 0.12);
    qg_ctx_free(ctx);
}

static void takes_given_parameters(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    float given = 0.1f;
    qg_tensor from, to;
    qg_applied a;
    tensors(&from, &to);
    qg_apply how = int8(WHOLE, -1);
    qg_qparam p = { 1, &given, NULL };
    how.param = &p;
    assert_ok(ctx, qg_scheme_apply(ctx, &how, &from, &to, &a));
    assert_int_equal(a.saturated, 2); /* -20 and 30 */
    assert_cmp_f64(y[5], ==, 127 * 0.1f);
    assert_cmp_f64(qg_error_max(&a.error), ==, 30 - (double)y[5]);
    qg_ctx_free(ctx);
}

static void refuses(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_tensor from, to;
    qg_applied a;
    tensors(&from, &to);
    qg_apply how = int8(WHOLE, -1);
    assert_fails(
        ctx, qg_scheme_apply(ctx, &how, &from, &from, &a), QG_ESTATE,
        "quantize-tensor: the result, expected another array of the same layout");
    how.scheme.qmax = 200;
    assert_fails(ctx, qg_scheme_apply(ctx, &how, &from, &to, &a), QG_ECONFIG,
                 "quantize-tensor: range [-128, 200] does not fit 8 bits");
    how = int8(CHANNELS, 5);
    assert_fails(ctx, qg_scheme_apply(ctx, &how, &from, &to, &a), QG_ESTATE,
                 "quantize-tensor: axis 5 and block 0 do not fit float32[2,3]");
    how = int8(WHOLE, -1);
    how.room.high = NULL;
    assert_fails(ctx, qg_scheme_apply(ctx, &how, &from, &to, &a), QG_ESTATE,
                 "quantize-tensor: parameters: neither given nor room");
    how = int8(WHOLE, -1);
    how.param = &(qg_qparam){
        2, (float[]){1, 1},
         NULL
    };
    assert_fails(ctx, qg_scheme_apply(ctx, &how, &from, &to, &a), QG_ESTATE,
                 "quantize-tensor: ");
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(finds_its_parameters),
             cmocka_unit_test(takes_given_parameters), cmocka_unit_test(refuses))
