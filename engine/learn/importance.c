#include "engine/learn/importance.h"

#include <math.h>

#include "engine/learn/verdict.h"

typedef struct work {
    const qg_stream *s;
    qg_tape *t;
    qg_arena *arena;  /* of the result */
    qg_arena *sample; /* of one */
    qg_rng rng;
    qg_importance *out;
    const uint8_t *watched;
    int64_t *size;  /* [values] elements; 0: not seen, -1: differs */
    size_t n_pupil; /* samples so far */
} work;

/* r / |y|, or NULL where y is 0 everywhere. */
static qg_status gradient_of_output(work *w, const qg_tensor *y, const qg_tensor **out)
{
    qg_tensor *g = QG_NEW(w->sample, qg_tensor);
    double signal = 0;
    if (!g)
        return qg_nomem(w->s->ctx);
    *out = NULL;
    const int64_t n = y->dtype == QG_F32 ? qg_tensor_count(y) : 0;
    for (int64_t i = 0; i < n; i++)
        signal += (double)y->f32[i] * (double)y->f32[i];
    if (!(signal > 0))
        return QG_OK;
    qg_tensor_init(g, QG_F32, y->rank, y->dim);
    QG_TRY(qg_tensor_alloc(w->s->ctx, w->sample, g));
    for (int64_t i = 0; i < n; i++)
        g->f32[i] = (float)((qg_rng_below(&w->rng, 2) ? 1 : -1) / sqrt(signal));
    *out = g;
    return QG_OK;
}

static qg_status add_value(work *w, const qg_value *v)
{
    const qg_tensor *g = qg_tape_value_grad(w->t, v);
    double **weight = &w->out->weight[v->id];
    int64_t *size = &w->size[v->id];
    const int64_t n = g ? qg_tensor_count(g) : -1;
    if (w->n_pupil == 0 && n > 0) {
        *size = n;
        *weight = QG_NEWN(w->arena, n, double);
        if (!*weight)
            return qg_nomem(w->s->ctx);
    }
    if (*size != n) {
        *size = -1;
        *weight = NULL;
    }
    for (int64_t i = 0; *weight && i < n; i++)
        (*weight)[i] += (double)g->f32[i] * (double)g->f32[i];
    return QG_OK;
}

static bool is_output_of_block(const qg_stream *s, const qg_value *v)
{
    size_t block = 0;
    if (!v->def || v->constant)
        return false;
    while (v->def->id >= s->block[block].end)
        block++;
    for (size_t i = 0; i < v->use.n; i++)
        if (v->use.at[i].node->id >= s->block[block].end)
            return true;
    return v->is_output;
}

uint8_t *qg_importance_watched(const qg_stream *s, qg_arena *a)
{
    uint8_t *watched = QG_NEWN(a, s->graph->value.n, uint8_t);
    for (size_t k = 0; watched && k < s->graph->value.n; k++)
        watched[k] = is_output_of_block(s, s->graph->value.at[k]);
    return watched;
}

static qg_status add_sample(work *w, size_t i)
{
    const qg_graph *g = w->s->graph;
    const qg_tensor **in = QG_NEWN(w->sample, w->t->n_in, const qg_tensor *);
    const qg_tensor **grad = QG_NEWN(w->sample, w->t->n_out, const qg_tensor *);
    if (!in || !grad)
        return qg_nomem(w->s->ctx);
    qg_stream_inputs(w->s, w->t, QG_LANE_FLOAT, i, in);
    QG_TRY(qg_tape_forward(w->t, in));
    for (size_t k = 0; k < w->t->n_out; k++)
        QG_TRY(gradient_of_output(w, qg_tape_output(w->t, k), &grad[k]));
    QG_TRY(qg_tape_backward(w->t, grad));
    for (size_t k = 0; k < g->value.n; k++)
        if (w->watched[k])
            QG_TRY(add_value(w, g->value.at[k]));
    w->n_pupil++;
    return QG_OK;
}

static qg_status add_all(work *w)
{
    w->size = QG_NEWN(w->arena, w->s->graph->value.n, int64_t);
    w->out->weight = QG_NEWN(w->arena, w->s->graph->value.n, double *);
    w->watched = qg_importance_watched(w->s, w->arena);
    if (!w->size || !w->out->weight || !w->watched)
        return qg_nomem(w->s->ctx);
    for (size_t i = 0; i < w->s->sample.n; i++) {
        QG_TRY(qg_ctx_go_on(w->s->ctx));
        qg_arena_reset(w->sample);
        if (qg_teaches(w->s->sample, i))
            QG_TRY(add_sample(w, i));
    }
    return QG_OK;
}

qg_status qg_importance_of(const qg_stream *s, qg_tape *float_tape, qg_rng rng,
                           qg_arena *a, qg_importance *out)
{
    work w = { .s = s,
               .t = float_tape,
               .arena = a,
               .sample = qg_arena_new(s->ctx->alloc),
               .rng = rng,
               .out = out };
    const qg_status status = w.sample ? add_all(&w) : qg_nomem(s->ctx);
    qg_arena_free(w.sample);
    return status;
}
