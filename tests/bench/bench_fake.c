/* bench_fake [MB...]: fake quantize beside memcpy on one core.  GB/s are bytes of the
 * array per second, out of place, memory touched before, the best of interleaved
 * rounds.  Sizes in MB; default 64 and 0.25. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/core/alloc.h"
#include "engine/core/rng.h"
#include "engine/quant/fake.h"

enum { ROUNDS = 15, CHANNELS = 64 };

typedef struct job {
    qg_ctx *ctx;
    qg_scheme scheme;
    qg_qparam param;
    qg_tensor x, y;
    bool in_place;
} job;

typedef void work_fn(job *j);

static void copy(job *j)
{
    memcpy(j->y.data, j->x.data, (size_t)qg_tensor_count(&j->x) * sizeof(float));
}

static void fake(job *j)
{
    qg_tensor *to = j->in_place ? &j->x : &j->y;
    if (qg_fake_quantize(j->ctx, "bench", &j->scheme, &j->param, &j->x, to) != QG_OK)
        abort(); /* the schemes below are legal */
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double timed(work_fn *f, job *j, int repeats)
{
    double start = seconds();
    for (int i = 0; i < repeats; i++)
        f(j);
    return (seconds() - start) / repeats;
}

static const qg_scheme int8 = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                                .bits = 8,
                                .axis = -1,
                                .qmin = -128,
                                .qmax = 127 };

/* clang-format off */
/* The variants; the first one is memcpy.  last: channels last in memory. */
static const struct {
    const char *name;
    uint16_t granularity, kind;
    uint8_t exponent_bits, rounding;
    int64_t top;
    bool last, in_place;
} row[] = {
    { .name = "memcpy" },
    { .name = "per tensor", .granularity = QG_PER_TENSOR },
    { .name = "per channel", .granularity = QG_PER_CHANNEL },
    { .name = "per channel, channels last", .granularity = QG_PER_CHANNEL,
      .last = true },
    { .name = "per tensor, in place", .granularity = QG_PER_TENSOR, .in_place = true },
    { .name = "per tensor, half away", .granularity = QG_PER_TENSOR,
      .rounding = QG_ROUND_HALF_AWAY },
    { .name = "per tensor, float8e4m3", .granularity = QG_PER_TENSOR,
      .kind = QG_FLOATING | QG_POWER_OF_2, .exponent_bits = 4, .top = 448 },
};
/* clang-format on */
enum { ROWS = sizeof row / sizeof row[0] };

static job job_of(int r, qg_ctx *ctx, qg_tensor x, qg_tensor y, qg_qparam all)
{
    job j = { .ctx = ctx,
              .scheme = int8,
              .param = all,
              .x = x,
              .y = y,
              .in_place = row[r].in_place };
    j.scheme.policy = (uint16_t)(QG_SYMMETRIC | row[r].granularity |
                                 (row[r].kind ? row[r].kind : QG_LINEAR));
    j.scheme.rounding = row[r].rounding;
    j.scheme.exponent_bits = row[r].exponent_bits;
    if (row[r].top) {
        j.scheme.qmin = -row[r].top;
        j.scheme.qmax = row[r].top;
    }
    if (row[r].granularity == QG_PER_CHANNEL)
        j.scheme.axis = 1;
    else
        j.param.n = 1;
    if (row[r].last) {
        qg_tensor_set_channels_last(&j.x);
        qg_tensor_set_channels_last(&j.y);
    }
    return j;
}

static void measure(qg_ctx *ctx, double megabytes)
{
    size_t count = (size_t)(megabytes * 1048576 / sizeof(float));
    int repeats = megabytes < 4 ? (int)(32 / megabytes) : 1;
    qg_rng rng = { 1 };
    static float scale[CHANNELS];
    double best[ROWS];
    qg_tensor x, y;
    qg_tensor_init(&x, QG_F32, 4,
                   (int64_t[]){ 1, CHANNELS, (int64_t)(count / CHANNELS / 32), 32 });
    y = x;
    x.data = aligned_alloc(64, count * sizeof(float));
    y.data = aligned_alloc(64, count * sizeof(float));
    if (!x.data || !y.data)
        exit(2);
    for (size_t i = 0; i < count; i++)
        x.f32[i] = qg_rng_range(&rng, -2, 2);
    memset(y.data, 1, count * sizeof(float));
    for (int c = 0; c < CHANNELS; c++)
        scale[c] = 0.01f + 0.0001f * (float)c;
    for (int round = 0; round < ROUNDS; round++)
        for (int r = 0; r < ROWS; r++) {
            job j = job_of(r, ctx, x, y, (qg_qparam){ CHANNELS, scale, NULL });
            double t = timed(r ? fake : copy, &j, repeats);
            best[r] = round == 0 || t < best[r] ? t : best[r];
        }
    for (int r = 0; r < ROWS; r++)
        printf("%8.2f MB  %-28s %7.2f GB/s  %5.2f of memcpy\n", megabytes, row[r].name,
               (double)(count * sizeof(float)) / best[r] / 1e9, best[0] / best[r]);
    free(x.data);
    free(y.data);
}

int main(int argc, char **argv)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (!ctx)
        return 2;
    for (int i = 1; i < argc; i++)
        measure(ctx, strtod(argv[i], NULL));
    if (argc == 1) {
        measure(ctx, 64);
        measure(ctx, 0.25);
    }
    qg_ctx_free(ctx);
    return 0;
}
