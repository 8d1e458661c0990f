/* The table of learn/step_gradient.h, on the weights of a convolution of the demo
 * network: the sum over a channel of g dy/ds, and the gradient of the value. */
#include <math.h>

#include "engine/api/qg.h"
#include "engine/core/rng.h"
#include "engine/learn/step_gradient.h"
#include "engine/snapshot/model.h"
#include "tests/support/test.h"

enum { CHANNELS = 3, EACH = 70, N = CHANNELS * EACH };

/* As in the table, per element; inside: within the codes before rounding. */
static double slope(qg_step_gradient how, double v, double n, double m)
{
    const bool inside = v >= n && v <= m;
    const double end = v < n ? n : m, error = rint(v) - v;
    switch (how) {
    case QG_STEP_GRADIENT_STE:
        return 0;
    case QG_STEP_GRADIENT_PACT:
        return inside ? 0 : v < n ? -m : m;
    case QG_STEP_GRADIENT_NNCF:
        return inside ? error / (1 - n / m) : end;
    default:
        return inside ? error : end;
    }
}

/* The parameter of a convolution, quantized per channel; the others of the endpoint are
 * not looked at. */
static qg_tqc *weights_of(qg_model *m)
{
    for (size_t i = 0; i < m->quant->tqc.n; i++) {
        qg_tqc *t = m->quant->tqc.at[i];
        if (qg_tqc_is_constant(t) && qg_tqc_param(t).n >= CHANNELS)
            return t;
    }
    fail_msg("no weights per channel");
    return NULL;
}

/* known: what x was rounded to is given. */
static void check(qg_ctx *ctx, const qg_tqc *t, qg_step_gradient how, double factor,
                  bool known, float last)
{
    qg_rng rng = { 11 };
    float x[N], y[N], g[N], start[N], scale[CHANNELS] = { 0.01f, 0.5f, last };
    double got[CHANNELS], want[CHANNELS] = { 0 };
    const double n = t->scheme.qmin, m = t->scheme.qmax;
    for (int i = 0; i < N; i++) {
        const double v = (double)qg_rng_range(&rng, -1.2f, 1.2f) * m;
        const double s = (double)scale[i / EACH];
        x[i] = (float)(v * s);
        y[i] = (float)(s * rint(fmax(n, fmin(m, (double)x[i] / s))));
        start[i] = g[i] = qg_rng_range(&rng, -1, 1);
        want[i / EACH] += (double)g[i] * slope(how, (double)x[i] / s, n, m) * factor;
    }
    const qg_step_rounding r = {
        .ctx = ctx,
        .scratch = ctx->arena,
        .gradient = how,
        .tqc = t,
        .layer = {1, CHANNELS, EACH, NULL},
        .scale = scale,
        .x = x,
        .y = known ? y : NULL
    };
    assert_ok(ctx, qg_step_backward(&r, g, got, NULL));
    for (int c = 0; c < CHANNELS; c++)
        if (!(fabs(got[c] - want[c]) <= 2e-3 * (fabs(want[c]) + 1)))
            fail_msg("%s, channel %d: %g, expected %g", qg_step_gradient_name(how), c,
                     got[c], want[c]);
    for (int i = 0; i < N; i++) {
        const double v = (double)x[i] / (double)scale[i / EACH];
        assert_cmp_f64(g[i], ==, v >= n && v <= m ? start[i] : 0);
    }
}

/* y of a learned grid with a border B, rounding taken as the identity plus a constant:
 * u and B enter as they are. */
typedef struct border {
    double s, b, low, high, anchor; /* b: B, the value of code `anchor` */
} border;

static double moved(const border *p, const border *at, double x)
{
    const double v = (x - p->b) / p->s + p->anchor;
    const double now = (x - at->b) / at->s + at->anchor;
    const double error = rint(now) - now;
    const double code = now < p->low ? p->low : now > p->high ? p->high : v + error;
    return (code - p->anchor) * p->s + p->b;
}

/* sum of g y by central differences of the straight-through definition. */
static void check_border(qg_ctx *ctx, const qg_tqc *t, qg_step_gradient how,
                         int32_t zero, double factor)
{
    qg_rng rng = { 13 };
    float x[EACH], g[EACH], start[EACH], scale = 0.05f;
    double got[2], want[2] = { 0, 0 };
    const double c = how == QG_STEP_GRADIENT_NNCF_ASYMMETRIC ? t->scheme.qmin : 0;
    const border at = { (double)scale, (double)scale * (c - zero), t->scheme.qmin,
                        t->scheme.qmax, c };
    const double e = 1e-5;
    for (int i = 0; i < EACH; i++) {
        /* Away from ties, which float32 may round otherwise. */
        const double code =
            rint(at.low - 60 +
                 (double)qg_rng_range(&rng, 0, 1) * (at.high - at.low + 120)) +
            (double)qg_rng_range(&rng, -0.45f, 0.45f);
        x[i] = (float)((code - zero) * at.s);
        start[i] = g[i] = qg_rng_range(&rng, -1, 1);
        border more[4] = { at, at, at, at };
        more[0].s += e, more[1].s -= e, more[2].b += e, more[3].b -= e;
        for (int k = 0; k < 2; k++)
            want[k] += (double)g[i] * factor *
                       (moved(&more[2 * k], &at, (double)x[i]) -
                        moved(&more[2 * k + 1], &at, (double)x[i])) /
                       (2 * e);
    }
    const qg_step_rounding r = {
        .ctx = ctx,
        .scratch = ctx->arena,
        .gradient = how,
        .tqc = t,
        .layer = {1, 1, EACH, NULL},
        .scale = &scale,
        .offset = &zero,
        .x = x
    };
    assert_ok(ctx, qg_step_backward(&r, g, &got[0], &got[1]));
    for (int k = 0; k < 2; k++)
        if (!(fabs(got[k] - want[k]) <= 2e-3 * (fabs(want[k]) + factor)))
            fail_msg("%s, zero %d, %s: %g, expected %g", qg_step_gradient_name(how),
                     zero, k ? "border" : "step", got[k], want[k]);
    for (int i = 0; i < EACH; i++) {
        const double code = (double)x[i] / at.s + zero;
        if (fabs(code - at.low) > 0.01 && fabs(code - at.high) > 0.01)
            assert_cmp_f64(g[i], ==, code > at.low && code < at.high ? start[i] : 0);
    }
}

static void quantize(const char *backend, qg_ctx **ctx, qg_model **m)
{
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work.data = "configs/data/digits_calib.npy";
    o.work.samples = 2;
    assert_int_equal(qg_open(NULL, ctx), QG_OK);
    assert_ok(*ctx, qg_model_open(*ctx, "configs/models/digits.onnx", NULL, m));
    assert_ok(*ctx, qg_model_quantize(*m, &o, NULL));
}

static void borders_are_those_of_the_definition(void **state)
{
    static const qg_step_gradient both[] = { QG_STEP_GRADIENT_LSQ_PLUS,
                                             QG_STEP_GRADIENT_NNCF_ASYMMETRIC };
    qg_ctx *ctx;
    qg_model *m;
    size_t shifts = 0;
    (void)state;
    quantize("tflite-int8", &ctx, &m);
    for (size_t i = 0; i < m->quant->tqc.n; i++) {
        const qg_tqc *t = m->quant->tqc.at[i];
        if (qg_tqc_root(t) != t || qg_tqc_param(t).n != 1)
            continue;
        const bool asymmetric = (t->scheme.policy & QG_ASYMMETRIC) != 0;
        assert_cmp_int(qg_step_gradient_shifts(QG_STEP_GRADIENT_LSQ, t), ==, false);
        for (int k = 0; k < 2; k++)
            assert_cmp_int(qg_step_gradient_shifts(both[k], t), ==, asymmetric);
        shifts += asymmetric;
        for (int32_t z = -128; asymmetric && z < 128; z += 51) {
            check_border(ctx, t, both[0], z, qg_lsq_factor(EACH, t->scheme.qmax));
            check_border(ctx, t, both[1], z, 1);
        }
    }
    assert_cmp_int(shifts, >, 3);
    qg_model_close(m);
    qg_close(ctx);
}

static void gradients_are_those_of_the_table(void **state)
{
    (void)state;
    qg_ctx *ctx;
    qg_model *m;
    quantize("trt-int8", &ctx, &m);
    const qg_tqc *t = weights_of(m);
    for (int known = 0; known < 2; known++) {
        const double factor = qg_lsq_factor(EACH, t->scheme.qmax);
        check(ctx, t, QG_STEP_GRADIENT_LSQ, factor, known, 2);
        check(ctx, t, QG_STEP_GRADIENT_PACT, 1, known, 2);
        for (int k = 0; k < 2; k++) { /* range, not ends, beyond float32 */
            const float last = k ? 2e36f : 2;
            check(ctx, t, QG_STEP_GRADIENT_NNCF, 1, known, last);
            check(ctx, t, QG_STEP_GRADIENT_NNCF_EXACT, 1, known, last);
        }
        check(ctx, t, QG_STEP_GRADIENT_LSQ_PLUS, factor, known, 2);
    }
    qg_model_close(m);
    qg_close(ctx);
}

/* Levels of NNCF are counted in 31 bits; a bias of 32 bits stays as it is. */
static void nncf_fits_fewer_than_32_bits(void **state)
{
    static const qg_step_gradient counting[] = { QG_STEP_GRADIENT_NNCF,
                                                 QG_STEP_GRADIENT_NNCF_EXACT,
                                                 QG_STEP_GRADIENT_NNCF_ASYMMETRIC };
    qg_ctx *ctx;
    qg_model *m;
    (void)state;
    quantize("trt-int8", &ctx, &m);
    qg_tqc *t = weights_of(m);
    t->scheme.qmin = -(1 << 30);
    for (size_t i = 0; i < 3; i++) {
        t->scheme.qmax = (1 << 30) - 2;
        assert_true(qg_step_gradient_fits(counting[i], t));
        t->scheme.qmax++; /* 2^31 levels */
        assert_false(qg_step_gradient_fits(counting[i], t));
    }
    assert_true(qg_step_gradient_fits(QG_STEP_GRADIENT_LSQ, t));
    qg_model_close(m);
    qg_close(ctx);
}

static void names_are_found(void **state)
{
    (void)state;
    for (int g = 0; g < QG_NSTEP_GRADIENT; g++)
        assert_cmp_int(
            qg_step_gradient_named(qg_step_gradient_name((qg_step_gradient)g)), ==, g);
    assert_cmp_int(qg_step_gradient_named("magic"), ==, -1);
}

QG_TEST_MAIN(cmocka_unit_test(gradients_are_those_of_the_table),
             cmocka_unit_test(borders_are_those_of_the_definition),
             cmocka_unit_test(nncf_fits_fewer_than_32_bits),
             cmocka_unit_test(names_are_found))
