/* feed_scale.c -- samples on another scale than those that calibrated: pixels of 0..255
 * for a network that was calibrated with 0..1, or the other way round. */
#include <math.h>

#include "engine/session/session.h"

enum {
    FIRST_SAMPLES = 4, /* that are looked at */
    MANY_STEPS = 200,  /* of a grid whose first two are next to nothing */
};

/* A magnitude. */
typedef struct spread {
    double most, mean_square;
} spread;

/* The endpoint that rounds v to one linear grid; NULL: none does. */
static const qg_tqc *grid_of(const qg_quant *q, const qg_value *v)
{
    const uint16_t others = QG_FLOATING | QG_DYNAMIC | QG_PER_CHANNEL | QG_BLOCK;
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        if (!t->is_output && t->node->in[t->slot] == v && qg_tqc_rounds(t) &&
            qg_tqc_param(t).n == 1 && !(t->scheme.policy & others))
            return t;
    }
    return NULL;
}

static spread spread_of(const qg_tensor *x)
{
    const int64_t n = qg_tensor_count(x);
    spread s = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const double v = fabs((double)x->f32[i]);
        s.most = fmax(s.most, v); /* without NaN */
        s.mean_square += v * v / (double)n;
    }
    return s;
}

/* The largest magnitude on the grid. */
static double end_of(const qg_tqc *t)
{
    const qg_qparam p = qg_tqc_param(t);
    const double offset = p.offset ? p.offset[0] : 0;
    return p.scale[0] * fmax(fabs((double)t->scheme.qmin - offset),
                             fabs((double)t->scheme.qmax - offset));
}

/* Most of the signal lies beyond the grid, or within the first two of its steps. */
static bool is_foreign(const qg_tqc *t, const spread *s)
{
    const bool fine = t->scheme.qmax - t->scheme.qmin >= MANY_STEPS;
    return sqrt(s->mean_square) > end_of(t) ||
           (fine && s->most > 0 && s->most < 2 * (double)qg_tqc_param(t).scale[0]);
}

/* grid[inputs] becomes NULL where a sample fits it; most[inputs]: the largest magnitude
 * in all. */
static qg_status look(qg_model *m, const qg_api_feed *f, qg_arena *a,
                      const qg_tqc **grid, double *most)
{
    const size_t n_in = f->graph->input.n;
    const qg_tensor **in = QG_NEWN(a, n_in, const qg_tensor *);
    const size_t n = f->feed.n < FIRST_SAMPLES ? f->feed.n : FIRST_SAMPLES;
    if (!in)
        return qg_nomem(m->ctx);
    for (size_t k = 0; k < n; k++) {
        QG_TRY(f->feed.fetch(f->feed.ud, m->ctx, a, k, in));
        for (size_t i = 0; i < n_in; i++) {
            if (!grid[i])
                continue;
            const spread s = spread_of(in[i]);
            grid[i] = is_foreign(grid[i], &s) ? grid[i] : NULL;
            most[i] = fmax(most[i], s.most);
        }
    }
    return QG_OK;
}

static qg_status warn(qg_model *m, const qg_workload *work, const qg_api_feed *f,
                      qg_arena *a)
{
    const size_t n = f->graph->input.n;
    const qg_tqc **grid = QG_NEWN(a, n, const qg_tqc *);
    double *most = QG_NEWN(a, n, double);
    bool any = false;
    if (!grid || !most)
        return qg_nomem(m->ctx);
    for (size_t i = 0; i < n; i++) {
        const qg_value *v = f->graph->input.at[i];
        const bool is_float = v->type.dtype == QG_F32;
        grid[i] = is_float ? grid_of(m->quant, m->graph->input.at[i]) : NULL;
        any = any || grid[i];
    }
    if (any)
        QG_TRY(look(m, f, a, grid, most));
    for (size_t i = 0; i < n; i++)
        if (grid[i])
            qg_warn(m->ctx,
                    "data '%.200s': input '%.1000s': values up to %.3g, where its grid "
                    "has steps of %.3g up to %.3g, expected the scale of the samples "
                    "that calibrated",
                    work->data ? work->data : "arrays", f->graph->input.at[i]->name,
                    most[i], (double)qg_tqc_param(grid[i]).scale[0], end_of(grid[i]));
    return QG_OK;
}

qg_status qg_feed_warn_scale(qg_model *m, const qg_workload *work, const qg_api_feed *f)
{
    if (!m->quant || f->hosted)
        return QG_OK;
    qg_arena *a = qg_arena_new(m->ctx->alloc);
    qg_status s = a ? warn(m, work, f, a) : qg_nomem(m->ctx);
    qg_arena_free(a);
    return s;
}
