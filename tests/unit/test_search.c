/* What qg search computes from numbers alone (search/search.h): bits and bytes of
 * policies, and the policies that its methods select, against enumeration. */
#include <math.h>

#include "engine/core/rng.h"
#include "engine/search/search.h"
#include "engine/snapshot/model.h"
#include "tests/support/test.h"

enum { ITEMS = 4, OPTIONS = 3, CELLS = ITEMS * OPTIONS };

/* Choices 4, 8 and float (32 bits); items 0 and 1 are weights of 100 and 50 elements,
 * of which 100 and 40 are stored; a bias of item 1 and 2 needs 320 bits in float. */
typedef struct fixture {
    qg_ctx *ctx;
    qg_model m;
    qg_searching s;
    double cost[CELLS], harm[CELLS], context[CELLS];
    qg_item item[ITEMS];
    qg_derived derived[1];
} fixture;

static fixture f;

static int setup(void **state)
{
    static const double elements[ITEMS] = { 100, 50, 30, 10 };
    static const double stored[ITEMS] = { 100, 40, 0, 0 };
    static const unsigned bits[OPTIONS] = { 4, 8, 0 };
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f.m.ctx = f.ctx;
    f.s = (qg_searching){ .m = &f.m, .arena = f.ctx->arena, .options = OPTIONS };
    for (size_t i = 0; i < ITEMS; i++) {
        f.item[i] = (qg_item){ .elements = elements[i], .stored = stored[i] };
        f.item[i].now = 8 * elements[i];
        for (size_t o = 0; o < OPTIONS; o++)
            f.cost[i * OPTIONS + o] = elements[i] * (bits[o] ? bits[o] : 32);
    }
    memcpy(f.s.bits, bits, sizeof bits);
    f.derived[0] = (qg_derived){
        {1, 2},
        320
    };
    f.s.item.at = f.item;
    f.s.item.n = ITEMS;
    f.s.derived.at = f.derived;
    f.s.derived.n = 1;
    f.s.cost = f.cost;
    f.s.harm = f.harm;
    f.s.context = f.context;
    f.s.elements = 190;
    f.s.fixed = 5;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qg_ctx_free(f.ctx);
    return 0;
}

/* --- policies -------------------------------------------------------------------- */

static void items_that_are_kept_have_their_bits(void **state)
{
    const uint8_t option[ITEMS] = { 0, QG_SEARCH_KEPT, 2, 1 };
    (void)state;
    assert_cmp_f64(qg_search_cost(&f.s, option, 0), ==, 400);
    assert_cmp_f64(qg_search_cost(&f.s, option, 1), ==, 400);
    assert_cmp_f64(qg_search_cost(&f.s, option, 2), ==, 960);
    assert_int_equal(qg_search_option(&f.s, option, 0), 0);
    assert_int_equal(qg_search_option(&f.s, option, 1), 1);
    assert_int_equal(qg_search_option(&f.s, option, 2), 2);
    f.item[1].now = 6 * 50; /* none of the choices */
    assert_int_equal(qg_search_option(&f.s, option, 1), OPTIONS);
    f.item[1].now = 4 * 50;
    assert_int_equal(qg_search_option(&f.s, option, 1), 0);
    assert_cmp_f64(qg_search_mean_bits(&f.s, 190 * 6), ==, 6);
}

/* Bytes of what is stored, and of a bias that becomes float with one of its items. */
static void sizes_of_policies(void **state)
{
    static const struct {
        uint8_t option[ITEMS];
        size_t bytes;
    } rows[] = {
        {{ 0, 0, 0, 0 },                            5 + 50 + 20       },
        { { 1, 0, 0, 1 },                           5 + 100 + 20      },
        { { 1, 2, 0, 0 },                           5 + 100 + 160 + 40},
        { { 1, 0, 2, 0 },                           5 + 100 + 20 + 40 },
        { { 1, 2, 2, 2 },                           5 + 100 + 160 + 40},
        { { QG_SEARCH_KEPT, QG_SEARCH_KEPT, 0, 2 }, 5 + 100 + 40      },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(qg_search_size(&f.s, rows[i].option), rows[i].bytes);
    f.derived[0].item[0] = QG_NONE;
    assert_int_equal(qg_search_size(&f.s, rows[2].option), 265);
    f.derived[0].item[1] = QG_NONE;
    assert_int_equal(qg_search_size(&f.s, rows[4].option), 265);
    f.s.fixed = 5.25; /* rounded up */
    assert_int_equal(qg_search_size(&f.s, rows[0].option), 76);
}

static void what_budgets_allow(void **state)
{
    double space[CELLS];
    (void)state;
    f.s.space = space;
    f.s.budget = 6;
    f.s.kind = QG_BUDGET_BITS;
    assert_cmp_f64(qg_search_allowed(&f.s), ==, 6 * 190);
    assert_ptr_equal(qg_search_counted(&f.s), f.cost);
    f.s.kind = QG_BUDGET_SIZE;
    assert_cmp_f64(qg_search_allowed(&f.s), ==, 8);
    assert_ptr_equal(qg_search_counted(&f.s), space);
    f.s.kind = QG_BUDGET_NSR;
    assert_ptr_equal(qg_search_counted(&f.s), f.cost);
    assert_cmp_f64(qg_search_number(NAN), ==, QG_SEARCH_NO_NUMBER);
    assert_cmp_f64(qg_search_number(INFINITY), ==, QG_SEARCH_NO_NUMBER);
    assert_cmp_f64(qg_search_number(0.5), ==, 0.5);
}

static void choices_that_suit(void **state)
{
    (void)state;
    assert_true(qg_search_takes(&f.s, 1, 2));
    assert_int_equal(qg_search_most(&f.s, 1), 2);
    f.cost[1 * OPTIONS + 2] = INFINITY;
    assert_false(qg_search_takes(&f.s, 1, 2));
    assert_int_equal(qg_search_most(&f.s, 1), 1);
    assert_int_equal(qg_search_most(&f.s, 0), 2);
    f.cost[1 * OPTIONS + 1] = f.cost[1 * OPTIONS] = INFINITY;
    assert_int_equal(qg_search_most(&f.s, 1), 0); /* none: the first, which does not */
    assert_string_equal(qg_search_choice_text(&f.s, 1), "8");
    assert_string_equal(qg_search_choice_text(&f.s, 2), "float");
}

static void policies_are_known_once_tried(void **state)
{
    uint8_t first[ITEMS] = { 0, 1, 2, 0 }, second[ITEMS] = { 0, 1, 2, 1 };
    const uint8_t none[ITEMS] = { 1, 1, 2, 1 };
    qg_tried a = { .option = first, .nsr = 3 }, b = { .option = second, .nsr = 2 };
    const qg_tried *tried[] = { &a, &b };
    (void)state;
    f.s.tried.at = tried;
    f.s.tried.n = 2;
    assert_ptr_equal(qg_search_known(&f.s, (uint8_t[ITEMS]){ 0, 1, 2, 0 }), &a);
    assert_ptr_equal(qg_search_known(&f.s, (uint8_t[ITEMS]){ 0, 1, 2, 1 }), &b);
    assert_null(qg_search_known(&f.s, none));
    f.s.found[QG_EXACT].policy = &a;
    assert_ptr_equal(qg_search_least_noise(&f.s), &a);
    f.s.found[QG_SNAPSHOT].policy = &b;
    assert_ptr_equal(qg_search_least_noise(&f.s), &b);
    b.nsr = 3; /* no less */
    assert_ptr_equal(qg_search_least_noise(&f.s), &a);
}

/* --- selections ------------------------------------------------------------------ */

static void draw(qg_rng *r)
{
    for (size_t i = 0; i < ITEMS; i++)
        for (size_t o = 0; o < OPTIONS; o++)
            f.harm[i * OPTIONS + o] =
                o + 1 < OPTIONS ? (double)qg_rng_range(r, 0.1f, 1) * pow(8, -(double)o)
                                : 0;
}

static double sum(const double *of, const uint8_t *option)
{
    double all = 0;
    for (size_t i = 0; i < ITEMS; i++)
        all += of[i * OPTIONS + option[i]];
    return all;
}

/* The least of `loss` with at most `limit` of `cost`; negative: none. */
static double least(const double *loss, const double *cost, double limit)
{
    double best = -1;
    for (size_t code = 0; code < 81; code++) {
        const uint8_t option[ITEMS] = { code % 3, code / 3 % 3, code / 9 % 3,
                                        code / 27 % 3 };
        const double all = sum(loss, option);
        if (sum(cost, option) <= limit && (best < 0 || all < best))
            best = all;
    }
    return best;
}

/* As the methods count: bits, or those that are stored and a bias with each item that
 * becomes float. */
static void counted(double *space)
{
    for (size_t i = 0; i < ITEMS; i++)
        for (size_t o = 0; o < OPTIONS; o++)
            space[i * OPTIONS + o] =
                f.item[i].stored / f.item[i].elements * f.cost[i * OPTIONS + o] +
                (o == 2 && (i == 1 || i == 2) ? 320 : 0);
}

static qg_selection select_by(enum qg_method how, double limit, bool *found)
{
    qg_selection x;
    assert_ok(f.ctx, qg_search_select(&f.s, how, limit, &x, found));
    return x;
}

static void exact_selections_are_the_best(void **state)
{
    qg_rng r = { 8 };
    (void)state;
    for (int turn = 0; turn < 30; turn++) {
        double space[CELLS];
        bool found;
        draw(&r);
        counted(space);
        f.s.kind = (enum qg_budget_kind)(turn % 3);
        const bool noise = f.s.kind == QG_BUDGET_NSR, size = f.s.kind == QG_BUDGET_SIZE;
        const double limit = noise ? (double)qg_rng_range(&r, 0, 2)
                                   : (double)qg_rng_range(&r, 500, size ? 2500 : 4000);
        const double *cost = noise ? f.harm : size ? space : f.cost;
        const double *loss = noise ? f.cost : f.harm;
        const double want = least(loss, cost, limit);
        const qg_selection x = select_by(QG_EXACT, limit, &found);
        assert_int_equal(found, want >= 0);
        if (!found)
            continue;
        assert_cmp_f64(fabs(x.loss - want), <, 1e-9);
        assert_cmp_f64(fabs(sum(loss, x.option) - x.loss), <, 1e-9);
        assert_cmp_f64(fabs(sum(cost, x.option) - x.cost), <, 1e-9);
        const qg_selection g = select_by(QG_GREEDY, limit, &found);
        assert_true(found || noise);
        assert_true(!found || (g.loss >= x.loss - 1e-9 && g.cost <= limit));
    }
}

/* Around a policy: the same with the context. */
static void refined_selections_use_the_context(void **state)
{
    bool found;
    qg_rng r = { 3 };
    (void)state;
    draw(&r);
    memcpy(f.context, f.harm, sizeof f.harm);
    memset(f.harm, 0, sizeof f.harm);
    f.s.kind = QG_BUDGET_BITS;
    const qg_selection x = select_by(QG_REFINED, 1500, &found);
    assert_true(found);
    assert_cmp_f64(fabs(x.loss - least(f.context, f.cost, 1500)), <, 1e-9);
    assert_cmp_f64(select_by(QG_EXACT, 1500, &found).loss, ==, 0);
}

/* Two levels of bits; the first n items by their harm at the lower one have the higher:
 * the best of all such. */
static double least_by_harm(const double *loss, const double *cost, double limit)
{
    double best = -1;
    for (size_t low = 0; low < OPTIONS; low++)
        for (size_t high = low; high < OPTIONS; high++)
            for (size_t n = 0; n <= ITEMS; n++) {
                uint8_t option[ITEMS];
                for (size_t i = 0; i < ITEMS; i++) {
                    size_t before = 0; /* items with more harm, or as much and first */
                    for (size_t k = 0; k < ITEMS; k++)
                        before +=
                            f.harm[k * OPTIONS + low] > f.harm[i * OPTIONS + low] ||
                            (k < i &&
                             f.harm[k * OPTIONS + low] == f.harm[i * OPTIONS + low]);
                    option[i] = (uint8_t)(before < n ? high : low);
                }
                if (sum(cost, option) <= limit &&
                    (best < 0 || sum(loss, option) < best))
                    best = sum(loss, option);
            }
    return best;
}

static void selections_by_harm(void **state)
{
    qg_rng r = { 12 };
    (void)state;
    for (int turn = 0; turn < 40; turn++) {
        bool found;
        draw(&r);
        if (turn % 4 == 0) /* two alike: the first is raised first */
            for (size_t o = 0; o < OPTIONS; o++)
                f.harm[2 * OPTIONS + o] = f.harm[o];
        f.s.kind = turn % 2 ? QG_BUDGET_BITS : QG_BUDGET_NSR;
        const bool noise = f.s.kind == QG_BUDGET_NSR;
        const double limit = noise ? (double)qg_rng_range(&r, 0, 2)
                                   : (double)qg_rng_range(&r, 700, 6500);
        const double *cost = noise ? f.harm : f.cost, *loss = noise ? f.cost : f.harm;
        const double want = least_by_harm(loss, cost, limit);
        const qg_selection x = select_by(QG_BY_HARM, limit, &found);
        assert_int_equal(found, want >= 0);
        if (!found)
            continue;
        assert_cmp_f64(fabs(x.loss - want), <, 1e-9);
        assert_cmp_f64(fabs(sum(loss, x.option) - want), <, 1e-9);
        assert_cmp_f64(x.bound, ==, x.loss);
    }
}

/* Of policies that are alike in loss, that of fewer items, at fewer bits, is taken. */
static void ties_go_to_the_first(void **state)
{
    static const double harm[CELLS] = { 1, 0, 0, 0.5, 0.5, 0.5 };
    static const uint8_t want[ITEMS] = { 1, 0, 0, 0 };
    bool found;
    (void)state;
    memcpy(f.harm, harm, sizeof harm);
    f.s.kind = QG_BUDGET_BITS;
    const qg_selection x = select_by(QG_BY_HARM, 1e9, &found);
    assert_true(found);
    assert_memory_equal(x.option, want, sizeof want);
    assert_cmp_f64(x.loss, ==, 0.5);
}

/* Exactly the budget fits: all items at 4 bits, or at float. */
static void budgets_are_met_exactly(void **state)
{
    static const enum qg_method all[] = { QG_EXACT, QG_GREEDY, QG_BY_HARM };
    bool found;
    qg_rng r = { 1 };
    (void)state;
    draw(&r);
    f.s.kind = QG_BUDGET_BITS;
    for (size_t i = 0; i < 3; i++) {
        const qg_selection low = select_by(all[i], 190 * 4, &found);
        assert_true(found);
        assert_int_equal(low.option[0] + low.option[1] + low.option[2] + low.option[3],
                         0);
        assert_cmp_f64(select_by(all[i], 190 * 32, &found).loss, ==, 0);
        (void)select_by(all[i], 190 * 4 - 1, &found);
        assert_false(found);
    }
}

/* An option without a cost has none to be stored either. */
static void options_that_are_left_out(void **state)
{
    bool found;
    qg_rng r = { 1 };
    (void)state;
    draw(&r);
    f.s.kind = QG_BUDGET_SIZE;
    f.cost[2 * OPTIONS + 1] = f.harm[2 * OPTIONS + 1] = INFINITY;
    f.cost[2 * OPTIONS + 2] = f.harm[2 * OPTIONS + 2] = INFINITY;
    f.item[3].elements = 0; /* of a value of no elements */
    const qg_selection x = select_by(QG_EXACT, 1e9, &found);
    assert_true(found);
    assert_int_equal(x.option[2], 0);
    assert_true(isinf(f.s.space[2 * OPTIONS + 1]));
    assert_cmp_f64(f.s.space[3 * OPTIONS], ==, 0);
    assert_cmp_f64(f.s.space[1 * OPTIONS + 2], ==, 40 * 32 + 320);
    assert_cmp_f64(f.s.space[1 * OPTIONS + 1], ==, 40 * 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(TEST(items_that_are_kept_have_their_bits), TEST(sizes_of_policies),
             TEST(what_budgets_allow), TEST(choices_that_suit),
             TEST(policies_are_known_once_tried), TEST(exact_selections_are_the_best),
             TEST(refined_selections_use_the_context), TEST(selections_by_harm),
             TEST(budgets_are_met_exactly), TEST(ties_go_to_the_first),
             TEST(options_that_are_left_out))
