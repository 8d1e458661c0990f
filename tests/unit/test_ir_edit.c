/* Edits keep use lists right; normalize sorts, names cycles; sweep removes the dead. */
#include "tests/support/test.h"

#include "engine/core/rng.h"
#include "engine/ir/edit.h"
#include "tests/support/graphs.h"

/* Every input slot is in the use list of its value exactly once, and nothing else
 * is. */
static void assert_uses(const qg_graph *g)
{
    size_t slots = 0, uses = 0;
    for (size_t i = 0; i < g->node.n; i++)
        for (uint32_t k = 0; k < g->node.at[i]->n_in; k++) {
            const qg_value *v = g->node.at[i]->in[k];
            size_t found = 0;
            for (size_t u = 0; v && u < v->use.n; u++)
                found += v->use.at[u].node == g->node.at[i] && v->use.at[u].slot == k;
            assert_int_equal(found, v != NULL);
            slots += v != NULL;
        }
    for (size_t i = 0; i < g->value.n; i++)
        uses += g->value.at[i]->use.n;
    assert_int_equal(slots, uses);
}

static void assert_order(const qg_graph *g, const char *names)
{
    char have[256] = "";
    for (size_t i = 0; i < g->node.n; i++) {
        assert_int_equal(g->node.at[i]->id, i);
        strcat(strcat(have, i ? " " : ""), g->node.at[i]->name);
    }
    assert_string_equal(have, names);
}

static void inputs_move(void **state)
{
    (void)state;
    toy t = toy_new();
    qg_node *n = toy_node(&t, "Add", "add", "x, y", "z");
    assert_ok(t.ctx, qg_edit_set_input(t.g, n, 0, toy_value(&t, "y")));
    assert_ok(t.ctx, qg_edit_set_input(t.g, n, 1, toy_value(&t, "y"))); /* as it was */
    assert_uses(t.g);
    assert_int_equal(toy_value(&t, "y")->use.n, 2);
    assert_ok(t.ctx, qg_edit_grow_inputs(t.g, n, 4));
    assert_null(n->in[3]);
    assert_ok(t.ctx, qg_edit_set_input(t.g, n, 3, toy_value(&t, "x")));
    assert_ok(t.ctx, qg_edit_set_input(t.g, n, 0, NULL));
    assert_uses(t.g);
    toy_free(&t);
}

static void replaced_outputs_keep_their_names(void **state)
{
    (void)state;
    toy t = toy_new();
    toy_input(&t, "x", QG_F32, 0, NULL);
    toy_node(&t, "Relu", "r", "x", "y");
    qg_node *id = toy_node(&t, "Identity", "i", "y", "out");
    toy_node(&t, "Relu", "tail", "out", "z");
    toy_output(&t, "out");
    qg_value *y = toy_value(&t, "y"), *out = toy_value(&t, "out");
    assert_ok(t.ctx, qg_edit_replace_value(t.g, out, y));
    qg_edit_remove_node(t.g, id);
    assert_string_equal(y->name, "out");
    assert_ptr_equal(qg_graph_value(t.g, "out"), y);
    assert_ptr_equal(t.g->output.at[0], y);
    assert_ok(t.ctx, qg_graph_normalize(t.g));
    assert_uses(t.g);
    assert_order(t.g, "r tail");
    assert_null(qg_graph_value(t.g, "y")); /* the name left with the old value */
    assert_null(qg_graph_node(t.g, "i"));
    assert_ptr_equal(t.g->node.at[1]->in[0], y);
    toy_free(&t);
}

static void the_interface_cannot_be_merged(void **state)
{
    (void)state;
    toy t = toy_new();
    qg_value *x = toy_input(&t, "x", QG_F32, 0, NULL);
    toy_node(&t, "Identity", "i", "x", "y");
    toy_output(&t, "y");
    assert_fails(t.ctx, qg_edit_replace_value(t.g, toy_value(&t, "y"), x), QG_ESTATE,
                 "edit: value 'y' is an output and 'x' is part of the interface too");
    assert_fails(
        t.ctx,
        qg_edit_make_constant(t.g, x, &(qg_tensor){ .dtype = QG_F32, .data = &x }),
        QG_ESTATE, "'x' is a graph input");
    toy_free(&t);
}

static void values_become_constants(void **state)
{
    (void)state;
    toy t = toy_new();
    qg_node *n = toy_node(&t, "Relu", "r", "x", "y");
    qg_value *y = toy_value(&t, "y"), *made = NULL;
    float one = 1;
    qg_tensor k;
    qg_tensor_init(&k, QG_F32, 1, &(int64_t){ 1 });
    k.f32 = &one;
    assert_ok(t.ctx, qg_edit_make_constant(t.g, y, &k));
    assert_null(y->def);
    assert_null(n->out[0]);
    assert_int_equal(y->type.rank, 1);
    assert_null(y->type.data);
    assert_ok(t.ctx, qg_edit_add_constant(t.g, "scale", &k, &made));
    assert_string_equal(made->name, "scale_0");
    qg_edit_remove_node(t.g, n);
    assert_uses(t.g);
    toy_free(&t);
}

static void nodes_are_sorted_stably(void **state)
{
    (void)state;
    toy t = toy_new();
    toy_input(&t, "x", QG_F32, 0, NULL);
    toy_node(&t, "Add", "e", "d, c", "out");
    toy_node(&t, "Relu", "d", "b", "d");
    toy_node(&t, "Relu", "c", "b", "c");
    toy_node(&t, "Relu", "b", "x", "b");
    toy_node(&t, "Relu", "a", "x", "a");
    toy_output(&t, "out");
    assert_ok(t.ctx, qg_graph_normalize(t.g));
    assert_order(t.g, "b d c e a"); /* among ready nodes the first in the file */
    assert_uses(t.g);
    assert_ok(t.ctx, qg_graph_normalize(t.g));
    assert_order(t.g, "b d c e a");
    toy_free(&t);
}

static void cycles_are_named(void **state)
{
    (void)state;
    toy t = toy_new();
    toy_node(&t, "Relu", "before", "x", "p");
    toy_node(&t, "Relu", "after", "s", "z");
    toy_node(&t, "Add", "add1", "p, m", "s");
    toy_node(&t, "Mul", "mul1", "s, p", "m");
    assert_fails(t.ctx, qg_graph_normalize(t.g), QG_EMODEL,
                 "import: the graph has a cycle through nodes 'add1' and 'mul1'");
    assert_order(t.g, "before after add1 mul1");
    toy_node(&t, "Relu", "own", "o", "o");
    assert_ok(t.ctx,
              qg_edit_replace_value(t.g, toy_value(&t, "m"), toy_value(&t, "p")));
    assert_fails(t.ctx, qg_graph_normalize(t.g), QG_EMODEL, "'own' and 'own'");
    toy_free(&t);
}

static void sweep_keeps_what_outputs_need(void **state)
{
    (void)state;
    toy t = toy_new();
    size_t removed = 99;
    toy_input(&t, "x", QG_F32, 0, NULL);
    toy_input(&t, "unused", QG_F32, 0, NULL);
    toy_constant(&t, "k", QG_F32, 0, NULL, &(float){ 1 });
    toy_constant(&t, "w", QG_F32, 0, NULL, &(float){ 1 });
    toy_node(&t, "Add", "dead1", "x, k", "a");
    toy_node(&t, "Relu", "dead2", "a", "b");
    toy_node(&t, "Split", "s", "x, w", "p, q");
    toy_node(&t, "Relu", "live", "p", "out");
    toy_output(&t, "out");
    assert_ok(t.ctx, qg_graph_sweep(t.g, &removed));
    assert_int_equal(removed, 5); /* dead1, dead2, a, b, k */
    assert_order(t.g, "s live");
    assert_non_null(qg_graph_value(t.g, "q")); /* a side output stays with its node */
    assert_non_null(qg_graph_value(t.g, "unused"));
    assert_null(qg_graph_value(t.g, "k"));
    assert_uses(t.g);
    for (size_t i = 0; i < t.g->value.n; i++)
        assert_int_equal(t.g->value.at[i]->id, i);
    assert_ok(t.ctx, qg_graph_sweep(t.g, &removed));
    assert_int_equal(removed, 0);
    toy_free(&t);
}

/* Model-based: random edits on a random graph against the definition of a use list. */
static void random_edits_keep_uses(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        toy t = toy_new();
        qg_rng rng = { seed };
        char in[32], out[16];
        toy_input(&t, "v0", QG_F32, 0, NULL);
        for (int i = 1; i < 40; i++) {
            (void)snprintf(in, sizeof in, "v%d, v%d", (int)qg_rng_below(&rng, i),
                           (int)qg_rng_below(&rng, i));
            (void)snprintf(out, sizeof out, "v%d", i);
            toy_node(&t, "Add", NULL, in, out);
        }
        toy_output(&t, "v39");
        for (int i = 0; i < 30; i++) {
            qg_node *n = t.g->node.at[qg_rng_below(&rng, t.g->node.n)];
            qg_value *v = t.g->value.at[qg_rng_below(&rng, n->id + 1)];
            if (qg_rng_below(&rng, 2))
                assert_ok(t.ctx, qg_edit_set_input(t.g, n, 1, v));
            else if (v->id < n->out[0]->id && !n->out[0]->is_output)
                assert_ok(t.ctx, qg_edit_replace_value(t.g, n->out[0], v));
            assert_uses(t.g);
        }
        size_t removed;
        assert_ok(t.ctx, qg_graph_sweep(t.g, &removed));
        assert_uses(t.g);
        assert_string_equal(t.g->output.at[0]->name, "v39");
        toy_free(&t);
    }
}

/* --- more edits --- */

static void outputs_move_with_their_marks(void **state)
{
    (void)state;
    toy t = toy_new();
    toy_input(&t, "x", QG_F32, 2, (int64_t[]){ -1, 3 });
    toy_node(&t, "Relu", "r", "x", "y");
    toy_node(&t, "Identity", "i", "y", "out");
    toy_node(&t, "Relu", "s", "x", "second");
    toy_output(&t, "out");
    toy_output(&t, "second");
    qg_value *y = toy_value(&t, "y"), *out = toy_value(&t, "out");
    qg_tensor declared = { .dtype = QG_F32, .rank = 2 };
    out->file_dtype = QG_F16;
    out->declared = &declared;
    out->type.rank = y->type.rank = 2;
    out->dim_name[0] = "N";
    y->dim_name[0] = "M";
    assert_ok(t.ctx, qg_edit_replace_value(t.g, out, y));
    assert_true(y->is_output);
    assert_false(out->is_output);
    assert_ptr_equal(t.g->output.at[0], y);
    assert_string_equal(t.g->output.at[1]->name, "second");
    assert_int_equal(y->file_dtype, QG_F16);
    assert_int_equal(out->file_dtype, QG_NODTYPE);
    assert_ptr_equal(y->declared, &declared);
    assert_null(out->declared);
    assert_string_equal(y->dim_name[0], "N");
    qg_value *s = toy_value(&t, "second"), *z;
    assert_ok(t.ctx, qg_graph_add_value(t.g, "z", &z));
    s->type.rank = 2; /* of another rank: names of its extents mean nothing */
    z->type.rank = 3;
    s->dim_name[0] = "N";
    assert_ok(t.ctx, qg_edit_replace_value(t.g, s, z));
    assert_null(z->dim_name[0]);
    assert_string_equal(z->name, "second");
    assert_fails(t.ctx, qg_edit_replace_value(t.g, y, z), QG_ESTATE,
                 "expected an inner value"); /* both are outputs */
    toy_free(&t);
}

/* Readers of a replaced value come after those that are there. */
static void uses_keep_their_order(void **state)
{
    (void)state;
    toy t = toy_new();
    qg_node *n = toy_node(&t, "Concat", "c", "x, x, y, x", "z");
    qg_value *x = toy_value(&t, "x"), *y = toy_value(&t, "y");
    assert_ok(t.ctx, qg_edit_set_input(t.g, n, 1, y));
    assert_int_equal(x->use.n, 2);
    assert_int_equal(x->use.at[0].slot, 0);
    assert_int_equal(x->use.at[1].slot, 3);
    assert_int_equal(y->use.at[0].slot, 2);
    assert_int_equal(y->use.at[1].slot, 1);
    assert_ok(t.ctx, qg_edit_replace_value(t.g, x, y));
    assert_int_equal(x->use.n, 0);
    assert_int_equal(y->use.n, 4);
    assert_int_equal(y->use.at[3].slot, 3);
    for (uint32_t k = 0; k < 4; k++)
        assert_ptr_equal(n->in[k], y);
    assert_ok(t.ctx, qg_edit_grow_inputs(t.g, n, 3)); /* it has four */
    assert_int_equal(n->n_in, 4);
    toy_free(&t);
}

static void records_of_slots_stay(void **state)
{
    (void)state;
    toy t = toy_new();
    qg_node *n = toy_node(&t, "Concat", "c", "x, y", "z");
    qg_tqc *const tqc = (qg_tqc *)&t;
    n->tin = QG_NEWN(t.g->arena, 2, qg_tqc *);
    n->tin[1] = tqc;
    assert_ok(t.ctx, qg_edit_grow_inputs(t.g, n, 3));
    assert_int_equal(n->n_in, 3);
    assert_null(n->tin[0]);
    assert_ptr_equal(n->tin[1], tqc);
    assert_null(n->tin[2]);
    assert_string_equal(n->in[1]->name, "y");
    assert_null(n->in[2]);
    toy_free(&t);
}

static qg_tensor one_number(float *data)
{
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, 1, &(int64_t){ 1 });
    t.f32 = data;
    return t;
}

/* In place where nobody else reads the value, else a new one. */
static void slots_get_constants(void **state)
{
    (void)state;
    toy t = toy_new();
    float two = 2;
    const qg_tensor k = one_number(&two);
    qg_value *in = toy_input(&t, "in", QG_F32, 0, NULL);
    toy_node(&t, "Relu", "r", "in", "a");
    qg_node *n = toy_node(&t, "Concat", "c", "a, b, b, in, o, _", "z");
    toy_node(&t, "Relu", "s", "in", "o");
    toy_output(&t, "o");
    qg_value *a = n->in[0], *b = n->in[1], *o = n->in[4];
    a->dim_name[0] = "N";
    assert_ok(t.ctx, qg_edit_give_constant(t.g, n, 0, "fresh", &k));
    assert_ptr_equal(n->in[0], a);
    assert_ptr_equal(a->constant, &k);
    assert_null(a->def);
    assert_null(a->dim_name[0]);
    assert_ok(t.ctx, qg_edit_give_constant(t.g, n, 1, "fresh", &k));
    assert_string_equal(n->in[1]->name, "b_0"); /* after the one it replaces */
    assert_null(b->constant);
    assert_ptr_equal(n->in[2], b);
    assert_ok(t.ctx, qg_edit_give_constant(t.g, n, 3, "fresh", &k));
    assert_ptr_not_equal(n->in[3], in);
    assert_ok(t.ctx, qg_edit_give_constant(t.g, n, 4, "fresh", &k));
    assert_ptr_not_equal(n->in[4], o);
    assert_ok(t.ctx, qg_edit_give_constant(t.g, n, 5, "fresh", &k));
    assert_non_null(strstr(n->in[5]->name, "fresh"));
    assert_ok(t.ctx, qg_edit_give_constant(t.g, n, 7, "last", &k));
    assert_int_equal(n->n_in, 8);
    assert_null(n->in[6]);
    assert_non_null(strstr(n->in[7]->name, "last"));
    assert_uses(t.g);
    toy_free(&t);
}

/* What was learned stands beside what the float network has, once. */
static void learned_constants_keep_the_old_one(void **state)
{
    (void)state;
    toy t = toy_new();
    float one = 1, two = 2, three = 3;
    const qg_tensor k2 = one_number(&two), k3 = one_number(&three);
    qg_value *w = toy_constant(&t, "w", QG_F32, 1, &(int64_t){ 1 }, &one);
    const qg_tensor *old = w->constant;
    qg_node *n = toy_node(&t, "Add", "n", "x, w", "y");
    assert_ok(t.ctx, qg_edit_learn_constant(t.g, n, 1, &k2));
    assert_ptr_equal(n->in[1]->constant, &k2);
    assert_ptr_equal(qg_graph_value(t.g, "w.untuned")->constant, old);
    assert_ok(t.ctx, qg_edit_learn_constant(t.g, n, 1, &k3));
    assert_ptr_equal(n->in[1]->constant, &k3);
    assert_ptr_equal(qg_graph_value(t.g, "w.untuned")->constant, old);
    toy_free(&t);
}

static void nodes_absorb_their_readers(void **state)
{
    (void)state;
    toy t = toy_new();
    toy_input(&t, "x", QG_F32, 0, NULL);
    qg_node *p = toy_node(&t, "Relu", "p", "x", "a");
    qg_node *n = toy_node(&t, "Add", "n", "a, x", "b");
    toy_node(&t, "Relu", "tail", "b", "c");
    toy_output(&t, "b");
    qg_edit_absorb(t.g, p, n);
    qg_value *b = toy_value(&t, "b");
    assert_ptr_equal(p->out[0], b);
    assert_ptr_equal(b->def, p);
    assert_int_equal(b->def_slot, 0);
    assert_null(toy_value(&t, "a")->def);
    assert_true(n->dead);
    assert_null(qg_graph_node(t.g, "n")); /* its name is free */
    assert_int_equal(toy_value(&t, "x")->use.n, 1);
    assert_ok(t.ctx, qg_graph_normalize(t.g));
    assert_order(t.g, "p tail");
    assert_uses(t.g);
    toy_free(&t);
}

static void nodes_swap_places(void **state)
{
    (void)state;
    toy t = toy_new();
    qg_node *a = toy_node(&t, "Relu", "a", "x", "p");
    toy_node(&t, "Relu", "b", "x", "q");
    qg_node *c = toy_node(&t, "Relu", "c", "x", "r");
    qg_edit_swap_places(t.g, a, c);
    assert_order(t.g, "c b a");
    toy_free(&t);
}

/* Operators that rewrites make are those of the node's opset, or refused. */
static void made_operators_suit_the_node(void **state)
{
    (void)state;
    toy t = toy_new();
    qg_node *n = toy_node(&t, "Relu", "n", "x", "y");
    const qg_op *op = NULL, *relu = n->op;
    qg_registry own = toy_registry;
    own.made[QG_MADE_SUM] = "Add";
    own.made[QG_MADE_DENSE] = "Sigmund";
    own.made[QG_MADE_CAST] = NULL;
    t.ctx->registry = &own;
    assert_ok(t.ctx, qg_edit_find_op(t.g, n, QG_MADE_SUM, &op));
    assert_string_equal(op->name, "Add");
    assert_fails(t.ctx, qg_edit_find_op(t.g, n, QG_MADE_DENSE, &op), QG_EUNSUPPORTED,
                 "rewrite: node 'n' (Relu): there is no Sigmund of its opset");
    assert_fails(t.ctx, qg_edit_find_op(t.g, n, QG_MADE_CAST, &op), QG_EUNSUPPORTED,
                 "there is no operator of its opset");
    assert_fails(t.ctx, qg_edit_set_op(t.g, n, QG_MADE_DENSE), QG_EUNSUPPORTED,
                 "no Sigmund");
    assert_ptr_equal(n->op, relu);
    own.made[QG_MADE_CONVOLUTION] = "Conv"; /* which refuses no groups */
    n->attr = &(qg_attr){ .name = qg_intern(t.ctx, "group"),
                          .type = QG_ATTR_INT,
                          .count = 1,
                          .ints = &(int64_t){ 0 } };
    n->n_attr = 1;
    assert_fails(t.ctx, qg_edit_set_op(t.g, n, QG_MADE_CONVOLUTION), QG_EMODEL,
                 "group is 0");
    assert_ptr_equal(n->op, relu);
    n->n_attr = 0;
    assert_ok(t.ctx, qg_edit_set_op(t.g, n, QG_MADE_SUM));
    assert_ptr_equal(n->op, op);
    toy_free(&t);
}

QG_TEST_MAIN(
    cmocka_unit_test(inputs_move), cmocka_unit_test(replaced_outputs_keep_their_names),
    cmocka_unit_test(the_interface_cannot_be_merged),
    cmocka_unit_test(values_become_constants),
    cmocka_unit_test(outputs_move_with_their_marks),
    cmocka_unit_test(uses_keep_their_order), cmocka_unit_test(records_of_slots_stay),
    cmocka_unit_test(slots_get_constants),
    cmocka_unit_test(learned_constants_keep_the_old_one),
    cmocka_unit_test(nodes_absorb_their_readers), cmocka_unit_test(nodes_swap_places),
    cmocka_unit_test(made_operators_suit_the_node),
    cmocka_unit_test(nodes_are_sorted_stably), cmocka_unit_test(cycles_are_named),
    cmocka_unit_test(sweep_keeps_what_outputs_need),
    cmocka_unit_test(random_edits_keep_uses))
