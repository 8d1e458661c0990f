#include "engine/learn/optimizer.h"

#include <math.h>

const qg_optimizer qg_optimizers[] = {
    {"adam", 1, true },
    { "sgd",  50, false },
    { 0}
};

qg_optimized qg_optimized_new(qg_arena *a, const qg_optimizer *by, size_t n,
                              double rate)
{
    qg_optimized s = { .by = by,
                       .n = n,
                       .p = QG_NEWN(a, n, double),
                       .m = QG_NEWN(a, n, double),
                       .v = by->adaptive ? QG_NEWN(a, n, double) : NULL,
                       .rate = rate };
    if (!s.m || (by->adaptive && !s.v))
        s.p = NULL;
    return s;
}

static const double b1 = 0.9, b2 = 0.999, pi = 3.14159265358979323846;

/* One step's numbers. */
typedef struct moment {
    double by_m, by_v, rate;
} moment;

static inline __attribute__((always_inline)) void
adam_loop(const qg_optimized *s, const double *g, const moment *a)
{
    double *restrict m = s->m, *restrict v = s->v, *restrict p = s->p;
    const double by_m = a->by_m, by_v = a->by_v, rate = a->rate;
    for (size_t i = 0; i < s->n; i++) {
        m[i] = b1 * m[i] + (1 - b1) * g[i];
        v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
        p[i] -= rate * (m[i] * by_m) / (sqrt(v[i] * by_v) + 1e-8);
    }
}

/* The same bits with and without wide vectors. */
#define ADAM(name)                                                                     \
    static void name(const qg_optimized *s, const double *g, const moment *a)          \
    {                                                                                  \
        adam_loop(s, g, a);                                                            \
    }

ADAM(adam_plain)
#if defined(__x86_64__)
__attribute__((target("avx2"))) ADAM(adam_avx2) __attribute__((target("avx512f")))
ADAM(adam_avx512)
#endif

    static void adam(const qg_optimized *s, const double *g, size_t t, double rate)
{
    const moment a = { 1 / (1 - pow(b1, (double)t)), 1 / (1 - pow(b2, (double)t)),
                       rate };
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        adam_avx512(s, g, &a);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        adam_avx2(s, g, &a);
        return;
    }
#endif
    adam_plain(s, g, &a);
}

/* Apart from the step itself, whose size does not depend on it (AdamW). */
static void pull_back(qg_optimized *s, double rate)
{
    const double part = rate * s->decay;
    for (size_t i = 0; s->decay > 0 && i < s->n; i++)
        s->p[i] -= part * (s->p[i] - (double)s->start[i]);
}

static void momentum(qg_optimized *s, const double *g, double rate)
{
    for (size_t i = 0; i < s->n; i++) {
        s->m[i] = b1 * s->m[i] + g[i];
        s->p[i] -= rate * s->m[i];
    }
}

void qg_optimizer_step(qg_optimized *s, const double *g, size_t t, size_t steps)
{
    const double rate = s->rate * (1 + cos(pi * (double)(t - 1) / (double)steps)) / 2;
    if (!s->by->adaptive) {
        momentum(s, g, rate);
        return;
    }
    adam(s, g, t, rate);
    pull_back(s, rate);
}
