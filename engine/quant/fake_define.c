/* fake_define.c -- the definition of rounding on a linear grid, one element at a time:
 * every kernel equals it bit for bit. */
#include <assert.h>

#include "engine/number/openvino_fq.h"
#include "engine/quant/fake_kernel.h"

/* The constants of OpenVINO's plugin for the limits that are written for this grid. */
void qg_linear_set_level(qg_linear *p, int32_t offset)
{
    qg_affine a = { (double)p->scale, offset, p->qmin, p->qmax };
    qg_openvino_range r;
    qg_status s = qg_openvino_from_affine(NULL, "", a, &r);
    assert(s == QG_OK && r.levels <= QG_LEVELS);
    (void)s;
    p->x_low = r.low32;
    p->x_high = r.high32;
    p->level = (float)(r.levels - 1) / (r.high32 - r.low32);
    p->shift = -(r.low32 * p->level);
}

/* Comparisons are false for NaN; adding 0 turns -0 into +0. */
double qg_linear_step(const qg_linear *p, float x)
{
    assert(p->run && p->scale > 0);
    x = x == x ? x : qg_nan_value(p->nan);
    if (p->rounding == QG_ROUND_HALF_EVEN_LEVEL) {
        x = x < p->x_low ? p->x_low : x > p->x_high ? p->x_high : x;
        x *= p->level;
        return (double)qg_round_f32(p->rounding, x + p->shift) + p->wide_low;
    }
    double t = p->wide ? (double)x / (double)p->scale : (double)(x / p->scale);
    t = qg_round_f64(p->rounding, t);
    return (t < p->wide_low ? p->wide_low : t > p->wide_high ? p->wide_high : t) + 0.0;
}

float qg_linear_define(const qg_linear *p, float x)
{
    double t = qg_linear_step(p, x);
    return p->wide ? (float)(t * (double)p->scale) : (float)t * p->scale;
}

float qg_linear_at(const qg_linear *p, float scale, int32_t offset, float x)
{
    qg_linear q = *p;
    assert(p->rounding == QG_ROUND_HALF_EVEN_LEVEL);
    q.scale = scale;
    q.wide_low = (double)(p->qmin - offset);
    qg_linear_set_level(&q, offset);
    return qg_linear_define(&q, x);
}
