#include "engine/formats/fake_quantize.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Limits are written as float32, so zero may miss its code by rounding. */
static const double zero_tolerance = 0.01; /* steps */

static qg_affine affine_of(const qg_scheme *s, const qg_qparam *p, size_t c)
{
    double zero = p->offset ? (double)p->offset[c] : 0;
    return (qg_affine){ (double)p->scale[c], zero, s->qmin, s->qmax };
}

qg_status qg_openvino_limits_of(qg_ctx *ctx, const char *what, const qg_scheme *s,
                                const qg_qparam *p, qg_arena *a,
                                qg_openvino_limits *out)
{
    assert(s->policy & QG_LINEAR && !(s->policy & (QG_BLOCK | QG_DYNAMIC)));
    assert(p->n > 0 && p->scale);
    if (s->qmax - s->qmin >= QG_OPENVINO_LEVELS)
        return qg_fail(ctx, QG_ECONFIG,
                       "convert to FakeQuantize: %s: range [%lld, %lld], expected at "
                       "most %d levels",
                       what, (long long)s->qmin, (long long)s->qmax,
                       QG_OPENVINO_LEVELS);
    qg_openvino_limits l = { .levels = (int32_t)(s->qmax - s->qmin + 1),
                             .axis = s->axis,
                             .n = p->n,
                             .low = QG_NEWN(a, p->n, float),
                             .high = QG_NEWN(a, p->n, float) };
    if (!l.low || !l.high)
        return qg_nomem(ctx);
    for (size_t c = 0; c < p->n; c++) {
        qg_openvino_range r;
        QG_TRY(qg_openvino_from_affine(ctx, what, affine_of(s, p, c), &r));
        l.low[c] = r.low32;
        l.high[c] = r.high32;
    }
    *out = l;
    return QG_OK;
}

/* --- back --- */

/* The code of zero, counted from the low end. */
static qg_status find_zero(qg_ctx *ctx, const char *what, const qg_openvino_limits *l,
                           size_t c, int32_t *out)
{
    double low = (double)l->low[c], high = (double)l->high[c];
    double zero = -low / (high - low) * (l->levels - 1), code = rint(zero);
    bool ok = isfinite(low) && isfinite(high) && low < high && code >= 0 &&
              code <= l->levels - 1 && fabs(zero - code) <= zero_tolerance;
    if (!ok)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "convert from FakeQuantize: %s: %d levels from %g to %g, "
                       "expected a grid that contains 0",
                       what, (int)l->levels, low, high);
    *out = (int32_t)code;
    return QG_OK;
}

static bool gives(qg_affine a, float low, float high)
{
    qg_openvino_range r;
    return qg_openvino_from_affine(NULL, "", a, &r) == QG_OK && r.low32 == low &&
           r.high32 == high;
}

/* The scale that was written, if a scale gives these limits. */
static float find_scale(const qg_openvino_limits *l, size_t c, int32_t zero)
{
    float low = l->low[c], high = l->high[c];
    float middle = (float)(((double)high - (double)low) / (l->levels - 1));
    float candidate[] = { middle, nextafterf(middle, 0), nextafterf(middle, INFINITY) };
    for (size_t i = 0; i < 3; i++)
        if (gives((qg_affine){ (double)candidate[i], zero, 0, l->levels - 1 }, low,
                  high))
            return candidate[i];
    return middle;
}

/* The convention of the file comment; zero is that of all channels, or -1. */
static void name_codes(int32_t levels, int32_t zero, qg_scheme *s)
{
    while (s->bits < 32 && (INT64_C(1) << s->bits) < levels)
        s->bits++;
    int32_t full = 1 << s->bits, middle = levels == full ? full / 2 : full / 2 - 1;
    bool centred = levels >= full - 1 && zero == middle;
    s->qmin = centred ? -middle : 0;
    s->qmax = s->qmin + levels - 1;
    s->policy =
        (uint16_t)(s->policy | (centred || zero == 0 ? QG_SYMMETRIC : QG_ASYMMETRIC));
}

qg_status qg_openvino_grid_of(qg_ctx *ctx, const char *what,
                              const qg_openvino_limits *l, qg_arena *a, qg_scheme *s,
                              qg_qparam *p)
{
    assert(l->n > 0 && (l->axis >= 0 || l->n == 1));
    if (l->levels < 2 || l->levels > QG_OPENVINO_LEVELS)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "convert from FakeQuantize: %s: %d levels, expected 2 to %d",
                       what, (int)l->levels, QG_OPENVINO_LEVELS);
    float *scale = QG_NEWN(a, l->n, float);
    int32_t *offset = QG_NEWN(a, l->n, int32_t), common = -1;
    if (!scale || !offset)
        return qg_nomem(ctx);
    for (size_t c = 0; c < l->n; c++) {
        QG_TRY(find_zero(ctx, what, l, c, &offset[c]));
        scale[c] = find_scale(l, c, offset[c]);
        if (!(scale[c] > 0))
            return qg_fail(ctx, QG_EUNSUPPORTED,
                           "convert from FakeQuantize: %s: step %g, expected above 0",
                           what, (double)scale[c]);
        common = c == 0 || common == offset[c] ? offset[c] : -1;
    }
    qg_scheme r = { .policy = (uint16_t)(QG_LINEAR | (l->axis < 0 ? QG_PER_TENSOR
                                                                  : QG_PER_CHANNEL)),
                    .rounding = QG_ROUND_HALF_EVEN_LEVEL,
                    .bits = 2,
                    .axis = (int16_t)l->axis,
                    .nan = QG_NAN_LOWEST }; /* as the kernels of the plugin */
    name_codes(l->levels, common, &r);
    for (size_t c = 0; c < l->n && r.policy & QG_SYMMETRIC; c++)
        offset[c] = 0;
    *s = r;
    *p = (qg_qparam){ l->n, scale, offset };
    return QG_OK;
}

qg_scheme qg_openvino_widened(const qg_scheme *s)
{
    static const uint8_t bits[] = { 4, 8, 16 };
    qg_scheme w = *s;
    if (!(s->policy & QG_SYMMETRIC))
        return w;
    for (size_t i = 0; i < sizeof bits; i++) {
        int64_t full = INT64_C(1) << bits[i], levels = s->qmax - s->qmin + 1;
        int64_t low = s->qmin < 0 ? -full / 2 : 0;
        if (s->qmin < low || s->qmax > low + full - 1)
            continue;
        if (levels < full - 1) {
            w.bits = bits[i];
            w.qmin = low;
            w.qmax = low + full - 1;
        }
        return w;
    }
    return w;
}

/* --- the operator --- */

bool qg_is_fake_quantize(const qg_op *op)
{
    static const char *const name[] = { "FakeQuantize" };
    return (op->traits & QG_OP_QUANTIZER) && op->domain && qg_op_is_named(op, name, 1);
}

static bool same_limits(const qg_tensor *a, const qg_tensor *b)
{
    int64_t n = qg_tensor_count(a);
    return qg_same_dims(a, b) &&
           (n == 0 || memcmp(a->f32, b->f32, (size_t)n * sizeof *a->f32) == 0);
}

/* The axis of x along which limits differ; -1: one for all, -2: more than one. */
static int axis_of(const qg_tensor *limit, int32_t rank)
{
    int axis = -1;
    for (int32_t i = 0; i < limit->rank; i++)
        if (limit->dim[i] != 1)
            axis = axis == -1 ? rank - limit->rank + i : -2;
    return axis;
}

static const char *look_at_limits(const qg_node *n, int32_t rank, int *axis)
{
    const qg_tensor *t[4];
    for (uint32_t i = 0; i < 4; i++) {
        t[i] = n->in[i + 1]->constant;
        if (!t[i] || t[i]->dtype != QG_F32)
            return "its limits are not constant float32";
    }
    if (!same_limits(t[0], t[2]) || !same_limits(t[1], t[3]))
        return "its output limits differ from its input limits";
    if (!qg_same_dims(t[0], t[1]) || qg_tensor_count(t[0]) < 1)
        return "its limits have different shapes";
    if (rank < 0)
        return "the rank of its value is not known";
    *axis = axis_of(t[0], rank);
    return *axis == -2 ? "its limits vary along more than one axis" : NULL;
}

qg_status qg_grid_of_fake(qg_graph *g, const qg_node *n, qg_grid_record *out,
                          const char **why)
{
    int axis = -1;
    int64_t levels;
    QG_TRY(qg_attr_int(g->ctx, n, "levels", 0, &levels));
    *why = look_at_limits(n, n->in[0]->type.rank, &axis);
    if (!*why && (levels < 2 || levels > QG_OPENVINO_LEVELS))
        *why = "it has more levels than an integer grid";
    if (*why)
        return QG_OK;
    qg_openvino_limits l = { .levels = (int32_t)levels,
                             .axis = axis,
                             .n = (size_t)qg_tensor_count(n->in[1]->constant),
                             .low = n->in[1]->constant->f32,
                             .high = n->in[2]->constant->f32 };
    qg_grid_record r;
    qg_status s =
        qg_openvino_grid_of(g->ctx, n->name, &l, g->arena, &r.scheme, &r.param);
    if (s == QG_EUNSUPPORTED) {
        *why = "its limits do not form a grid that contains 0";
        return QG_OK;
    }
    if (s == QG_OK)
        *out = r;
    return s;
}

/* --- low precision transformations --- */

/* 254 steps of int8 are no multiple of 14, nor the 255 of uint8 one of 254. */
static bool is_rounded_twice(int64_t levels, bool centered)
{
    return levels == 15 || (levels == 255 && !centered);
}

bool qg_fake_quantize_rounds_twice(const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    bool centered = true;
    for (size_t c = 0; c < p.n; c++) {
        int64_t zero = p.offset ? p.offset[c] : 0;
        centered &= t->scheme.qmin - zero == zero - t->scheme.qmax;
    }
    return !(t->scheme.policy & QG_FLOATING) &&
           is_rounded_twice(t->scheme.qmax - t->scheme.qmin + 1, centered);
}

bool qg_fake_quantize_node_rounds_twice(const qg_node *n)
{
    const qg_attr *levels = qg_attr_find(n, "levels");
    const qg_tensor *low = n->in[1]->constant, *high = n->in[2]->constant;
    bool centered = true;
    for (int64_t c = 0; c < qg_tensor_count(low); c++)
        centered &= low->f32[c] == -high->f32[c];
    return is_rounded_twice(levels->ints[0], centered);
}
