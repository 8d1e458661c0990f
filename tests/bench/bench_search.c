/* bench_search.c -- thresholds from one histogram of |x|, 2048 bins of half a normal
 * distribution, 8 bits: every candidate, by the definition and by prefix sums.  Best
 * of 20 rounds, in turns, in milliseconds. */
#include <math.h>
#include <stdlib.h>

#include "engine/calib/kl.h"
#include "engine/calib/mse.h"
#include "tests/bench/steps.h"

enum { BINS = 2048, ROUNDS = 20 };

typedef struct search {
    const char *name;
    qg_status (*run)(qg_ctx *ctx, qg_arena *a, const qg_histogram *h,
                     qg_range_choice *out);
} search;

static const qg_kl nvidia = { QG_KL_NVIDIA, 128, 128, 1 };

static qg_status kl_plain(qg_ctx *ctx, qg_arena *a, const qg_histogram *h,
                          qg_range_choice *out)
{
    return qg_kl_search_plain(ctx, a, &nvidia, h, NULL, out);
}

static qg_status kl_every(qg_ctx *ctx, qg_arena *a, const qg_histogram *h,
                          qg_range_choice *out)
{
    double divergence[BINS];
    return qg_kl_search(ctx, a, &nvidia, h, divergence, out);
}

static qg_status kl_fast(qg_ctx *ctx, qg_arena *a, const qg_histogram *h,
                         qg_range_choice *out)
{
    return qg_kl_search(ctx, a, &nvidia, h, NULL, out);
}

static qg_status kl_ncnn(qg_ctx *ctx, qg_arena *a, const qg_histogram *h,
                         qg_range_choice *out)
{
    return qg_kl_ncnn(ctx, a, h, 128, NULL, out);
}

static qg_status mse(qg_ctx *ctx, qg_arena *a, const qg_histogram *h,
                     qg_range_choice *out)
{
    const qg_mse m = { 8, false, 128 };
    return qg_mse_nvidia(ctx, a, &m, h, NULL, out);
}

static const search row[] = {
    {"kl, prefix sums",    kl_every},
    { "kl, bounded",       kl_fast },
    { "kl, by definition", kl_plain},
    { "kl as ncnn",        kl_ncnn },
    { "mse",               mse     },
};

enum { ROWS = sizeof row / sizeof row[0] };

/* 3 standard deviations. */
static void fill(double *edge, int64_t *count)
{
    for (int i = 0; i <= BINS; i++)
        edge[i] = 3.0 * i / BINS;
    for (int i = 0; i < BINS; i++)
        count[i] = (int64_t)(1e5 * exp(-edge[i] * edge[i] / 2)) + i % 17;
}

int main(void)
{
    double edge[BINS + 1], best[ROWS];
    int64_t count[BINS];
    qg_histogram h = { .bins = BINS, .edge = edge, .count = count };
    qg_range_choice choice[ROWS];
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_arena *a = qg_arena_new(qg_alloc_libc);
    if (!ctx || !a)
        return 2;
    fill(edge, count);
    for (int round = 0; round < ROUNDS; round++)
        for (int r = 0; r < ROWS; r++) {
            qg_arena_reset(a);
            double start = bench_now();
            if (row[r].run(ctx, a, &h, &choice[r]) != QG_OK)
                return 1;
            double t = bench_now() - start;
            best[r] = round == 0 || t < best[r] ? t : best[r];
        }
    for (int r = 0; r < ROWS; r++)
        printf("%-20s %8.3f ms   threshold %.4f\n", row[r].name, 1e3 * best[r],
               choice[r].high);
    qg_arena_free(a);
    qg_ctx_free(ctx);
    return 0;
}
