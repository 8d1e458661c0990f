/* The exact knapsack against enumeration, and its relation to greedy. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/search/knapsack.h"

enum { ITEMS = 7, OPTIONS = 4, LARGE = 60 };

typedef struct problem {
    double cost[LARGE * OPTIONS], loss[LARGE * OPTIONS];
    qg_knapsack k;
    double most; /* cost of the dearest selection */
} problem;

/* Costs like elements times bits, losses that fall with the bits, mostly. */
static void make(problem *p, size_t n, qg_rng *rng)
{
    static const double bits[OPTIONS] = { 4, 8, 16, 32 };
    p->most = 0;
    for (size_t i = 0; i < n; i++) {
        double elements = (double)(1 + qg_rng_below(rng, 500));
        double harm = (double)qg_rng_float(rng);
        for (size_t o = 0; o < OPTIONS; o++) {
            p->cost[i * OPTIONS + o] = elements * bits[o];
            p->loss[i * OPTIONS + o] =
                o == 3 ? 0
                       : harm * pow(4, -(double)o) * (0.5 + (double)qg_rng_float(rng));
            if (qg_rng_below(rng, 20) == 0 && o > 0)
                p->loss[i * OPTIONS + o] = (double)NAN;
        }
        p->most += elements * 32;
    }
    p->k = (qg_knapsack){ n, OPTIONS, p->cost, p->loss };
}

/* The least loss of all selections; negative: none fits. */
static double enumerate(const qg_knapsack *k, double budget)
{
    double best = -1;
    size_t all = 1;
    for (size_t i = 0; i < k->n; i++)
        all *= k->options;
    for (size_t code = 0; code < all; code++) {
        double cost = 0, loss = 0;
        size_t rest = code;
        for (size_t i = 0; i < k->n; i++, rest /= k->options) {
            cost += k->cost[i * k->options + rest % k->options];
            loss += k->loss[i * k->options + rest % k->options];
        }
        if (cost <= budget && isfinite(loss) && (best < 0 || loss < best))
            best = loss;
    }
    return best;
}

static void the_optimum_is_that_of_enumeration(void **state)
{
    qg_ctx *ctx = *state;
    qg_rng rng = { 1 };
    size_t solved = 0, better = 0;
    for (int round = 0; round < 60; round++) {
        problem p;
        make(&p, ITEMS, &rng);
        double budget = p.most * (0.08 + 0.9 * (double)qg_rng_float(&rng));
        qg_selection exact, greedy;
        bool found, too;
        assert_ok(ctx,
                  qg_knapsack_solve(ctx, &p.k, budget, ctx->arena, &exact, &found));
        assert_ok(ctx,
                  qg_knapsack_greedy(ctx, &p.k, budget, ctx->arena, &greedy, &too));
        double best = enumerate(&p.k, budget);
        assert_int_equal(found, best >= 0);
        assert_int_equal(too, found);
        if (!found)
            continue;
        solved++;
        assert_true(exact.exact);
        assert_cmp_f64(exact.cost, <=, budget);
        assert_cmp_f64(fabs(exact.loss - best), <=, 1e-11 * best);
        assert_cmp_f64(greedy.cost, <=, budget);
        assert_cmp_f64(greedy.loss, >=, exact.loss * (1 - 1e-11));
        better += greedy.loss > exact.loss * (1 + 1e-9);
    }
    assert_cmp_int(solved, >, 40);
    assert_cmp_int(better, >, 5);
}

/* As many groups as a network has: proved, and the same again. */
static void many_items_are_solved(void **state)
{
    qg_ctx *ctx = *state;
    qg_rng rng = { 2 };
    problem p;
    make(&p, LARGE, &rng);
    for (int part = 2; part < 10; part++) {
        qg_selection a, b, greedy;
        bool found;
        double budget = p.most * part / 10;
        assert_ok(ctx, qg_knapsack_solve(ctx, &p.k, budget, ctx->arena, &a, &found));
        assert_true(found);
        assert_true(a.exact);
        assert_cmp_f64(a.cost, <=, budget);
        assert_ok(ctx,
                  qg_knapsack_greedy(ctx, &p.k, budget, ctx->arena, &greedy, &found));
        assert_cmp_f64(a.loss, <=, greedy.loss);
        assert_ok(ctx, qg_knapsack_solve(ctx, &p.k, budget, ctx->arena, &b, &found));
        assert_memory_equal(a.option, b.option, LARGE);
    }
}

/* The budget exactly met, ties, and an item without a usable option. */
static void edges(void **state)
{
    qg_ctx *ctx = *state;
    const double cost[] = { 4, 8, 4, 8 }, loss[] = { 1, 0, 1, 0 };
    const double none[] = { 1, 0, (double)NAN, (double)INFINITY };
    qg_knapsack k = { 2, 2, cost, loss };
    qg_selection s;
    bool found;
    assert_ok(ctx, qg_knapsack_solve(ctx, &k, 12, ctx->arena, &s, &found));
    assert_true(found);
    assert_cmp_f64(s.cost, ==, 12);
    assert_cmp_f64(s.loss, ==, 1);
    assert_ok(ctx, qg_knapsack_solve(ctx, &k, 16, ctx->arena, &s, &found));
    assert_cmp_f64(s.cost, ==, 16);
    assert_cmp_f64(s.loss, ==, 0);
    assert_ok(ctx, qg_knapsack_solve(ctx, &k, 7.5, ctx->arena, &s, &found));
    assert_false(found);
    k.loss = none;
    assert_ok(ctx, qg_knapsack_solve(ctx, &k, 100, ctx->arena, &s, &found));
    assert_false(found);
    k.n = 0;
    assert_ok(ctx, qg_knapsack_solve(ctx, &k, 0, ctx->arena, &s, &found));
    assert_true(found);
    assert_cmp_f64(s.loss, ==, 0);
}

QG_TEST_MAIN(WITH_CTX(the_optimum_is_that_of_enumeration),
             WITH_CTX(many_items_are_solved), WITH_CTX(edges))
