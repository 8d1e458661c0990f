/* qg_recipe_write and qg_recipe_read: what is written is read, and nothing else is. */
#include "tests/support/test.h"

#include "engine/ir/recipe.h"
#include "ops/families.h"

static const float scales[3] = { 0.5f, 0.25f, 2 };
static const int32_t zeros[3] = { 1, -2, 0 };
static const float one = 0.125f;
static const int32_t three = 3;

static qg_recipe written(void)
{
    qg_recipe r = {
        .row = {.id = "sum",
                .uses = QG_USE_BIT(ADD),
                .form = QG_FORM_FIXED,
                .products = QG_PRODUCTS_PAIRS,
                .rounding = QG_ROUND_HALF_AWAY,
                .left8 = 20,
                .left16 = 15,
                .requant = { QG_SCHEME_FIX_SINGLE, QG_FACTOR_F32, QG_ZERO_INSIDE, true,
                              64 }}
    };
    r.in[0] = (qg_stored){ true, QG_U8, 1, &one, &three, 0, 0, 255 };
    r.in[2] = (qg_stored){ true, QG_I8, 3, scales, zeros, 1, -128, 127 };
    r.out = (qg_stored){ true, QG_I16, 1, &one, &three, 0, -7, 9 };
    return r;
}

/* A node with these attributes, unlinked: readers need no more. */
static qg_node with(const qg_attr *attr, size_t n)
{
    return (qg_node){
        .name = "n", .op = &qg_ops_integer_binary[0], .attr = attr, .n_attr = n
    };
}

static void same_grid(const qg_stored *a, const qg_stored *b)
{
    assert_int_equal(a->codes, b->codes);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->low, b->low);
    assert_int_equal(a->high, b->high);
    for (uint32_t i = 0; i < a->n; i++) {
        assert_cmp_f64(a->scale[i], ==, b->scale[i]);
        assert_int_equal(a->zero[i], b->zero[i]);
    }
    if (a->n > 1)
        assert_int_equal(a->axis, b->axis);
}

static void all_of_it_is_read(void **state)
{
    qg_ctx *ctx = *state;
    qg_graph *g;
    qg_recipe w = written(), r;
    const int64_t seven = 7;
    const qg_attr own = {
        .name = "axis", .type = QG_ATTR_INT, .count = 1, .ints = &seven
    };
    const qg_attr *attr;
    size_t n;
    assert_ok(ctx, qg_graph_new(ctx, "g", &g));
    assert_ok(ctx, qg_recipe_write(g, &w, &own, 1, &attr, &n));
    qg_node node = with(attr, n);
    assert_string_equal(attr[0].name, "axis");
    assert_ok(ctx, qg_recipe_read(ctx, &node, &r));
    assert_string_equal(r.row.id, "sum");
    assert_int_equal(r.row.form, w.row.form);
    assert_int_equal(r.row.products, w.row.products);
    assert_int_equal(r.row.rounding, w.row.rounding);
    assert_int_equal(r.row.left8, 15); /* of the output's type */
    assert_int_equal(r.row.left16, 15);
    assert_memory_equal(&r.row.requant, &w.row.requant, sizeof r.row.requant);
    assert_false(r.in[1].codes);
    same_grid(&r.in[0], &w.in[0]);
    same_grid(&r.in[2], &w.in[2]);
    same_grid(&r.out, &w.out);
    qg_graph_free(g);
}

static void lists_are_read(void **state)
{
    qg_ctx *ctx = *state;
    qg_graph *g;
    qg_recipe w = { .row = { .id = "concat", .form = QG_FORM_COPY } }, r;
    qg_stored all[2] = {
        {true,  QG_U8, 1, &one,       &three,    0, 0,    255},
        { true, QG_I8, 1, &scales[1], &zeros[1], 0, -128, 127}
    };
    const qg_stored *read;
    const qg_attr *attr;
    uint32_t n_all;
    size_t n;
    w.all = all;
    w.n_all = 2;
    assert_ok(ctx, qg_graph_new(ctx, "g", &g));
    assert_ok(ctx, qg_recipe_write(g, &w, NULL, 0, &attr, &n));
    qg_node node = with(attr, n);
    assert_ok(ctx, qg_recipe_read(ctx, &node, &r));
    assert_int_equal(r.n_all, 2);
    assert_false(r.out.codes);
    assert_int_equal(r.out.dtype, QG_F32);
    node.n_in = 3;
    assert_int_equal(qg_recipe_read_all(ctx, &node, ctx->arena, &read, &n_all),
                     QG_EMODEL);
    node.n_in = 2;
    assert_ok(ctx, qg_recipe_read_all(ctx, &node, ctx->arena, &read, &n_all));
    assert_int_equal(n_all, 2);
    same_grid(&read[0], &all[0]);
    same_grid(&read[1], &all[1]);
    qg_graph_free(g);
}

/* Any attribute in another type: numbers as texts, texts as numbers. */
static void other_types_are_refused(void **state)
{
    qg_ctx *ctx = *state;
    qg_graph *g;
    qg_recipe w = written(), r;
    const int64_t seven = 7;
    const qg_attr *attr;
    size_t n;
    assert_ok(ctx, qg_graph_new(ctx, "g", &g));
    assert_ok(ctx, qg_recipe_write(g, &w, NULL, 0, &attr, &n));
    for (size_t i = 0; i < n; i++) {
        qg_attr *other = qg_arena_get(ctx->arena, n * sizeof *other, _Alignof(qg_attr));
        assert_non_null(other);
        memcpy(other, attr, n * sizeof *other);
        const bool was_int = attr[i].type == QG_ATTR_INT;
        other[i] = (qg_attr){ .name = attr[i].name,
                              .type = was_int ? QG_ATTR_FLOAT : QG_ATTR_INT,
                              .count = 1 };
        if (was_int)
            other[i].floats = &one;
        else
            other[i].ints = &seven;
        const qg_node node = with(other, n);
        if (qg_recipe_read(ctx, &node, &r) != QG_EMODEL)
            fail_msg("%s of another type is read", attr[i].name);
    }
    qg_graph_free(g);
}

QG_TEST_MAIN(WITH_CTX(all_of_it_is_read), WITH_CTX(lists_are_read),
             WITH_CTX(other_types_are_refused))
