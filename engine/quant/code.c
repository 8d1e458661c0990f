/* code.c -- integer codes of a tensor, and the values of codes.  Not on any hot
 * path. */
#include <assert.h>
#include <math.h>

#include "engine/number/format.h"
#include "engine/quant/fake_kernel.h"
#include "engine/quant/fake_tensor.h"

typedef struct coder {
    const qg_scheme *s;
    const qg_qparam *p;
    const qg_tensor *x;
    qg_tensor *y;
} coder;

#define INTEGERS                                                                       \
    (QG_DT(I2) | QG_DT(U2) | QG_DT(I4) | QG_DT(U4) | QG_DT(I8) | QG_DT(U8) |           \
     QG_DT(I16) | QG_DT(U16) | QG_DT(I32) | QG_DT(U32))
#define FLOATS                                                                         \
    (QG_DT(F8E4M3FN) | QG_DT(F8E4M3FNUZ) | QG_DT(F8E5M2) | QG_DT(F8E5M2FNUZ) |         \
     QG_DT(F4E2M1) | QG_DT(F16) | QG_DT(BF16))

/* --- one code in memory ----------------------------------------------------------- */

/* code is within the type: prepare() has compared range and type. */
static void put(const qg_tensor *t, size_t at, int64_t code)
{
    assert(t->data && ((INTEGERS | FLOATS) >> t->dtype & 1));
    unsigned bits = qg_dtype_bits(t->dtype);
    switch (bits) {
    case 32:
        t->u32[at] = (uint32_t)code;
        break;
    case 16:
        t->u16[at] = (uint16_t)code;
        break;
    case 8:
        t->u8[at] = (uint8_t)code;
        break;
    default:
        qg_packed_set(t->data, bits, at, (unsigned)code);
    }
}

/* The code with its sign. */
static int64_t get(const qg_tensor *t, size_t at)
{
    assert(t->data);
    unsigned bits = qg_dtype_bits(t->dtype);
    int64_t code = bits == 32   ? t->u32[at]
                   : bits == 16 ? t->u16[at]
                   : bits == 8  ? t->u8[at]
                                : qg_packed_get(t->data, bits, at);
    bool negative = qg_dtype_kind_of(t->dtype) == QG_KIND_INT && code >> (bits - 1);
    return negative ? code - (INT64_C(1) << bits) : code;
}

/* Formats of 8 bits and less saturate; float16 and bfloat16 overflow to infinity,
 * which limits within the format rule out. */
static void put_float(const qg_tensor *t, size_t at, float v)
{
    put(t, at,
        t->dtype == QG_F16    ? qg_f32_to_f16(v)
        : t->dtype == QG_BF16 ? qg_f32_to_bf16(v)
                              : qg_small_of_f32(t->dtype, v, true));
}

static float get_float(const qg_tensor *t, size_t at)
{
    int64_t code = get(t, at);
    return t->dtype == QG_F16    ? qg_f16_to_f32((uint16_t)code)
           : t->dtype == QG_BF16 ? qg_bf16_to_f32((uint16_t)code)
                                 : qg_small_to_f32(t->dtype, (uint8_t)code);
}

/* --- one element ------------------------------------------------------------------ */

static int32_t offset_of(const coder *k, size_t c)
{
    return k->p->offset ? k->p->offset[c] : 0;
}

/* round(x / scale) is an integer of at most 33 bits once it is clamped. */
static void quantize(const coder *k, size_t c, size_t at)
{
    const qg_scheme *s = k->s;
    float x = k->x->f32[at], scale = k->p->scale[c];
    if (s->policy & QG_FLOATING) {
        qg_floating f;
        qg_floating_init(&f, s, scale);
        put_float(k->y, at, qg_floating_code(&f, x));
        return;
    }
    qg_linear p;
    qg_linear_init(&p, s, scale, offset_of(k, c));
    double t = qg_linear_step(&p, x);
    int64_t low = s->qmin - offset_of(k, c);
    put(k->y, at, (isnan(t) ? low : (int64_t)t) + offset_of(k, c));
}

/* In double: code minus offset may need 33 bits, the product is rounded once. */
static void dequantize(const coder *k, size_t c, size_t at)
{
    if (k->s->policy & QG_FLOATING) {
        k->y->f32[at] = get_float(k->x, at) * k->p->scale[c];
        return;
    }
    int64_t step = get(k->x, at) - offset_of(k, c);
    k->y->f32[at] = (float)((double)step * (double)k->p->scale[c]);
}

/* f gets every element once, in memory order, with the index of its parameter. */
static void for_elements(const coder *k, qg_spans *spans,
                         void (*f)(const coder *, size_t c, size_t at))
{
    qg_span span;
    while (qg_spans_next(spans, &span))
        for (size_t i = 0; i < span.n; i++)
            f(k, span.param + (span.each ? i : 0), span.at + i);
}

/* --- checks ----------------------------------------------------------------------- */

/* Whether codes of the scheme fit the type. */
static bool holds(qg_dtype type, const qg_scheme *s)
{
    if (s->policy & QG_FLOATING)
        return FLOATS >> type & 1;
    if (!(INTEGERS >> type & 1))
        return false;
    int64_t steps = (INT64_C(1) << qg_dtype_bits(type)) - 1;
    int64_t low = qg_dtype_kind_of(type) == QG_KIND_INT ? -(steps / 2) - 1 : 0;
    return s->qmin >= low && s->qmax <= low + steps;
}

/* Checks of both directions; codes_in_x selects the tensor that holds codes. */
static qg_status prepare(qg_ctx *ctx, const char *what, const coder *k, bool codes_in_x,
                         qg_spans *spans)
{
    char one[QG_SHAPE_TEXT], two[QG_SHAPE_TEXT];
    const qg_tensor *codes = codes_in_x ? k->x : k->y,
                    *values = codes_in_x ? k->y : k->x;
    QG_TRY(qg_fake_check_static(ctx, what, k->s, k->p, k->x));
    if (values->dtype != QG_F32 || !holds(codes->dtype, k->s))
        return qg_fail(ctx, QG_ESTATE,
                       "%s: %s into %s, expected float32 and a type that holds %lld to "
                       "%lld",
                       what, qg_tensor_text(k->x, one), qg_tensor_text(k->y, two),
                       (long long)k->s->qmin, (long long)k->s->qmax);
    if (!qg_same_layout(k->x, k->y))
        return qg_fail(ctx, QG_ESTATE,
                       "%s: %s into %s, expected equal dims and strides", what,
                       qg_tensor_text(k->x, one), qg_tensor_text(k->y, two));
    return qg_fake_check_dense(ctx, what, k->s, k->x, spans);
}

qg_status qg_quantize(qg_ctx *ctx, const char *what, const qg_scheme *s,
                      const qg_qparam *p, const qg_tensor *x, qg_tensor *y)
{
    qg_spans spans;
    coder k = { s, p, x, y };
    QG_TRY(prepare(ctx, what, &k, false, &spans));
    for_elements(&k, &spans, quantize);
    return QG_OK;
}

qg_status qg_dequantize(qg_ctx *ctx, const char *what, const qg_scheme *s,
                        const qg_qparam *p, const qg_tensor *x, qg_tensor *y)
{
    qg_spans spans;
    coder k = { s, p, x, y };
    QG_TRY(prepare(ctx, what, &k, true, &spans));
    for_elements(&k, &spans, dequantize);
    return QG_OK;
}
