/* Mixtures: how many, of which samples, and what they are. */
#include "engine/learn/mixup.h"
#include "tests/support/test.h"

static qg_tensor of(qg_dtype dtype, int64_t n, void *data)
{
    qg_tensor t;
    qg_tensor_init(&t, dtype, 1, &n);
    qg_tensor_set_plain(&t);
    t.data = data;
    return t;
}

static void test_how_many(void **state)
{
    const size_t ample = SIZE_MAX;
    (void)state;
    assert_cmp_int(qg_mixup_count(24, 1 << 20, 4, ample), ==, QG_MIXUP_ENOUGH - 24);
    assert_cmp_int(qg_mixup_count(QG_MIXUP_ENOUGH, 1 << 20, 4, ample), ==, 0);
    assert_cmp_int(qg_mixup_count(1000, 1 << 20, 4, ample), ==, 0);
    assert_cmp_int(qg_mixup_count(24, 120, 4, ample), ==, 10); /* one for 12 steps */
    assert_cmp_int(qg_mixup_count(24, 1 << 20, 1 << 24, ample), ==, 4); /* 64 MiB */
    assert_cmp_int(qg_mixup_count(24, 1 << 20, 1 << 24, 1 << 28), ==, 2);
    assert_cmp_int(qg_mixup_count(24, 1 << 20, 1 << 24, 1 << 26), ==, 0);
    assert_cmp_int(qg_mixup_count(24, 1 << 20, 0, 1), ==, QG_MIXUP_ENOUGH - 24);
}

static void test_which(void **state)
{
    (void)state;
    float a[] = { 1, 2 }, b[] = { 3, 4 };
    int64_t one[] = { 1, 2 }, other[] = { 1, 3 };
    const qg_tensor x = of(QG_F32, 2, a), y = of(QG_F32, 2, b),
                    shorter = of(QG_F32, 1, b);
    const qg_tensor i = of(QG_I64, 2, one), j = of(QG_I64, 2, other);
    const qg_tensor *first[] = { &x, &i }, *same[] = { &y, &i },
                    *differs[] = { &y, &j };
    const qg_tensor *length[] = { &shorter, &i };
    assert_true(qg_mixup_can(first, same, 2));
    assert_true(qg_mixup_agree(first, same, 2));
    assert_true(qg_mixup_agree(first, length, 2));
    assert_false(qg_mixup_agree(first, differs, 2)); /* tokens */
    assert_cmp_int(qg_mixup_bytes(first, 2), ==, 8);
    assert_false(qg_mixup_can(first, length, 2));
    assert_false(qg_mixup_can(first + 1, same + 1, 1)); /* nothing to mix */
}

static void test_example(void **state)
{
    qg_ctx *ctx = *state;
    float a[] = { 4, 0 }, b[] = { 0, 8 };
    int64_t n[] = { 5 };
    const qg_tensor x = of(QG_F32, 2, a), y = of(QG_F32, 2, b), i = of(QG_I64, 1, n);
    const qg_tensor *out;
    assert_ok(ctx, qg_mixup_input(ctx, 0.75f, &x, &y, ctx->arena, &out));
    assert_cmp_f64((double)out->f32[0], ==, 3);
    assert_cmp_f64((double)out->f32[1], ==, 2);
    assert_cmp_f64((double)a[0], ==, 4);
    assert_ok(ctx, qg_mixup_input(ctx, 0.75f, &i, &i, ctx->arena, &out));
    assert_ptr_equal(out, &i);
    assert_cmp_f64((double)qg_mixup_part(0), ==, (double)0.7f);
    assert_cmp_f64((double)qg_mixup_part(1), ==, 1);
}

QG_TEST_MAIN(cmocka_unit_test(test_how_many), cmocka_unit_test(test_which),
             WITH_CTX(test_example))
