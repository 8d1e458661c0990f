/* qdq.c -- QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, as ONNX Runtime
 * computes them.
 *
 *     q = RNE(clamp(x / scale, qmin - zero, qmax - zero)) + zero     float32, NaN: qmin
 *     y = (float)(q - zero) * scale
 *
 * To float8 and float4 the quotient is cast; the zero point is 0 there.
 *
 * Scales  one for all; one per index of `axis`; or with block_size one per block along
 *         `axis` and per index of all other dims.  Zero points have the same shape.
 * Types   what is no float32 is converted first (int32 and E8M0 scales too).  With
 *         `precision` the quotient is rounded to that type; without it stays float32.
 * Source: ONNX QuantizeLinear and DequantizeLinear-10, 13 (axis), 19 (float8), 21
 * (4 and 16 bits, blocks), 23, 24, 25 (2 bits); DynamicQuantizeLinear-11;
 * spec/algorithms.md 5.1 for what ONNX Runtime does where ONNX leaves a choice. */
#include "ops/families.h"

#include <math.h>

#include "ops/util_axis.h"
#include "ops/util_cast.h"

#define FLOAT8 (QG_DT(F8E4M3FN) | QG_DT(F8E4M3FNUZ) | QG_DT(F8E5M2) | QG_DT(F8E5M2FNUZ))
#define WHOLE                                                                          \
    (QG_DT_BYTES | QG_DT(I16) | QG_DT(U16) | QG_DT(I4) | QG_DT(U4) | QG_DT(I2) |       \
     QG_DT(U2))
#define QUANTIZED (WHOLE | FLOAT8 | QG_DT(F4E2M1))
#define REAL      (QG_DT(F32) | QG_DT(F16) | QG_DT(BF16) | QG_DT(I32))

enum { CHUNK = 256 }; /* elements per conversion */

typedef struct qdq_param {
    int64_t axis, block;
    qg_dtype output, precision; /* QG_NODTYPE: not said */
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
    int64_t saturate;
    QG_TRY(qg_attr_int(ctx, node, "axis", 1, &p->axis));
    QG_TRY(qg_attr_int(ctx, node, "block_size", 0, &p->block));
    QG_TRY(qg_attr_int(ctx, node, "saturate", 1, &saturate));
    QG_TRY(read_type(ctx, node, "output_dtype", &p->output));
    QG_TRY(read_type(ctx, node, "precision", &p->precision));
    p->saturate = saturate != 0;
    if (p->block < 0 || p->block > QG_MAX_EXTENT)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "block_size is %lld, expected at least 0",
                            (long long)p->block);
    return QG_OK;
}

/* --- which scale an element has ------------------------------------------------ */

/* x as [outer][middle][inner]; element (o, m, i) has scale
 * o * outer_step + m / block * middle_step + i * inner_step. */
typedef struct grain {
    qg_around x;
    int64_t block, outer_step, middle_step, inner_step;
} grain;

/* A scale of one element is one for all, whatever its rank. */
static bool per_tensor(const qdq_param *p, const qg_tensor *scale)
{
    return scale->rank == 0 ||
           (p->block == 0 && scale->rank == 1 && scale->dim[0] == 1);
}

/* A vector has one axis, whatever `axis` says. */
static qg_status axis_of(const qg_call *k, int32_t *axis)
{
    const qdq_param *p = k->param;
    int32_t rank = k->in[0]->rank;
    *axis = 0;
    return rank == 1 ? QG_OK : qg_check_axis(k, p->axis, rank, axis);
}

/* The scale's shape fits x; zero points fit the scales. */
static qg_status check_grain(const qg_call *k)
{
    const qdq_param *p = k->param;
    const qg_tensor *x = k->in[0], *scale = k->in[1];
    int32_t axis;
    for (int32_t i = 0; i < scale->rank; i++)
        QG_TRY(qg_check_dim(k, 2, i, scale->dim[i]));
    if (x->rank < 0 || scale->rank < 0 || per_tensor(p, scale))
        return QG_OK;
    QG_TRY(axis_of(k, &axis));
    if (!p->block) {
        QG_TRY(qg_check_rank(k, 1, 1, 1));
        return qg_check_dim(k, 1, 0, x->dim[axis]);
    }
    QG_TRY(qg_check_rank(k, 1, x->rank, x->rank));
    for (int32_t i = 0; i < x->rank; i++) {
        int64_t d = x->dim[i];
        QG_TRY(qg_check_dim(k, 1, i,
                            i == axis && d >= 0 ? (d + p->block - 1) / p->block : d));
    }
    return QG_OK;
}

/* For shapes that check_grain accepted. */
static qg_status grain_of(const qg_call *k, grain *g)
{
    const qdq_param *p = k->param;
    const qg_tensor *x = k->in[0], *scale = k->in[1];
    int32_t axis;
    if (per_tensor(p, scale)) {
        *g = (grain){
            {1, 1, qg_tensor_count(x)},
            1, 0, 0, 0
        };
        return QG_OK;
    }
    QG_TRY(axis_of(k, &axis));
    g->x = qg_around_axis(x, axis);
    g->block = p->block ? p->block : 1;
    g->outer_step = p->block ? scale->dim[axis] * g->x.inner : 0;
    g->middle_step = p->block ? g->x.inner : 1;
    g->inner_step = p->block ? 1 : 0;
    return QG_OK;
}

/* Scales as float32 and zero points as int32 (NULL: all zero). */
static qg_status parameters(const qg_call *k, const float **scale, const int32_t **zero)
{
    const qg_tensor *s, *z = qg_in(k, 2);
    bool whole = z && WHOLE >> z->dtype & 1;
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[1], QG_F32, &s));
    QG_TRY(qg_cast_view(k->ctx, k->scratch, whole ? z : NULL, QG_I32, &z));
    *scale = s->f32;
    *zero = z ? z->i32 : NULL;
    return QG_OK;
}

/* One run of n elements from position `at`; scales from position `first`. */
typedef struct span {
    const float *scale;
    const int32_t *zero;
    int64_t at, n, first, step;
} span;

typedef void row_function(const qg_call *k, const span *r);

/* Runs of elements that share a scale, or one apiece when inner_step is 1, CHUNK at
 * a time. */
static qg_status for_each_run(const qg_call *k, row_function *row)
{
    grain g;
    const float *scale;
    const int32_t *zero;
    QG_TRY(grain_of(k, &g));
    QG_TRY(parameters(k, &scale, &zero));
    for (int64_t o = 0; o < g.x.outer; o++)
        for (int64_t m = 0; m < g.x.middle; m++)
            for (int64_t i = 0; i < g.x.inner; i += CHUNK) {
                int64_t n = g.x.inner - i < CHUNK ? g.x.inner - i : CHUNK;
                span r = { scale,
                           zero,
                           (o * g.x.middle + m) * g.x.inner + i,
                           n,
                           o * g.outer_step + m / g.block * g.middle_step +
                               i * g.inner_step,
                           g.inner_step };
                row(k, &r);
            }
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
    qg_set_out(k, 0, d, k->in[0]->rank, k->in[0]->dim);
    return QG_OK;
}

/* The range of a type of at most 16 bits. */
static void range_of(qg_dtype d, float *low, float *high)
{
    int bits = (int)qg_dtype_bits(d);
    bool is_signed = qg_dtype_kind_of(d) == QG_KIND_INT;
    *low = is_signed ? -ldexpf(1, bits - 1) : 0;
    *high = ldexpf(1, is_signed ? bits - 1 : bits) - 1;
}

/* v = x / scale, in the precision asked for. */
static void quotients(const qg_call *k, const span *r, float *v)
{
    const qdq_param *p = k->param;
    const qg_tensor *x = k->in[0];
    qg_cast((qg_cast_side){ x->dtype, x->data, r->at }, (qg_cast_side){ QG_F32, v, 0 },
            r->n, true);
    for (int64_t i = 0; i < r->n; i++)
        v[i] /= r->scale[r->first + i * r->step];
    if (p->precision && p->precision != QG_F32) {
        double wide[CHUNK]; /* room for any type of at most 64 bits */
        qg_cast((qg_cast_side){ QG_F32, v, 0 }, (qg_cast_side){ p->precision, wide, 0 },
                r->n, true);
        qg_cast((qg_cast_side){ p->precision, wide, 0 }, (qg_cast_side){ QG_F32, v, 0 },
                r->n, true);
    }
}

/* As number/qdq.h describes ONNX Runtime's; here for the float types it casts to. */
static void quantize_row(const qg_call *k, const span *r)
{
    const qdq_param *p = k->param;
    qg_tensor *y = k->out[0];
    float v[CHUNK], low, high;
    int32_t q[CHUNK];
    qg_cast_side to = { y->dtype, y->data, r->at };
    quotients(k, r, v);
    if (!(WHOLE >> y->dtype & 1)) {
        qg_cast((qg_cast_side){ QG_F32, v, 0 }, to, r->n, p->saturate);
        return;
    }
    range_of(y->dtype, &low, &high);
    for (int64_t i = 0; i < r->n; i++) {
        int32_t zero = r->zero ? r->zero[r->first + i * r->step] : 0;
        float least = low - (float)zero, most = high - (float)zero;
        float c = v[i] > least ? v[i] : least; /* NaN: least */
        q[i] = (int32_t)nearbyintf(c < most ? c : most) + zero;
    }
    qg_cast((qg_cast_side){ QG_I32, q, 0 }, to, r->n, true);
}

static qg_status run_quantize(const qg_call *k)
{
    return for_each_run(k, quantize_row);
}

/* --- DequantizeLinear ---------------------------------------------------------- */

/* The type comes from output_dtype, else it is the scale's. */
static qg_status infer_dequantize(const qg_call *k)
{
    const qdq_param *p = k->param;
    qg_dtype scale = k->in[1]->dtype, d = p->output ? p->output : scale;
    QG_TRY(qg_check_type(k, 0, QUANTIZED | QG_DT(I32)));
    QG_TRY(qg_check_type(k, 1, QG_DT(F32) | QG_DT(F16) | QG_DT(BF16) | QG_DT(F8E8M0)));
    QG_TRY(qg_check_same_type(k, 2, 2));
    if (!((QG_DT(F32) | QG_DT(F16) | QG_DT(BF16)) >> d & 1))
        return qg_infer_fail(k, QG_EMODEL,
                             "output type is %s, expected float32, float16 or bfloat16",
                             qg_dtype_name(d));
    QG_TRY(check_grain(k));
    qg_set_out(k, 0, d, k->in[0]->rank, k->in[0]->dim);
    return QG_OK;
}

/* The difference in int64_t: int32 codes may be far apart. */
static void dequantize_row(const qg_call *k, const span *r)
{
    const qg_tensor *x = k->in[0], *y = k->out[0];
    bool whole = qg_dtype_kind_of(x->dtype) != QG_KIND_FLOAT;
    qg_cast_side from = { x->dtype, x->data, r->at };
    float v[CHUNK];
    int32_t q[CHUNK];
    qg_cast(from,
            whole ? (qg_cast_side){ QG_I32, q, 0 } : (qg_cast_side){ QG_F32, v, 0 },
            r->n, true);
    for (int64_t i = 0; i < r->n; i++) {
        int64_t at = r->first + i * r->step;
        if (whole)
            v[i] = (float)((int64_t)q[i] - (r->zero ? r->zero[at] : 0));
        v[i] *= r->scale[at];
    }
    qg_cast((qg_cast_side){ QG_F32, v, 0 }, (qg_cast_side){ y->dtype, y->data, r->at },
            r->n, true);
}

/* Without quantization there is nothing to shift: the zero point of int32 (a bias) and
 * of floats must be 0. */
static qg_status run_dequantize(const qg_call *k)
{
    const qg_tensor *zero = qg_in(k, 2);
    bool shifts = zero && WHOLE >> zero->dtype & 1;
    for (int64_t i = 0; zero && !shifts && i < qg_tensor_count(zero); i++)
        if (qg_tensor_f64(zero, i) != 0)
            return qg_run_fail(k, QG_EDATA, "zero point %g of type %s, expected 0",
                               qg_tensor_f64(zero, i), qg_dtype_name(zero->dtype));
    return for_each_run(k, dequantize_row);
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

/* The range always holds 0; NaN does not widen it. */
static qg_status run_dynamic(const qg_call *k)
{
    const float *x = k->in[0]->f32;
    int64_t n = qg_tensor_count(k->in[0]);
    float low = 0, high = 0;
    for (int64_t i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float scale = low == high ? 1 : (high - low) / 255;
    float zero = 0 - low / scale;
    zero = nearbyintf(zero < 0 ? 0 : zero > 255 ? 255 : zero);
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] / scale, c = v > -zero ? v : -zero;
        k->out[0]->u8[i] =
            (uint8_t)((int)nearbyintf(c < 255 - zero ? c : 255 - zero) + (int)zero);
    }
    if (qg_out(k, 1))
        k->out[1]->f32[0] = scale;
    if (qg_out(k, 2))
        k->out[2]->u8[0] = (uint8_t)zero;
    return QG_OK;
}

#define ROW(onnx, opset, kind)                                                         \
    {                                                                                  \
        .name = onnx, .since = (opset), .min_in = 2, .max_in = 3, .min_out = 1,        \
        .max_out = 1, .in_roles = "dfs",                                               \
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
    { .name = "DynamicQuantizeLinear", .since = 11, .min_in = 1, .max_in = 1,
      .min_out = 3, .max_out = 3, .in_roles = "d", .out_roles = "dfs",
      .traits = QG_OP_QUANTIZER | QG_OP_PURE, .infer = infer_dynamic,
      .run = run_dynamic },
    { 0 },
};
/* clang-format on */
