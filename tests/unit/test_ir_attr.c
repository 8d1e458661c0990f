/* Attribute readers: presets, types, counts, bounds, choices; names of node and
 * attribute in every refusal. */
#include "tests/support/test.h"

#include "engine/ir/text.h"
#include "tests/support/graphs.h"

static const char text[] =
    "graph { () = test::Custom n() i=7 f=1.5 s=\"up\" is=[1, 2, 3] fs=[0.5] "
    "ss=[\"a\", \"b\"] t=f32[2] [1, 2] g=graph \"b\" { } }";

static qg_ctx *ctx;
static qg_graph *g;
static const qg_node *n;

static int set_up(void **state)
{
    (void)state;
    qg_text_source source = { .text = text, .size = sizeof text - 1 };
    ctx = qg_ctx_new(qg_alloc_libc);
    ctx->registry = &toy_registry;
    assert_ok(ctx, qg_text_parse(ctx, &source, &g));
    n = qg_graph_node(g, "n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    qg_graph_free(g);
    qg_ctx_free(ctx);
    return 0;
}

static void present_ones_are_read(void **state)
{
    (void)state;
    int64_t i = 0;
    float f = 0;
    const char *s = NULL, *const *ss = NULL;
    const int64_t *is = NULL;
    const float *fs = NULL;
    const qg_tensor *t = NULL;
    qg_graph *body = NULL;
    size_t count = 0;
    assert_ok(ctx, qg_attr_int(ctx, n, "i", 0, &i));
    assert_int_equal(i, 7);
    assert_ok(ctx, qg_attr_float(ctx, n, "f", 0, &f));
    assert_cmp_f64(f, ==, 1.5f);
    assert_ok(ctx, qg_attr_string(ctx, n, "s", "down", &s));
    assert_string_equal(s, "up");
    assert_ok(ctx, qg_attr_ints(ctx, n, "is", &is, &count));
    assert_int_equal(is[count - 1], 3);
    assert_ok(ctx, qg_attr_floats(ctx, n, "fs", &fs, &count));
    assert_int_equal(count, 1);
    assert_cmp_f64(fs[0], ==, 0.5f);
    assert_ok(ctx, qg_attr_strings(ctx, n, "ss", &ss, &count));
    assert_string_equal(ss[count - 1], "b");
    assert_ok(ctx, qg_attr_tensor(ctx, n, "t", &t));
    assert_cmp_f64(t->f32[1], ==, 2);
    assert_ok(ctx, qg_attr_graph(ctx, n, "g", &body));
    assert_string_equal(body->name, "b");
    assert_true(qg_attr_has(n, "i"));
    assert_false(qg_attr_has(n, "j"));
}

static void absent_ones_are_preset(void **state)
{
    (void)state;
    int64_t i = 0, two[2] = { 0 };
    float f = 0;
    const char *s = NULL;
    const int64_t *is = &i;
    const qg_tensor *t = (const qg_tensor *)&i;
    size_t count = 9;
    assert_ok(ctx, qg_attr_int(ctx, n, "none", -4, &i));
    assert_int_equal(i, -4);
    assert_ok(ctx, qg_attr_float(ctx, n, "none", 0.25f, &f));
    assert_cmp_f64(f, ==, 0.25f);
    assert_ok(ctx, qg_attr_string(ctx, n, "none", "down", &s));
    assert_string_equal(s, "down");
    assert_ok(ctx, qg_attr_ints(ctx, n, "none", &is, &count));
    assert_null(is);
    assert_int_equal(count, 0);
    assert_ok(ctx, qg_attr_tensor(ctx, n, "none", &t));
    assert_null(t);
    assert_ok(ctx, qg_attr_ints_n(ctx, n, "none", 2, (qg_int_bounds){ 5, 1, 9 }, two));
    assert_int_equal(two[0], 5);
    assert_int_equal(two[1], 5);
}

static void wrong_types_are_refused(void **state)
{
    (void)state;
    int64_t i = 3;
    const int64_t *is = &i;
    size_t count = 1;
    assert_fails(ctx, qg_attr_int(ctx, n, "is", 0, &i), QG_EMODEL,
                 "attributes: node 'n' (Custom): is is INTS, expected INT");
    assert_fails(ctx, qg_attr_ints(ctx, n, "fs", &is, &count), QG_EMODEL,
                 "fs is FLOATS, expected INTS");
    assert_int_equal(i, 3);
    assert_ptr_equal(is, &i);
    assert_int_equal(count, 1); /* untouched */
}

static void counts_and_bounds_hold(void **state)
{
    (void)state;
    int64_t out[4] = { 9, 9, 9, 9 };
    qg_int_bounds wide = { 0, 0, 9 }, tight = { 0, 0, 2 };
    assert_ok(ctx, qg_attr_ints_n(ctx, n, "is", 3, wide, out));
    assert_int_equal(out[2], 3);
    assert_fails(ctx, qg_attr_ints_n(ctx, n, "is", 4, wide, out), QG_EMODEL,
                 "attributes: node 'n' (Custom): is has 3 values, expected 4");
    assert_fails(ctx, qg_attr_ints_n(ctx, n, "is", 3, tight, out), QG_EMODEL,
                 "is[2] is 3, expected within [0, 2]");
    assert_int_equal(out[3], 9);
}

static void choices_are_indices(void **state)
{
    (void)state;
    static const char *const ways[] = { "down", "up", NULL }, *const no[] = { "a",
                                                                              NULL };
    int way = -1;
    assert_ok(ctx, qg_attr_choice(ctx, n, "s", ways, 0, &way));
    assert_int_equal(way, 1);
    assert_ok(ctx, qg_attr_choice(ctx, n, "none", ways, 0, &way));
    assert_int_equal(way, 0);
    assert_fails(ctx, qg_attr_choice(ctx, n, "s", no, 0, &way), QG_EMODEL,
                 "attributes: node 'n' (Custom): s is 'up', expected one of 'a'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(present_ones_are_read),
        cmocka_unit_test(absent_ones_are_preset),
        cmocka_unit_test(wrong_types_are_refused),
        cmocka_unit_test(counts_and_bounds_hold),
        cmocka_unit_test(choices_are_indices),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
