/* If, Loop and Scan, run by a plan: what they give, which shapes they find out late,
 * and what they refuse.  Expected values are worked out by hand. */
#include "engine/exec/run.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"
#include "tests/support/test.h"

enum { MAX_IN = 4 };

typedef struct fixture {
    qg_ctx *ctx;
    qg_graph *g;
    qg_plan *p;
    qg_run *r;
    qg_tensor in[MAX_IN];
} fixture;

static qg_status parse(fixture *f, const char *text)
{
    *f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    assert_non_null(f->ctx);
    f->ctx->registry = &qg_ops_registry;
    return qg_text_parse(
        f->ctx, &(qg_text_source){ .text = text, .size = strlen(text) }, &f->g);
}

static void open_model(fixture *f, const char *text)
{
    assert_ok(f->ctx, parse(f, text));
    assert_ok(f->ctx, qg_infer(f->g, NULL, 0));
    assert_ok(f->ctx, qg_plan_new(f->ctx, f->g, &(qg_plan_options){ 0 }, &f->p));
    assert_ok(f->ctx, qg_run_new(f->ctx, f->p, &f->r));
    assert_cmp_int(f->g->input.n, <=, MAX_IN);
    for (size_t i = 0; i < f->g->input.n; i++)
        f->in[i] = f->g->input.at[i]->type;
}

static void close_model(fixture *f)
{
    qg_run_free(f->r);
    qg_plan_free(f->p);
    qg_graph_free(f->g);
    qg_ctx_free(f->ctx);
}

static qg_status run(fixture *f)
{
    const qg_tensor *in[MAX_IN];
    for (size_t i = 0; i < f->g->input.n; i++)
        in[i] = &f->in[i];
    return qg_run_execute(f->r, in, NULL, 0, 0);
}

/* Output i has this text ("float32[2]") and these values. */
static void assert_output(const fixture *f, size_t i, const char *shape,
                          const float *values)
{
    char text[QG_SHAPE_TEXT];
    const qg_tensor *y = qg_run_output(f->r, i);
    assert_string_equal(qg_tensor_text(y, text), shape);
    for (int64_t k = 0; k < qg_tensor_count(y); k++)
        if (qg_tensor_f64(y, k) != (double)values[k])
            fail_msg("output %zu, element %lld: %g, expected %g", i, (long long)k,
                     qg_tensor_f64(y, k), (double)values[k]);
}
#define VALUES(...) ((const float[]){ __VA_ARGS__ })

static void if_takes_one_branch(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "graph {\n opset 16\n c = input bool[]\n x = input float32[2]\n"
                   "y = If(c | x) then_branch=graph \"t\" {\n x = outer float32[2]\n"
                   "  r = Add(x, x)\n output r\n}"
                   " else_branch=graph \"e\" {\n x = outer float32[2]\n"
                   "  r = Mul(x, x)\n output r\n}\n output y\n}");
    bool c = true;
    float x[] = { 3, 5 };
    f.in[0].b = &c;
    f.in[1].f32 = x;
    assert_ok(f.ctx, run(&f));
    assert_output(&f, 0, "float32[2]", VALUES(6, 10));
    c = false;
    assert_ok(f.ctx, run(&f));
    assert_output(&f, 0, "float32[2]", VALUES(9, 25));
    close_model(&f);
}

/* The branches give different shapes, and one of them a captured value as it is. */
static void if_finds_its_shape_late(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "graph {\n opset 16\n c = input bool[]\n x = input float32[2]\n"
                   "y = If(c | x) then_branch=graph \"t\" {\n x = outer float32[2]\n"
                   "  r = Concat(x, x) axis=0\n output r\n}"
                   " else_branch=graph \"e\" {\n x = outer float32[2]\n output x\n}\n"
                   "z = Neg(y)\n output z\n}");
    assert_int_equal(f.g->output.at[0]->type.dim[0], -1);
    bool c = true;
    float x[] = { 3, 5 };
    f.in[0].b = &c;
    f.in[1].f32 = x;
    for (int turn = 0; turn < 3; turn++, c = !c) {
        assert_ok(f.ctx, run(&f));
        assert_output(&f, 0, c ? "float32[4]" : "float32[2]", VALUES(-3, -5, -3, -5));
    }
    close_model(&f);
}

/* The branches give different ranks (as Squeeze without axes, exported behind an If,
 * does): the types of all that follows, bodies and Scan included, are known, no shape
 * is. */
static void types_are_known_without_ranks(void **state)
{
    (void)state;
    fixture f;
    open_model(&f,
               "graph {\n opset 16\n c = input bool[]\n x = input float32[1,2]\n"
               "axis = const int64[1] [0]\n zero = const float32[2] [0,0]\n"
               "y = If(c | x) then_branch=graph \"t\" {\n x = outer float32[1,2]\n"
               "  r = Squeeze(x)\n output r\n}"
               " else_branch=graph \"e\" {\n x = outer float32[1,2]\n output x\n}\n"
               "u = Unsqueeze(y, axis)\n v = Concat(u, u) axis=0\n s = Shape(v)\n"
               "w = If(c | v) then_branch=graph \"t\" {\n v = outer float32[]\n"
               "  r = Neg(v)\n output r\n}"
               " else_branch=graph \"e\" {\n v = outer float32[]\n output v\n}\n"
               "last, all = Scan(zero, v) num_scan_inputs=1 body=graph \"b\" {\n"
               "  sum = input float32[2]\n x = input float32[2]\n"
               "  next = Add(sum, x)\n each = Identity(next)\n output next, each\n}\n"
               "n = Neg(all)\n output w, s, last, n\n}");
    static const char *const type[] = { "float32[...]", "int64[...]", "?[...]",
                                        "?[...]" };
    for (size_t i = 0; i < f.g->output.n; i++) {
        char text[QG_SHAPE_TEXT];
        assert_string_equal(qg_tensor_text(&f.g->output.at[i]->type, text), type[i]);
    }
    bool c = true;
    float x[] = { 3, 5 };
    f.in[0].b = &c;
    f.in[1].f32 = x;
    assert_ok(f.ctx, run(&f));
    assert_output(&f, 0, "float32[2,2]", VALUES(-3, -5, -3, -5));
    assert_output(&f, 1, "int64[2]", VALUES(2, 2));
    assert_output(&f, 2, "float32[2]", VALUES(6, 10));
    assert_output(&f, 3, "float32[2,2]", VALUES(-3, -5, -6, -10));
    close_model(&f);
}

/* s += 2 per turn while s < limit, at most `trips` times; every s is collected. */
static const char counting[] =
    "graph {\n opset 16\n trips = input int64[]\n limit = input float32[1]\n"
    "zero = const float32[1] [0]\n go = const bool[] [1]\n"
    "last, all = Loop(trips, go, zero | limit) body=graph \"b\" {\n"
    "  i = input int64[]\n on = input bool[]\n s = input float32[1]\n"
    "  limit = outer float32[1]\n two = const float32[1] [2]\n no_axis = const "
    "int64[1] "
    "[0]\n"
    "  t = Add(s, two)\n more = Less(t, limit)\n more1 = Squeeze(more, no_axis)\n"
    "  u = Identity(t)\n  output more1, t, u\n}\n output last, all\n}";

static void loop_counts_and_stops(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, counting);
    int64_t trips = 3;
    float limit = 100;
    f.in[0].i64 = &trips;
    f.in[1].f32 = &limit;
    assert_ok(f.ctx, run(&f));
    assert_output(&f, 0, "float32[1]", VALUES(6));
    assert_output(&f, 1, "float32[3,1]", VALUES(2, 4, 6));
    limit = 3; /* the body's condition ends it after the second turn */
    assert_ok(f.ctx, run(&f));
    assert_output(&f, 0, "float32[1]", VALUES(4));
    assert_output(&f, 1, "float32[2,1]", VALUES(2, 4));
    trips = 0;
    assert_ok(f.ctx, run(&f));
    assert_output(&f, 0, "float32[1]", VALUES(0));
    assert_output(&f, 1, "float32[0,1]", VALUES(0));
    close_model(&f);
}

/* A carried value that grows, one that passes through, and the turn number in use. */
static void loop_carries_any_shape(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "graph {\n opset 16\n trips = input int64[]\n x = input int64[1]\n"
                   "grown, kept = Loop(trips, _, x, x) body=graph \"b\" {\n"
                   "  i = input int64[]\n on = input bool[]\n g = input int64[1]\n"
                   "  keep = input int64[1]\n axis = const int64[1] [0]\n"
                   "  i1 = Unsqueeze(i, axis)\n more = Concat(g, i1) axis=0\n"
                   "  output on, more, keep\n}\n output grown, kept\n}");
    assert_int_equal(f.g->output.at[0]->type.dim[0], -1);
    assert_int_equal(f.g->output.at[1]->type.dim[0], 1);
    int64_t trips = 4, x = 7;
    f.in[0].i64 = &trips;
    f.in[1].i64 = &x;
    assert_ok(f.ctx, run(&f));
    assert_output(&f, 0, "int64[5]", VALUES(7, 0, 1, 2, 3));
    assert_output(&f, 1, "int64[1]", VALUES(7));
    close_model(&f);
}

/* An If inside a Loop, both capturing the same outer value. */
static void bodies_nest(void **state)
{
    (void)state;
    fixture f;
    open_model(
        &f, "graph {\n opset 16\n trips = input int64[]\n x = input float32[]\n"
            "zero = const float32[] [0]\n"
            "y = Loop(trips, _, zero | x) body=graph \"b\" {\n"
            "  i = input int64[]\n on = input bool[]\n s = input float32[]\n"
            "  x = outer float32[]\n one = const int64[] [1]\n first = Less(i, one)\n"
            "  t = If(first | s, x) then_branch=graph \"t\" {\n s = outer float32[]\n"
            "    x = outer float32[]\n r = Add(s, x)\n output r\n}"
            " else_branch=graph \"e\" {\n s = outer float32[]\n x = outer float32[]\n"
            "    r = Mul(s, x)\n output r\n}\n"
            "  output on, t\n}\n output y\n}");
    int64_t trips = 3;
    float x = 5;
    f.in[0].i64 = &trips;
    f.in[1].f32 = &x;
    assert_ok(f.ctx, run(&f));
    assert_output(&f, 0, "float32[]", VALUES(125));
    close_model(&f);
}

#define SCAN_BODY                                                                      \
    "body=graph \"b\" {\n s = input float32[2]\n x = input float32[2]\n"               \
    "  t = Add(s, x)\n u = Identity(t)\n output t, u\n}"

static void scan_adds_up(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "graph {\n opset 16\n x = input float32[3,2]\n"
                   "zero = const float32[2] [0, 0]\n"
                   "last, all = Scan(zero, x) num_scan_inputs=1 " SCAN_BODY "\n"
                   "output last, all\n}");
    float x[] = { 1, 2, 3, 4, 5, 6 };
    f.in[0].f32 = x;
    assert_ok(f.ctx, run(&f));
    assert_output(&f, 0, "float32[2]", VALUES(9, 12));
    assert_output(&f, 1, "float32[3,2]", VALUES(1, 2, 4, 6, 9, 12));
    close_model(&f);
}

/* Cut along axis 1 from the end, put together along the last axis from the end. */
static void scan_has_axes_and_directions(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "graph {\n opset 16\n x = input float32[2,3]\n"
                   "zero = const float32[2] [0, 0]\n"
                   "last, all = Scan(zero, x) num_scan_inputs=1 scan_input_axes=[1] "
                   "scan_input_directions=[1] scan_output_axes=[-1] "
                   "scan_output_directions=[1] " SCAN_BODY "\n output last, all\n}");
    float x[] = { 1, 2, 3, 10, 20, 30 };
    f.in[0].f32 = x;
    for (int turn = 0; turn < 2; turn++) {
        assert_ok(f.ctx, run(&f));
        assert_output(&f, 0, "float32[2]", VALUES(6, 60));
        assert_output(&f, 1, "float32[2,3]", VALUES(6, 5, 3, 60, 50, 30));
    }
    close_model(&f);
}

/* Axes that are a constant of the graph around the body, as exporters leave them: the
 * shapes of the body and of what follows are known before a run. */
static void bodies_know_captured_constants(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "graph {\n opset 16\n x = input float32[3,2]\n"
                   "zero = const float32[1,2] [0, 0]\n axis = const int64[1] [0]\n"
                   "last, all = Scan(zero, x | axis) num_scan_inputs=1 "
                   "body=graph \"b\" {\n s = input float32[1,2]\n"
                   "  x = input float32[2]\n axis = outer int64[1]\n"
                   "  r = Unsqueeze(x, axis)\n t = Add(s, r)\n"
                   "  u = Squeeze(t, axis)\n output t, u\n}\n output last, all\n}");
    static const char *const type[] = { "float32[1,2]", "float32[3,2]" };
    for (size_t i = 0; i < f.g->output.n; i++) {
        char text[QG_SHAPE_TEXT];
        assert_string_equal(qg_tensor_text(&f.g->output.at[i]->type, text), type[i]);
    }
    float x[] = { 1, 2, 3, 4, 5, 6 };
    f.in[0].f32 = x;
    assert_ok(f.ctx, run(&f));
    assert_output(&f, 0, "float32[1,2]", VALUES(9, 12));
    assert_output(&f, 1, "float32[3,2]", VALUES(1, 2, 4, 6, 9, 12));
    close_model(&f);
}

#define HEAD      "graph {\n opset 16\n "
#define IF        "c = input bool[]\n y = If(c) then_branch=graph \"t\" {\n"
#define ELSE      "} else_branch=graph \"e\" {\n"
#define END       "}\n output y\n}"
#define NEG(type) "a = const " type "[1] [1]\n b = Neg(a)\n output b\n"
#define LOOP                                                                           \
    "m = input int64[]\n x = input f32[1]\n y = Loop(m, _, x) body=graph \"b\" {\n"    \
    "i = input int64[]\n "

/* What is refused before it runs: text, status, part of the message. */
static const struct {
    const char *text;
    qg_status status;
    const char *message;
} refused[] = {
  /* clang-format off */
    { HEAD IF END, QG_EMODEL, "else_branch is missing" },
    { HEAD IF ELSE END,
      QG_EMODEL, "else_branch has 0 inputs and 0 outputs, expected 0 and 1" },
    { HEAD IF NEG("f32") ELSE NEG("i32") END,
      QG_EMODEL, "output 0 is float32 or int32, expected one type" },
    { HEAD "c = input f32[]\n y = If(c) then_branch=graph \"t\" {\n" NEG("f32") ELSE
      NEG("f32") END,
      QG_EUNSUPPORTED, "input 0 has type float32" },
    { HEAD LOOP "on = input bool[]\n s = input f32[1]\n t = Cast(s) to=7\n"
      "output on, t\n" END,
      QG_EMODEL, "carried value 0 is int64, expected float32" },
    { HEAD LOOP "output i\n" END,
      QG_EMODEL, "body has 1 inputs and 1 outputs, expected 3 and 2" },
    { HEAD "x = input f32[3,2]\n y = Scan(x) num_scan_inputs=2 "
      "body=graph \"b\" {\n" END,
      QG_EMODEL, "num_scan_inputs is 2 of 1 inputs with 1 outputs" },
    { HEAD "x = input f32[3,2]\n y = Scan(x) num_scan_inputs=1 scan_input_axes=[0, 1] "
      "body=graph \"b\" {\n s = input f32[2]\n t = Neg(s)\n output t\n" END,
      QG_EMODEL, "2 axes or directions, expected 1" },
    { HEAD "x = input f32[3,2]\n z = input f32[4,2]\n"
      "y = Scan(x, z) num_scan_inputs=2 body=graph \"b\" {\n s = input f32[2]\n"
      "u = input f32[2]\n t = Add(s, u)\n output t\n" END,
      QG_EMODEL, "input 1 has 4 slices, expected 3" },
  /* clang-format on */
};

static void wrong_control_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        fixture f;
        qg_status s = parse(&f, refused[i].text);
        if (s == QG_OK)
            s = qg_infer(f.g, NULL, 0);
        if (s != refused[i].status ||
            !strstr(qg_ctx_message(f.ctx), refused[i].message))
            fail_msg("case %zu: %s '%s', expected '%s'", i, qg_status_name(s),
                     qg_ctx_message(f.ctx), refused[i].message);
        close_model(&f);
    }
}

/* A shape that changes between the turns cannot be stacked; it is data that decides. */
static void slices_must_agree(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "graph {\n opset 16\n m = input int64[]\n x = input int64[1]\n"
                   "y, all = Loop(m, _, x) body=graph \"b\" {\n i = input int64[]\n"
                   "  on = input bool[]\n s = input int64[1]\n"
                   "  t = Concat(s, s) axis=0\n u = Identity(t)\n  output on, t, "
                   "u\n}\n output y, all\n}");
    int64_t m = 2, x = 1;
    f.in[0].i64 = &m;
    f.in[1].i64 = &x;
    assert_fails(f.ctx, run(&f), QG_EDATA,
                 "output 1 changes its shape between iterations");
    m = 1;
    assert_ok(f.ctx, run(&f));
    assert_output(&f, 1, "int64[1,2]", VALUES(1, 1));
    close_model(&f);
}

QG_TEST_MAIN(cmocka_unit_test(if_takes_one_branch),
             cmocka_unit_test(if_finds_its_shape_late),
             cmocka_unit_test(types_are_known_without_ranks),
             cmocka_unit_test(loop_counts_and_stops),
             cmocka_unit_test(loop_carries_any_shape), cmocka_unit_test(bodies_nest),
             cmocka_unit_test(scan_adds_up),
             cmocka_unit_test(scan_has_axes_and_directions),
             cmocka_unit_test(bodies_know_captured_constants),
             cmocka_unit_test(wrong_control_is_refused),
             cmocka_unit_test(slices_must_agree))
