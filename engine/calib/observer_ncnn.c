/* observer_ncnn.c -- ncnn2table's kl and aciq for activations.
 *
 * Symmetric about zero: scale = threshold / qmax (ncnn stores its reciprocal).  Its
 * third method, eq, compares the outputs of layers run in int8 and in float, which
 * needs more than one tensor: see qg_observer_check.
 * Source   docs/evidence/observers.md#ncnn-kl, #ncnn-aciq there */
#include <assert.h>
#include <math.h>

#include "engine/calib/aciq.h"
#include "engine/calib/kl.h"
#include "engine/calib/observer_parts.h"

/* --- kl: the largest |x|, then bins over it without zeros --- */

/* In float32, as ncnn: the quotient first, then the product. */
static void count(const qg_observe *o, qg_binned *b, const float *x, int64_t n,
                  int64_t stride)
{
    const float top = (float)qg_binned_absmax(b);
    assert(o->pass == 1 && top >= 0);
    const size_t bins = qg_binned_bins(o);
    for (int64_t i = 0; i < n; i++) {
        float v = fabsf(x[i * stride]);
        if (v == 0 || !(v <= top))
            continue;
        size_t j = (size_t)(v / top * (float)bins);
        b->count[j < bins ? j : bins - 1]++;
    }
}

static qg_status kl_see(qg_ctx *ctx, const qg_observe *o, void *state, size_t sample,
                        const qg_tensor *x, qg_arena *scratch)
{
    (void)scratch;
    return qg_binned_see(ctx, o, state, sample, x, count);
}

static qg_status kl_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                           qg_arena *scratch, qg_found *out)
{
    const qg_binned *b = state;
    double top = qg_binned_absmax(b);
    qg_histogram h;
    qg_range_choice c = { 0 };
    if (top > 0) {
        size_t levels = (size_t)qg_observe_value(o, QG_PARAM_LEVELS);
        QG_TRY(qg_binned_histogram(ctx, o, b, (qg_range){ .high = top }, scratch, &h));
        QG_TRY(qg_kl_ncnn(ctx, scratch, &h, levels, NULL, &c));
    }
    qg_found_scale(o, out, 0, c.high / (double)o->scheme->qmax);
    return QG_OK;
}

const qg_observer qg_observer_ncnn_kl = {
    .name = "ncnn-kl",
    .summary = "ncnn: minimum KL divergence, bin groups with fractional ends",
    .source = "docs/evidence/observers.md#ncnn-kl; ncnn2table quantize_KL",
    .passes = 2,
    .policy = QG_LINEAR | QG_SYMMETRIC,
    .value = {[QG_PARAM_BINS] = 2048,
              [QG_PARAM_LEVELS] = 128,
              [QG_PARAM_MIN_SCALE] = 1e-8},
    .bytes = qg_binned_bytes,
    .begin = qg_binned_begin,
    .see = kl_see,
    .merge = qg_binned_merge,
    .finish = kl_finish,
};

/* --- aciq: from the largest |x| and the size of the last sample alone --- */

typedef struct aciq {
    qg_extent all;
    uint64_t last, n; /* 1 + the last sample seen, and its number of elements */
} aciq;

static void aciq_begin(const qg_observe *o, void *state)
{
    qg_minmax_begin(o, &((aciq *)state)->all);
}

static qg_status aciq_see(qg_ctx *ctx, const qg_observe *o, void *state, size_t sample,
                          const qg_tensor *x, qg_arena *scratch)
{
    aciq *a = state;
    if (sample >= a->last) {
        a->last = sample + 1;
        a->n = (uint64_t)qg_tensor_count(x);
    }
    return qg_minmax_see(ctx, o, &a->all, sample, x, scratch);
}

/* The worker that saw the highest sample has its size. */
static void aciq_merge(const qg_observe *o, void *into, const void *from)
{
    aciq *a = into;
    const aciq *b = from;
    qg_minmax_merge(o, &a->all, &b->all);
    if (b->last > a->last) {
        a->last = b->last;
        a->n = b->n;
    }
}

/* One element has no spread to guess from: its own size is the threshold. */
static qg_status aciq_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                             qg_arena *scratch, qg_found *out)
{
    const aciq *a = state;
    float top = fmaxf(fabsf(a->all.low), fabsf(a->all.high)), threshold = top;
    (void)scratch;
    assert(a->n > 0);
    if (a->n > 1)
        QG_TRY(qg_aciq_ncnn(ctx, top, a->n, o->scheme->bits, false, &threshold));
    qg_found_scale(o, out, 0, (double)threshold / (double)o->scheme->qmax);
    return QG_OK;
}

const qg_observer qg_observer_ncnn_aciq = {
    .name = "ncnn-aciq",
    .summary = "ncnn: threshold of a normal distribution fitted to the largest |x|",
    .source = "docs/evidence/observers.md#ncnn-aciq; ncnn2table quantize_ACIQ",
    .passes = 1,
    .policy = QG_LINEAR | QG_SYMMETRIC,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    .size = sizeof(aciq),
    .begin = aciq_begin,
    .see = aciq_see,
    .merge = aciq_merge,
    .finish = aciq_finish,
};
