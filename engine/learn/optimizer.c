#include "engine/learn/optimizer.h"

#include <math.h>

qg_adam qg_adam_new(qg_arena *a, size_t n, double rate)
{
    qg_adam s = { .n = n,
                  .p = QG_NEWN(a, n, double),
                  .m = QG_NEWN(a, n, double),
                  .v = QG_NEWN(a, n, double),
                  .rate = rate };
    if (!s.m || !s.v)
        s.p = NULL;
    return s;
}

void qg_adam_step(qg_adam *s, const double *g, size_t t, size_t steps)
{
    const double b1 = 0.9, b2 = 0.999, pi = 3.14159265358979323846;
    const double by_m = 1 / (1 - pow(b1, (double)t));
    const double by_v = 1 / (1 - pow(b2, (double)t));
    const double rate = s->rate * (1 + cos(pi * (double)(t - 1) / (double)steps)) / 2;
    for (size_t i = 0; i < s->n; i++) {
        s->m[i] = b1 * s->m[i] + (1 - b1) * g[i];
        s->v[i] = b2 * s->v[i] + (1 - b2) * g[i] * g[i];
        s->p[i] -= rate * (s->m[i] * by_m) / (sqrt(s->v[i] * by_v) + 1e-8);
    }
}
