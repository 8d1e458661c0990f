/* util_backward.c -- gradients with broadcasting, of moves and of normalizations.  They
 * are definitions, for the tape of engine/learn: one thread, double sums, no vector
 * code, so that results do not depend on the machine. */
#include "ops/util_backward.h"

#include <string.h>

#include "ops/util_broadcast.h"
#include "ops/util_check.h"

/* Zeroed accumulators, one per element of t; NULL: no memory. */
static double *accumulators(const qg_backward *b, const qg_tensor *t)
{
    return QG_NEWN(b->call->scratch, qg_elements(t), double);
}

qg_status qg_backward_like(const qg_backward *b, const qg_tensor *t, qg_tensor *out)
{
    qg_tensor_init(out, QG_F32, t->rank, t->dim);
    return qg_tensor_alloc(b->call->ctx, b->call->scratch, out);
}

static void store(const double *sum, double factor, qg_tensor *to)
{
    for (size_t i = 0, n = qg_elements(to); i < n; i++)
        to->f32[i] = (float)(sum[i] * factor);
}

/* The operands of a walk over g. */
enum { AT_G, AT_FIRST, AT_SECOND, AT_TO };

/* Terms that are computed at a time. */
enum { RUN = 256 };

/* n terms of to, which is as g where the sums are NULL, else begin at *sum and are
 * `step` apart. */
static void take_terms(const double *term, int64_t n, float *to, double *sum,
                       int64_t step)
{
    if (!sum)
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)term[i];
    else
        for (int64_t i = 0; i < n; i++)
            sum[i * step] += term[i];
}

qg_status qg_backward_pair(const qg_backward *b, const qg_tensor *first,
                           const qg_tensor *second, qg_partial *f, qg_tensor *to)
{
    const qg_tensor *g = b->out[0], *y = b->call->out[0];
    const bool direct = qg_same_dims(g, to);
    double *sum = direct ? NULL : accumulators(b, to), term[RUN];
    qg_walk w;
    qg_walk_at at = { 0 };
    if (!direct && !sum)
        return qg_nomem(b->call->ctx);
    qg_walk_init(&w, g->rank, g->dim);
    qg_walk_add_broadcast(&w, g);
    qg_walk_add_broadcast(&w, first);
    qg_walk_add_broadcast(&w, second);
    qg_walk_add_broadcast(&w, to);
    qg_walk_collapse(&w);
    const int32_t last = w.rank - 1;
    const int64_t step_a = w.stride[AT_FIRST][last], step_b = w.stride[AT_SECOND][last];
    const int64_t step_to = w.stride[AT_TO][last];
    if (!qg_walk_empty(&w))
        do
            for (int64_t i = 0, n; i < w.dim[last]; i += n) {
                const int64_t j = at.offset[AT_G] + i; /* g and y have no gaps */
                const qg_partial_run r = {
                    g->f32 + j,
                    first->f32 + at.offset[AT_FIRST] + i * step_a,
                    second->f32 + at.offset[AT_SECOND] + i * step_b,
                    y->f32 + j,
                    step_a,
                    step_b
                };
                const int64_t into = at.offset[AT_TO] + i * step_to;
                n = w.dim[last] - i < RUN ? w.dim[last] - i : RUN;
                f(&r, n, term);
                take_terms(term, n, to->f32 + into, sum ? sum + into : NULL, step_to);
            }
        while (qg_walk_next(&w, &at));
    if (sum)
        store(sum, 1, to);
    return QG_OK;
}

qg_status qg_backward_binary(const qg_backward *b, qg_partial *by_first,
                             qg_partial *by_second)
{
    const qg_tensor *const *in = b->call->in;
    if (b->in[0])
        QG_TRY(qg_backward_pair(b, in[0], in[1], by_first, b->in[0]));
    return b->in[1] ? qg_backward_pair(b, in[0], in[1], by_second, b->in[1]) : QG_OK;
}

qg_status qg_backward_sum(const qg_backward *b, const qg_tensor *g, double factor,
                          qg_tensor *to)
{
    if (qg_same_dims(g, to)) {
        for (size_t i = 0, n = qg_elements(to); i < n; i++)
            to->f32[i] = (float)((double)g->f32[i] * factor);
        return QG_OK;
    }
    double *sum = accumulators(b, to);
    qg_walk w;
    qg_walk_at at = { 0 };
    if (!sum)
        return qg_nomem(b->call->ctx);
    qg_walk_init(&w, g->rank, g->dim);
    qg_walk_add_broadcast(&w, g);
    qg_walk_add_broadcast(&w, to);
    qg_walk_collapse(&w);
    const int32_t last = w.rank - 1;
    if (!qg_walk_empty(&w))
        do
            for (int64_t i = 0; i < w.dim[last]; i++)
                sum[at.offset[1] + i * w.stride[1][last]] +=
                    (double)g->f32[at.offset[0] + i * w.stride[0][last]];
        while (qg_walk_next(&w, &at));
    store(sum, factor, to);
    return QG_OK;
}

/* --- moves ----------------------------------------------------------------------- */

/* The call of b with int64 in place of float32: element i of the wanted input s is
 * first[s] + i, from 1 on; every other float is 0. */
typedef struct moved {
    const qg_tensor **in;
    qg_tensor **out;
    int64_t *first; /* [n_in] */
} moved;

/* *out: t with int64 elements that count from `first`, or 0 where first is 0. */
static qg_status numbered(const qg_backward *b, const qg_tensor *t, int64_t first,
                          qg_tensor **out)
{
    qg_tensor *n = QG_NEW(b->call->scratch, qg_tensor);
    if (!n)
        return qg_nomem(b->call->ctx);
    qg_tensor_init(n, QG_I64, t->rank, t->dim);
    QG_TRY(qg_tensor_alloc(b->call->ctx, b->call->scratch, n));
    for (int64_t i = 0, count = qg_tensor_count(n); i < count; i++)
        n->i64[i] = first ? first + i : 0;
    *out = n;
    return QG_OK;
}

static qg_status number_all(const qg_backward *b, moved *m)
{
    const qg_call *k = b->call;
    int64_t next = 1;
    m->in = QG_NEWN(k->scratch, k->n_in, const qg_tensor *);
    m->out = QG_NEWN(k->scratch, k->n_out, qg_tensor *);
    m->first = QG_NEWN(k->scratch, k->n_in, int64_t);
    if (!m->in || !m->out || !m->first)
        return qg_nomem(k->ctx);
    for (size_t s = 0; s < k->n_in; s++) {
        qg_tensor *t;
        m->in[s] = k->in[s];
        if (!k->in[s] || k->in[s]->dtype != QG_F32)
            continue;
        m->first[s] = b->in[s] ? next : 0;
        QG_TRY(numbered(b, k->in[s], m->first[s], &t));
        m->in[s] = t;
        next += b->in[s] ? qg_tensor_count(t) : 0;
    }
    for (size_t s = 0; s < k->n_out; s++) {
        const qg_tensor *y = k->out[s];
        if (y && y->dtype == QG_F32)
            QG_TRY(numbered(b, y, 0, &m->out[s]));
        else if (y) /* indices: written again with the same values */
            m->out[s] = k->out[s];
    }
    return QG_OK;
}

/* Adds each element of g to the accumulator of the element it was copied from. */
static void collect(const qg_tensor *from, const qg_tensor *g, int64_t first, int64_t n,
                    double *sum)
{
    for (int64_t i = 0, count = qg_tensor_count(g); i < count; i++) {
        const int64_t at = from->i64[i] - first;
        if (at >= 0 && at < n)
            sum[at] += (double)g->f32[i];
    }
}

qg_status qg_backward_move(const qg_backward *b)
{
    const qg_call *k = b->call;
    moved m;
    QG_TRY(number_all(b, &m));
    qg_call move = *k;
    move.in = m.in;
    move.out = m.out;
    QG_TRY(k->node->op->run(&move));
    for (size_t s = 0; s < k->n_in; s++) {
        if (!b->in[s])
            continue;
        double *sum = accumulators(b, b->in[s]);
        if (!sum)
            return qg_nomem(k->ctx);
        for (size_t o = 0; o < k->n_out; o++)
            if (b->out[o])
                collect(m.out[o], b->out[o], m.first[s], qg_tensor_count(b->in[s]),
                        sum);
        store(sum, 1, b->in[s]);
    }
    return QG_OK;
}

/* --- normalizations -------------------------------------------------------------- */

/* dL/dx = inverse * (h - mean(h) - v mean(h v)); the mean of h only when centred. */
void qg_backward_normal(const qg_normal_row *r, int64_t n, float *to)
{
    double sum = 0, along = 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = ((double)r->x[i] - r->mean) * r->inverse;
        sum += r->h[i];
        along += r->h[i] * v;
    }
    sum = r->centred ? sum / (double)n : 0;
    along /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double v = ((double)r->x[i] - r->mean) * r->inverse;
        to[i] = (float)(r->inverse * (r->h[i] - sum - v * along));
    }
}
