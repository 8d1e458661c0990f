/* Endpoints as text and back; from endpoints to TQCs; walks over nodes and groups. */
#include "tests/support/test.h"

#include "engine/ir/endpoint.h"
#include "ops/families.h"
#include "tests/support/endpoints.h"
#include "tests/support/graphs.h"

/* conv(x, w, absent) -> a.b(y) -> split(z) -> p, absent, q */
static toy three_nodes(void)
{
    toy t = toy_new();
    toy_input(&t, "x", QG_F32, 0, NULL);
    toy_node(&t, "Conv", "conv", "x, w, _", "y");
    toy_node(&t, "Relu", "a.b", "y", "z");
    toy_node(&t, "Split", "out0", "z", "p, _, q");
    return t;
}

/* --- text --- */

static void slots_are_read_as_they_are_written(void **state)
{
    (void)state;
    static const uint32_t slot[] = { 0, 1, 9, 10, 255, 65536, UINT32_MAX };
    for (size_t i = 0; i < 2 * (sizeof slot / sizeof slot[0]); i++) {
        char text[QG_SLOT_TEXT];
        bool is_output;
        int64_t k;
        assert_ptr_equal(qg_slot_text(i % 2, slot[i / 2], text), text);
        assert_true(qg_slot_parse(text, &is_output, &k));
        assert_int_equal(is_output, i % 2);
        assert_int_equal(k, slot[i / 2]);
    }
}

static void only_slots_are_slots(void **state)
{
    (void)state;
    static const char *const wrong[] = { "",
                                         "i",
                                         "in",
                                         "out",
                                         "ou0",
                                         "0",
                                         "In0",
                                         "OUT0",
                                         "in ",
                                         "in 1",
                                         "in1 ",
                                         "in+1",
                                         "in-1",
                                         "in1x",
                                         "in1.0",
                                         "in0x1",
                                         "inp0",
                                         "out*",
                                         "input",
                                         "on1",
                                         ".in1",
                                         "out1\n",
                                         "in1e3",
                                         "outin0",
                                         "in99999999999999999999",
                                         "out-9223372036854775808" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        bool is_output = true;
        int64_t k = 7;
        assert_false(qg_slot_parse(wrong[i], &is_output, &k));
        assert_true(is_output);
        assert_int_equal(k, 7);
    }
}

static void the_last_dot_ends_the_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n_node;
        bool is_output;
        int64_t slot;
    } right[] = {
        {"Conv_3.in1",                  6,  false, 1         },
        { "Conv_3.out0",                6,  true,  0         },
        { "/model/layers.0/conv.out12", 20, true,  12        },
        { "a.in0.out1",                 5,  true,  1         },
        { "a..in0",                     2,  false, 0         },
        { ".in3",                       0,  false, 3         },
        { "c.in4294967296",             1,  false, 4294967296},
        { "c.in9223372036854775807",    1,  false, INT64_MAX },
    };
    static const char *const wrong[] = { "",
                                         "conv",
                                         "conv.",
                                         "in1",
                                         "conv.in",
                                         "conv.1",
                                         "conv.in1.",
                                         "conv in1",
                                         "conv.in1 ",
                                         "conv.in.1",
                                         "c.in9223372036854775808" };
    qg_endpoint_name name;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_true(qg_endpoint_parse(right[i].text, &name));
        assert_int_equal(name.n_node, right[i].n_node);
        assert_int_equal(name.is_output, right[i].is_output);
        assert_int_equal(name.slot, right[i].slot);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(qg_endpoint_parse(wrong[i], &name));
}

static void every_occupied_slot_is_found_by_its_text(void **state)
{
    (void)state;
    toy t = three_nodes();
    size_t found = 0;
    for (size_t i = 0; i < t.g->node.n; i++)
        for (uint32_t k = 0; k < qg_node_endpoints(t.g->node.at[i]); k++) {
            qg_endpoint at = qg_node_endpoint(t.g->node.at[i], k), back;
            char text[QG_ENDPOINT_TEXT];
            bool is = qg_endpoint_named(t.g, qg_endpoint_text(at, text), &back);
            assert_int_equal(is, qg_endpoint_value(at) != NULL);
            assert_true(!is || qg_endpoint_same(at, back));
            found += is;
        }
    assert_int_equal(found, 8);
    toy_free(&t);
}

static void what_is_not_there_has_no_endpoint(void **state)
{
    (void)state;
    static const char *const absent[] = {
        "conv.in2", "conv.in3",   "conv.out1",     "a.in0",
        "b.in0",    "a.b",        "out0",          "conv.in4294967296",
        ".in0",     "nobody.in0", "conv.in0.out0", "conv.in4294967295",
        "out0.out1"
    };
    toy t = three_nodes();
    qg_endpoint at = { 0 };
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        assert_false(qg_endpoint_named(t.g, absent[i], &at));
    assert_null(at.node); /* untouched */
    assert_true(qg_endpoint_named(t.g, "a.b.in0", &at));
    assert_string_equal(qg_endpoint_value(at)->name, "y");
    assert_true(qg_endpoint_named(t.g, "out0.out2", &at));
    assert_string_equal(qg_endpoint_value(at)->name, "q");
    toy_free(&t);
}

static void long_names_are_cut(void **state)
{
    (void)state;
    char name[2000], text[QG_ENDPOINT_TEXT];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const qg_node n = { .name = name };
    qg_endpoint_text(qg_output_at(&n, UINT32_MAX), text);
    assert_int_equal(strlen(text), 1000 + strlen(".out4294967295"));
    assert_string_equal(text + 1000, ".out4294967295");
}

/* --- slots --- */

static void inputs_come_before_outputs(void **state)
{
    (void)state;
    toy t = three_nodes();
    const qg_node *n = qg_graph_node(t.g, "conv");
    assert_int_equal(qg_node_endpoints(n), 4);
    for (uint32_t k = 0; k < 4; k++)
        assert_true(qg_endpoint_same(qg_node_endpoint(n, k),
                                     k < 3 ? qg_input_at(n, k) : qg_output_at(n, 0)));
    assert_int_equal(qg_endpoint_role(qg_input_at(n, 1)), 'w');
    assert_int_equal(qg_endpoint_role(qg_output_at(n, 0)), 'd');
    assert_false(qg_endpoint_same(qg_input_at(n, 0), qg_output_at(n, 0)));
    toy_free(&t);
}

/* Callers that ask for 'w', 'b' or 'p' do not ask for the side. */
static void letters_of_outputs_are_few(void **state)
{
    (void)state;
    for (size_t i = 0; i < qg_ops_registry.n_family; i++)
        for (const qg_op *op = qg_ops_registry.family[i]; op->name; op++)
            assert_true(!op->out_roles ||
                        strspn(op->out_roles, "dfs") == strlen(op->out_roles));
}

/* --- TQCs --- */

static void nodes_without_tqcs_answer_null(void **state)
{
    (void)state;
    toy t = three_nodes();
    const qg_node *n = qg_graph_node(t.g, "a.b");
    assert_null(qg_input_tqc(n, 0));
    assert_null(qg_output_tqc(n, 0));
    assert_null(qg_producer_tqc(n->in[0]));
    assert_null(qg_producer_tqc(toy_value(&t, "x")));
    assert_null(qg_tqc_named(t.g, "a.b.in0"));
    toy_free(&t);
}

static void tqcs_and_endpoints_know_each_other(void **state)
{
    (void)state;
    toy t = three_nodes();
    qg_node *conv = qg_graph_node(t.g, "conv"), *relu = qg_graph_node(t.g, "a.b");
    qg_quant *q;
    qg_tqc *w, *y;
    char text[QG_ENDPOINT_TEXT];
    assert_ok(t.ctx, qg_quant_new(t.g, NULL, &q));
    assert_ok(t.ctx, qg_quant_add(q, conv, false, 1, &int8_scheme, &w));
    assert_ok(t.ctx, qg_quant_add(q, conv, true, 0, &int8_scheme, &y));
    assert_true(qg_endpoint_same(qg_tqc_endpoint(w), qg_input_at(conv, 1)));
    assert_string_equal(qg_tqc_text(y, text), "conv.out0");
    assert_ptr_equal(qg_tqc_named(t.g, "conv.out0"), y);
    assert_ptr_equal(qg_role_tqc(conv, 'w'), w);
    assert_null(qg_role_tqc(conv, 'd'));
    assert_null(qg_role_tqc(relu, 'w'));
    assert_int_equal(qg_tqc_role(w), 'w');
    assert_ptr_equal(qg_producer_tqc(relu->in[0]), y);
    assert_null(qg_node_tqc(conv, 0));
    assert_ptr_equal(qg_node_tqc(conv, 1), w);
    assert_ptr_equal(qg_node_tqc(conv, 3), y);
    assert_null(qg_input_tqc(conv, 3));
    assert_null(qg_output_tqc(conv, UINT32_MAX));
    toy_free(&t);
}

static void a_group_is_walked_once(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 6, 0);
    for (uint32_t i = 1; i < 4; i++)
        assert_ok(b.ctx, qg_tqc_join(b.q, b.t[i], b.t[0]));
    for (uint32_t first = 0; first < 6; first++) {
        unsigned seen = 0, n = 0;
        for (const qg_tqc *t = b.t[first]; t; t = qg_group_next(t, b.t[first])) {
            assert_true(n > 0 || t == b.t[first]);
            seen |= 1u << t->id;
            n++;
        }
        assert_int_equal(seen, first < 4 ? 15 : 1u << first);
        assert_int_equal(n, first < 4 ? 4 : 1);
    }
    bench_close(&b);
}

QG_TEST_MAIN(cmocka_unit_test(slots_are_read_as_they_are_written),
             cmocka_unit_test(only_slots_are_slots),
             cmocka_unit_test(the_last_dot_ends_the_name),
             cmocka_unit_test(every_occupied_slot_is_found_by_its_text),
             cmocka_unit_test(what_is_not_there_has_no_endpoint),
             cmocka_unit_test(long_names_are_cut),
             cmocka_unit_test(inputs_come_before_outputs),
             cmocka_unit_test(letters_of_outputs_are_few),
             cmocka_unit_test(nodes_without_tqcs_answer_null),
             cmocka_unit_test(tqcs_and_endpoints_know_each_other),
             cmocka_unit_test(a_group_is_walked_once))
