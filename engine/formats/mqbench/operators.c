#include "engine/formats/mqbench/operators.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* --- the operators --- */

static qg_status infer(const qg_call *call)
{
    const qg_tensor *x = call->in[0];
    if (x->rank < 0)
        qg_tensor_unknown(call->out[0], x->dtype);
    else
        qg_tensor_init(call->out[0], x->dtype, x->rank, x->dim);
    return QG_OK;
}

/* x, scale, zero_point, and up to three numbers.  Never run: folded or refused. */
#define AFFINE(text)                                                                   \
    {                                                                                  \
        .name = text, .since = 1, .min_in = 3, .max_in = 6, .min_out = 1,              \
        .max_out = 1, .in_roles = "dffs", .traits = QG_OP_QUANTIZER, .infer = infer    \
    }

enum { N_OPS = 9 };
enum kind { PER_TENSOR, PER_CHANNEL, POWER_OF_2, LOGARITHM };
const qg_op qg_mqbench_operators[N_OPS + 1] = {
    AFFINE("FixedPerTensorAffine"),
    AFFINE("LearnablePerTensorAffine"),
    AFFINE("FakeQuantizeLearnablePertensorAffine"),
    AFFINE("FakeQuantizeDSQPertensor"),
    AFFINE("FixedPerChannelAffine"),
    AFFINE("FakeQuantizeLearnablePerchannelAffine"),
    AFFINE("FakeQuantizeDSQPerchannel"),
    AFFINE("FakeQuantizeTqtAffine"),
    {.name = "NNIEQuantize",
                               .since = 1,
                               .min_in = 2,
                               .max_in = 2,
                               .min_out = 1,
                               .max_out = 1,
                               .in_roles = "df",
                               .traits = QG_OP_QUANTIZER,
                               .infer = infer },
    { 0           },
};
static const enum kind kinds[N_OPS] = { PER_TENSOR,  PER_TENSOR,  PER_TENSOR,
                                        PER_TENSOR,  PER_CHANNEL, PER_CHANNEL,
                                        PER_CHANNEL, POWER_OF_2,  LOGARITHM };

bool qg_is_mqbench(const qg_op *op) { return op->infer == infer; }

static enum kind kind_of(const qg_node *n)
{
    assert(qg_is_mqbench(n->op));
    return kinds[n->op - qg_mqbench_operators];
}

/* --- their grids --- */

static const qg_tensor *constant_in(const qg_node *n, uint32_t slot)
{
    return slot < n->n_in && n->in[slot] ? n->in[slot]->constant : NULL;
}

/* A whole number that a constant holds; false: none, or beyond 32 bits. */
static bool whole(const qg_tensor *t, int64_t *out)
{
    double v = t && qg_tensor_count(t) == 1 ? qg_tensor_f64(t, 0) : NAN;
    if (!(fabs(v) <= 0x1p31) || v != rint(v))
        return false;
    *out = (int64_t)v;
    return true;
}

static bool limit_attribute(const qg_node *n, const char *name, int64_t *out)
{
    const qg_attr *a = qg_attr_find(n, name);
    if (!a || a->type != QG_ATTR_INT)
        return false;
    *out = a->ints[0];
    return *out >= INT32_MIN && *out <= INT32_MAX;
}

/* quant_min and quant_max: the last two inputs, or attributes. */
static const char *read_limits(const qg_node *n, qg_scheme *s)
{
    if (n->n_in == 3)
        return limit_attribute(n, "quant_min", &s->qmin) &&
                       limit_attribute(n, "quant_max", &s->qmax)
                   ? NULL
                   : "it has no integer quant_min and quant_max";
    uint32_t expected = kind_of(n) == PER_CHANNEL ? 6 : 5;
    if (n->n_in != expected)
        return "its inputs are not x, scale, zero_point and its limits";
    return whole(constant_in(n, n->n_in - 2), &s->qmin) &&
                   whole(constant_in(n, n->n_in - 1), &s->qmax)
               ? NULL
               : "its quant_min or quant_max is not an integer constant";
}

/* The fewest bits whose codes, signed or not, include both limits. */
static const char *count_bits(qg_scheme *s)
{
    if (s->qmin >= s->qmax)
        return "its quant_min is not below its quant_max";
    for (s->bits = 2; s->bits < 32; s->bits++) {
        int64_t codes = INT64_C(1) << s->bits, low = s->qmin < 0 ? -codes / 2 : 0;
        if (s->qmin >= low && s->qmax < low + codes)
            break;
    }
    return NULL;
}

/* Axis of the output channels, where the node does not state it: that of its readers'
 * weights, else 0.  -1: readers disagree. */
static int axis_of_readers(const qg_node *n)
{
    const qg_value *r = n->out[0];
    int axis = -1;
    for (size_t i = 0; i < r->use.n; i++) {
        const qg_node *reader = r->use.at[i].node;
        bool weight = reader->op->weight_axis &&
                      qg_op_in_role(reader->op, r->use.at[i].slot) == 'w';
        int its = weight ? reader->op->weight_axis(reader) : 0;
        if (i > 0 && its != axis)
            return -1;
        axis = its;
    }
    return r->use.n ? axis : 0;
}

static const char *read_axis(const qg_node *n, const qg_tensor *x, qg_scheme *s)
{
    s->axis = -1;
    s->policy |= kind_of(n) == PER_CHANNEL ? QG_PER_CHANNEL : QG_PER_TENSOR;
    if (kind_of(n) != PER_CHANNEL)
        return NULL;
    int64_t axis = axis_of_readers(n);
    if (axis < 0)
        return "its readers have output channels on different axes";
    if (n->n_in == 6 && !whole(constant_in(n, 3), &axis))
        return "its ch_axis is not an integer constant";
    axis += axis < 0 ? x->rank : 0;
    if (axis < 0 || axis >= x->rank)
        return "its ch_axis is not an axis of its value";
    s->axis = (int16_t)axis;
    return NULL;
}

/* Scales as float32 without sign, above 0. */
static const char *read_scales(const qg_node *n, const qg_tensor *from, float *scale)
{
    int exponent;
    for (int64_t i = 0; i < qg_tensor_count(from); i++) {
        scale[i] = fabsf((float)qg_tensor_f64(from, i));
        if (!qg_import_is_scale(scale[i]))
            return "a scale is not finite or is 0";
        if (kind_of(n) == POWER_OF_2 &&
            (frexpf(scale[i], &exponent) != 0.5f || scale[i] < 0x1p-15f))
            return "its scale is not a power of two >= 2^-15, as TQT uses";
    }
    return NULL;
}

/* Zero points within the limits; symmetric when all are 0. */
static const char *read_zeros(const qg_tensor *from, qg_scheme *s, int32_t *offset)
{
    bool any = false;
    for (int64_t i = 0; i < qg_tensor_count(from); i++) {
        double z = rint(qg_tensor_f64(from, i));
        if (isnan(z))
            return "a zero point is not a number";
        offset[i] = (int32_t)fmin(fmax(z, (double)s->qmin), (double)s->qmax);
        any |= offset[i] != 0;
    }
    s->policy |= any ? QG_ASYMMETRIC : QG_SYMMETRIC;
    return NULL;
}

/* Conditions on the constants, checked before they are read. */
static const char *check_parameters(const qg_node *n, const qg_tensor *scale,
                                    const qg_tensor *zero)
{
    const qg_tensor *x = n->in[0] ? &n->in[0]->type : NULL;
    return kind_of(n) == LOGARITHM ? "its grid is logarithmic"
           : !x || x->dtype != QG_F32 || x->rank < 0
               ? "its value is not float32 of known rank"
           : !scale || !zero ? "its scale or zero_point is not constant"
           : scale->dtype != QG_F32 && scale->dtype != QG_F64
               ? "its scale is not float32 or float64"
           : scale->rank > 1 || zero->rank > 1
               ? "its scale or zero_point has more than one axis"
           : qg_tensor_count(scale) < 1 ||
                   qg_tensor_count(scale) != qg_tensor_count(zero)
               ? "it does not have one zero_point per scale"
               : NULL;
}

qg_status qg_grid_of_mqbench(qg_graph *g, const qg_node *n, qg_grid_record *out,
                             const char **why)
{
    const qg_tensor *scale = constant_in(n, 1), *zero = constant_in(n, 2);
    qg_grid_record r = {
        .scheme = {.policy = QG_LINEAR, .rounding = QG_ROUND_HALF_EVEN}
    };
    *why = check_parameters(n, scale, zero);
    if (!*why)
        *why = read_limits(n, &r.scheme);
    if (!*why)
        *why = count_bits(&r.scheme);
    if (!*why)
        *why = read_axis(n, &n->in[0]->type, &r.scheme);
    if (*why)
        return QG_OK;
    size_t count = (size_t)qg_tensor_count(scale);
    float *s = QG_NEWN(g->arena, count, float);
    int32_t *offset = QG_NEWN(g->arena, count, int32_t);
    if (!s || !offset)
        return qg_nomem(g->ctx);
    *why = read_scales(n, scale, s);
    if (!*why)
        *why = read_zeros(zero, &r.scheme, offset);
    if (!*why && qg_scheme_param_count(&r.scheme, &n->in[0]->type) != (int64_t)count)
        *why = "its scales do not fit its value";
    if (*why)
        return QG_OK;
    r.param = (qg_qparam){ count, s, offset };
    QG_TRY(qg_scheme_check(g->ctx, n->name, &r.scheme));
    *out = r;
    return QG_OK;
}
