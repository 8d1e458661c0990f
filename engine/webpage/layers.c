#include "engine/webpage/layers.h"

#include <assert.h>
#include <stdlib.h>

/* Sweeps over all ranks: more do not change drawings of networks that were tried.
 * Distances in units of the boxes (pixels of the page). */
enum { ORDER_SWEEPS = 12, PLACE_SWEEPS = 12, GAP = 28, JOINT = 12, RANK_GAP = 40 };

/* Joints follow boxes: vertex i is a joint from l->n on. */
typedef struct vertex {
    uint32_t rank;
    uint32_t at; /* position in its rank */
    double key;  /* of the sort */
    double x;
} vertex;

/* A piece of an edge, from one rank to the next. */
typedef struct piece {
    uint32_t up, down;
} piece;

/* Neighbours of vertex i: item[first[i] .. first[i + 1]). */
typedef struct lists {
    uint32_t *first, *item;
} lists;

typedef struct drawing {
    qg_ctx *ctx;
    qg_arena *arena;
    qg_layers *l;
    uint32_t *rank; /* [l->n] */
    uint32_t ranks;
    QG_VEC(vertex) vertex;
    QG_VEC(piece) piece;
    lists above, below, row; /* row: vertices of each rank, in order */
} drawing;

/* --- ranks and joints --- */

static qg_status rank_all(drawing *d)
{
    const qg_layers *l = d->l;
    d->rank = QG_NEWN(d->arena, l->n, uint32_t);
    uint32_t *least = QG_NEWN(d->arena, l->n, uint32_t);
    bool *reads = QG_NEWN(d->arena, l->n, bool);
    if (!d->rank || !least || !reads)
        return qg_nomem(d->ctx);
    for (size_t i = 0; i < l->n_edge; i++) {
        const qg_layers_edge *e = &l->edge[i];
        assert(e->from < e->to && e->to < l->n && (!i || e[-1].from <= e->from));
        reads[e->to] = true;
        if (d->rank[e->to] <= d->rank[e->from])
            d->rank[e->to] = d->rank[e->from] + 1;
    }
    for (uint32_t i = 0; i < l->n; i++)
        least[i] = UINT32_MAX;
    for (size_t i = 0; i < l->n_edge; i++) {
        uint32_t to = d->rank[l->edge[i].to], *p = &least[l->edge[i].from];
        *p = to < *p ? to : *p;
    }
    for (uint32_t i = 0; i < l->n; i++) {
        if (!reads[i] && least[i] != UINT32_MAX)
            d->rank[i] = least[i] - 1;
        d->ranks = d->rank[i] >= d->ranks ? d->rank[i] + 1 : d->ranks;
    }
    return QG_OK;
}

static qg_status add_vertex(drawing *d, uint32_t rank)
{
    return qg_vec_push(d->ctx, d->arena, &d->vertex, (vertex){ .rank = rank });
}

/* Edges of many ranks are straight lines, without joints and pieces. */
static bool has_joints(const drawing *d, const qg_layers_edge *e)
{
    return d->rank[e->to] - d->rank[e->from] <= QG_LAYERS_LONGEST;
}

/* The joints of an edge are consecutive, in the order of edges. */
static qg_status add_joints(drawing *d)
{
    for (uint32_t i = 0; i < d->l->n; i++)
        QG_TRY(add_vertex(d, d->rank[i]));
    for (size_t i = 0; i < d->l->n_edge; i++) {
        const qg_layers_edge *e = &d->l->edge[i];
        uint32_t last = e->from;
        if (!has_joints(d, e))
            continue;
        for (uint32_t r = d->rank[e->from] + 1; r < d->rank[e->to]; r++) {
            uint32_t joint = (uint32_t)d->vertex.n;
            QG_TRY(add_vertex(d, r));
            QG_TRY(qg_vec_push(d->ctx, d->arena, &d->piece, (piece){ last, joint }));
            last = joint;
        }
        QG_TRY(qg_vec_push(d->ctx, d->arena, &d->piece, (piece){ last, e->to }));
    }
    return QG_OK;
}

/* --- lists --- */

/* n items are sorted into `rows` lists, in their order. */
static qg_status make_lists(drawing *d, size_t rows, size_t n, lists *out)
{
    out->first = QG_NEWN(d->arena, rows + 2, uint32_t);
    out->item = QG_NEWN(d->arena, n + 1, uint32_t);
    return out->first && out->item ? QG_OK : qg_nomem(d->ctx);
}

/* Counts are at first[row + 2]; afterwards first[row + 1] moves as items are added. */
static void begin_lists(const lists *s, size_t rows)
{
    for (size_t i = 1; i < rows + 1; i++)
        s->first[i + 1] += s->first[i];
}

static void add_item(const lists *s, uint32_t row, uint32_t item)
{
    s->item[s->first[row + 1]++] = item;
}

static qg_status list_all(drawing *d)
{
    size_t n = d->vertex.n, m = d->piece.n;
    QG_TRY(make_lists(d, n, m, &d->above));
    QG_TRY(make_lists(d, n, m, &d->below));
    QG_TRY(make_lists(d, d->ranks, n, &d->row));
    for (size_t i = 0; i < m; i++) {
        d->above.first[d->piece.at[i].down + 2]++;
        d->below.first[d->piece.at[i].up + 2]++;
    }
    for (size_t i = 0; i < n; i++)
        d->row.first[d->vertex.at[i].rank + 2]++;
    begin_lists(&d->above, n);
    begin_lists(&d->below, n);
    begin_lists(&d->row, d->ranks);
    for (size_t i = 0; i < m; i++) {
        add_item(&d->above, d->piece.at[i].down, d->piece.at[i].up);
        add_item(&d->below, d->piece.at[i].up, d->piece.at[i].down);
    }
    for (uint32_t i = 0; i < n; i++) {
        vertex *v = &d->vertex.at[i];
        v->at = d->row.first[v->rank + 1] - d->row.first[v->rank];
        add_item(&d->row, v->rank, i);
    }
    return QG_OK;
}

/* --- order --- */

/* A vertex and its key, for qsort. */
typedef struct ordered {
    double key;
    uint32_t at, vertex;
} ordered;

static int by_key(const void *a, const void *b)
{
    const ordered *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* The mean of the neighbours' positions; its own where it has none. */
static double mean_position(const drawing *d, const lists *s, uint32_t i)
{
    uint32_t n = s->first[i + 1] - s->first[i];
    double sum = 0;
    for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
        sum += d->vertex.at[s->item[k]].at;
    return n ? sum / n : d->vertex.at[i].at;
}

static void order_row(drawing *d, uint32_t rank, const lists *s, ordered *room)
{
    uint32_t first = d->row.first[rank], n = d->row.first[rank + 1] - first;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = d->row.item[first + k];
        room[k] = (ordered){ mean_position(d, s, i), d->vertex.at[i].at, i };
    }
    qsort(room, n, sizeof *room, by_key);
    for (uint32_t k = 0; k < n; k++) {
        d->row.item[first + k] = room[k].vertex;
        d->vertex.at[room[k].vertex].at = k;
    }
}

static qg_status order_all(drawing *d)
{
    ordered *room = QG_NEWN(d->arena, d->vertex.n, ordered);
    if (!room)
        return qg_nomem(d->ctx);
    for (int sweep = 0; sweep < ORDER_SWEEPS; sweep++) {
        for (uint32_t r = 1; r < d->ranks; r++)
            order_row(d, r, &d->above, room);
        for (uint32_t r = d->ranks; sweep + 1 < ORDER_SWEEPS && r-- > 1;)
            order_row(d, r - 1, &d->below, room);
    }
    return QG_OK;
}

/* --- places --- */

static double width_of(const drawing *d, uint32_t i)
{
    return i < d->l->n ? (double)d->l->width : (double)JOINT;
}

/* A run of neighbours at their least distances. */
typedef struct block {
    double sum, weight; /* of wishes, less the distance from the first of the row */
    uint32_t end;
} block;

/* The wish of a vertex, and how much it counts: joints keep lines straight. */
static double wish(const drawing *d, const lists *s, uint32_t i, double *weight)
{
    uint32_t n = s->first[i + 1] - s->first[i];
    double sum = 0;
    for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
        sum += d->vertex.at[s->item[k]].x;
    *weight = n == 0 ? 0.1 : i < d->l->n ? 1 : 4;
    return n ? sum / n : d->vertex.at[i].x;
}

/* Minimizes sum weight (x - wish)^2 with x[k + 1] - x[k] at least their distance. */
static void place_row(drawing *d, uint32_t rank, const lists *s, block *b)
{
    const uint32_t *item = d->row.item + d->row.first[rank];
    uint32_t n = d->row.first[rank + 1] - d->row.first[rank], blocks = 0;
    double offset = 0;
    for (uint32_t k = 0; k < n; k++) {
        double weight, x = wish(d, s, item[k], &weight);
        offset += k ? (width_of(d, item[k - 1]) + width_of(d, item[k])) / 2 + GAP : 0;
        b[blocks++] = (block){ weight * (x - offset), weight, k + 1 };
        while (blocks > 1 && b[blocks - 2].sum * b[blocks - 1].weight >
                                 b[blocks - 1].sum * b[blocks - 2].weight) {
            b[blocks - 2].sum += b[blocks - 1].sum;
            b[blocks - 2].weight += b[blocks - 1].weight;
            b[blocks - 2].end = b[blocks - 1].end;
            blocks--;
        }
    }
    offset = 0;
    for (uint32_t k = 0, at = 0; k < n; k++) {
        at += k == b[at].end;
        offset += k ? (width_of(d, item[k - 1]) + width_of(d, item[k])) / 2 + GAP : 0;
        d->vertex.at[item[k]].x = b[at].sum / b[at].weight + offset;
    }
}

static qg_status place_all(drawing *d)
{
    block *room = QG_NEWN(d->arena, d->vertex.n, block);
    if (!room)
        return qg_nomem(d->ctx);
    for (int sweep = 0; sweep < PLACE_SWEEPS; sweep++) {
        for (uint32_t r = 0; r < d->ranks; r++)
            place_row(d, r, &d->above, room);
        for (uint32_t r = d->ranks; sweep + 1 < PLACE_SWEEPS && r-- > 0;)
            place_row(d, r, &d->below, room);
    }
    return QG_OK;
}

/* --- the result --- */

static float y_of(const drawing *d, uint32_t rank)
{
    return d->l->height / 2 + (float)rank * (d->l->height + RANK_GAP);
}

static qg_status give_places(drawing *d)
{
    qg_layers *l = d->l;
    double left = 0;
    l->x = QG_NEWN(d->arena, l->n, float);
    l->y = QG_NEWN(d->arena, l->n, float);
    if (!l->x || !l->y)
        return qg_nomem(d->ctx);
    for (size_t i = 0; i < d->vertex.n; i++) {
        double x = d->vertex.at[i].x - width_of(d, (uint32_t)i) / 2;
        left = i == 0 || x < left ? x : left;
    }
    for (size_t i = 0; i < d->vertex.n; i++)
        d->vertex.at[i].x -= left;
    for (uint32_t i = 0; i < l->n; i++) {
        l->x[i] = (float)(int64_t)(d->vertex.at[i].x + 0.5);
        l->y[i] = y_of(d, d->rank[i]);
    }
    return QG_OK;
}

static void put_point(qg_layers_edge *e, float x, float y)
{
    e->point[2 * e->n_point] = x;
    e->point[2 * e->n_point++ + 1] = y;
}

static qg_status give_lines(drawing *d)
{
    uint32_t joint = d->l->n;
    const qg_layers *l = d->l;
    for (size_t i = 0; i < l->n_edge; i++) {
        qg_layers_edge *e = &l->edge[i];
        uint32_t span = d->rank[e->to] - d->rank[e->from];
        uint32_t joints = has_joints(d, e) ? span - 1 : 0;
        e->point = QG_NEWN(d->arena, 2 * ((size_t)joints + 2), float);
        e->n_point = 0;
        if (!e->point)
            return qg_nomem(d->ctx);
        put_point(e, l->x[e->from], l->y[e->from] + l->height / 2);
        for (uint32_t k = 0; k < joints; k++, joint++)
            put_point(e, (float)(int64_t)(d->vertex.at[joint].x + 0.5),
                      y_of(d, d->vertex.at[joint].rank));
        put_point(e, l->x[e->to], l->y[e->to] - l->height / 2);
    }
    return QG_OK;
}

qg_status qg_layers_place(qg_ctx *ctx, qg_arena *a, qg_layers *l)
{
    drawing d = { .ctx = ctx, .arena = a, .l = l };
    QG_TRY(rank_all(&d));
    QG_TRY(add_joints(&d));
    QG_TRY(list_all(&d));
    QG_TRY(order_all(&d));
    QG_TRY(place_all(&d));
    QG_TRY(give_places(&d));
    return give_lines(&d);
}
