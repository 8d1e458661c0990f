/* Products of packed matrices have the bits of qg_ref_gemm_f32, whole and in parts:
 * random sizes, batches that broadcast, constant and other right sides, biases, clamps.
 *
 * test_packed_gemm [N [SEED]]: N products from SEED on.  A failure prints the sizes. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/accel/packed_gemm.h"
#include "engine/core/rng.h"

static size_t n_products = 400;
static uint64_t first_seed = 1;

enum { MOST = 300 * 300 * 4, PARTS = 3 };

/* One product; a, b and y have at most two leading dims. */
typedef struct trial {
    qg_rng rng;
    qg_tensor a, b, bias, y;
    qg_gemm_problem p;
    bool has_bias, clamped, constant;
    float at_a[MOST], at_b[MOST], at_bias[1024], got[MOST], want[MOST];
} trial;

static int64_t among(trial *t, const int64_t *of, size_t n)
{
    return of[qg_rng_below(&t->rng, n)];
}
#define AMONG(t, ...)                                                                  \
    among((t), (const int64_t[]){ __VA_ARGS__ },                                       \
          sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

static void fill(trial *t, float *at)
{
    for (int i = 0; i < MOST; i++)
        at[i] = qg_rng_range(&t->rng, -1, 1);
}

/* [batch.., rows, columns], without its leading dims where `matrix`. */
static void shape(qg_tensor *x, bool matrix, int64_t batch, int64_t heads, int64_t rows,
                  int64_t columns)
{
    const int64_t dim[] = { batch, heads, rows, columns };
    qg_tensor_init(x, QG_F32, matrix ? 2 : 4, matrix ? dim + 2 : dim);
}

static void choose(trial *t)
{
    const int64_t m = AMONG(t, 2, 3, 6, 7, 31, 96, 97, 200);
    const int64_t n = AMONG(t, 2, 15, 16, 17, 64, 100, 255, 270);
    const int64_t k = AMONG(t, 1, 5, 64, 127, 128, 129, 290);
    const int64_t batch = AMONG(t, 1, 1, 2), heads = AMONG(t, 1, 1, 2);
    const bool matrix = AMONG(t, 0, 1) != 0;
    t->p = qg_gemm_dense(m, n, k, matrix && AMONG(t, 0, 1));
    t->p.trans_a = matrix && AMONG(t, 0, 0, 1);
    t->p.lda = t->p.trans_a ? m : k;
    t->has_bias = AMONG(t, 0, 1) != 0;
    t->p.beta = t->has_bias;
    t->clamped = AMONG(t, 0, 1) != 0;
    t->constant = AMONG(t, 0, 1) != 0;
    shape(&t->a, matrix, batch, AMONG(t, 1, heads), t->p.trans_a ? k : m,
          t->p.trans_a ? m : k);
    shape(&t->b, matrix, AMONG(t, 1, batch), heads, t->p.trans_b ? n : k,
          t->p.trans_b ? k : n);
    shape(&t->y, matrix, batch, heads, m, n);
    qg_tensor_init(&t->bias, QG_F32, 1, &n);
    t->bias.f32 = t->at_bias;
    t->b.f32 = t->constant ? t->at_b : NULL;
    fill(t, t->at_a);
    fill(t, t->at_b);
    for (int64_t i = 0; i < n; i++)
        t->at_bias[i] = t->at_b[MOST - 1 - i];
}

/* Matrix (i, j) of an operand whose leading dims broadcast. */
static int64_t before(const qg_tensor *x, int64_t i, int64_t j)
{
    if (x->rank == 2)
        return 0;
    return ((x->dim[0] == 1 ? 0 : i) * x->dim[1] + (x->dim[1] == 1 ? 0 : j)) *
           x->dim[2] * x->dim[3];
}

static void compute_want(trial *t)
{
    const int64_t m = t->p.m, n = t->p.n;
    const int64_t heads = t->y.rank > 2 ? t->y.dim[1] : 1;
    const int64_t all = qg_tensor_count(&t->y);
    for (int64_t i = 0; t->has_bias && i < all; i++)
        t->want[i] = t->at_bias[i % n];
    for (int64_t i = 0; i < all / (m * n); i++)
        qg_ref_gemm_f32(&t->p, t->at_a + before(&t->a, i / heads, i % heads),
                        t->at_b + before(&t->b, i / heads, i % heads),
                        t->want + i * m * n);
    for (int64_t i = 0; t->clamped && i < all; i++)
        t->want[i] = t->want[i] < -1 ? -1 : t->want[i] > 2 ? 2 : t->want[i];
}

static bool clamp(const qg_node *node, const qg_tensor *const *constant, float *low,
                  float *high)
{
    (void)node, (void)constant;
    *low = -1;
    *high = 2;
    return true;
}

static void assert_same(const trial *t, uint64_t seed, const char *how)
{
    for (int64_t i = 0; i < qg_tensor_count(&t->y); i++)
        if (memcmp(&t->got[i], &t->want[i], sizeof(float)) != 0)
            fail_msg("seed %llu, %s, [%lld, %lld, %lld]: element %lld is %a, expected "
                     "%a",
                     (unsigned long long)seed, how, (long long)t->p.m,
                     (long long)t->p.n, (long long)t->p.k, (long long)i,
                     (double)t->got[i], (double)t->want[i]);
}

/* False: the CPU has no fused multiply-add. */
static bool try_product(qg_ctx *ctx, trial *t, uint64_t seed)
{
    static const qg_op limit = { .clamp = clamp };
    static const qg_node follower = { .op = &limit };
    const qg_node *const chain[] = { &follower };
    const qg_tensor *const *const chain_in[] = { NULL };
    const qg_node node = { .n_in = t->has_bias ? 3 : 2 };
    const qg_tensor *in[] = { &t->a, &t->b, &t->bias };
    qg_tensor *out[] = { &t->y };
    qg_compile c = { .ctx = ctx,
                     .arena = ctx->arena,
                     .node = &node,
                     .in = in,
                     .out = (const qg_tensor *const *)out,
                     .chain = chain,
                     .chain_in = chain_in,
                     .n_chain = t->clamped,
                     .threads = PARTS,
                     .split_small = true };
    qg_kernel *k;
    assert_ok(ctx, qg_packed_gemm(&c, &t->p, t->has_bias ? 2 : -1, &k));
    if (!k)
        return false;
    assert_int_equal(k->absorbed, t->clamped);
    assert_int_equal(k->packed, t->constant ? 2 : 0);
    t->a.f32 = t->at_a;
    t->b.f32 = t->constant ? NULL : t->at_b; /* the kernel has a copy of constants */
    t->y.f32 = t->got;
    const qg_call call = { .ctx = ctx, .in = in, .out = out, .scratch = ctx->arena };
    assert_ok(ctx, k->run(k, &call));
    assert_same(t, seed, "whole");
    memset(t->got, 0xff, sizeof t->got);
    assert_cmp_int(k->parts, >, 1);
    for (uint32_t i = k->parts; i-- > 0;)
        assert_ok(ctx, k->part(k, &call, i));
    assert_same(t, seed, "in parts");
    return true;
}

static void products_are_the_definition(void **state)
{
    qg_ctx *ctx = *state;
    static trial t;
    for (uint64_t seed = first_seed; seed < first_seed + n_products; seed++) {
        t.rng = (qg_rng){ seed };
        choose(&t);
        compute_want(&t);
        if (!try_product(ctx, &t, seed))
            skip(); /* no fused multiply-add */
        qg_arena_reset(ctx->arena);
    }
}

/* One row and one column have sums of another order. */
static void vectors_are_left_alone(void **state)
{
    qg_ctx *ctx = *state;
    static const int64_t size[][2] = {
        {1,   20},
        { 20, 1 }
    };
    for (int i = 0; i < 2; i++) {
        const int64_t m = size[i][0], n = size[i][1], k = 8;
        qg_tensor a, b, y;
        shape(&a, true, 1, 1, m, k);
        shape(&b, true, 1, 1, k, n);
        shape(&y, true, 1, 1, m, n);
        const qg_tensor *in[] = { &a, &b }, *out[] = { &y };
        const qg_node node = { .n_in = 2 };
        const qg_gemm_problem p = qg_gemm_dense(m, n, k, false);
        qg_compile c = {
            .ctx = ctx, .arena = ctx->arena, .node = &node, .in = in, .out = out
        };
        qg_kernel *made;
        assert_ok(ctx, qg_packed_gemm(&c, &p, -1, &made));
        assert_null(made);
    }
}

int main(int argc, char **argv)
{
    n_products = argc > 1 ? strtoull(argv[1], NULL, 10) : n_products;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {
        WITH_CTX(products_are_the_definition),
        WITH_CTX(vectors_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
