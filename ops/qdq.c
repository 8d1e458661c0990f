/* qdq.c -- QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: attributes,
 * types and shapes.  The arithmetic is number/qdq.h.
 *
 * ONNX    where ONNX Runtime departs from the standard (codes that wrap beyond 2^31,
 *         float8 without saturation) these operators follow the standard: qg_qdq.onnx.
 * Scales  one for all; one per index of `axis`; or with block_size one per block along
 *         `axis` and per index of all other dims.  Zero points have the same shape.
 * Types   other types than float32 are converted first (int32 and E8M0 scales too).
 *         With `precision` the quotient is rounded to that type; otherwise it stays
 *         float32.
 * Source: ONNX QuantizeLinear and DequantizeLinear-10, 13 (axis), 19 (float8), 21
 * (4 and 16 bits, blocks), 23, 24, 25 (2 bits); DynamicQuantizeLinear-11;
 * docs/evidence/grids.md#quantizelinear for ONNX Runtime's behaviour where ONNX leaves
 * a choice.  Those of com.microsoft 1 are the same with types of later opsets. */
#include "ops/families.h"

#include "engine/number/qdq.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"

#define HALVES (QG_DT(F16) | QG_DT(BF16))
#define FLOAT8 (QG_DT(F8E4M3FN) | QG_DT(F8E4M3FNUZ) | QG_DT(F8E5M2) | QG_DT(F8E5M2FNUZ))
#define WHOLE                                                                          \
    (QG_DT_BYTES | QG_DT(I16) | QG_DT(U16) | QG_DT(I4) | QG_DT(U4) | QG_DT(I2) |       \
     QG_DT(U2))
#define QUANTIZED (WHOLE | FLOAT8 | QG_DT(F4E2M1))
#define REAL      (QG_DT(F32) | HALVES | QG_DT(I32))

typedef struct qdq_param {
    int64_t axis, block;
    qg_dtype output, precision; /* QG_NODTYPE: not given */
    bool saturate;
} qdq_param;

/* 0 means that the attribute is absent. */
static qg_status read_type(qg_ctx *ctx, const qg_node *node, const char *name,
                           qg_dtype *out)
{
    int64_t code;
    QG_TRY(qg_attr_int(ctx, node, name, 0, &code));
    *out = qg_dtype_of_onnx(code);
    if (code != 0 && *out == QG_NODTYPE)
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "import", node,
                            "%s %lld, expected a type that is supported", name,
                            (long long)code);
    return QG_OK;
}

/* The axis is resolved with the rank. */
static qg_status prepare(qg_ctx *ctx, const qg_node *node, void *param)
{
    qdq_param *p = param;

    QG_TRY(qg_attr_int(ctx, node, "axis", 1, &p->axis));
    QG_TRY(qg_attr_int(ctx, node, "block_size", 0, &p->block));
    QG_TRY(qg_attr_flag(ctx, node, "saturate", true, &p->saturate));
    QG_TRY(read_type(ctx, node, "output_dtype", &p->output));
    QG_TRY(read_type(ctx, node, "precision", &p->precision));

    if (!((QG_DT(NODTYPE) | QG_DT(F32) | HALVES) >> p->precision & 1))
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "import", node,
                            "precision is %s, expected float32, float16 or bfloat16",
                            qg_dtype_name(p->precision));
    if (p->block < 0 || p->block > QG_MAX_EXTENT)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "block_size is %lld, expected at least 0",
                            (long long)p->block);
    return QG_OK;
}

/* --- scale of an element ------------------------------------------------ */

/* A scale with one element applies to all, whatever its rank. */
static bool per_tensor(const qdq_param *p, const qg_tensor *scale)
{
    return scale->rank == 0 ||
           (p->block == 0 && scale->rank == 1 && scale->dim[0] == 1);
}

/* A vector has one axis; `axis` is ignored. */
static qg_status axis_of(const qg_call *k, int32_t *axis)
{
    const qdq_param *p = k->param;
    int32_t rank = k->in[0]->rank;
    *axis = 0;
    return rank == 1 ? QG_OK : qg_check_axis(k, p->axis, rank, axis);
}

/* Zero points have the dims of the scales; [] and [1] count as the same. */
static qg_status check_zeros(const qg_call *k)
{
    const qg_tensor *scale = k->in[1], *zero = qg_in(k, 2);
    if (!zero || zero->rank < 0 || scale->rank < 0)
        return QG_OK;
    const bool same = zero->rank == scale->rank;
    for (int32_t i = 0; i < zero->rank; i++)
        QG_TRY(qg_check_dim(k, 2, i, same ? scale->dim[i] : 1));
    for (int32_t i = 0; i < scale->rank && !same; i++)
        QG_TRY(qg_check_dim(k, 1, i, 1));
    return QG_OK;
}

/* Checks the scale's shape against x, and the zero points' against the scale's. */
static qg_status check_grain(const qg_call *k)
{
    const qdq_param *p = k->param;
    const qg_tensor *x = k->in[0], *scale = k->in[1];
    int32_t axis;
    QG_TRY(check_zeros(k));
    if (x->rank < 0 || scale->rank < 0 || per_tensor(p, scale))
        return QG_OK;
    QG_TRY(axis_of(k, &axis));
    if (!p->block) {
        QG_TRY(qg_check_rank(k, 1, 1, 1));
        return qg_check_dim(k, 1, 0, x->dim[axis]);
    }
    QG_TRY(qg_check_rank(k, 1, x->rank, x->rank));
    for (int32_t i = 0; i < x->rank; i++) {
        int64_t d = x->dim[i]; /* d + block may be no int64 */
        QG_TRY(qg_check_dim(
            k, 1, i, i == axis && d >= 0 ? d / p->block + (d % p->block != 0) : d));
    }
    return QG_OK;
}

/* For shapes that check_grain accepted and a float32 scale; codes are of `type`. */
static qg_status array_of(const qg_call *k, qg_dtype type, qg_qdq *q)
{
    const qdq_param *p = k->param;
    const qg_tensor *x = k->in[0], *scale = k->in[1], *zero = qg_in(k, 2);
    bool one = per_tensor(p, scale);
    qg_around a = { 1, 1, qg_tensor_count(x) };
    int32_t axis;
    if (!one) {
        QG_TRY(axis_of(k, &axis));
        a = qg_around_axis(x, axis);
    }
    *q = (qg_qdq){ .type = type,
                   .outer = (size_t)a.outer,
                   .dim = (size_t)a.middle,
                   .inner = (size_t)a.inner,
                   .block = one ? 0 : (size_t)p->block,
                   .scale = scale->f32,
                   .zero_point = zero ? zero->data : NULL,
                   .no_saturate = !p->saturate,
                   .onnx = true,
                   .precision = p->precision };
    return QG_OK;
}

/* --- QuantizeLinear ------------------------------------------------------------ */

/* The type comes from the zero point, else from output_dtype, else it is uint8. */
static qg_status infer_quantize(const qg_call *k)
{
    const qdq_param *p = k->param;
    const qg_tensor *zero = qg_in(k, 2);
    qg_dtype d = zero ? zero->dtype : p->output ? p->output : QG_U8;
    QG_TRY(qg_check_type(k, 0, REAL));
    QG_TRY(qg_check_type(k, 1, REAL | QG_DT(F8E8M0)));
    QG_TRY(qg_check_type(k, 2, QUANTIZED));
    if (p->output && p->output != d)
        return qg_infer_fail(k, QG_EMODEL,
                             "output_dtype is %s, expected %s as the zero point",
                             qg_dtype_name(p->output), qg_dtype_name(d));
    if (!(QUANTIZED >> d & 1))
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "output_dtype is %s, expected a type of at most 16 bits",
                             qg_dtype_name(d));
    QG_TRY(check_grain(k));
    return qg_infer_dims(k, d, k->in[0]->rank, k->in[0]->dim);
}

static qg_status quantize(const qg_call *k)
{
    qg_qdq q;
    QG_TRY(array_of(k, k->out[0]->dtype, &q));
    if (qg_elements(k->in[0]))
        qg_quantize_linear(&q, k->in[0]->f32, k->out[0]->data);
    return QG_OK;
}

static qg_status run_quantize(const qg_call *k)
{
    return qg_run_as(k, HALVES | QG_DT(I32) | QG_DT(F8E8M0), QG_F32, quantize);
}

/* --- DequantizeLinear ---------------------------------------------------------- */

/* The type comes from output_dtype, else it is the scale's. */
static qg_status infer_dequantize(const qg_call *k)
{
    const qdq_param *p = k->param;
    qg_dtype scale = k->in[1]->dtype, d = p->output ? p->output : scale;
    QG_TRY(qg_check_type(k, 0, QUANTIZED | QG_DT(I32)));
    QG_TRY(qg_check_type(k, 1, QG_DT(F32) | HALVES | QG_DT(F8E8M0)));
    QG_TRY(qg_check_same_type(k, 2, 2));
    if (!((QG_DT(F32) | HALVES) >> d & 1))
        return qg_infer_fail(k, QG_EMODEL,
                             "output type is %s, expected float32, float16 or bfloat16",
                             qg_dtype_name(d));
    QG_TRY(check_grain(k));
    return qg_infer_dims(k, d, k->in[0]->rank, k->in[0]->dim);
}

static qg_status dequantize(const qg_call *k)
{
    qg_qdq q;
    QG_TRY(array_of(k, k->in[0]->dtype, &q));
    if (qg_elements(k->in[0]))
        qg_dequantize_linear(&q, k->in[0]->data, k->out[0]->f32);
    return QG_OK;
}

/* The zero point of int32 (a bias) and of floats must be 0. */
static qg_status run_dequantize(const qg_call *k)
{
    const qg_tensor *zero = qg_in(k, 2);
    bool shifts = zero && WHOLE >> zero->dtype & 1;
    for (int64_t i = 0; zero && !shifts && i < qg_tensor_count(zero); i++)
        if (qg_tensor_f64(zero, i) != 0)
            return qg_run_fail(k, QG_EDATA, "zero point %g of type %s, expected 0",
                               qg_tensor_f64(zero, i), qg_dtype_name(zero->dtype));
    return qg_run_as(k, HALVES | QG_DT(F8E8M0), QG_F32, dequantize);
}

/* --- DynamicQuantizeLinear ----------------------------------------------------- */

/* Always uint8, one scale and one zero point. */
static qg_status infer_dynamic(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT(F32)));
    qg_set_out(k, 0, QG_U8, k->in[0]->rank, k->in[0]->dim);
    qg_set_out(k, 1, QG_F32, 0, NULL);
    qg_set_out(k, 2, QG_U8, 0, NULL);
    return QG_OK;
}

static qg_status run_dynamic(const qg_call *k)
{
    float scale;
    uint8_t zero;
    qg_dynamic_quantize_linear(k->in[0]->f32, qg_elements(k->in[0]), k->out[0]->u8,
                               &scale, &zero);
    if (qg_out(k, 1))
        k->out[1]->f32[0] = scale;
    if (qg_out(k, 2))
        k->out[2]->u8[0] = zero;
    return QG_OK;
}

#define ROW(onnx, opset, kind) ROW_OF(NULL, onnx, opset, kind)
#define ROW_OF(space, onnx, opset, kind)                                               \
    {                                                                                  \
        .name = onnx, .domain = (space), .since = (opset), .min_in = 2, .max_in = 3,   \
        .min_out = 1, .max_out = 1, .in_roles = "dfs",                                 \
        .traits = QG_OP_QUANTIZER | QG_OP_PURE | QG_OP_BATCH_FIRST | QG_OP_MONOTONE,   \
        .param_size = sizeof(qdq_param), .prepare = prepare, .infer = infer_##kind,    \
        .run = run_##kind                                                              \
    }
/* clang-format off */
const qg_op qg_ops_qdq[] = {
    ROW("QuantizeLinear", 10, quantize),
    ROW("QuantizeLinear", 13, quantize),
    ROW("QuantizeLinear", 19, quantize),
    ROW("QuantizeLinear", 21, quantize),
    ROW("QuantizeLinear", 23, quantize),
    ROW("QuantizeLinear", 24, quantize),
    ROW("QuantizeLinear", 25, quantize),
    ROW("DequantizeLinear", 10, dequantize),
    ROW("DequantizeLinear", 13, dequantize),
    ROW("DequantizeLinear", 19, dequantize),
    ROW("DequantizeLinear", 21, dequantize),
    ROW("DequantizeLinear", 23, dequantize),
    ROW("DequantizeLinear", 24, dequantize),
    ROW("DequantizeLinear", 25, dequantize),
    ROW_OF("com.microsoft", "QuantizeLinear", 1, quantize),
    ROW_OF("com.microsoft", "DequantizeLinear", 1, dequantize),
    { .name = "DynamicQuantizeLinear", .since = 11, .min_in = 1, .max_in = 1,
      .min_out = 3, .max_out = 3, .in_roles = "d", .out_roles = "dfs",
      .traits = QG_OP_QUANTIZER | QG_OP_PURE, .infer = infer_dynamic,
      .run = run_dynamic },
    { 0 },
};
/* clang-format on */
