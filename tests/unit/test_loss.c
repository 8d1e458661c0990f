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

QG_TEST_MAIN(cmocka_unit_test(test_example), cmocka_unit_test(test_gradients),
             cmocka_unit_test(test_probabilities), cmocka_unit_test(test_rows),
             WITH_CTX(test_labels_outside), cmocka_unit_test(test_names))
