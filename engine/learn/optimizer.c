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

static void adam(qg_optimized *s, const double *g, size_t t, double rate)
{
    const double by_m = 1 / (1 - pow(b1, (double)t));
    const double by_v = 1 / (1 - pow(b2, (double)t));
    for (size_t i = 0; i < s->n; i++) {
        s->m[i] = b1 * s->m[i] + (1 - b1) * g[i];
        s->v[i] = b2 * s->v[i] + (1 - b2) * g[i] * g[i];
        s->p[i] -= rate * (s->m[i] * by_m) / (sqrt(s->v[i] * by_v) + 1e-8);
    }
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
    if (s->by->adaptive)
        adam(s, g, t, rate);
    else
        momentum(s, g, rate);
}
