/* knapsack.c -- items are prepared first: options by cost without dominated ones, and
 * the steps along the lower convex hull of each, all steps by what they save per cost.
 * The linear relaxation takes steps in that order until the budget is spent. */
#include "engine/search/knapsack.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* From one point of an item's hull to the next. */
typedef struct step {
    uint32_t item, to; /* to: the option */
    double cost, saved;
} step;

/* Options that are worth their cost, cheapest first. */
typedef struct item {
    uint8_t n, option[QG_KNAPSACK_OPTIONS];
} item;

/* The choice of one option after that of the items before. */
typedef struct state {
    double cost, loss, bound;
    uint32_t from;
    uint8_t option;
} state;

typedef QG_VEC(state) states;

/* What leads back from a state. */
typedef struct trail {
    uint32_t from; /* among the states of the items before */
    uint8_t option;
} trail;

typedef struct solver {
    qg_ctx *ctx;
    qg_arena *a;
    const qg_knapsack *k;
    double budget, spare; /* spare: what the cheapest options leave */
    item *item;
    QG_VEC(step) step;
    double *cheapest;     /* [n + 1] cost of the items from i on, at the least */
    double *dearest_loss; /* [n + 1] their loss then */
    double *cost, *saved; /* [steps + 1] sums of the steps of the items left */
    size_t left;          /* how many these are */
    qg_selection best;
    double lost_bound; /* least bound of a state that was dropped for room */
} solver;

static double cost_of(const qg_knapsack *k, size_t i, size_t o)
{
    return k->cost[i * k->options + o];
}

static double loss_of(const qg_knapsack *k, size_t i, size_t o)
{
    return k->loss[i * k->options + o];
}

void qg_knapsack_sum(const qg_knapsack *k, qg_selection *s)
{
    s->cost = s->loss = 0;
    for (size_t i = 0; i < k->n; i++) {
        s->cost += cost_of(k, i, s->option[i]);
        s->loss += loss_of(k, i, s->option[i]);
    }
}

/* --- preparing --- */

/* By cost, then loss, then index: insertion, since there are few. */
static void sort_options(const qg_knapsack *k, size_t i, item *it)
{
    for (size_t o = 0; o < k->options; o++) {
        size_t at = it->n;
        if (!isfinite(loss_of(k, i, o)))
            continue;
        while (at > 0 && (cost_of(k, i, it->option[at - 1]) > cost_of(k, i, o) ||
                          (cost_of(k, i, it->option[at - 1]) == cost_of(k, i, o) &&
                           loss_of(k, i, it->option[at - 1]) > loss_of(k, i, o)))) {
            it->option[at] = it->option[at - 1];
            at--;
        }
        it->option[at] = (uint8_t)o;
        it->n++;
    }
    size_t kept = 0;
    for (size_t o = 0; o < it->n; o++)
        if (kept == 0 ||
            loss_of(k, i, it->option[o]) < loss_of(k, i, it->option[kept - 1]))
            it->option[kept++] = it->option[o];
    it->n = (uint8_t)kept;
}

static double rate(const qg_knapsack *k, size_t i, size_t from, size_t to)
{
    return (loss_of(k, i, from) - loss_of(k, i, to)) /
           (cost_of(k, i, to) - cost_of(k, i, from));
}

/* The lower convex hull: rates of its steps fall. */
static qg_status add_steps(solver *s, size_t i)
{
    const qg_knapsack *k = s->k;
    const item *it = &s->item[i];
    uint8_t hull[QG_KNAPSACK_OPTIONS];
    size_t n = 0;
    for (size_t o = 0; o < it->n; o++) {
        while (n > 1 && rate(k, i, hull[n - 2], hull[n - 1]) <=
                            rate(k, i, hull[n - 1], it->option[o]))
            n--;
        hull[n++] = it->option[o];
    }
    for (size_t o = 1; o < n; o++) {
        step t = { .item = (uint32_t)i,
                   .to = hull[o],
                   .cost = cost_of(k, i, hull[o]) - cost_of(k, i, hull[o - 1]),
                   .saved = loss_of(k, i, hull[o - 1]) - loss_of(k, i, hull[o]) };
        QG_TRY(qg_vec_push(s->ctx, s->a, &s->step, t));
    }
    return QG_OK;
}

/* Best rate first; along one item in the order of its hull. */
static int by_rate(const void *a, const void *b)
{
    const step *x = a, *y = b;
    double left = x->saved / x->cost, right = y->saved / y->cost;
    if (left != right)
        return left < right ? 1 : -1;
    if (x->item != y->item)
        return x->item < y->item ? -1 : 1;
    return x->cost < y->cost ? -1 : x->cost > y->cost;
}

static qg_status prepare(solver *s, bool *found)
{
    const qg_knapsack *k = s->k;
    s->item = QG_NEWN(s->a, k->n, item);
    s->cheapest = QG_NEWN(s->a, k->n + 1, double);
    s->dearest_loss = QG_NEWN(s->a, k->n + 1, double);
    s->best.option = QG_NEWN(s->a, k->n, uint8_t);
    if (!s->item || !s->cheapest || !s->dearest_loss || !s->best.option)
        return qg_nomem(s->ctx);
    *found = true;
    for (size_t i = 0; i < k->n; i++) {
        sort_options(k, i, &s->item[i]);
        if (s->item[i].n == 0)
            *found = false;
        else
            QG_TRY(add_steps(s, i));
    }
    for (size_t i = k->n; *found && i-- > 0;) {
        const uint8_t first = s->item[i].option[0];
        s->cheapest[i] = s->cheapest[i + 1] + cost_of(k, i, first);
        s->dearest_loss[i] = s->dearest_loss[i + 1] + loss_of(k, i, first);
    }
    *found = *found && s->cheapest[0] <= s->budget;
    if (s->step.n > 1)
        qsort(s->step.at, s->step.n, sizeof *s->step.at, by_rate);
    s->cost = QG_NEWN(s->a, s->step.n + 1, double);
    s->saved = QG_NEWN(s->a, s->step.n + 1, double);
    return s->cost && s->saved ? QG_OK : qg_nomem(s->ctx);
}

/* --- greedy --- */

/* Steps by rate; an item whose step does not fit stays where it is. */
static void take_steps(solver *s, uint8_t *stuck)
{
    double spare = s->budget - s->cheapest[0];
    for (size_t i = 0; i < s->k->n; i++)
        s->best.option[i] = s->item[i].option[0];
    for (size_t i = 0; i < s->step.n; i++) {
        const step *t = &s->step.at[i];
        stuck[t->item] = stuck[t->item] || t->cost > spare;
        if (stuck[t->item])
            continue;
        spare -= t->cost;
        s->best.option[t->item] = (uint8_t)t->to;
    }
    qg_knapsack_sum(s->k, &s->best);
}

static qg_status begin(solver *s, bool *found)
{
    QG_TRY(prepare(s, found));
    uint8_t *stuck = QG_NEWN(s->a, s->k->n, uint8_t);
    if (!stuck)
        return qg_nomem(s->ctx);
    if (*found)
        take_steps(s, stuck);
    return QG_OK;
}

qg_status qg_knapsack_greedy(qg_ctx *ctx, const qg_knapsack *k, double budget,
                             qg_arena *a, qg_selection *out, bool *found)
{
    solver s = { .ctx = ctx, .a = a, .k = k, .budget = budget };
    QG_TRY(begin(&s, found));
    *out = s.best;
    return QG_OK;
}

/* --- the states --- */

/* Sums of the steps of items from `first` on. */
static void sum_steps(solver *s, size_t first)
{
    s->left = 0;
    for (size_t i = 0; i < s->step.n; i++) {
        const step *t = &s->step.at[i];
        if (t->item < first)
            continue;
        s->cost[s->left + 1] = s->cost[s->left] + t->cost;
        s->saved[s->left + 1] = s->saved[s->left] + t->saved;
        s->left++;
    }
}

/* The loss of items from `first` on in the linear relaxation with this much to spend
 * beyond their cheapest options. */
static double relaxed(const solver *s, size_t first, double spare)
{
    size_t low = 0, high = s->left; /* the steps that fit as a whole */
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (s->cost[middle] <= spare)
            low = middle;
        else
            high = middle - 1;
    }
    double saved = s->saved[low];
    if (low < s->left)
        saved += (spare - s->cost[low]) * (s->saved[low + 1] - s->saved[low]) /
                 (s->cost[low + 1] - s->cost[low]);
    return s->dearest_loss[first] - saved;
}

/* Bounds within rounding of the best known loss cannot lead to a better one. */
static bool hopeless(const solver *s, double bound)
{
    return bound >= s->best.loss - fabs(s->best.loss) * 1e-12;
}

static int by_cost(const void *a, const void *b)
{
    const state *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? -1 : 1;
    if (x->loss != y->loss)
        return x->loss < y->loss ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->option > y->option) - (x->option < y->option);
}

static int by_bound(const void *a, const void *b)
{
    const state *x = a, *y = b;
    if (x->bound != y->bound)
        return x->bound < y->bound ? -1 : 1;
    return by_cost(a, b);
}

/* Every option of item i after every state. */
static qg_status extend(solver *s, size_t i, const states *before, states *after)
{
    const item *it = &s->item[i];
    after->n = 0;
    for (size_t b = 0; b < before->n; b++)
        for (size_t o = 0; o < it->n; o++) {
            state t = { .cost = before->at[b].cost + cost_of(s->k, i, it->option[o]),
                        .loss = before->at[b].loss + loss_of(s->k, i, it->option[o]),
                        .from = (uint32_t)b,
                        .option = it->option[o] };
            double spare = s->budget - t.cost - s->cheapest[i + 1];
            if (spare < 0)
                break;
            t.bound = t.loss + relaxed(s, i + 1, spare);
            if (!hopeless(s, t.bound))
                QG_TRY(qg_vec_push(s->ctx, s->a, after, t));
        }
    return QG_OK;
}

/* Dominated states go; then, beyond the limit, those with the worst bounds. */
static void thin(solver *s, states *all)
{
    size_t kept = 0;
    if (all->n > 1)
        qsort(all->at, all->n, sizeof *all->at, by_cost);
    for (size_t i = 0; i < all->n; i++)
        if (kept == 0 || all->at[i].loss < all->at[kept - 1].loss)
            all->at[kept++] = all->at[i];
    all->n = kept;
    if (kept <= QG_KNAPSACK_STATES)
        return;
    qsort(all->at, all->n, sizeof *all->at, by_bound);
    s->lost_bound = fmin(s->lost_bound, all->at[QG_KNAPSACK_STATES].bound);
    all->n = QG_KNAPSACK_STATES;
    qsort(all->at, all->n, sizeof *all->at, by_cost);
}

static qg_status keep_trail(const solver *s, const states *of, trail **out)
{
    trail *t = QG_NEWN(s->a, of->n, trail);
    if (!t)
        return qg_nomem(s->ctx);
    for (size_t i = 0; i < of->n; i++)
        t[i] = (trail){ of->at[i].from, of->at[i].option };
    *out = t;
    return QG_OK;
}

/* The last state has the least loss: it replaces the best known selection. */
static void follow(solver *s, trail *const *way, size_t last)
{
    for (size_t i = s->k->n, at = last; i-- > 0; at = way[i][at].from)
        s->best.option[i] = way[i][at].option;
    qg_knapsack_sum(s->k, &s->best);
}

static qg_status improve(solver *s)
{
    size_t n = s->k->n;
    states list[2] = { 0 };
    trail **way = QG_NEWN(s->a, n, trail *);
    if (!way)
        return qg_nomem(s->ctx);
    s->lost_bound = INFINITY;
    QG_TRY(qg_vec_push(s->ctx, s->a, &list[0], (state){ 0 }));
    for (size_t i = 0; i < n; i++) {
        states *after = &list[(i + 1) % 2];
        sum_steps(s, i + 1);
        QG_TRY(extend(s, i, &list[i % 2], after));
        thin(s, after);
        QG_TRY(keep_trail(s, after, &way[i]));
    }
    if (n > 0 && list[n % 2].n > 0)
        follow(s, way, list[n % 2].n - 1);
    s->best.bound = fmin(s->best.loss, s->lost_bound);
    s->best.exact = !(s->lost_bound < s->best.loss);
    return QG_OK;
}

qg_status qg_knapsack_solve(qg_ctx *ctx, const qg_knapsack *k, double budget,
                            qg_arena *a, qg_selection *out, bool *found)
{
    assert(k->options > 0 && k->options <= QG_KNAPSACK_OPTIONS);
    solver s = { .ctx = ctx, .a = a, .k = k, .budget = budget };
    QG_TRY(begin(&s, found));
    if (!*found)
        return QG_OK;
    QG_TRY(improve(&s));
    *out = s.best;
    return QG_OK;
}
