/* Inference: fixed shapes, symbols, folding of shape arithmetic, unknowns. */
#include "tests/support/test.h"

#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "tests/support/graphs.h"

static const char *shape(toy *t, const char *name, char text[QG_SHAPE_TEXT])
{
    return qg_tensor_text(&toy_value(t, name)->type, text);
}

#define assert_shape(t, name, expected)                                                \
    do {                                                                               \
        char text_[QG_SHAPE_TEXT];                                                     \
        assert_string_equal(shape((t), (name), text_), (expected));                    \
    } while (0)

/* Two inputs that share the symbol N; x is [N,3], y is [4,N]. */
static toy two_inputs(void)
{
    toy t = toy_new();
    qg_value *x = toy_input(&t, "x", QG_F32, 2, (int64_t[]){ -1, 3 });
    qg_value *y = toy_input(&t, "y", QG_F32, 2, (int64_t[]){ 4, -1 });
    x->dim_name[0] = y->dim_name[1] = "N";
    toy_node(&t, "Relu", "r", "x", "z");
    return t;
}

static void symbols_are_fixed_together(void **state)
{
    (void)state;
    toy t = two_inputs();
    assert_ok(t.ctx, qg_infer(t.g, NULL, 0));
    assert_shape(&t, "z", "float32[1,3]");
    assert_shape(&t, "y", "float32[4,1]");
    qg_fixed_shape by_y = {
        "y", 2, {-1, 7}
    };
    assert_ok(t.ctx, qg_infer(t.g, &by_y, 1));
    assert_shape(&t, "z", "float32[7,3]");
    assert_string_equal(toy_value(&t, "x")->dim_name[0], "N");
    assert_ok(t.ctx, qg_infer(t.g, NULL, 0)); /* stays as fixed */
    assert_shape(&t, "z", "float32[7,3]");
    toy_free(&t);
}

static void wrong_requests_are_refused(void **state)
{
    (void)state;
    static const struct {
        qg_fixed_shape fixed[2];
        const char *message;
        /* clang-format off */
    } bad[] = {
        { { { "q", 2, { 1, 1 } }, { "x", 2, { -1, -1 } } },
          "infer: input 'q': no such" },
        { { { "z", 2, { 1, 1 } }, { "x", 2, { -1, -1 } } },
          "infer: input 'z': no such" },
        { { { "x", 3, { 1, 1 } }, { "x", 2, { -1, -1 } } },
          "rank 3 is requested, expected 2" },
        { { { "x", 2, { 5, 9 } }, { "x", 2, { -1, -1 } } },
          "infer: input 'x': dimension 1 is requested as 9, expected 3" },
        { { { "x", 2, { 5, 3 } }, { "y", 2, { 4, 6 } } },
          "dimension 1 is requested as 6, expected 5" },
        { { { "x", 2, { -2, 3 } }, { "x", 2, { -1, -1 } } }, "expected -1 or more" },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        toy t = two_inputs();
        assert_fails(t.ctx, qg_infer(t.g, bad[i].fixed, 2), QG_ECONFIG, bad[i].message);
        toy_free(&t);
    }
}

static void shape_arithmetic_folds(void **state)
{
    (void)state;
    toy t = toy_new();
    const qg_tensor *const *known = NULL;
    toy_input(&t, "x", QG_F32, 2, (int64_t[]){ -1, 6 });
    toy_constant(&t, "k", QG_I64, 1, (int64_t[]){ 2 }, (int64_t[]){ 1, -3 });
    assert_fails(t.ctx, qg_infer_known(t.g, &known), QG_ESTATE, "nothing is inferred");
    toy_node(&t, "Shape", "s", "x", "s");
    toy_node(&t, "Add", "a", "s, k", "dims");
    toy_node(&t, "Reshape", "r", "x, dims", "y");
    assert_ok(t.ctx, qg_infer(t.g, NULL, 0));
    assert_shape(&t, "dims", "int64[2]");
    assert_shape(&t, "y", "float32[2,3]");
    assert_ok(t.ctx, qg_infer_known(t.g, &known));
    const qg_tensor *dims = known[toy_value(&t, "dims")->id];
    assert_non_null(dims);
    assert_int_equal(qg_tensor_i64(dims, 1), 3);
    assert_null(known[toy_value(&t, "k")->id]); /* constants are not repeated */
    assert_null(known[toy_value(&t, "y")->id]);
    assert_null(toy_value(&t, "dims")->type.data);
    assert_ok(t.ctx, qg_graph_normalize(t.g)); /* ids are others: inferred again */
    assert_ok(t.ctx, qg_infer_known(t.g, &known));
    assert_int_equal(qg_tensor_i64(known[toy_value(&t, "dims")->id], 1), 3);
    toy_free(&t);
}

static void large_results_are_not_kept(void **state)
{
    (void)state;
    toy t = toy_new();
    static float many[QG_INFER_KEEP + 1];
    const qg_tensor *const *known = NULL;
    toy_constant(&t, "k", QG_F32, 1, (int64_t[]){ QG_INFER_KEEP + 1 }, many);
    toy_node(&t, "Add", "a", "k, k", "y");
    assert_ok(t.ctx, qg_infer(t.g, NULL, 0));
    assert_shape(&t, "y", "float32[65537]");
    assert_ok(t.ctx, qg_infer_known(t.g, &known));
    assert_null(known[toy_value(&t, "y")->id]);
    toy_free(&t);
}

static void unknown_shapes_pass_through(void **state)
{
    (void)state;
    toy t = toy_new();
    toy_input(&t, "x", QG_F32, 1, (int64_t[]){ 2 });
    toy_node(&t, "Gather", "g", "x, x", "u"); /* a toy: always unknown */
    toy_node(&t, "Relu", "r", "u", "v");
    toy_node(&t, "Shape", "s", "v", "s");
    toy_node(&t, "Reshape", "p", "x, s", "y");
    toy_value(&t, "v")->type.dtype = QG_F32; /* as a file declares it */
    toy_value(&t, "v")->type.rank = 0;
    assert_ok(t.ctx, qg_infer(t.g, NULL, 0));
    assert_shape(&t, "u", "float32[...]");
    assert_shape(&t, "v", "float32[...]"); /* not the declared shape */
    assert_shape(&t, "y", "float32[...]"); /* types do not depend on ranks */
    toy_free(&t);
}

static void contradictions_name_the_node(void **state)
{
    (void)state;
    toy t = toy_new();
    toy_input(&t, "x", QG_F32, 1, (int64_t[]){ 2 });
    toy_input(&t, "y", QG_F32, 1, (int64_t[]){ 3 });
    toy_node(&t, "Add", "sum", "x, y", "z");
    assert_fails(t.ctx, qg_infer(t.g, NULL, 0), QG_EMODEL, "infer: node 'sum' (Add): ");
    toy_free(&t);
}

QG_TEST_MAIN(cmocka_unit_test(symbols_are_fixed_together),
             cmocka_unit_test(wrong_requests_are_refused),
             cmocka_unit_test(shape_arithmetic_folds),
             cmocka_unit_test(large_results_are_not_kept),
             cmocka_unit_test(unknown_shapes_pass_through),
             cmocka_unit_test(contradictions_name_the_node))
