#include "engine/formats/quantize_linear.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/number/format.h"
#include "engine/quant/quantizer.h"

static bool is_quantizer(const qg_node *n, const char *name)
{
    return qg_node_has(n, QG_OP_QUANTIZER) && qg_op_is_named(n->op, &name, 1);
}

bool qg_is_quantize_linear(const qg_node *n)
{
    return is_quantizer(n, "QuantizeLinear");
}

bool qg_is_dequantize_linear(const qg_node *n)
{
    return is_quantizer(n, "DequantizeLinear");
}

bool qg_is_dequantized_constant(const qg_node *n)
{
    return qg_is_dequantize_linear(n) && !n->op->domain && n->in[0]->constant;
}

/* --- writing --- */

/* Floating formats: which type, since which opset, largest finite value. */
static const struct float_type {
    uint8_t bits, exponent_bits;
    bool fnuz;
    qg_dtype code;
    int16_t opset;
    int64_t largest;
} float_type[] = {
    {8,  4, false, QG_F8E4M3FN,   19, 448  },
    { 8, 4, true,  QG_F8E4M3FNUZ, 19, 240  },
    { 8, 5, false, QG_F8E5M2,     19, 57344},
    { 8, 5, true,  QG_F8E5M2FNUZ, 19, 57344},
    { 4, 2, false, QG_F4E2M1,     23, 6    },
};

/* Integer types from narrow to wide; unsigned first, signed second. */
static const struct int_type {
    qg_dtype code[2];
    unsigned bits;
    int16_t opset;
} int_type[] = {
    {{ QG_U4, QG_I4 },    4,  21},
    { { QG_U8, QG_I8 },   8,  13},
    { { QG_U16, QG_I16 }, 16, 21},
};

static qg_onnx_grid fault(const char *why) { return (qg_onnx_grid){ .fault = why }; }

static qg_onnx_grid floating(const qg_scheme *s)
{
    bool fnuz = (s->variant & QG_FLOAT_FNUZ) != 0;
    for (size_t i = 0; i < sizeof float_type / sizeof *float_type; i++) {
        const struct float_type *f = &float_type[i];
        if (s->bits == f->bits && s->exponent_bits == f->exponent_bits &&
            fnuz == f->fnuz)
            return (qg_onnx_grid){ .code = f->code,
                                   .opset = f->opset,
                                   .clip =
                                       s->qmin > -f->largest || s->qmax < f->largest };
    }
    return fault("ONNX quantizes to no floating-point type of this width");
}

static qg_onnx_grid integer(const qg_scheme *s, bool constant, enum qg_placement place)
{
    /* OpenVINO 2026.4.1 ends the process on a product of a Flatten of such codes. */
    bool bytes = place == QG_PLACE_OPENVINO && !constant;
    bool is_signed = s->qmin < 0;
    assert(s->qmin < s->qmax && s->bits <= 32);
    for (size_t i = 0; i < sizeof int_type / sizeof *int_type; i++) {
        const struct int_type *k = &int_type[i];
        int64_t codes = INT64_C(1) << k->bits, low = is_signed ? -codes / 2 : 0;
        if ((bytes && k->bits < 8) || k->bits < s->bits || s->qmin < low ||
            s->qmax > low + codes - 1)
            continue;
        return (qg_onnx_grid){ .code = k->code[is_signed],
                               .opset = k->opset,
                               .clip = s->qmax - s->qmin < codes - 1 };
    }
    if (constant && s->qmin >= INT32_MIN && s->qmax <= INT32_MAX)
        return (qg_onnx_grid){ .code = QG_I32, .opset = 13 };
    return fault("QuantizeLinear has no type of more than 16 bits");
}

static bool any_offset(const qg_qparam *p)
{
    for (size_t c = 0; p->offset && c < p->n; c++)
        if (p->offset[c])
            return true;
    return false;
}

static bool has_offset(const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    return any_offset(&p);
}

bool qg_onnx_turns_zero_points(const qg_tqc *t, const qg_qparam *p)
{
    static const char *const name = "ConvTranspose";
    return qg_op_is_named(t->node->op, &name, 1) && qg_tqc_role(t) == 'w' &&
           any_offset(p);
}

/* Why TensorRT has no such type, NULL: it has. */
static const char *no_trt_type(qg_dtype code, bool constant)
{
    size_t bits = qg_dtype_bits(code);
    bool is_int = code == QG_I8 || (constant && code == QG_I4);
    if (is_int || code == QG_F8E4M3FN || (constant && code == QG_F4E2M1))
        return NULL;
    if (bits != 8 && !(constant && bits == 4))
        return constant ? "TensorRT has weights of at most 8 bits"
                        : "TensorRT has activations of 5 to 8 bits (weights also of 4)";
    return qg_dtype_kind_of(code) == QG_KIND_UINT
               ? "TensorRT has signed codes only"
               : "TensorRT has floating-point codes of E4M3 only (weights also of "
                 "E2M1)";
}

/* TensorRT reads int8, float8 and 4-bit weights, all with zero point 0, and a bias in
 * float only.  Source: TensorRT developer guide, "Working with Quantized Types". */
static qg_onnx_grid for_trt(const qg_tqc *t, bool constant, qg_onnx_grid g)
{
    const char *no_type = no_trt_type(g.code, constant);
    if (g.code == QG_I32)
        return fault("TensorRT adds a bias in float");
    if (has_offset(t))
        return fault("TensorRT supports zero point 0 only");
    if (no_type)
        return fault(no_type);
    if (!constant && t->scheme.policy & (QG_PER_CHANNEL | QG_BLOCK))
        return fault("TensorRT quantizes only weights per channel");
    return g;
}

/* An int32 bias whose scale is not input x weight, both quantized: QGemm and
 * QLinearConv add the codes to their accumulator and ignore the scale. */
static bool is_foreign_bias(const qg_tqc *t)
{
    if (qg_tqc_role(t) != 'b' || t->derive == QG_DERIVE_BIAS)
        return false;
    const qg_tqc *data = qg_role_tqc(t->node, 'd'), *weight = qg_role_tqc(t->node, 'w');
    if (!data || !weight)
        return false;
    qg_qparam p = qg_tqc_param(t), x = qg_tqc_param(data), w = qg_tqc_param(weight);
    for (size_t c = 0; x.n == 1 && c < w.n; c++)
        if (p.n != w.n || p.scale[c] != x.scale[0] * w.scale[c])
            return true;
    return false;
}

/* The plugin's integer convolution has no signed activations with a zero point: the
 * same grid in unsigned codes.  OpenVINO 2026.4.1 fails to compile the others. */
static qg_dtype for_openvino(qg_dtype code)
{
    for (size_t i = 0; i < sizeof int_type / sizeof *int_type; i++)
        if (code == int_type[i].code[1])
            return int_type[i].code[0];
    return code;
}

qg_onnx_grid qg_onnx_grid_of(const qg_tqc *t, bool constant, enum qg_placement place)
{
    const qg_scheme *s = &t->scheme;
    if (s->policy & QG_DYNAMIC)
        return fault("QuantizeLinear has no scale computed at run time");
    qg_onnx_grid g =
        s->policy & QG_FLOATING ? floating(s) : integer(s, constant, place);
    if (g.fault)
        return g;
    if (g.code == QG_I32 && has_offset(t))
        return fault("int32 supports zero point 0 only");
    if (g.code == QG_I32 && is_foreign_bias(t))
        return fault("the scale of an int32 bias is read as input x weight");
    if (s->policy & QG_BLOCK && g.opset < 21)
        g.opset = 21;
    if (g.clip && !constant && s->policy & (QG_PER_CHANNEL | QG_BLOCK))
        return fault("limits per channel that are narrower than those of the type");
    if (place == QG_PLACE_OPENVINO && !constant && has_offset(t))
        g.code = for_openvino(g.code);
    return place == QG_PLACE_TRT ? for_trt(t, constant, g) : g;
}

const char *qg_onnx_refusal(const qg_tqc *t, enum qg_placement place)
{
    bool constant = qg_tqc_is_constant(t);
    return place == QG_PLACE_TRT && !constant
               ? qg_onnx_grid_of(t, constant, place).fault
               : NULL;
}

bool qg_onnx_same_grid(const qg_tqc *a, const qg_tqc *b)
{
    qg_qparam p = qg_tqc_param(a), q = qg_tqc_param(b);
    if (!qg_scheme_same(&a->scheme, &b->scheme) || p.n != q.n)
        return false;
    for (size_t c = 0; c < p.n; c++)
        if (p.scale[c] != q.scale[c] ||
            (p.offset ? p.offset[c] : 0) != (q.offset ? q.offset[c] : 0))
            return false;
    return true;
}

void qg_onnx_limits(const qg_tqc *t, size_t c, float *low, float *high)
{
    qg_qparam p = qg_tqc_param(t);
    assert(c < p.n);
    int64_t offset = p.offset ? p.offset[c] : 0;
    *low = (float)(t->scheme.qmin - offset) * p.scale[c];
    *high = (float)(t->scheme.qmax - offset) * p.scale[c];
}

void qg_onnx_scale_type(const qg_tqc *t, const qg_tensor *x, qg_dtype type,
                        qg_tensor *out)
{
    const qg_scheme *s = &t->scheme;
    int64_t dim[QG_MAX_RANK];
    if (s->policy & QG_PER_TENSOR) {
        qg_tensor_scalar(out, type);
        return;
    }
    assert(s->axis >= 0);
    if (s->policy & QG_PER_CHANNEL) {
        int64_t channels = (int64_t)qg_tqc_param(t).n;
        qg_tensor_init(out, type, 1, &channels);
        return;
    }
    assert(s->block > 0 && s->axis < x->rank);
    memcpy(dim, x->dim, sizeof dim);
    dim[s->axis] = (dim[s->axis] + s->block - 1) / s->block;
    qg_tensor_init(out, type, x->rank, dim);
}

int32_t qg_onnx_shift(const qg_tqc *t, qg_dtype code)
{
    bool is_unsigned = qg_dtype_kind_of(code) == QG_KIND_UINT;
    return is_unsigned && t->scheme.qmin < 0 ? 1 << (qg_dtype_bits(code) - 1) : 0;
}

qg_status qg_onnx_zero_points(qg_ctx *ctx, qg_arena *a, const qg_tqc *t, qg_dtype code,
                              const qg_tensor *x, qg_tensor *out)
{
    qg_qparam p = qg_tqc_param(t);
    unsigned bits = qg_dtype_bits(code);
    int32_t shift = qg_onnx_shift(t, code);
    qg_onnx_scale_type(t, x, code, out);
    QG_TRY(qg_tensor_alloc(ctx, a, out));
    assert(qg_tensor_count(out) == (int64_t)p.n);
    for (size_t i = 0; p.offset && i < p.n; i++) {
        if (bits == 16)
            out->i16[i] = (int16_t)(p.offset[i] + shift);
        else if (bits == 8)
            out->i8[i] = (int8_t)(p.offset[i] + shift);
        else if (bits == 4)
            qg_packed_set(out->data, bits, i, (unsigned)(p.offset[i] + shift));
        else
            assert(p.offset[i] == 0); /* int32: qg_onnx_grid_of */
    }
    return QG_OK;
}

qg_status qg_onnx_rounded(qg_ctx *ctx, qg_arena *a, const qg_tqc *t, const qg_tensor *x,
                          qg_tensor *y)
{
    *y = *x;
    QG_TRY(qg_tensor_alloc(ctx, a, y));
    return qg_tqc_round(ctx, t, x, y);
}

qg_status qg_onnx_codes(qg_ctx *ctx, qg_arena *a, const qg_tqc *t, const qg_tensor *x,
                        qg_tensor *y)
{
    char what[QG_ENDPOINT_TEXT];
    qg_qparam p = qg_tqc_param(t);
    QG_TRY(qg_tensor_alloc(ctx, a, y));
    return qg_quantize(ctx, qg_tqc_text(t, what), &t->scheme, &p, x, y);
}

/* --- reading --- */

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
            s->nan = s->exponent_bits ? QG_NAN_KEEP : QG_NAN_LOWEST; /* number/qdq.h */
            return true;
        }
    return false;
}

/* The attribute, or `preset` when it is absent; types were checked by prepare. */
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
        return "its axis is not an axis of the value";
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
            return "a scale of a floating grid is not a power of two";
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
    *why = !scale || (z && !z->constant) ? "its scale is not constant"
           : scale->dtype != QG_F32      ? "its scale is not float32"
           : x->dtype != QG_F32 || x->rank < 0
               ? "its value is not float32 of known rank"
           : int_attr(n, "saturate", 1) != 1  ? "it does not saturate"
           : int_attr(n, "precision", 0) != 0 ? "it divides in another type"
           : !scheme_of_type(codes, &r.scheme)
               ? "no record represents the type of its codes"
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
