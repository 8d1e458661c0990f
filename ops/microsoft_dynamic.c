/* microsoft_dynamic.c -- products of codes with float results, of domain com.microsoft,
 * as ONNX Runtime's dynamic quantization writes them.
 *
 * MatMulIntegerToFloat   y = (A - zero a)(B - zero b) * (scale a * scale b) + bias
 * DynamicQuantizeMatMul  the same of A quantized to uint8 by its own smallest and
 *                        largest element, as DynamicQuantizeLinear does
 * Sums are exact; the scales of B and its zero points are one or one per column.
 * Source: onnxruntime 1.31, page Contrib Operators, and
 * contrib_ops/cpu/quantization/dynamic_quantize_matmul.cc.
 *
 * Slots   they quantize by themselves: scales and zero points are never quantized. */
#include "ops/families.h"

#include "engine/number/qdq.h"
#include "ops/util_axis.h"
#include "ops/util_matmul.h"

/* Slots of either operator; -1: it has none. */
typedef struct slots {
    int a_scale, b_scale, a_zero, b_zero, bias;
} slots;

static const slots integer_slots = { 2, 3, 4, 5, 6 };
static const slots dynamic_slots = { -1, 2, -1, 3, 4 };

/* The two rows differ in their largest number of inputs. */
static const slots *slots_of(const qg_node *n)
{
    return n->op->max_in == 7 ? &integer_slots : &dynamic_slots;
}

/* NULL: the operator has no such slot, or the node leaves it out. */
static const qg_tensor *in_slot(const qg_call *k, int slot)
{
    return slot < 0 ? NULL : qg_in(k, (size_t)slot);
}

/* One element, or one per column of B. */
static qg_status check_columns(const qg_call *k, int slot, qg_dtype type)
{
    const qg_tensor *t = in_slot(k, slot);
    int32_t rank = k->in[1]->rank;
    int64_t n = rank > 0 ? k->in[1]->dim[rank - 1] : -1;
    int64_t count = t ? qg_tensor_count(t) : 1;
    if (!t)
        return QG_OK;
    QG_TRY(qg_check_type(k, (size_t)slot, UINT64_C(1) << type));
    if (count == 1 || count < 0 || n < 0 || count == n)
        return QG_OK;
    return qg_infer_fail(k, QG_EMODEL, "input %d has %lld elements, expected 1 or %lld",
                         slot, (long long)count, (long long)n);
}

/* A has one scale and one zero point; what belongs to B and the bias may have one per
 * column.  Zero points have the type of their codes. */
static qg_status infer(const qg_call *k)
{
    const slots *s = slots_of(k->node);
    bool dynamic = s == &dynamic_slots;
    QG_TRY(qg_check_type(k, 0, dynamic ? QG_DT(F32) : QG_DT_BYTES));
    QG_TRY(qg_check_type(k, 1, QG_DT_BYTES));
    QG_TRY(qg_check_rank(k, 1, 2, QG_MAX_RANK));
    QG_TRY(check_columns(k, s->b_scale, QG_F32));
    QG_TRY(check_columns(k, s->b_zero, k->in[1]->dtype));
    QG_TRY(check_columns(k, s->bias, QG_F32));
    if (!dynamic) {
        QG_TRY(qg_check_type(k, 2, QG_DT(F32)));
        QG_TRY(qg_check_one(k, 2));
        QG_TRY(qg_check_one(k, 4));
        if (qg_in(k, 4))
            QG_TRY(qg_check_type(k, 4, UINT64_C(1) << k->in[0]->dtype));
    }
    return qg_matmul_infer(k, 0, 1, QG_F32);
}

/* For int8 and uint8, the only types that infer accepts. */
static int64_t code_at(const qg_tensor *t, int64_t i)
{
    return t->dtype == QG_I8 ? t->i8[i] : t->u8[i];
}

/* The first operand: codes, their zero point and scale. */
typedef struct operand {
    qg_tensor codes;
    int64_t zero;
    float scale;
} operand;

/* Codes of an integer operand are borrowed, with zero point 0 where it is absent;
 * floats are quantized into scratch. */
static qg_status load(const qg_call *k, const slots *s, operand *a)
{
    const qg_tensor *x = k->in[0], *zero = in_slot(k, s->a_zero);
    uint8_t point;
    a->codes = *x;
    if (s->a_scale >= 0) {
        a->scale = k->in[s->a_scale]->f32[0];
        a->zero = zero ? code_at(zero, 0) : 0;
        return QG_OK;
    }
    qg_tensor_init(&a->codes, QG_U8, x->rank, x->dim);
    QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, &a->codes));
    qg_dynamic_quantize_linear(x->f32, (size_t)qg_tensor_count(x), a->codes.u8,
                               &a->scale, &point);
    a->zero = point;
    return QG_OK;
}

/* The element for column c of a vector, or of a scalar. */
static int64_t column(const qg_tensor *t, int64_t c)
{
    return qg_tensor_count(t) == 1 ? 0 : c;
}

/* One matrix.  at: where it begins in A, B and the output, in elements.  Products are
 * below 2^16 in size, so that int64 holds their sum.  The product of both scales is
 * rounded to float32 before the sum is multiplied by it, and the bias is added
 * after. */
static void multiply(const qg_call *k, const slots *s, const operand *a,
                     const qg_matmul *p, const int64_t at[3])
{
    const qg_tensor *b = k->in[1], *scale = k->in[s->b_scale];
    const qg_tensor *zero = in_slot(k, s->b_zero), *bias = in_slot(k, s->bias);
    for (int64_t i = 0; i < p->m * p->n; i++) {
        int64_t r = i / p->n, c = i % p->n, sum = 0;
        int64_t point = zero ? code_at(zero, column(zero, c)) : 0;
        for (int64_t j = 0; j < p->k; j++)
            sum += (code_at(&a->codes, at[0] + r * p->k + j) - a->zero) *
                   (code_at(b, at[1] + j * p->n + c) - point);
        float y = (float)sum * (a->scale * scale->f32[column(scale, c)]);
        k->out[0]->f32[at[2] + i] = bias ? y + bias->f32[column(bias, c)] : y;
    }
}

/* The operand is quantized as a whole, not per matrix of the batch. */
static qg_status run(const qg_call *k)
{
    const slots *s = slots_of(k->node);
    operand a;
    qg_matmul p;
    QG_TRY(load(k, s, &a));
    qg_matmul_of(&a.codes, k->in[1], &p);
    for (int64_t i = 0; i < p.batch; i++) {
        int64_t at[3] = { 0, 0, i * p.m * p.n };
        qg_matmul_at(&p, i, &at[0], &at[1]);
        multiply(k, s, &a, &p, at);
    }
    return QG_OK;
}

#define ROW(microsoft, least, most, roles)                                             \
    {                                                                                  \
        .name = (microsoft), .domain = "com.microsoft", .since = 1, .min_in = (least), \
        .max_in = (most), .min_out = 1, .max_out = 1, .in_roles = (roles),             \
        .traits = QG_OP_QUANTIZER | QG_OP_PURE, .infer = infer, .run = run             \
    }
/* clang-format off */
const qg_op qg_ops_microsoft_dynamic[] = {
    ROW("DynamicQuantizeMatMul", 3, 5, "dwfsf"),
    ROW("MatMulIntegerToFloat", 4, 7, "dwffssf"),
    { 0 },
};
/* clang-format on */
