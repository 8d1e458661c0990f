/* select.c -- policies for a budget, on predicted errors.  With a budget of noise the
 * knapsack's cost is the harm, and what is minimized are the bits. */
#include "engine/search/search.h"

#include <math.h>
#include <stdlib.h>

static qg_knapsack problem(const qg_searching *s, const double *harm)
{
    const bool noise = s->kind == QG_BUDGET_NSR;
    return (qg_knapsack){ .n = s->item.n,
                          .options = s->options,
                          .cost = noise ? harm : qg_search_counted(s),
                          .loss = noise ? s->cost : harm };
}

/* Bits of what is stored.  With a weight that becomes float, its bias does. */
static qg_status count_space(qg_searching *s)
{
    size_t cells = s->item.n * s->options;
    s->space = s->space ? s->space : QG_NEWN(s->arena, cells, double);
    if (!s->space)
        return qg_nomem(s->m->ctx);
    for (size_t i = 0; i < cells; i++) {
        const qg_item *item = &s->item.at[i / s->options];
        const double stored = item->elements > 0 ? item->stored / item->elements : 0;
        s->space[i] = isinf(s->cost[i]) ? s->cost[i] : s->cost[i] * stored;
    }
    for (size_t i = 0; i < s->derived.n; i++)
        for (size_t k = 0, o = s->options - 1; k < 2 && !s->bits[o]; k++)
            if (s->derived.at[i].item[k] != QG_NONE)
                s->space[s->derived.at[i].item[k] * s->options + o] +=
                    s->derived.at[i].more;
    return QG_OK;
}

/* What a choice adds to the error of the policy, plus an equal share of that error for
 * each item. */
qg_status qg_search_set_context(qg_searching *s, const qg_tried *around)
{
    size_t cells = s->item.n * s->options;
    s->context = QG_NEWN(s->arena, cells, double);
    if (!s->context)
        return qg_nomem(s->m->ctx);
    QG_TRY(qg_search_context(s, around->option, s->split.choose, s->context));
    double all = s->context[around->option[0]];
    for (size_t i = 0; i < cells; i++)
        s->context[i] = qg_search_takes(s, i / s->options, i % s->options)
                            ? s->context[i] + all / (double)s->item.n - all
                            : (double)INFINITY;
    return QG_OK;
}

/* --- as `qg sensitivity --propose` --- */

/* An item in the order in which it is raised. */
typedef struct rank {
    size_t item;
    double harm;
} rank;

static int by_harm(const void *a, const void *b)
{
    const rank *x = a, *y = b;
    if (x->harm != y->harm)
        return x->harm < y->harm ? 1 : -1;
    return (x->item > y->item) - (x->item < y->item);
}

/* The first `n` of the order at level 1, the others at level 0. */
static void raise_first(const qg_knapsack *k, const rank *order, size_t n,
                        const size_t level[2], qg_selection *s)
{
    memset(s->option, (int)level[0], k->n);
    for (size_t i = 0; i < n; i++)
        s->option[order[i].item] = (uint8_t)level[1];
    qg_knapsack_sum(k, s);
}

/* The number that fits with the least loss: as few as meet a budget of noise, as many
 * as fit into one of bits. */
static bool raise_within(const qg_knapsack *k, const rank *order, const size_t level[2],
                         double limit, qg_selection *s)
{
    bool found = false;
    size_t best = 0;
    double loss = 0;
    for (size_t n = 0; n <= k->n; n++) {
        raise_first(k, order, n, level, s);
        if (!(s->cost <= limit) || (found && !(s->loss < loss)))
            continue;
        found = true;
        best = n;
        loss = s->loss;
    }
    raise_first(k, order, best, level, s);
    return found;
}

static qg_status select_by_harm(const qg_searching *s, const qg_knapsack *k,
                                double limit, qg_selection *out, bool *found)
{
    rank *order = QG_NEWN(s->arena, k->n, rank);
    qg_selection now = { .option = QG_NEWN(s->arena, k->n, uint8_t) };
    out->option = QG_NEWN(s->arena, k->n, uint8_t);
    if (!order || !now.option || !out->option)
        return qg_nomem(s->m->ctx);
    *found = false;
    for (size_t low = 0; low < s->options; low++) {
        for (size_t i = 0; i < k->n; i++)
            order[i] = (rank){ i, s->harm[i * s->options + low] };
        qsort(order, k->n, sizeof *order, by_harm);
        for (size_t high = low; high < s->options; high++) {
            if (!raise_within(k, order, (size_t[]){ low, high }, limit, &now) ||
                (*found && !(now.loss < out->loss)))
                continue;
            memcpy(out->option, now.option, k->n);
            qg_knapsack_sum(k, out);
            *found = true;
        }
    }
    out->bound = out->loss;
    return QG_OK;
}

qg_status qg_search_select(qg_searching *s, enum qg_method how, double limit,
                           qg_selection *out, bool *found)
{
    qg_ctx *ctx = s->m->ctx;
    QG_TRY(count_space(s));
    const qg_knapsack k = problem(s, how == QG_REFINED ? s->context : s->harm);
    *out = (qg_selection){ 0 };
    if (how == QG_EXACT || how == QG_REFINED)
        return qg_knapsack_solve(ctx, &k, limit, s->arena, out, found);
    if (how == QG_GREEDY)
        return qg_knapsack_greedy(ctx, &k, limit, s->arena, out, found);
    return select_by_harm(s, &k, limit, out, found);
}
