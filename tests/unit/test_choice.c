/* What the options of qg tune choose (learn/choice.h), and which blocks learn then
 * (learn/tuning.h). */
#include "engine/learn/choice.h"
#include "engine/learn/tuning.h"
#include "tests/support/session.h"

static qg_tune_options options(void)
{
    qg_tune_options o;
    qg_tune_options_init(&o, sizeof o);
    return o;
}

static void defaults(void **state)
{
    const qg_tune_options o = options();
    qg_tune_choice c;
    assert_ok(*state, qg_tune_choose(*state, &o, &c));
    assert_string_equal(c.method->name, "lsq");
    assert_int_equal(c.gradient, QG_STEP_GRADIENT_USUAL);
    assert_int_equal(c.loss.kind, QG_LOSS_BLOCKS);
    assert_string_equal(c.optimizer->name, "adam");
    assert_cmp_f64(c.rate, ==, 0.0075);
    assert_cmp_f64(c.usual_rate, ==, 0.0075);
}

/* The rate of the method, 50 times as much for sgd, or what is given. */
static void each_is_named(void **state)
{
    qg_tune_options o = options();
    qg_tune_choice c;
    o.method = "brecq";
    o.gradient = "pact";
    o.loss = "kd";
    o.optimizer = "sgd";
    assert_ok(*state, qg_tune_choose(*state, &o, &c));
    assert_string_equal(c.method->name, "brecq");
    assert_int_equal(c.gradient, QG_STEP_GRADIENT_PACT);
    assert_int_equal(c.loss.kind, QG_LOSS_KD);
    assert_string_equal(c.optimizer->name, "sgd");
    assert_cmp_f64(c.rate, ==, 5);
    o.rate = 0.5;
    assert_ok(*state, qg_tune_choose(*state, &o, &c));
    assert_cmp_f64(c.rate, ==, 0.5);
    assert_cmp_f64(c.usual_rate, ==, 5);
    o.loss = "labels";
    o.labels = "l.npy";
    assert_ok(*state, qg_tune_choose(*state, &o, &c));
    assert_int_equal(c.loss.kind, QG_LOSS_LABELS);
    o.method = "bias"; /* no steps: the usual gradient is none */
    o.gradient = NULL;
    assert_ok(*state, qg_tune_choose(*state, &o, &c));
    o.gradient = "usual";
    assert_ok(*state, qg_tune_choose(*state, &o, &c));
}

static void wrong_words(void **state)
{
    /* clang-format off */
    static const struct {
        const char *method, *gradient, *loss, *labels, *optimizer, *message;
    } rows[] = {
        { "x", NULL, NULL, NULL, NULL,
          "tune: method 'x': expected one of lsq, adaquant, adaround, brecq, bias" },
        { NULL, "x", NULL, NULL, NULL, "tune: gradient 'x': expected one of usual, " },
        { NULL, NULL, "x", NULL, NULL,
          "tune: loss 'x': expected one of blocks, mse, kd, labels" },
        { NULL, NULL, NULL, NULL, "x",
          "tune: optimizer 'x': expected one of adam, sgd" },
        { "adaround", "lsq", NULL, NULL, NULL,
          "tune: gradient lsq: method adaround learns no step sizes, expected no "
          "gradient, or a method that does: lsq, adaquant, brecq" },
        { NULL, NULL, "labels", NULL, NULL, "tune: loss labels: there are none" },
        { NULL, NULL, NULL, "l.npy", NULL,
          "tune: labels 'l.npy': loss blocks does not read them" },
        { NULL, NULL, "kd", "l.npy", NULL,
          "tune: labels 'l.npy': loss kd does not read them" },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qg_tune_options o = options();
        qg_tune_choice c;
        o.method = rows[i].method;
        o.gradient = rows[i].gradient;
        o.loss = rows[i].loss;
        o.labels = rows[i].labels;
        o.optimizer = rows[i].optimizer;
        assert_fails(*state, qg_tune_choose(*state, &o, &c), QG_ECONFIG,
                     rows[i].message);
    }
}

/* --- blocks ---------------------------------------------------------------------- */

/* a, b, c, s, y: c is the second product. */
static const char network[] =
    "graph {\n x = input f32[2,2]\n w = const f32[2,2] ramp(-1, 1)\n a = MatMul(x, w)\n"
    " b = Relu(a)\n c = MatMul(b, w)\n s = Shape(c)\n y = Neg(c)\n output y\n}";

typedef struct fixture {
    qg_model m;
    qg_tune_options o;
    qg_tuning t;
} fixture;

static fixture f;

static void make(qg_ctx *ctx)
{
    f = (fixture){ .o = options() };
    ctx->registry = &qg_ops_registry;
    model_of_text(ctx, network, &f.m);
    f.t.m = &f.m;
    f.t.o = &f.o;
}

static bool learns(size_t first, size_t end, size_t compute)
{
    const qg_block b = { .first = first, .end = end, .compute = compute };
    return qg_tuning_learns(&f.t, &b);
}

static void blocks_with_products_learn(void **state)
{
    make(*state);
    assert_true(learns(0, 2, 1));
    assert_true(learns(2, 3, 1));
    assert_false(learns(1, 2, 0));
    assert_false(learns(3, 4, 1)); /* gives integers alone */
    qg_block stopped = { .end = 1, .compute = 1, .stop = f.m.graph->node.at[0] };
    assert_false(qg_tuning_learns(&f.t, &stopped));
    stopped.stop = NULL;
    assert_true(qg_tuning_learns(&f.t, &stopped));
    f.t.choice.loss.kind = QG_LOSS_MSE; /* outputs of the network alone */
    assert_false(learns(0, 2, 1));
    assert_true(learns(2, 5, 1));
    qg_graph_free(f.m.graph);
}

/* By its first product, or its first node where it has none. */
static void blocks_have_names(void **state)
{
    make(*state);
    static const struct {
        size_t first, end;
        const char *name;
    } rows[] = {
        {0,  5, "a"},
        { 1, 5, "c"},
        { 1, 2, "b"},
        { 3, 5, "s"}
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const qg_block b = { .first = rows[i].first, .end = rows[i].end };
        assert_string_equal(qg_tuning_name(&f.t, &b), rows[i].name);
    }
    f.o.block = "c";
    assert_false(learns(0, 2, 1));
    assert_true(learns(1, 3, 1));
    qg_graph_free(f.m.graph);
}

static void verdicts_and_gains(void **state)
{
    qg_reconstruction result[3] = { { .kept = true }, { 0 }, { .kept = true } };
    (void)state;
    f.t = (qg_tuning){ .n_block = 3, .result = result };
    assert_int_equal(qg_tuning_better(&f.t), 2);
    for (int k = 0; k < QG_NLOSS; k++) {
        f.t.choice.loss.kind = (qg_loss_kind)k;
        assert_int_equal(qg_tuning_has_verdict(&f.t),
                         k == QG_LOSS_KD || k == QG_LOSS_LABELS);
    }
}

QG_TEST_MAIN(WITH_CTX(defaults), WITH_CTX(each_is_named), WITH_CTX(wrong_words),
             WITH_CTX(blocks_with_products_learn), WITH_CTX(blocks_have_names),
             cmocka_unit_test(verdicts_and_gains))
