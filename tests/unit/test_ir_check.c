/* The verifier: every rule has a graph that breaks it and nothing before it. */
#include "tests/support/test.h"

#include "engine/ir/check.h"
#include "engine/ir/edit.h"
#include "tests/support/graphs.h"

/* x -> conv(w) -> c -> relu -> y; add(c, y) -> z; If(b | c) with a body that reads
 * c. */
static toy sound_graph(void)
{
    toy t = toy_new();
    toy_input(&t, "x", QG_F32, 1, (int64_t[]){ 4 });
    toy_input(&t, "b", QG_BOOL, 0, NULL);
    toy_constant(&t, "w", QG_F32, 1, (int64_t[]){ 2 }, (float[]){ 1, 2 });
    qg_attr *group = QG_NEW(t.g->arena, qg_attr), *branch = QG_NEW(t.g->arena, qg_attr);
    static const int64_t one = 1;
    *group =
        (qg_attr){ .name = "group", .type = QG_ATTR_INT, .count = 1, .ints = &one };
    qg_node *n = toy_node(&t, "Conv", "conv", "x, w", "c");
    n->attr = group;
    n->n_attr = 1;
    toy_node(&t, "Relu", "relu", "c", "y");
    toy_node(&t, "Add", "add", "c, y", "z");
    qg_graph **body = QG_NEW(t.g->arena, qg_graph *);
    assert_ok(t.ctx, qg_graph_new_body(t.g, "then", body));
    *branch =
        (qg_attr){ .name = "then", .type = QG_ATTR_GRAPH, .count = 1, .graphs = body };
    toy inner = { t.ctx, *body };
    toy_node(&inner, "Relu", "r", "c", "d");
    toy_output(&inner, "d");
    static const char *capture[] = { "c" };
    qg_value *in[] = { toy_value(&t, "b"), toy_value(&t, "c") };
    qg_value *out = toy_value(&t, "i");
    qg_node_spec spec = { .name = "if",
                          .in = in,
                          .n_in = 2,
                          .out = &out,
                          .n_out = 1,
                          .op = qg_op_find(&toy_registry, "", "If", 13),
                          .opset = 13,
                          .attr = branch,
                          .n_attr = 1,
                          .capture = capture,
                          .n_capture = 1 };
    assert_ok(t.ctx, qg_graph_add_node(t.g, &spec, &n));
    toy_output(&t, "z");
    toy_output(&t, "i");
    return t;
}

static qg_graph *body(toy *t) { return qg_graph_node(t->g, "if")->attr[0].graphs[0]; }
static qg_node *node(toy *t, const char *name) { return qg_graph_node(t->g, name); }

static void break_ids(toy *t) { toy_value(t, "y")->id = 0; }
static void break_names(toy *t) { node(t, "relu")->name = "relu2"; }
static void break_producer(toy *t) { toy_value(t, "y")->def_slot = 7; }
static void break_uses(toy *t) { toy_value(t, "c")->use.at[1].slot = 1; }
static void break_order(toy *t)
{
    qg_node *conv = node(t, "conv"), *relu = node(t, "relu");
    t->g->node.at[0] = relu;
    t->g->node.at[1] = conv;
    relu->id = 0;
    conv->id = 1;
}
static void break_inputs(toy *t) { toy_value(t, "w")->is_input = true; }
static void break_outputs(toy *t) { t->g->output.n--; }
static void break_sources(toy *t) { toy_value(t, "w")->constant = NULL; }
static void break_body_sources(toy *t)
{
    static const char *const other[] = { "q" };
    node(t, "if")->capture = other;
}
static void break_constants(toy *t) { toy_value(t, "w")->type.dtype = QG_F16; }
static void break_types(toy *t) { toy_value(t, "y")->type.rank = 9; }
static void break_first_type(toy *t) { t->g->value.at[0]->type.rank = -2; }
static void break_arity(toy *t)
{
    node(t, "relu")->n_out = 0;
    toy_value(t, "y")->def = NULL;
    toy_value(t, "y")->is_input = true;
    assert_ok(t->ctx,
              qg_vec_push(t->ctx, t->g->arena, &t->g->input, toy_value(t, "y")));
}
static void break_attributes(toy *t) { ((qg_attr *)node(t, "conv")->attr)->count = 2; }
static void double_attribute(toy *t)
{
    qg_attr *two = QG_NEWN(t->g->arena, 2, qg_attr);
    two[0] = two[1] = node(t, "conv")->attr[0];
    node(t, "conv")->attr = two;
    node(t, "conv")->n_attr = 2;
}
static void break_prepared(toy *t) { node(t, "conv")->param = NULL; }
static void break_bodies(toy *t) { body(t)->owner = node(t, "add"); }
static void break_in_body(toy *t) { body(t)->node.at[0]->id = 4; }

static const struct {
    const char *id;
    void (*act)(toy *t);
    const char *message;
    /* clang-format off */
} breakers[] = {
    { "ids-dense", break_ids, "value 'y': has id 0, expected" },
    { "ids-dense", break_in_body, "node 'r' (Relu): has id 4 at position 0" },
    { "names-unique", break_names, "node 'relu2' (Relu): its name refers to another" },
    { "one-producer", break_producer, "node 'relu' (Relu): out0 is 'y', which another"
      },
    { "uses-match", break_uses, "value 'c': lists in1 of 'add' as a use" },
    { "topological-order", break_order, "node 'relu' (Relu): comes before 'conv'" },
    { "inputs-free", break_inputs, "value 'w': differs from the list of graph inputs" },
    { "outputs-listed", break_outputs, "differs from the list of graph outputs" },
    { "values-sourced", break_sources, "value 'w': is read and nothing produces it" },
    { "values-sourced", break_body_sources, "value 'c': is read and nothing" },
    { "constants-known", break_constants, "value 'w': has another type" },
    { "types-legal", break_types, "value 'y': has dtype 0 and rank 9" },
    { "types-legal", break_first_type, "value 'x': has dtype 1 and rank -2" },
    { "arity", break_arity, "node 'relu' (Relu): has 1 inputs (0 captured) and 0 out" },
    { "attributes-legal", break_attributes, "attribute 'group' has 2 values" },
    { "attributes-once", double_attribute, "has attribute 'group' twice" },
    { "prepared", break_prepared, "node 'conv' (Conv): has no parameters" },
    { "bodies-owned", break_bodies, "node 'if' (If): body 'then' belongs elsewhere" },
};
/* clang-format on */
enum { N_BREAKERS = sizeof breakers / sizeof breakers[0] };

static void a_sound_graph_passes(void **state)
{
    (void)state;
    toy t = sound_graph();
    assert_ok(t.ctx, qg_check_graph(t.ctx, t.g, QG_CHECK_ALL));
    toy_free(&t);
}

static void broken_rules_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_BREAKERS; i++) {
        char prefix[64];
        toy t = sound_graph();
        uint32_t bit = qg_check_bit(qg_graph_rules, qg_n_graph_rules, breakers[i].id);
        breakers[i].act(&t);
        (void)snprintf(prefix, sizeof prefix, "verify: rule %s: ", breakers[i].id);
        assert_fails(t.ctx, qg_check_graph(t.ctx, t.g, bit), QG_ESTATE, prefix);
        assert_fails(t.ctx, qg_check_graph(t.ctx, t.g, bit), QG_ESTATE,
                     breakers[i].message);
        toy_free(&t);
    }
}

static void every_rule_can_be_broken(void **state)
{
    (void)state;
    uint32_t all = 0;
    for (size_t i = 0; i < N_BREAKERS; i++)
        all |= qg_check_bit(qg_graph_rules, qg_n_graph_rules, breakers[i].id);
    assert_int_equal(all, (UINT64_C(1) << qg_n_graph_rules) - 1);
    assert_int_equal(qg_check_bit(qg_graph_rules, qg_n_graph_rules, "no-such"), 0);
}

static void a_clone_is_equal_and_its_own(void **state)
{
    (void)state;
    toy t = sound_graph();
    qg_graph *copy = NULL;
    assert_ok(t.ctx, qg_graph_clone(t.g, &copy));
    assert_ok(t.ctx, qg_check_graph(t.ctx, copy, QG_CHECK_ALL));
    assert_int_equal(copy->value.n, t.g->value.n);
    for (size_t i = 0; i < copy->value.n; i++)
        assert_ptr_equal(copy->value.at[i]->name,
                         t.g->value.at[i]->name); /* interned */
    assert_ptr_not_equal(qg_graph_value(copy, "w")->constant->data,
                         toy_value(&t, "w")->constant->data);
    qg_graph_free(t.g); /* the copy must not need it */
    t.g = copy;
    assert_cmp_f64(toy_value(&t, "w")->constant->f32[1], ==, 2);
    assert_ptr_equal(body(&t)->owner, node(&t, "if"));
    assert_non_null(node(&t, "conv")->param);
    assert_string_equal(body(&t)->output.at[0]->name, "d");
    toy_free(&t);
}

QG_TEST_MAIN(cmocka_unit_test(a_sound_graph_passes),
             cmocka_unit_test(broken_rules_are_named),
             cmocka_unit_test(every_rule_can_be_broken),
             cmocka_unit_test(a_clone_is_equal_and_its_own))
