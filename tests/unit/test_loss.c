/* Losses of the network: values by hand, gradients by differences of the loss in
 * double, numbers of rows and forms of outputs. */
#include <math.h>

#include "engine/core/rng.h"
#include "engine/learn/loss.h"
#include "tests/support/test.h"

enum { MOST = 64 };

typedef struct outputs {
    float y[MOST], f[MOST], g[MOST];
    qg_tensor ty, tf, tg;
} outputs;

static void shape(outputs *o, int32_t rank, const int64_t *dim)
{
    qg_tensor_init(&o->ty, QG_F32, rank, dim);
    o->tf = o->tg = o->ty;
    o->ty.f32 = o->y;
    o->tf.f32 = o->f;
    o->tg.f32 = o->g;
}

static void draw(outputs *o, qg_rng *r)
{
    for (int64_t i = 0; i < qg_tensor_count(&o->ty); i++) {
        o->y[i] = qg_rng_range(r, -2, 2);
        o->f[i] = qg_rng_range(r, -2, 2);
    }
}

static double loss_of(const qg_loss *l, outputs *o, size_t sample)
{
    return qg_loss_of_classes(l, &o->ty, &o->tf, sample, NULL);
}

static void test_example(void **state)
{
    const qg_loss kd = { .kind = QG_LOSS_KD };
    outputs o = {
        .f = {0, logf(3)}
    };
    (void)state;
    shape(&o, 2, (int64_t[]){ 1, 2 });
    const double loss = qg_loss_of_classes(&kd, &o.ty, &o.tf, 0, &o.tg);
    assert_cmp_f64(fabs(loss - (0.25 * log(0.5) + 0.75 * log(1.5))), <, 1e-7);
    assert_cmp_f64(fabs((double)o.g[0] - 0.25), <, 1e-7);
    assert_cmp_f64(fabs((double)o.g[1] + 0.25), <, 1e-7);
}

/* Against (L(y + e) - L(y - e)) / 2 e, at float32 steps of y. */
static void check_gradient(const qg_loss *l, outputs *o, size_t sample)
{
    (void)qg_loss_of_classes(l, &o->ty, &o->tf, sample, &o->tg);
    for (int64_t i = 0; i < qg_tensor_count(&o->ty); i++) {
        const float y = o->y[i], e = 1e-4f * (fabsf(y) + 1e-3f);
        o->y[i] = y + e;
        const double above = loss_of(l, o, sample), high = (double)o->y[i];
        o->y[i] = y - e;
        const double below = loss_of(l, o, sample), low = (double)o->y[i];
        o->y[i] = y;
        const double want = (above - below) / (high - low);
        assert_cmp_f64(fabs((double)o->g[i] - want), <, 1e-5 * (1 + fabs(want)));
    }
}

static void test_gradients(void **state)
{
    static const int64_t dims[][4] = {
        {1,  5, 1, 1},
        { 2, 3, 4, 1},
        { 1, 4, 2, 3}
    };
    static const int32_t ranks[] = { 2, 3, 4 };
    const int64_t labels[] = { 3 };
    const qg_loss kd = { .kind = QG_LOSS_KD },
                  ce = { QG_LOSS_LABELS, { labels, 1, "labels.npy" }, NULL };
    qg_rng r = { 3 };
    outputs o;
    (void)state;
    for (int turn = 0; turn < 10; turn++)
        for (size_t k = 0; k < 3; k++) {
            shape(&o, ranks[k], dims[k]);
            draw(&o, &r);
            check_gradient(&kd, &o, 0);
            check_gradient(&ce, &o, 0);
        }
}

/* A network that ends with a Softmax has the loss of one without it, but for 1e-4. */
static void test_probabilities(void **state)
{
    const int64_t labels[] = { 1 };
    const qg_loss all[] = {
        {.kind = QG_LOSS_KD},
        { QG_LOSS_LABELS, { labels, 1, "labels.npy" }, NULL }
    };
    qg_rng r = { 4 };
    outputs logits, p;
    (void)state;
    shape(&logits, 2, (int64_t[]){ 1, 6 });
    shape(&p, 2, (int64_t[]){ 1, 6 });
    for (int turn = 0; turn < 20; turn++) {
        double sum[2] = { 0, 0 };
        draw(&logits, &r);
        for (int i = 0; i < 6; i++) {
            sum[0] += exp((double)logits.y[i]);
            sum[1] += exp((double)logits.f[i]);
        }
        for (int i = 0; i < 6; i++) {
            p.y[i] = (float)(exp((double)logits.y[i]) / sum[0]);
            p.f[i] = (float)(exp((double)logits.f[i]) / sum[1]);
        }
        for (int k = 0; k < 2; k++) {
            const double want = loss_of(&all[k], &logits, 0);
            assert_cmp_f64(fabs(loss_of(&all[k], &p, 0) - want), <,
                           0.01 * (want + 0.1));
            check_gradient(&all[k], &p, 0);
        }
    }
}

/* Rows: the last axis, axis 1 from four axes on; a row of one element is none. */
static void test_rows(void **state)
{
    const qg_loss kd = { .kind = QG_LOSS_KD };
    qg_rng r = { 5 };
    outputs map, row;
    double sum = 0;
    (void)state;
    shape(&map, 4, (int64_t[]){ 1, 3, 2, 2 });
    draw(&map, &r);
    shape(&row, 2, (int64_t[]){ 1, 3 });
    for (int at = 0; at < 4; at++) {
        for (int k = 0; k < 3; k++) {
            row.y[k] = map.y[k * 4 + at];
            row.f[k] = map.f[k * 4 + at];
        }
        sum += loss_of(&kd, &row, 0) / 4;
    }
    assert_cmp_f64(fabs(loss_of(&kd, &map, 0) - sum), <, 1e-12);
    shape(&map, 2, (int64_t[]){ 5, 1 });
    assert_cmp_f64(qg_loss_of_classes(&kd, &map.ty, &map.tf, 0, &map.tg), ==, 0);
    assert_cmp_f64((double)map.g[4], ==, 0);
}

static void test_labels_outside(void **state)
{
    const int64_t labels[] = { 0, 2, 3, -1 };
    const qg_loss ce = {
        QG_LOSS_LABELS, {labels, 1, "labels.npy"},
         NULL
    };
    qg_ctx *ctx = *state;
    outputs o;
    shape(&o, 2, (int64_t[]){ 1, 3 });
    assert_ok(ctx, qg_loss_check(ctx, &ce, &o.tf, 0));
    assert_ok(ctx, qg_loss_check(ctx, &ce, &o.tf, 1));
    assert_fails(ctx, qg_loss_check(ctx, &ce, &o.tf, 2), QG_EDATA,
                 "labels: labels.npy: sample 2: is 3, expected one of the 3 classes");
    assert_fails(ctx, qg_loss_check(ctx, &ce, &o.tf, 3), QG_EDATA, "sample 3: is -1");
}

static void test_names(void **state)
{
    (void)state;
    for (int k = 0; k < QG_NLOSS; k++)
        assert_int_equal(qg_loss_named(qg_loss_name((qg_loss_kind)k)), k);
    assert_int_equal(qg_loss_named("magic"), -1);
}

/* sum p ln(p / q) of one row of two, p = softmax(f), q = softmax(z). */
static double divergence(const double *f, const double *z)
{
    const double p = 1 / (1 + exp(f[1] - f[0])), q = 1 / (1 + exp(z[1] - z[0]));
    return p * log(p / q) + (1 - p) * log((1 - p) / (1 - q));
}

/* Rows of f that are not negative and have a sum within 0.001 of 1, all of them. */
static void test_which_are_probabilities(void **state)
{
    static const struct {
        float f[4];
        bool are;
    } rows[] = {
        {{ 0.5f, 0.5f, 0.25f, 0.75f },     true },
        { { 0.5f, 0.5009f, 0.25f, 0.75f }, true },
        { { 0.5f, 0.4991f, 0.25f, 0.75f }, true },
        { { 0, 1, 1, 0 },                  true },
        { { 0.5f, 0.5f, 0.25f, 0.7511f },  false},
        { { 0.5f, 0.5f, 0.25f, 0.7489f },  false},
        { { 0.5f, 0.5f, -0.25f, 1.25f },   false},
        { { 1.25f, -0.25f, 0.5f, 0.5f },   false},
        { { 0.5f, 0.5f, 0.5f, NAN },       false},
    };
    const qg_loss kd = { .kind = QG_LOSS_KD };
    outputs o;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double want = 0;
        shape(&o, 2, (int64_t[]){ 2, 2 });
        memcpy(o.f, rows[i].f, sizeof rows[i].f);
        memcpy(o.y, (float[]){ 0.9f, -0.1f, 0.2f, 0.8f }, 4 * sizeof *o.y);
        for (int r = 0; r < 4; r += 2) {
            double f[2], z[2];
            for (int k = 0; k < 2; k++) {
                f[k] = (double)o.f[r + k];
                z[k] = (double)o.y[r + k];
                f[k] = rows[i].are ? log(f[k] + 1e-4) : f[k];
                z[k] = rows[i].are ? log(fmax(z[k], 0) + 1e-4) : z[k];
            }
            want += divergence(f, z) / 2;
        }
        const double got = qg_loss_of_classes(&kd, &o.ty, &o.tf, 0, &o.tg);
        assert_int_equal(isnan(got), isnan(want));
        assert_true(isnan(want) || fabs(got - want) < 1e-6);
        if (rows[i].are) /* what is below zero stays there */
            assert_cmp_f64(o.g[1], ==, 0);
    }
}

/* -ln q of labels, a mean over rows; each sample has its own. */
static void test_labels_of_rows(void **state)
{
    const int64_t labels[] = { 0, 1, 1, 1 };
    const size_t given[] = { 1, 0 };
    qg_loss ce = {
        QG_LOSS_LABELS, {labels, 2, "labels.npy"},
         NULL
    };
    outputs o = {
        .y = {1, 2, 0, 3}
    };
    (void)state;
    shape(&o, 2, (int64_t[]){ 2, 2 });
    const double a = log(1 + exp(1)), b = log(1 + exp(-3)), c = log(1 + exp(-1));
    assert_cmp_f64(fabs(loss_of(&ce, &o, 0) - (a + b) / 2), <, 1e-12);
    assert_cmp_f64(fabs(loss_of(&ce, &o, 1) - (c + b) / 2), <, 1e-12);
    ce.given = given; /* the first one was the second that was given */
    assert_int_equal(qg_loss_given(&ce, 0), 1);
    assert_ptr_equal(qg_loss_label(&ce, 0), labels + 2);
    assert_cmp_f64(fabs(loss_of(&ce, &o, 0) - (c + b) / 2), <, 1e-12);
}

static void test_rows_of_labels_are_checked(void **state)
{
    const int64_t labels[] = { 0, 2, 0, 1 };
    const size_t given[] = { 1, 0 };
    const qg_loss ce = { QG_LOSS_LABELS, { labels, 2, "labels.npy" }, given },
                  kd = { .kind = QG_LOSS_KD };
    qg_ctx *ctx = *state;
    outputs o;
    shape(&o, 2, (int64_t[]){ 2, 2 });
    assert_ok(ctx, qg_loss_check(ctx, &ce, &o.tf, 0));
    assert_fails(ctx, qg_loss_check(ctx, &ce, &o.tf, 1), QG_EDATA,
                 "labels: labels.npy: sample 0: is 2, expected one of the 2 classes");
    assert_ok(ctx, qg_loss_check(ctx, &kd, &o.tf, 1));
    shape(&o, 3, (int64_t[]){ 2, 2, 2 });
    assert_fails(ctx, qg_loss_check(ctx, &ce, &o.tf, 0), QG_EDATA,
                 "expected the scores of classes, along one axis");
}

/* No row: no axis, or one element along it. */
static void test_no_rows(void **state)
{
    const qg_loss kd = { .kind = QG_LOSS_KD };
    outputs o = {
        .y = {1, 2, 3, 4}
    };
    (void)state;
    shape(&o, 0, NULL);
    assert_cmp_f64(loss_of(&kd, &o, 0), ==, 0);
    shape(&o, 4, (int64_t[]){ 1, 1, 2, 2 }); /* maps of one class */
    assert_cmp_f64(loss_of(&kd, &o, 0), ==, 0);
    shape(&o, 3, (int64_t[]){ 1, 1, 4 });
    assert_cmp_f64(loss_of(&kd, &o, 0), >, 0);
}

/* Which values of a network count: y and z are outputs, a is none. */
static void test_what_is_compared(void **state)
{
    static const struct {
        qg_loss_kind kind;
        bool a, y, z, integer, unknown;
    } rows[] = {
        {QG_LOSS_BLOCKS,  true,  true, true,  false, true},
        { QG_LOSS_MSE,    false, true, true,  false, true},
        { QG_LOSS_KD,     false, true, true,  false, true},
        { QG_LOSS_LABELS, false, true, false, false, true},
    };
    qg_value a = { 0 }, y = { .is_output = true }, z = { .is_output = true };
    qg_value *both[] = { &y, &z };
    qg_graph g = {
        .output = {.at = both, .n = 2}
    };
    (void)state;
    a.type.dtype = y.type.dtype = z.type.dtype = QG_F32;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const qg_loss l = { .kind = rows[i].kind };
        y.type.dtype = QG_F32;
        assert_int_equal(qg_loss_compares(&l, &g, &a), rows[i].a);
        assert_int_equal(qg_loss_compares(&l, &g, &y), rows[i].y);
        assert_int_equal(qg_loss_compares(&l, &g, &z), rows[i].z);
        y.type.dtype = QG_I64;
        assert_int_equal(qg_loss_compares(&l, &g, &y), rows[i].integer);
        y.type.dtype = QG_NODTYPE;
        assert_int_equal(qg_loss_compares(&l, &g, &y), rows[i].unknown);
    }
    g.output.n = 0;
    assert_false(qg_loss_compares(&(qg_loss){ .kind = QG_LOSS_LABELS }, &g, &y));
}

QG_TEST_MAIN(cmocka_unit_test(test_which_are_probabilities),
             cmocka_unit_test(test_labels_of_rows),
             WITH_CTX(test_rows_of_labels_are_checked), cmocka_unit_test(test_no_rows),
             cmocka_unit_test(test_what_is_compared), cmocka_unit_test(test_example),
             cmocka_unit_test(test_gradients), cmocka_unit_test(test_probabilities),
             cmocka_unit_test(test_rows), WITH_CTX(test_labels_outside),
             cmocka_unit_test(test_names))
