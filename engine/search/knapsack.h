/* knapsack.h -- the multiple-choice knapsack: one option of every item, such that the
 * costs stay within a budget and the losses are as small as can be.
 *
 *     minimize  sum of loss[i][x_i]     subject to  sum of cost[i][x_i] <= budget
 *
 * Exact    dynamic programming over the states (cost, loss) that no other state
 *          dominates, item by item.  A state is dropped when it cannot lead to less
 *          than the best known solution: its loss plus the optimum of the linear
 *          relaxation over the items that are left.  Few states remain, since the
 *          relaxation of this problem has one fractional item at most.
 * Limit    QG_KNAPSACK_STATES per item; beyond it the states with the worst bounds go,
 *          and the answer gives the gap to what it can prove.
 * Source   Sinha and Zoltners, "The multiple-choice knapsack problem", Operations
 *          Research 27, 1979 (relaxation by the lower convex hull of each item);
 *          Pisinger, "A minimal algorithm for the multiple-choice knapsack problem",
 *          EJOR 83, 1995 (states with bounds) */
#ifndef QG_ENGINE_SEARCH_KNAPSACK_H
#define QG_ENGINE_SEARCH_KNAPSACK_H

#include "engine/core/vec.h"

enum { QG_KNAPSACK_STATES = 1 << 16, QG_KNAPSACK_OPTIONS = 16 };

/* cost and loss: [n][options], of any sign; a loss that is not finite forbids the
 * option. */
typedef struct qg_knapsack {
    size_t n, options; /* options: of every item, at most QG_KNAPSACK_OPTIONS */
    const double *cost, *loss;
} qg_knapsack;

typedef struct qg_selection {
    uint8_t *option; /* [n] */
    double cost, loss;
    double bound; /* no selection within the budget has a smaller loss */
    bool exact;   /* bound equals loss, up to rounding */
} qg_selection;

/* *found false: not even the cheapest options fit.  Results are in a.  The same
 * selection for the same problem: ties go to the cheaper, then to the earlier option.
 * QG_ENOMEM only. */
QG_NODISCARD qg_status qg_knapsack_solve(qg_ctx *ctx, const qg_knapsack *k,
                                         double budget, qg_arena *a, qg_selection *out,
                                         bool *found);

/* The usual heuristic, for comparison: from the cheapest options, the step that lowers
 * the loss most per cost, as long as the budget allows it. */
QG_NODISCARD qg_status qg_knapsack_greedy(qg_ctx *ctx, const qg_knapsack *k,
                                          double budget, qg_arena *a, qg_selection *out,
                                          bool *found);

/* Sums of a selection, in order of items. */
void qg_knapsack_sum(const qg_knapsack *k, qg_selection *s);

#endif
