#include "engine/quant/metric.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/quant/fake_kernel.h"
#include "engine/quant/fake_tensor.h"
#include "engine/quant/spans.h"

enum { LANES = QG_ERROR_LANES };

/* Inlined and branch-free, so that eight lanes become vector code. */
static inline void add_one(qg_error *e, int lane, float real, float rounded)
{
    double r = (double)real, p = (double)rounded, d = p - r, size = fabs(d);
    e->noise[lane] += d * d;
    e->signal[lane] += r * r;
    e->power[lane] += p * p;
    e->dot[lane] += r * p;
    e->largest[lane] = size > e->largest[lane] ? size : e->largest[lane];
}

/* A last piece may be shorter than the lanes; the sums live in registers meanwhile. */
void qg_error_add(qg_error *e, const float *real, const float *rounded, size_t n)
{
    assert(e->count % LANES == 0 || n == 0);
    qg_error sum = *e;
    size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            add_one(&sum, lane, real[i + (size_t)lane], rounded[i + (size_t)lane]);
    for (size_t i = whole; i < n; i++)
        add_one(&sum, (int)(i - whole), real[i], rounded[i]);
    sum.count += n;
    *e = sum;
}

/* A fixed tree: the same bits on every machine. */
static double total(const double v[LANES])
{
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

double qg_error_nsr(const qg_error *e)
{
    assert(!(total(e->signal) < 0)); /* sums of squares, or NaN */
    return total(e->noise) / (total(e->signal) + 1e-7);
}

double qg_error_mse(const qg_error *e)
{
    return e->count ? total(e->noise) / (double)e->count : 0;
}

/* The lower bounds prevent a division by zero for a tensor of zeros, as in PPQ. */
double qg_error_cosine(const qg_error *e)
{
    double r = sqrt(total(e->signal)), p = sqrt(total(e->power));
    return total(e->dot) / ((r < 1e-8 ? 1e-8 : r) * (p < 1e-8 ? 1e-8 : p));
}

double qg_error_max(const qg_error *e)
{
    double most = 0;
    for (int lane = 0; lane < LANES; lane++)
        most = fmax(most, e->largest[lane]);
    return most;
}

double qg_error_decibel(const qg_error *e) { return -10 * log10(qg_error_nsr(e)); }

enum { lower, higher };

/* clang-format off */
static const qg_metric metrics[] = {
#define X(name, better, meaning) { #name, meaning, qg_error_##name, better == higher },
    QG_METRIC_MAP(X)
#undef X
};
/* clang-format on */

/* "snr" is PPQ's name, and was ours, for noise over signal. */
const qg_metric *qg_metric_named(const char *name)
{
    if (strcmp(name, "snr") == 0)
        name = "nsr";
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
        if (strcmp(metrics[i].name, name) == 0)
            return &metrics[i];
    return NULL;
}

/* The same quotient and rounding as fake quantization, before its clamp. */
static bool clipped(const qg_scheme *s, const qg_qparam *p, size_t c, float x)
{
    if (s->policy & QG_FLOATING) {
        qg_floating f;
        qg_floating_init(&f, s, p->scale[c]);
        return x / f.scale < f.low || x / f.scale > f.high;
    }
    int32_t offset = p->offset ? p->offset[c] : 0;
    double t =
        qg_round_f64((qg_rounding)s->rounding,
                     s->bits > 24 ? (double)x / (double)p->scale[c] : x / p->scale[c]);
    return t < (double)(s->qmin - offset) || t > (double)(s->qmax - offset);
}

qg_status qg_saturated(qg_ctx *ctx, const char *what, const qg_scheme *s,
                       const qg_qparam *p, const qg_tensor *x, uint64_t *count)
{
    qg_spans w;
    qg_span span;
    uint64_t n = 0;
    QG_TRY(qg_fake_check_static(ctx, what, s, p, x));
    QG_TRY(qg_fake_check_floats(ctx, what, x, x));
    QG_TRY(qg_fake_check_dense(ctx, what, s, x, &w));
    while (qg_spans_next(&w, &span))
        for (size_t i = 0; i < span.n; i++)
            n += clipped(s, p, span.param + (span.each ? i : 0), x->f32[span.at + i]);
    *count = n;
    return QG_OK;
}
