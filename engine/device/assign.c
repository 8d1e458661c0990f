#include "engine/device/assign.h"

#include <math.h>
#include <stdlib.h>

/* Correlations that differ by less are equal; and by less are errors of a device. */
#define EQUAL 1e-6
#define NEAR  1e-3
/* Of a scale, and of it for the zero point: another grid is farther away. */
#define SAME_SCALE 0.01
#define SAME_ZERO  0.5
/* From which an array shows a value that has one already, and by how much more than
 * the best free value. */
#define SHOWN   0.999
#define CLEARLY 1e-4

/* Array and candidate that correlate. */
typedef struct match {
    size_t array, candidate;
    qg_pair_order order;
    bool moved, grid; /* grid: the array's real values are those of the value */
    int coarse, fine; /* the correlation in steps of NEAR and EQUAL */
    double r;
} match;

typedef struct assigner {
    qg_ctx *ctx;
    qg_arena *arena;
    const qg_correlation *c;
    const qg_stored *stored;
    QG_VEC(match) match;
} assigner;

/* Whether the line of the array's real values over the program's codes is the grid of
 * these; floats have scale 1 and zero 0. */
static bool is_on_grid(const double *x, const qg_trace_array *a, const qg_tensor *own,
                       const qg_stored *g)
{
    qg_moments m = { 0 };
    double scale = g->codes ? (double)g->scale[0] : 1, zero = g->codes ? g->zero[0] : 0;
    bool codes = qg_trace_holds_codes(a);
    if (codes && !a->grid)
        return false; /* nothing is known of it */
    for (int64_t i = 0; i < qg_tensor_count(own); i++)
        qg_moments_add(&m, codes ? (x[i] - a->zero) * a->scale : x[i],
                       qg_tensor_f64(own, i));
    double slope = (m.xy - m.x * m.y / m.n) / (m.yy - m.y * m.y / m.n);
    double at = (m.x - slope * m.y) / m.n; /* of code 0 */
    return fabs(slope / scale - 1) <= SAME_SCALE &&
           fabs(at + zero * scale) <= SAME_ZERO * scale;
}

static qg_status compare(assigner *s, const qg_trace_data *data, size_t array, size_t i)
{
    qg_pair p;
    double *x;
    const qg_stored *g = &s->stored[s->c->value[i]->id];
    if (g->codes && g->n > 1)
        return QG_OK; /* pairs have one grid */
    QG_TRY(qg_correlation_of(s->ctx, data, s->c, i, &p));
    if (!(p.confidence >= QG_CORRELATION_SURE))
        return QG_OK;
    QG_TRY(qg_pair_read(s->ctx, &p, data, 0, data->arena, &x));
    return qg_vec_push(
        s->ctx, s->arena, &s->match,
        ((match){ .array = array,
                  .candidate = i,
                  .order = p.order,
                  .moved = p.moved,
                  .grid = is_on_grid(x, data->array, qg_run_kept(s->c->run, i), g),
                  .coarse = (int)(p.confidence / NEAR + 0.5),
                  .fine = (int)(p.confidence / EQUAL + 0.5),
                  .r = p.confidence }));
}

/* 0: as good; the order of the arrays and candidates is left. */
static int by_merit(const match *x, const match *y)
{
    if (x->coarse != y->coarse)
        return x->coarse > y->coarse ? -1 : 1;
    if (x->grid != y->grid)
        return x->grid ? -1 : 1;
    if (x->fine != y->fine)
        return x->fine > y->fine ? -1 : 1;
    return x->moved != y->moved ? (x->moved ? 1 : -1) : 0;
}

static int by_order(const void *a, const void *b)
{
    const match *x = a, *y = b;
    int merit = by_merit(x, y);
    if (merit)
        return merit;
    if (x->array != y->array)
        return x->array < y->array ? -1 : 1;
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

static bool is_named(const assigner *s, const match *m)
{
    return s->c->pair[s->c->value[m->candidate]->id].array != NULL;
}

/* Whether the array of m, which correlates with a value that has one, shows that value:
 * no free one is nearly as good. */
static bool is_second_view(const assigner *s, const match *m)
{
    for (size_t i = 0; i < s->match.n; i++) {
        const match *o = &s->match.at[i];
        if (o->array == m->array && !is_named(s, o) && o->r > m->r - CLEARLY)
            return false;
    }
    return m->r >= SHOWN;
}

/* Values without an array by name that are as good for the array of m; those that are
 * one value of the program count once. */
static size_t count_alike(const assigner *s, const match *m)
{
    size_t n = 0;
    for (size_t i = 0; i < s->match.n; i++) {
        const match *o = &s->match.at[i];
        n += o->array == m->array && !is_named(s, o) && by_merit(o, m) == 0 &&
             s->c->keep[o->candidate] != s->c->keep[m->candidate];
    }
    return n + 1;
}

/* done: [arrays], used: [candidates]. */
static void choose(const assigner *s, uint8_t *done, uint8_t *used, qg_assignment *to)
{
    for (size_t i = 0; i < s->match.n; i++) {
        const match *m = &s->match.at[i];
        if (done[m->array])
            continue;
        if (is_named(s, m)) {
            done[m->array] = is_second_view(s, m);
            continue;
        }
        if (used[m->candidate])
            continue;
        done[m->array] = used[m->candidate] = 1;
        to[m->array].value = s->c->value[m->candidate];
        to[m->array].pair = (qg_pair){ .how = "correlation",
                                       .order = m->order,
                                       .confidence = m->r / (double)count_alike(s, m) };
    }
}

static qg_status compare_all(assigner *s, const qg_trace *t, const qg_assignment *to,
                             size_t n)
{
    for (size_t k = 0; k < n; k++) {
        qg_trace_data data;
        QG_TRY(qg_trace_load(s->ctx, t, to[k].array, &data));
        qg_status status = QG_OK;
        for (size_t i = 0; i < s->c->n && status == QG_OK; i++)
            status = compare(s, &data, k, i);
        qg_trace_unload(&data);
        QG_TRY(status);
    }
    return QG_OK;
}

qg_status qg_assign(qg_ctx *ctx, const qg_trace *t, const qg_correlation *c,
                    const qg_stored *stored, qg_assignment *to, size_t n)
{
    assigner s = {
        .ctx = ctx, .arena = qg_arena_new(ctx->alloc), .c = c, .stored = stored
    };
    if (!s.arena)
        return qg_nomem(ctx);
    uint8_t *done = QG_NEWN(s.arena, n + 1, uint8_t);
    uint8_t *used = QG_NEWN(s.arena, c->n + 1, uint8_t);
    qg_status status = done && used ? compare_all(&s, t, to, n) : qg_nomem(ctx);
    if (status == QG_OK && s.match.n) {
        qsort(s.match.at, s.match.n, sizeof(match), by_order);
        choose(&s, done, used, to);
    }
    qg_arena_free(s.arena);
    return status;
}
