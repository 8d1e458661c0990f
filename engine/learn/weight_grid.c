#include "engine/learn/weight_grid.h"

#include <math.h>

/* The elements of a channel and the codes around its zero point. */
typedef struct channel {
    const float *w;
    qg_learned_layer at;
    size_t c;
    double low, high;
} channel;

/* Sums over the codes of a scale: the squared error, w q and q^2. */
typedef struct fit {
    double scale, error, wq, qq;
} fit;

/* Partial sums: element i of a row belongs to number i % LANES. */
enum { LANES = 8 };
typedef struct lanes {
    double error[LANES], wq[LANES], qq[LANES];
} lanes;

/* With |v| <= 2^51, (v + 1.5 * 2^52) - 1.5 * 2^52 is v rounded half-even; limits are
 * codes, so that limiting first gives the same.  n elements, LANES or fewer. */
static inline __attribute__((always_inline)) void
add_some(const channel *k, double scale, const float *w, size_t n, lanes *s)
{
    for (size_t j = 0; j < n; j++) {
        const double x = (double)w[j], v = x / scale;
        const double most = v > k->high ? k->high : v;
        const double in = most < k->low ? k->low : most;
        const double q = (in + 0x1.8p52) - 0x1.8p52, e = x - scale * q;
        s->error[j] += e * e;
        s->wq[j] += x * q;
        s->qq[j] += q * q;
    }
}

/* The same bits with and without wide vectors. */
#define ADD_ROW(name)                                                                  \
    static void name(const channel *k, double scale, const float *w, lanes *s)         \
    {                                                                                  \
        const size_t n = k->at.inner;                                                  \
        size_t i = 0;                                                                  \
        for (; i + LANES <= n; i += LANES)                                             \
            add_some(k, scale, w + i, LANES, s);                                       \
        add_some(k, scale, w + i, n - i, s);                                           \
    }

ADD_ROW(add_row_plain)
#if defined(__x86_64__)
__attribute__((target("avx2"))) ADD_ROW(add_row_avx2) __attribute__((target("avx512f")))
ADD_ROW(add_row_avx512)
#endif

    static void add_row(const channel *k, double scale, const float *w, lanes *s)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        add_row_avx512(k, scale, w, s);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        add_row_avx2(k, scale, w, s);
        return;
    }
#endif
    add_row_plain(k, scale, w, s);
}

static fit fit_of(const channel *k, double scale)
{
    fit f = { .scale = scale };
    lanes s = { 0 };
    for (size_t o = 0; o < k->at.outer; o++)
        add_row(k, scale, k->w + (o * k->at.channels + k->c) * k->at.inner, &s);
    for (int j = 0; j < LANES; j++) {
        f.error += s.error[j];
        f.wq += s.wq[j];
        f.qq += s.qq[j];
    }
    return f;
}

static void try_scale(const channel *k, double scale, fit *best)
{
    const fit f = fit_of(k, scale);
    if (f.error < best->error)
        *best = f;
}

/* Lloyd's iteration: the error never grows. */
static void refine(const channel *k, fit *best)
{
    enum { MOST = 20 };
    for (int i = 0; i < MOST && best->wq > 0 && best->qq > 0; i++) {
        const double before = best->error;
        try_scale(k, best->wq / best->qq, best);
        if (best->error >= before)
            return;
    }
}

/* Of the error with the calibrated scale: what a gain is, which a scale near the
 * calibrated one does not have. */
static const double CLEAR = 0.75;

static const qg_tape_step *step_of(const qg_tape *t, const qg_tape_weight *w)
{
    return w->step == QG_NONE ? NULL : &t->step[w->step];
}

bool qg_weight_grid_is_own(const qg_tape *t, const qg_tape_weight *w)
{
    const qg_tape_step *s = step_of(t, w);
    size_t readers = 0;
    if (!s || !s->learned || !qg_tape_has_grid(s))
        return false;
    for (size_t i = 0; i < t->n_weight; i++)
        readers += t->weight[i].step == w->step;
    return readers == 1 && qg_tqc_value(s->root) == w->value;
}

float qg_weight_grid_scale(const qg_tape *t, const qg_tape_weight *w, size_t c)
{
    const qg_tape_step *s = step_of(t, w);
    const int32_t *offset = qg_tqc_param(s->root).offset;
    const double zero = offset ? (double)offset[c] : 0;
    const channel k = { w->now.f32, qg_tape_layer(s, &w->now), c,
                        (double)s->root->scheme.qmin - zero,
                        (double)s->root->scheme.qmax - zero };
    const double start = (double)s->scale[c];
    fit best = fit_of(&k, start);
    const double calibrated = best.error;
    if (s->root->scheme.policy & QG_POWER_OF_2) {
        try_scale(&k, start / 2, &best);
        try_scale(&k, start / 4, &best);
        return (float)best.scale;
    }
    for (int i = 98; i >= 30; i -= 2)
        try_scale(&k, start * i / 100, &best);
    refine(&k, &best);
    return best.error < CLEAR * calibrated ? (float)best.scale : s->scale[c];
}
