#include "engine/learn/weight_grid.h"

#include <math.h>

#include "engine/number/round.h"

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

static fit fit_of(const channel *k, double scale)
{
    fit f = { .scale = scale };
    for (size_t o = 0; o < k->at.outer; o++) {
        const float *w = k->w + (o * k->at.channels + k->c) * k->at.inner;
        for (size_t i = 0; i < k->at.inner; i++) {
            const double x = (double)w[i];
            const double v = qg_round_f64(QG_ROUND_HALF_EVEN, x / scale);
            const double q = v < k->low ? k->low : v > k->high ? k->high : v;
            f.error += (x - scale * q) * (x - scale * q);
            f.wq += x * q;
            f.qq += q * q;
        }
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
    if (!(calibrated > 0))
        return s->scale[c];
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
