/* segment.c -- plans are compared by their estimated memory; sizes of values that are
 * not known before a run count as one element, which may cost memory, never bits. */
#include "engine/learn/segment.h"

#include <string.h>

enum { MOST_PARTS = 64 };

typedef struct planner {
    const qg_segment_list *l;
    double *crossing; /* [n_node + 1] bytes that lead on before each node */
    size_t *of;       /* [n_node + 1] the segment of each node; the last: none */
    size_t *end;      /* [n_node] of the present plan */
    size_t n;
} planner;

/* Behind the last node of the segment that begins at `first`. */
static size_t end_of(const planner *p, size_t first, double limit)
{
    const qg_segment_list *l = p->l;
    double sum = l->cost[first];
    size_t best = first + 1;
    for (size_t i = first + 1; i < l->n_node && sum + l->cost[i] <= limit; i++) {
        const bool small = sum + l->cost[i] < limit / 2;
        sum += l->cost[i];
        if (small || p->crossing[i + 1] <= p->crossing[best])
            best = i + 1;
    }
    return best;
}

/* Its memory. */
static double plan(planner *p, double limit)
{
    const qg_segment_list *l = p->l;
    double kept = 0, most = 0;
    p->n = 0;
    for (size_t first = 0; first < l->n_node; first = p->end[p->n++]) {
        double cost = 0;
        p->end[p->n] = end_of(p, first, limit);
        for (size_t i = first; i < p->end[p->n]; i++) {
            p->of[i] = p->n;
            cost += l->cost[i];
        }
        most = cost > most ? cost : most;
    }
    p->of[l->n_node] = p->n;
    for (size_t i = 0; i < l->n_span; i++)
        if (p->of[l->span[i].from] != p->of[l->span[i].to])
            kept += l->span[i].bytes;
    return kept + most;
}

qg_status qg_segments_plan(qg_ctx *ctx, qg_arena *a, const qg_segment_list *l,
                           size_t **end, size_t *n)
{
    planner p = { .l = l,
                  .crossing = QG_NEWN(a, l->n_node + 1, double),
                  .of = QG_NEWN(a, l->n_node + 1, size_t),
                  .end = QG_NEWN(a, l->n_node + 1, size_t) };
    size_t *best = QG_NEWN(a, l->n_node + 1, size_t);
    double total = 0, least = 0;
    if (!p.crossing || !p.of || !p.end || !best)
        return qg_nomem(ctx);
    for (size_t i = 0; i < l->n_span; i++)
        for (size_t j = l->span[i].from + 1; j <= l->span[i].to; j++)
            p.crossing[j] += l->span[i].bytes;
    for (size_t i = 0; i < l->n_node; i++)
        total += l->cost[i];
    *n = 0;
    for (size_t parts = 1; parts <= MOST_PARTS && parts <= l->n_node; parts++) {
        const double memory = plan(&p, total / (double)parts);
        if (*n && memory >= least)
            continue;
        least = memory;
        *n = p.n;
        memcpy(best, p.end, p.n * sizeof *best);
    }
    *end = best;
    return QG_OK;
}
