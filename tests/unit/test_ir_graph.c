/* Graph building: names, links, arity, bodies, failures that leave no trace. */
#include "tests/support/test.h"

#include "tests/support/graphs.h"

static void links_go_both_ways(void **state)
{
    (void)state;
    toy t = toy_new();
    toy_input(&t, "x", QG_F32, 1, &(int64_t){ 4 });
    qg_node *n = toy_node(&t, "Add", NULL, "x, x", "y");
    qg_value *x = qg_graph_value(t.g, "x"), *y = qg_graph_value(t.g, "y");
    assert_int_equal(x->use.n, 2);
    assert_ptr_equal(x->use.at[1].node, n);
    assert_int_equal(x->use.at[1].slot, 1);
    assert_ptr_equal(y->def, n);
    assert_string_equal(n->name, "Add_0");
    assert_ptr_equal(qg_graph_node(t.g, "Add_0"), n);
    assert_null(qg_graph_node(t.g, "Add_1"));
    toy_output(&t, "y");
    assert_int_equal(qg_value_watchers(y), 1);
    toy_free(&t);
}

static void made_up_names_avoid_taken_ones(void **state)
{
    (void)state;
    toy t = toy_new();
    toy_node(&t, "Relu", "Relu_0", "x", "y");
    assert_string_equal(toy_node(&t, "Relu", "", "x", "z")->name, "Relu_1");
    toy_free(&t);
}

static void optional_slots_may_be_absent(void **state)
{
    (void)state;
    toy t = toy_new();
    qg_node *n = toy_node(&t, "Conv", "c", "x, w, _", "y");
    assert_int_equal(n->n_in, 3);
    assert_null(n->in[2]);
    n = toy_node(&t, "Split", "s", "y", "a, _, b");
    assert_null(n->out[1]);
    assert_int_equal(n->out[2]->def_slot, 2);
    toy_free(&t);
}

static void bad_nodes_are_refused_without_a_trace(void **state)
{
    (void)state;
    static const struct {
        const char *op, *in, *out, *message;
        /* clang-format off */
    } bad[] = {
        { "Conv", "x", "n", "graph: node 'bad' (Conv): 1 inputs, expected 2 to 3" },
        { "Relu", "x, x", "n", "graph: node 'bad' (Relu): 2 inputs, expected 1 to 1" },
        { "Split", "x", "", "0 outputs, expected 1 to any number" },
        { "Conv", "_, w", "n", "input 0 is absent, expected a value" },
        { "Relu", "x", "_", "output 0 is absent, expected a value" },
        { "Relu", "y", "x", "output 'x' is a graph input already" },
        { "Relu", "x", "y", "output 'y' is produced already" },
        { "Relu", "x", "k", "output 'k' is a constant already" },
        { "Split", "x", "n, n", "output 'n' is produced already" },
    };
    /* clang-format on */
    toy t = toy_new();
    toy_input(&t, "x", QG_F32, 0, NULL);
    toy_constant(&t, "k", QG_F32, 0, NULL, &(float){ 1 });
    toy_node(&t, "Relu", "r", "x", "y");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        qg_node *n = NULL;
        assert_fails(t.ctx,
                     toy_try_node(&t, bad[i].op, "bad", bad[i].in, bad[i].out, &n),
                     QG_EMODEL, bad[i].message);
        assert_null(n);
        assert_null(toy_value(&t, "n")->def);
        assert_int_equal(toy_value(&t, "x")->use.n, 1);
        assert_int_equal(t.g->node.n, 1);
    }
    qg_node *n = NULL;
    assert_fails(t.ctx, toy_try_node(&t, "Relu", "r", "x", "n", &n), QG_EMODEL,
                 "node 'r' exists, expected a new name");
    assert_null(toy_value(&t, "n")->def);
    toy_free(&t);
}

static void values_have_one_name_and_one_role(void **state)
{
    (void)state;
    toy t = toy_new();
    qg_value *v = NULL, *x = toy_input(&t, "x", QG_F32, 0, NULL);
    assert_fails(t.ctx, qg_graph_add_value(t.g, "x", &v), QG_EMODEL,
                 "graph 'g': value 'x' exists, expected a new name");
    assert_fails(t.ctx, qg_graph_mark_input(t.g, x), QG_EMODEL, "'x' is an input");
    toy_output(&t, "x");
    assert_fails(t.ctx, qg_graph_mark_output(t.g, x), QG_EMODEL, "listed twice");
    assert_int_equal(qg_graph_opset(t.g, "ai.onnx"), 13);
    assert_int_equal(qg_graph_opset(t.g, "nowhere"), 0);
    toy_free(&t);
}

static void prepare_reads_attributes(void **state)
{
    (void)state;
    toy t = toy_new();
    qg_value *x = toy_value(&t, "x"), *y = toy_value(&t, "y");
    static const int64_t group = -3;
    qg_attr a = { .name = "group", .type = QG_ATTR_INT, .count = 1, .ints = &group };
    qg_node_spec spec = {
        .name = "c",
        .in = (qg_value *[]){x, x},
        .n_in = 2,
        .out = &y,
        .n_out = 1,
        .attr = &a,
        .n_attr = 1,
        .opset = 13,
        .op = qg_op_find(&toy_registry, "", "Conv", 13)
    };
    qg_node *n = NULL;
    assert_fails(t.ctx, qg_graph_add_node(t.g, &spec, &n), QG_EMODEL,
                 "attributes: node 'c' (Conv): group is -3, expected at least 1");
    static const float wrong = 1;
    a = (qg_attr){
        .name = "group", .type = QG_ATTR_FLOAT, .count = 1, .floats = &wrong
    };
    assert_fails(t.ctx, qg_graph_add_node(t.g, &spec, &n), QG_EMODEL,
                 "group is FLOAT, expected INT");
    spec.n_attr = 0;
    assert_ok(t.ctx, qg_graph_add_node(t.g, &spec, &n));
    assert_int_equal(*(int64_t *)n->param, 1);
    toy_free(&t);
}

static void bodies_die_with_their_graph(void **state)
{
    (void)state;
    toy t = toy_new();
    qg_graph *body = NULL, *inner = NULL;
    assert_ok(t.ctx, qg_graph_new_body(t.g, "then", &body));
    assert_ok(t.ctx, qg_graph_new_body(body, "deep", &inner));
    assert_ptr_equal(inner->arena, t.g->arena);
    assert_int_equal(qg_graph_opset(inner, ""), 13);
    qg_value *v = NULL;
    assert_ok(t.ctx, qg_graph_add_value(inner, "x", &v));
    assert_null(qg_graph_value(t.g, "x"));
    toy_free(&t); /* the sanitizer would see a leak */
}

static void operators_are_found_by_version(void **state)
{
    (void)state;
    const qg_registry *r = &toy_registry;
    assert_int_equal(qg_op_find(r, NULL, "Conv", 10)->since, 1);
    assert_int_equal(qg_op_find(r, "ai.onnx", "Conv", 17)->since, 11);
    assert_null(qg_op_find(r, "", "Relu", 5));
    assert_null(qg_op_find(r, "", "AcR", 13));
    assert_null(qg_op_find(r, "", "Custom", 1));
    assert_non_null(qg_op_find(r, "test", "Custom", 1));
}

static void roles_repeat_the_last_letter(void **state)
{
    (void)state;
    const qg_op *conv = qg_op_find(&toy_registry, "", "Conv", 13);
    assert_int_equal(qg_op_in_role(conv, 1), 'w');
    assert_int_equal(qg_op_in_role(conv, 7), 'b');
    assert_int_equal(qg_op_out_role(conv, 0), 'd');
    assert_int_equal(qg_op_slot_of(conv, 'b'), 2);
    assert_int_equal(qg_op_slot_of(conv, 'p'), -1);
    assert_int_equal(qg_trait_named("join"), QG_OP_JOIN);
    assert_int_equal(qg_trait_named("joint"), 0);
    assert_string_equal(qg_trait_name(QG_TRAIT_BIT_PURE), "pure");
}

static void versions_are_listed(void **state)
{
    char text[QG_OP_VERSIONS];
    (void)state;
    assert_string_equal(qg_op_versions(&toy_registry, "ai.onnx", "Conv", text),
                        ", known for opset 1 to 10, 11 and later");
    assert_string_equal(qg_op_versions(&toy_registry, "", "Unknown", text), "");
    assert_string_equal(qg_op_versions(NULL, "", "Conv", text), "");
}

QG_TEST_MAIN(cmocka_unit_test(versions_are_listed),
             cmocka_unit_test(links_go_both_ways),
             cmocka_unit_test(made_up_names_avoid_taken_ones),
             cmocka_unit_test(optional_slots_may_be_absent),
             cmocka_unit_test(bad_nodes_are_refused_without_a_trace),
             cmocka_unit_test(values_have_one_name_and_one_role),
             cmocka_unit_test(prepare_reads_attributes),
             cmocka_unit_test(bodies_die_with_their_graph),
             cmocka_unit_test(operators_are_found_by_version),
             cmocka_unit_test(roles_repeat_the_last_letter))
