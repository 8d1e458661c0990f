#include "engine/formats/qdq/qdq.h"

#include <assert.h>
#include <string.h>

#include "engine/number/format.h"

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

static qg_onnx_grid integer(const qg_scheme *s, bool constant)
{
    bool is_signed = s->qmin < 0;
    assert(s->qmin < s->qmax && s->bits <= 32);
    for (size_t i = 0; i < sizeof int_type / sizeof *int_type; i++) {
        const struct int_type *k = &int_type[i];
        int64_t codes = INT64_C(1) << k->bits, low = is_signed ? -codes / 2 : 0;
        if (k->bits < s->bits || s->qmin < low || s->qmax > low + codes - 1)
            continue;
        return (qg_onnx_grid){ .code = k->code[is_signed],
                               .opset = k->opset,
                               .clip = s->qmax - s->qmin < codes - 1 };
    }
    if (constant && s->qmin >= INT32_MIN && s->qmax <= INT32_MAX)
        return (qg_onnx_grid){ .code = QG_I32, .opset = 13 };
    return fault("QuantizeLinear has no type of more than 16 bits");
}

static bool has_offset(const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    for (size_t c = 0; p.offset && c < p.n; c++)
        if (p.offset[c])
            return true;
    return false;
}

/* TensorRT reads int8, float8 and 4-bit weights, all with zero point 0, and a bias in
 * float only.  Source: TensorRT developer guide, "Working with Quantized Types". */
static qg_onnx_grid for_trt(const qg_tqc *t, bool constant, qg_onnx_grid g)
{
    const uint64_t known = QG_DT(I8) | QG_DT(F8E4M3FN);
    if (g.code == QG_I32)
        return fault("TensorRT adds a bias in float");
    if (has_offset(t))
        return fault("TensorRT knows no zero point but 0");
    if (!((constant ? known | QG_DT(I4) | QG_DT(F4E2M1) : known) >> g.code & 1))
        return fault("TensorRT has no integers of this type");
    if (!constant && t->scheme.policy & (QG_PER_CHANNEL | QG_BLOCK))
        return fault("TensorRT quantizes only weights per channel");
    return g;
}

/* An int32 bias whose scale is not input x weight, both quantized: QGemm and
 * QLinearConv add the codes to their accumulator without a look at the scale. */
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
        return fault("QuantizeLinear has no scale that is found at run time");
    qg_onnx_grid g = s->policy & QG_FLOATING ? floating(s) : integer(s, constant);
    if (g.fault)
        return g;
    if (g.code == QG_I32 && has_offset(t))
        return fault("int32 has no zero point but 0");
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
    char what[QG_ENDPOINT_TEXT];
    qg_qparam p = qg_tqc_param(t);
    *y = *x;
    QG_TRY(qg_tensor_alloc(ctx, a, y));
    return qg_fake_quantize(ctx, qg_tqc_text(t, what), &t->scheme, &p, x, y);
}

qg_status qg_onnx_codes(qg_ctx *ctx, qg_arena *a, const qg_tqc *t, const qg_tensor *x,
                        qg_tensor *y)
{
    char what[QG_ENDPOINT_TEXT];
    qg_qparam p = qg_tqc_param(t);
    QG_TRY(qg_tensor_alloc(ctx, a, y));
    return qg_quantize(ctx, qg_tqc_text(t, what), &t->scheme, &p, x, y);
}
