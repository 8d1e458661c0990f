/* Samples that choose and samples that judge (analysis/split.h): which are equal, and
 * how they are divided. */
#include "engine/analysis/split.h"
#include "tests/support/test.h"

static bool repeats(qg_ctx *ctx, qg_names *known, qg_dtype dtype, const int64_t dim[2],
                    const float x[4])
{
    bool is;
    qg_tensor t, other;
    float one = 1;
    qg_tensor_init(&t, dtype, 2, dim);
    qg_tensor_init(&other, QG_F32, 0, NULL);
    t.data = (void *)(uintptr_t)x;
    other.f32 = &one;
    const qg_tensor *in[] = { &other, &t };
    assert_ok(ctx, qg_sample_add(ctx, known, in, 2, &is));
    return is;
}

/* By types, dims and all bytes of all inputs. */
static void equal_samples_repeat(void **state)
{
    static const int64_t wide[] = { 1, 4 }, square[] = { 2, 2 };
    static const float x[] = { 1, 2, 3, 4 }, last[] = { 1, 2, 3, 5 };
    qg_ctx *ctx = *state;
    qg_names *known = qg_names_new(qg_alloc_libc);
    assert_false(repeats(ctx, known, QG_F32, wide, x));
    assert_true(repeats(ctx, known, QG_F32, wide, x));
    assert_false(repeats(ctx, known, QG_I32, wide, x));
    assert_false(repeats(ctx, known, QG_F32, square, x));
    assert_false(repeats(ctx, known, QG_F32, wide, last));
    assert_true(repeats(ctx, known, QG_F32, wide, last));
    assert_true(repeats(ctx, known, QG_I32, wide, x));
    qg_names_free(known);
}

/* Places 0 to 4 of what is left of seven samples; bit 1 is that of places 2 and 3. */
static void folds_divide_by_a_bit_of_the_place(void **state)
{
    static const struct {
        qg_fold fold;
        size_t n[2], index[2][3];
    } rows[] = {
        {{ 0, 0 },  { 3, 2 }, { { 0, 3, 6 }, { 2, 5 } }},
        { { 0, 1 }, { 2, 3 }, { { 2, 5 }, { 0, 3, 6 } }},
        { { 1, 0 }, { 3, 2 }, { { 0, 2, 6 }, { 3, 5 } }},
        { { 2, 1 }, { 1, 4 }, { { 6 }, { 0, 2, 3 } }   },
    };
    size_t own[] = { 0, 2, 3, 5, 6 };
    qg_ctx *ctx = *state;
    qg_split s = {
        .ctx = ctx, .n_input = 1, .own = {.n = 5, .index = own}
    };
    qg_subset part[2];
    bool any;
    s.feed.feed.n = 7;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_ok(ctx, qg_split_fold(&s, rows[i].fold, ctx->arena, part, &any));
        assert_true(any);
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(part[k].n, rows[i].n[k]);
            assert_int_equal(part[k].feed.n, rows[i].n[k]);
            assert_ptr_equal(part[k].whole, &s.feed.feed);
            for (size_t j = 0; j < part[k].n && j < 3; j++)
                assert_int_equal(part[k].index[j], rows[i].index[k][j]);
        }
    }
    assert_ok(ctx, qg_split_fold(&s, (qg_fold){ 3, 0 }, ctx->arena, part, &any));
    assert_false(any); /* no place has bit 3 */
    assert_int_equal(part[0].n, 5);
    assert_ok(ctx, qg_split_fold(&s, (qg_fold){ 3, 1 }, ctx->arena, part, &any));
    assert_false(any);
    assert_int_equal(part[1].n, 5);
    s.part[1].index = own;
    assert_int_equal(qg_split_judge_index(&s, 3), 5);
}

QG_TEST_MAIN(WITH_CTX(equal_samples_repeat),
             WITH_CTX(folds_divide_by_a_bit_of_the_place))
