#include "engine/learn/soft_rounding.h"

#include <math.h>

/* The published stretch of the sigmoid. */
static const double ZETA = 1.1, GAMMA = -0.1;

static double h_of(double v)
{
    const double h = (ZETA - GAMMA) / (1 + exp(-v)) + GAMMA;
    return h < 0 ? 0 : h > 1 ? 1 : h;
}

/* V that gives the fraction f; away from the ends, where h has no slope. */
static double v_of(double f)
{
    f = f < 0.001 ? 0.001 : f > 0.999 ? 0.999 : f;
    return -log((ZETA - GAMMA) / (f - GAMMA) - 1);
}

/* h'(V), where h is not clipped. */
static double slope_of(double h)
{
    const double sigmoid = (h - GAMMA) / (ZETA - GAMMA);
    return (ZETA - GAMMA) * sigmoid * (1 - sigmoid);
}

/* Elements first .. first + n - 1 have one scale; codes are distances from the zero
 * point, from low to high. */
typedef struct row {
    size_t first, n;
    double scale, low, high;
} row;

/* The row from element `first` on; false behind the last. */
static bool next_row(const qg_soft_rounding *r, size_t first, row *at)
{
    const qg_scheme *of = &r->step->root->scheme;
    const int32_t *offset = qg_tqc_param(r->step->root).offset;
    if (first >= r->n)
        return false;
    const size_t c = first / r->layer.inner % r->layer.channels;
    const double zero = offset ? (double)offset[c] : 0;
    *at = (row){ .first = first,
                 .n = r->layer.inner,
                 .scale = (double)r->step->scale[c],
                 .low = (double)of->qmin - zero,
                 .high = (double)of->qmax - zero };
    return true;
}

static double limited(const row *at, double code)
{
    return code < at->low ? at->low : code > at->high ? at->high : code;
}

qg_status qg_soft_rounding_of(qg_ctx *ctx, qg_arena *a, qg_tape_weight *weight,
                              const qg_tape_step *step, qg_soft_rounding *r)
{
    const size_t n = (size_t)qg_tensor_count(&weight->start);
    *r = (qg_soft_rounding){ .weight = weight,
                             .step = step,
                             .layer = qg_tape_layer(step, &weight->start),
                             .n = n,
                             .below = QG_NEWN(a, n, double),
                             .h = QG_NEWN(a, n, double) };
    if (!r->below || !r->h)
        return qg_nomem(ctx);
    for (row at = { 0 }; next_row(r, at.first + at.n, &at);)
        for (size_t i = at.first; i < at.first + at.n; i++)
            r->below[i] = floor((double)weight->now.f32[i] / at.scale);
    return QG_OK;
}

void qg_soft_rounding_start(const qg_soft_rounding *r, double *v)
{
    for (row at = { 0 }; next_row(r, at.first + at.n, &at);)
        for (size_t i = at.first; i < at.first + at.n; i++)
            v[i] = v_of((double)r->weight->now.f32[i] / at.scale - r->below[i]);
}

void qg_soft_rounding_store(const qg_soft_rounding *r, const double *v, bool hard)
{
    for (size_t i = 0; !hard && i < r->n; i++)
        r->h[i] = h_of(v[i]);
    for (row at = { 0 }; next_row(r, at.first + at.n, &at);)
        for (size_t i = at.first; i < at.first + at.n; i++) {
            const double h = hard ? v[i] >= 0 : r->h[i];
            r->weight->now.f32[i] = (float)(at.scale * limited(&at, r->below[i] + h));
        }
}

/* Where h is clipped it has no slope, and nothing is to be known of the penalty. */
void qg_soft_rounding_gradient(const qg_soft_rounding *r, double part, double *grad)
{
    const double way = (part - 0.2) / 0.8, beta = 2 + 18 * (1 - way);
    const double penalty = 0.01 * pow(1e6, way);
    for (row at = { 0 }; next_row(r, at.first + at.n, &at);)
        for (size_t i = at.first; i < at.first + at.n; i++) {
            const double h = r->h[i], code = r->below[i] + h, u = 2 * h - 1;
            double g = limited(&at, code) == code ? grad[i] * at.scale : 0;
            const bool moves = h > 0 && h < 1;
            if (moves && part > 0.2 && u != 0)
                g -= penalty * beta * pow(fabs(u), beta - 1) * (u > 0 ? 2 : -2);
            grad[i] = moves ? g * slope_of(h) : 0;
        }
}
