/* Models from calls: the same as from a file, and refusals that leave them as
 * before. */
#include "tests/support/models.h"

#include "engine/core/hash.h"
#include "engine/exec/run.h"
#include "engine/snapshot/model.h"

static const int64_t dim_x[] = { 1, 3 }, dim_w[] = { 3, 2 };
static float weight[] = { 1, -2, 3, -4, 5, -6 };

static qg_tensor tensor(float *data, int32_t rank, const int64_t *dim)
{
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, rank, dim);
    t.f32 = data;
    return t;
}

static qg_status add(qg_model *m, const char *op, const char *const *in, size_t n_in,
                     const char *out)
{
    qg_node_options o;
    qg_node_options_init(&o, sizeof o);
    o.op = op;
    o.in = in;
    o.n_in = n_in;
    o.out = &out;
    o.n_out = 1;
    return qg_model_add_node(m, &o, NULL);
}

#define INPUTS(...)                                                                    \
    (const char *const[]){ __VA_ARGS__ },                                              \
        sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)

/* y = Relu(x w); consumers before producers when `backwards`. */
static qg_model *linear(qg_ctx *ctx, bool backwards)
{
    qg_model *m;
    qg_tensor w = tensor(weight, 2, dim_w);
    assert_ok(ctx, qg_model_new(ctx, "linear", 17, &m));
    if (backwards) {
        assert_ok(ctx, qg_model_add_output(m, "y"));
        assert_ok(ctx, add(m, "Relu", INPUTS("h"), "y"));
    }
    assert_ok(ctx, qg_model_add_input(m, "x", QG_F32, 2, dim_x));
    assert_ok(ctx, add(m, "MatMul", INPUTS("x", "w"), "h"));
    assert_ok(ctx, qg_model_add_constant(m, "w", &w, false));
    if (!backwards) {
        assert_ok(ctx, add(m, "Relu", INPUTS("h"), "y"));
        assert_ok(ctx, qg_model_add_output(m, "y"));
    }
    return m;
}

static void a_built_model_is_like_one_of_a_file(void **state)
{
    qg_ctx *ctx = *state;
    for (int backwards = 0; backwards < 2; backwards++) {
        qg_bytes onnx, snapshot;
        qg_model *again, *m = linear(ctx, backwards);
        assert_ok(ctx, qg_model_finish(m));
        qg_value_record y = { .size = sizeof y };
        qg_value_get(qg_model_find_value(m, "y"), &y);
        assert_int_equal(y.rank, 2);
        assert_int_equal(y.dim[1], 2);
        qg_node_record n = { .size = sizeof n };
        qg_node_get(qg_model_node(m, 0), &n);
        assert_string_equal(n.op, "MatMul");
        char hash[QG_HASH_TEXT];
        assert_ok(ctx, qg_model_export_onnx_bytes(m, &onnx));
        qg_hash_bytes(onnx.data, onnx.size, hash);
        assert_string_equal(m->sha256, hash);
        assert_ok(ctx, qg_model_open_bytes(ctx, onnx.data, onnx.size, NULL, &again));
        assert_string_equal(dump_text(ctx, quantize(ctx, m, "trt-int8")),
                            dump_text(ctx, quantize(ctx, again, "trt-int8")));
        assert_cmp_int(qg_model_tqc_count(m), >, 2);
        assert_ok(ctx, qg_model_save_bytes(m, &snapshot));
        qg_model_close(m);
        qg_model_close(again);
        assert_ok(ctx,
                  qg_model_open_bytes(ctx, snapshot.data, snapshot.size, NULL, &m));
        qg_model_close(m);
        qg_bytes_free(ctx, &snapshot);
        qg_bytes_free(ctx, &onnx);
    }
}

/* The computed numbers, by the simulation in float. */
static void it_computes(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = linear(ctx, false);
    assert_ok(ctx, qg_model_finish(m));
    qg_plan *p;
    qg_plan_options o = { .mode = QG_MODE_FLOAT, .reference = true };
    float x[] = { 1, 2, 3 };
    qg_tensor in = tensor(x, 2, dim_x);
    const qg_tensor *ins[] = { &in };
    qg_run *run;
    assert_ok(ctx, qg_plan_new(ctx, m->graph, &o, &p));
    assert_ok(ctx, qg_run_new(ctx, p, &run));
    assert_ok(ctx, qg_run_execute(run, ins, NULL, 0, 0));
    const qg_tensor *y = qg_run_output(run, 0);
    assert_cmp_f64(y->f32[0], ==, 1 * 1 + 2 * 3 + 3 * 5);
    assert_cmp_f64(y->f32[1], ==, 0);
    qg_run_free(run);
    qg_plan_free(p);
    qg_model_close(m);
}

static void constants_are_borrowed_or_copied(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m;
    static float data[] = { 1, 2, 3, 4, 5, 6 };
    static _Alignas(float) char bytes[sizeof data + 1];
    qg_tensor t = tensor(data, 2, dim_w), turned = t, odd = t;
    odd.data = bytes + 1; /* cannot be borrowed either */
    memcpy(odd.data, data, sizeof data);
    const int64_t dim_turned[] = { 2, 3 };
    qg_tensor_init(&turned, QG_F32, 2, dim_turned);
    turned.f32 = data;
    turned.stride[0] = 1;
    turned.stride[1] = 2; /* the transpose: not plain, so it cannot be borrowed */
    assert_ok(ctx, qg_model_new(ctx, "c", 0, &m));
    assert_ok(ctx, qg_model_add_constant(m, "borrowed", &t, true));
    assert_ok(ctx, qg_model_add_constant(m, "copied", &t, false));
    assert_ok(ctx, qg_model_add_constant(m, "turned", &turned, true));
    const qg_tensor *a = qg_graph_value(m->graph, "borrowed")->constant;
    const qg_tensor *b = qg_graph_value(m->graph, "copied")->constant;
    const qg_tensor *c = qg_graph_value(m->graph, "turned")->constant;
    assert_ok(ctx, qg_model_add_constant(m, "odd", &odd, true));
    const qg_tensor *d = qg_graph_value(m->graph, "odd")->constant;
    assert_int_equal((uintptr_t)d->data % sizeof(float), 0);
    assert_memory_equal(d->data, odd.data, sizeof data);
    assert_ptr_equal(a->f32, data);
    assert_ptr_not_equal(b->f32, data);
    assert_memory_equal(b->f32, data, sizeof data);
    assert_cmp_f64(c->f32[0], ==, 1);
    assert_cmp_f64(c->f32[1], ==, 3);
    assert_cmp_f64(c->f32[3], ==, 2);
    qg_model_close(m);
}

static void attributes_reach_the_operator(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m;
    qg_node *node;
    const int64_t dim[] = { 1, 1, 4, 4 }, dim_k[] = { 1, 1, 2, 2 },
                  strides[] = { 2, 2 };
    static float kernel[] = { 1, 1, 1, 1 };
    qg_tensor k = tensor(kernel, 4, dim_k);
    const char *pad = "VALID";
    qg_attribute stride = { .name = "strides", .kind = QG_ATTRIBUTE_INTS };
    qg_attribute padding = { .name = "auto_pad", .kind = QG_ATTRIBUTE_STRING };
    stride.count = 2;
    stride.ints = strides;
    padding.strings = &pad;
    const qg_attribute attribute[] = { stride, padding };
    qg_node_options o;
    qg_node_options_init(&o, sizeof o);
    o.op = "Conv";
    o.name = "c";
    o.in = (const char *const[]){ "x", "k" };
    o.n_in = 2;
    o.out = (const char *const[]){ "y" };
    o.n_out = 1;
    o.attribute = attribute;
    o.n_attribute = 2;
    assert_ok(ctx, qg_model_new(ctx, "conv", 17, &m));
    assert_ok(ctx, qg_model_add_input(m, "x", QG_F32, 4, dim));
    assert_ok(ctx, qg_model_add_constant(m, "k", &k, false));
    assert_ok(ctx, qg_model_add_node(m, &o, &node));
    assert_ok(ctx, qg_model_add_output(m, "y"));
    assert_ok(ctx, qg_model_finish(m));
    const int64_t *got;
    size_t count;
    assert_true(qg_node_ints(node, "strides", &got, &count));
    assert_int_equal(count, 2);
    assert_int_equal(got[0], 2);
    qg_value_record y = { .size = sizeof y };
    qg_value_get(qg_model_output(m, 0), &y);
    assert_int_equal(y.dim[2], 2);
    qg_model_close(m);
}

/* A call that is refused leaves values, nodes and opsets as they were. */
static void refusals_leave_no_trace(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = linear(ctx, false);
    size_t values = qg_model_value_count(m), nodes = qg_model_node_count(m);
    qg_tensor w = tensor(weight, 2, dim_w), none = tensor(NULL, 2, dim_w);
    const int64_t odd[] = { -2 };
    const qg_attribute twice[] = {
        {.name = "a",  .kind = QG_ATTRIBUTE_INT, .count = 1, .ints = dim_x},
        { .name = "a", .kind = QG_ATTRIBUTE_INT, .count = 1, .ints = dim_x},
    };
    const char *const words[] = { "one", NULL };
    const qg_attribute gap[] = {
        {.name = "a", .kind = QG_ATTRIBUTE_STRINGS, .count = 2, .strings = words},
    };
    qg_node_options o;
    qg_node_options_init(&o, sizeof o);
    assert_fails(ctx, qg_model_add_node(m, &o, NULL), QG_EMODEL, "operator");
    o.op = "Relu";
    o.attribute = twice;
    o.n_attribute = 2;
    assert_fails(ctx, qg_model_add_node(m, &o, NULL), QG_EMODEL, "given twice");
    o.attribute = gap;
    o.n_attribute = 1;
    assert_fails(ctx, qg_model_add_node(m, &o, NULL), QG_EMODEL, "entry 1 is NULL");
    o.n_attribute = 0;
    assert_fails(ctx, add(m, "Reluu", INPUTS("new"), "newer"), QG_EUNSUPPORTED,
                 "operator Reluu is not known (opset 17)");
    assert_fails(ctx, add(m, "Relu", INPUTS("new", "newer"), "z"), QG_EMODEL,
                 "2 inputs, expected 1");
    assert_fails(ctx, add(m, "Relu", INPUTS("new"), "h"), QG_EMODEL, "produced twice");
    assert_fails(ctx, add(m, "Relu", INPUTS("new"), "w"), QG_EMODEL, "a constant");
    o = (qg_node_options){ .size = sizeof o, .op = "Mine", .domain = "quantgraph" };
    assert_fails(ctx, qg_model_add_node(m, &o, NULL), QG_EUNSUPPORTED, "Mine");
    assert_fails(ctx, qg_model_add_input(m, "", QG_F32, 1, odd), QG_EMODEL, "name");
    assert_fails(ctx, qg_model_add_input(m, "z", QG_F32, 1, odd), QG_EMODEL, "-2");
    assert_fails(ctx, qg_model_add_input(m, "z", QG_F32, 9, odd), QG_EMODEL, "rank 9");
    assert_fails(ctx, qg_model_add_input(m, "z", (qg_dtype)99, 1, dim_x), QG_EMODEL,
                 "type 99");
    assert_fails(ctx, qg_model_add_input(m, "x", QG_F32, 2, dim_x), QG_EMODEL, "x");
    assert_fails(ctx, qg_model_add_constant(m, "w", &w, false), QG_EMODEL, "already");
    assert_fails(ctx, qg_model_add_constant(m, "z", &none, false), QG_EMODEL,
                 "no data");
    assert_fails(ctx, qg_model_add_output(m, "y"), QG_EMODEL, "twice");
    assert_fails(ctx, qg_model_import_opset(m, NULL, 18), QG_EMODEL, "17 and 18");
    assert_int_equal(qg_model_value_count(m), values);
    assert_int_equal(qg_model_node_count(m), nodes);
    assert_int_equal(m->graph->opset.n, 1);
    assert_null(qg_model_find_value(m, "new"));
    assert_ok(ctx, qg_model_finish(m));
    qg_model_close(m);
}

static void what_is_wrong_is_named_at_the_end(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m;
    assert_ok(ctx, qg_model_new(ctx, "empty", 0, &m));
    assert_fails(ctx, qg_model_finish(m), QG_EMODEL, "no output");
    assert_ok(ctx, qg_model_add_output(m, "y"));
    assert_fails(ctx, qg_model_finish(m), QG_EMODEL, "graph output 'y'");
    assert_ok(ctx, add(m, "Relu", INPUTS("h"), "y"));
    assert_fails(ctx, qg_model_finish(m), QG_EMODEL, "reads tensor 'h'");
    assert_ok(ctx, qg_model_add_input(m, "h", QG_F32, 2, dim_x)); /* mended */
    assert_ok(ctx, qg_model_finish(m));
    qg_model_close(m);
    assert_ok(ctx, qg_model_new(ctx, "circle", 17, &m));
    assert_ok(ctx, add(m, "Relu", INPUTS("b"), "a"));
    assert_ok(ctx, add(m, "Relu", INPUTS("a"), "b"));
    assert_ok(ctx, qg_model_add_output(m, "b"));
    assert_fails(ctx, qg_model_finish(m), QG_EMODEL, "cycle");
    qg_model_close(m);
    assert_ok(ctx, qg_model_new(ctx, "types", 17, &m));
    assert_ok(ctx, qg_model_add_input(m, "x", QG_F32, 2, dim_x));
    assert_ok(ctx, qg_model_add_input(m, "i", QG_I64, 2, dim_x));
    assert_ok(ctx, add(m, "Add", INPUTS("x", "i"), "y"));
    assert_ok(ctx, qg_model_add_output(m, "y"));
    assert_fails(ctx, qg_model_finish(m), QG_EMODEL, "Add");
    qg_model_close(m);
    assert_fails(ctx, qg_model_new(ctx, "future", 1000, &m), QG_EUNSUPPORTED, "1000");
}

/* Every verb refuses what is not finished; building ends with finish. */
static void an_unfinished_model_is_good_for_building_only(void **state)
{
    qg_ctx *ctx = *state;
    qg_report *r;
    qg_bytes b;
    qg_model *m = linear(ctx, false), *whole = linear(ctx, false);
    qg_quantize_options q;
    qg_run_options run;
    qg_stats_options stats;
    qg_doctor_options doctor;
    assert_ok(ctx, qg_model_finish(whole));
    qg_quantize_options_init(&q, sizeof q);
    qg_run_options_init(&run, sizeof run);
    qg_stats_options_init(&stats, sizeof stats);
    qg_doctor_options_init(&doctor, sizeof doctor);
    q.backend = "trt-int8";
    q.work.data = run.work.data = stats.work.data = doctor.work.data = "random:1";
    static const char why[] = "is not finished";
    assert_fails(ctx, qg_model_quantize(m, &q, NULL), QG_ESTATE, why);
    assert_fails(ctx, qg_model_run(m, &run, NULL, &r), QG_ESTATE, why);
    assert_fails(ctx, qg_model_evaluate(m, &run, "none.npy", &r), QG_ESTATE, why);
    assert_fails(ctx, qg_model_collect(m, &stats, "none.qgs", &r), QG_ESTATE, why);
    assert_fails(ctx, qg_model_doctor(m, &doctor, &r), QG_ESTATE, why);
    assert_fails(ctx, qg_model_save(m, "none"), QG_ESTATE, why);
    assert_fails(ctx, qg_model_save_bytes(m, &b), QG_ESTATE, why);
    assert_fails(ctx, qg_model_export_onnx(m, "none.onnx"), QG_ESTATE, why);
    assert_fails(ctx, qg_model_export_onnx_bytes(m, &b), QG_ESTATE, why);
    assert_fails(ctx, qg_model_switch(m, "state=restored", NULL), QG_ESTATE, why);
    assert_fails(ctx, qg_model_explain(m, "y", &r), QG_ESTATE, why);
    assert_fails(ctx, qg_model_dump(m, &r), QG_ESTATE, why);
    assert_fails(ctx, qg_model_diff(whole, m, &r), QG_ESTATE, why);
    assert_fails(ctx, add(whole, "Relu", INPUTS("y"), "z"), QG_ESTATE, "is finished");
    assert_fails(ctx, qg_model_finish(whole), QG_ESTATE, "is finished");
    qg_model_close(m);
    qg_model_close(whole);
}

/* A pass holds a view of the model: graph and records without a path. */
static void nodes_are_added_to_a_model_in_the_hands_of_a_pass(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = linear(ctx, false);
    assert_ok(ctx, qg_model_finish(m));
    qg_model view = { .ctx = ctx, .graph = m->graph };
    size_t nodes = qg_model_node_count(m);
    assert_ok(ctx, add(&view, "Relu", INPUTS("y"), "z"));
    assert_int_equal(qg_model_node_count(m), nodes + 1);
    assert_non_null(qg_model_find_value(m, "z"));
    qg_model_close(m);
}

QG_TEST_MAIN(WITH_LIBRARY(a_built_model_is_like_one_of_a_file),
             WITH_LIBRARY(it_computes), WITH_LIBRARY(constants_are_borrowed_or_copied),
             WITH_LIBRARY(attributes_reach_the_operator),
             WITH_LIBRARY(refusals_leave_no_trace),
             WITH_LIBRARY(what_is_wrong_is_named_at_the_end),
             WITH_LIBRARY(an_unfinished_model_is_good_for_building_only),
             WITH_LIBRARY(nodes_are_added_to_a_model_in_the_hands_of_a_pass))
