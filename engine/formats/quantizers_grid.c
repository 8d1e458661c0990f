#include "engine/formats/quantizers_grid.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/formats/openvino/grid.h"

/* --- QuantizeLinear, DequantizeLinear --- */

/* Codes by type: ONNX rounds to all codes that a type has. */
static const struct {
    qg_dtype type;
    uint8_t bits, exponent_bits, variant;
    int64_t qmin, qmax;
} code_types[] = {
    {QG_I2,          2,  0, 0,             -2,        1         },
    { QG_U2,         2,  0, 0,             0,         3         },
    { QG_I4,         4,  0, 0,             -8,        7         },
    { QG_U4,         4,  0, 0,             0,         15        },
    { QG_I8,         8,  0, 0,             INT8_MIN,  INT8_MAX  },
    { QG_U8,         8,  0, 0,             0,         UINT8_MAX },
    { QG_I16,        16, 0, 0,             INT16_MIN, INT16_MAX },
    { QG_U16,        16, 0, 0,             0,         UINT16_MAX},
    { QG_I32,        32, 0, 0,             INT32_MIN, INT32_MAX },
    { QG_F8E4M3FN,   8,  4, 0,             -448,      448       },
    { QG_F8E5M2,     8,  5, 0,             -57344,    57344     },
    { QG_F8E4M3FNUZ, 8,  4, QG_FLOAT_FNUZ, -240,      240       },
    { QG_F8E5M2FNUZ, 8,  5, QG_FLOAT_FNUZ, -57344,    57344     },
};

static bool scheme_of_type(qg_dtype codes, qg_scheme *s)
{
    for (size_t i = 0; i < sizeof code_types / sizeof code_types[0]; i++)
        if (code_types[i].type == codes) {
            *s = (qg_scheme){ .rounding = QG_ROUND_HALF_EVEN,
                              .bits = code_types[i].bits,
                              .exponent_bits = code_types[i].exponent_bits,
                              .variant = code_types[i].variant,
                              .axis = -1,
                              .qmin = code_types[i].qmin,
                              .qmax = code_types[i].qmax };
            s->policy = s->exponent_bits ? QG_FLOATING | QG_POWER_OF_2 : QG_LINEAR;
            return true;
        }
    return false;
}

/* The attribute, or preset when it is absent; types were checked by prepare. */
static int64_t int_attr(const qg_node *n, const char *name, int64_t preset)
{
    const qg_attr *a = qg_attr_find(n, name);
    return a && a->type == QG_ATTR_INT ? a->ints[0] : preset;
}

/* Per tensor, per channel or per block, by the shape of the scales. */
static const char *granularity(const qg_node *n, const qg_tensor *scale,
                               const qg_tensor *x, qg_scheme *s)
{
    int64_t block = int_attr(n, "block_size", 0), axis = int_attr(n, "axis", 1);
    if (!block && qg_tensor_count(scale) == 1) {
        s->policy |= QG_PER_TENSOR;
        return NULL;
    }
    axis = x->rank == 1 ? 0 : axis < 0 ? axis + x->rank : axis;
    if (axis < 0 || axis >= x->rank || block > INT32_MAX)
        return "its axis is not one of the value";
    s->axis = (int16_t)axis;
    s->block = (int32_t)block;
    s->policy |= block ? QG_BLOCK : QG_PER_CHANNEL;
    return qg_scheme_param_count(s, x) == qg_tensor_count(scale)
               ? NULL
               : "its scales do not fit the value";
}

static const char *check_scales(const qg_tensor *scale, bool power_of_2)
{
    int exponent;
    if (qg_tensor_count(scale) < 1)
        return "it has no scale";
    for (int64_t i = 0; i < qg_tensor_count(scale); i++) {
        float s = scale->f32[i];
        if (!isfinite(s) || !(s > 0))
            return "a scale is not finite and above 0";
        if (power_of_2 && frexpf(s, &exponent) != 0.5f)
            return "a scale of a floating grid is no power of two";
    }
    return NULL;
}

/* Zero points within the codes; symmetric when all are 0 (or there are none). */
static const char *read_zeros(const qg_tensor *zero, size_t n, qg_scheme *s,
                              int32_t *offset)
{
    bool any = false;
    if (zero && qg_tensor_count(zero) != (int64_t)n)
        return "its zero points do not fit its scales";
    for (size_t i = 0; zero && i < n; i++) {
        double z = qg_tensor_f64(zero, (int64_t)i);
        if (z != 0 && (s->exponent_bits || s->bits == 32))
            return "a zero point of this type is not 0";
        offset[i] = (int32_t)z;
        any |= z != 0;
    }
    s->policy |= any ? QG_ASYMMETRIC : QG_SYMMETRIC;
    return NULL;
}

qg_status qg_grid_of_linear(qg_graph *g, const qg_node *n, qg_dtype codes,
                            const qg_tensor *x, qg_grid_record *out, const char **why)
{
    const qg_tensor *scale = n->in[1]->constant;
    const qg_value *z = n->n_in > 2 ? n->in[2] : NULL;
    qg_grid_record r;
    *why = !scale || (z && !z->constant)       ? "its scale is not constant"
           : scale->dtype != QG_F32            ? "its scale is no float32"
           : x->dtype != QG_F32 || x->rank < 0 ? "its value is no float32 of known rank"
           : int_attr(n, "saturate", 1) != 1   ? "it does not saturate"
           : int_attr(n, "precision", 0) != 0  ? "it divides in another type"
           : !scheme_of_type(codes, &r.scheme)
               ? "its codes have a type without a record"
               : NULL;
    if (!*why)
        *why = check_scales(scale, r.scheme.exponent_bits != 0);
    if (!*why)
        *why = granularity(n, scale, x, &r.scheme);
    if (*why)
        return QG_OK;
    size_t count = (size_t)qg_tensor_count(scale);
    float *s = QG_NEWN(g->arena, count, float);
    int32_t *offset = QG_NEWN(g->arena, count, int32_t);
    if (!s || !offset)
        return qg_nomem(g->ctx);
    memcpy(s, scale->f32, count * sizeof *s);
    *why = read_zeros(z ? z->constant : NULL, count, &r.scheme, offset);
    r.param = (qg_qparam){ count, s, offset };
    if (!*why)
        *out = r;
    return QG_OK;
}

/* --- FakeQuantize --- */

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
        return "its output limits are not its input limits";
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
    int64_t levels = int_attr(n, "levels", 0);
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
        *why = "its limits are no grid that holds 0";
        return QG_OK;
    }
    if (s == QG_OK)
        *out = r;
    return s;
}

bool qg_grid_record_same(const qg_grid_record *a, const qg_grid_record *b)
{
    assert(a->param.offset && b->param.offset);
    size_t n = a->param.n;
    return qg_scheme_same(&a->scheme, &b->scheme) && n == b->param.n &&
           memcmp(a->param.scale, b->param.scale, n * sizeof(float)) == 0 &&
           memcmp(a->param.offset, b->param.offset, n * sizeof(int32_t)) == 0;
}
