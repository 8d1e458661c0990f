#include "ops/util_cast.h"

#include <assert.h>
#include <math.h>

#include "engine/number/format.h"

enum { CHUNK = 256 }; /* elements converted at a time */

/* Integers are converted through int64_t (uint64_t keeps its bits), other types through
 * double, which represents every float exactly. */
static bool is_float(qg_dtype d) { return qg_dtype_kind_of(d) == QG_KIND_FLOAT; }

/* --- reading ------------------------------------------------------------------- */

#define LOAD(id, type)                                                                 \
    case QG_##id:                                                                      \
        for (int64_t i = 0; i < n; i++)                                                \
            to[i] = ((const type *)s->data)[s->at + i];                                \
        break

/* Bool is read as stored; packed types are sign-extended. */
static void load_i64(const qg_cast_side *s, int64_t n, int64_t *to)
{
    switch (s->dtype) {
        LOAD(U8, uint8_t);
        LOAD(I8, int8_t);
        LOAD(U16, uint16_t);
        LOAD(I16, int16_t);
        LOAD(I32, int32_t);
        LOAD(I64, int64_t);
        LOAD(BOOL, uint8_t);
        LOAD(U32, uint32_t);
    case QG_U64:
        memcpy(to, (const uint64_t *)s->data + s->at, (size_t)n * sizeof *to);
        break;
    default: {
        unsigned bits = qg_dtype_bits(s->dtype), sign = 1u << (bits - 1);
        bool is_signed = qg_dtype_kind_of(s->dtype) == QG_KIND_INT;
        assert(bits < 8);
        for (int64_t i = 0; i < n; i++) {
            unsigned v = qg_packed_get(s->data, bits, (size_t)(s->at + i));
            to[i] = is_signed ? (int64_t)(v ^ sign) - (int64_t)sign : (int64_t)v;
        }
    }
    }
}

/* Every float type fits a double exactly. */
static void load_f64(const qg_cast_side *s, int64_t n, double *to)
{
    switch (s->dtype) {
        LOAD(F32, float);
        LOAD(F64, double);
    case QG_F16:
        for (int64_t i = 0; i < n; i++)
            to[i] = (double)qg_f16_to_f32(((const uint16_t *)s->data)[s->at + i]);
        break;
    case QG_BF16:
        for (int64_t i = 0; i < n; i++)
            to[i] = (double)qg_bf16_to_f32(((const uint16_t *)s->data)[s->at + i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++) {
            unsigned bits = qg_dtype_bits(s->dtype);
            assert(bits <= 8);
            to[i] = (double)qg_small_to_f32(
                s->dtype,
                bits < 8 ? (uint8_t)qg_packed_get(s->data, bits, (size_t)(s->at + i))
                         : ((const uint8_t *)s->data)[s->at + i]);
        }
    }
}
#undef LOAD

/* --- writing ------------------------------------------------------------------- */

#define STORE(id, type)                                                                \
    case QG_##id:                                                                      \
        for (int64_t i = 0; i < n; i++)                                                \
            ((type *)s->data)[s->at + i] = (type)(uint64_t)from[i];                    \
        break

/* Integers into integers: modulo 2^bits, as ONNX and C do. */
static void store_i64(const qg_cast_side *s, int64_t n, const int64_t *from)
{
    switch (s->dtype) {
        STORE(U8, uint8_t);
        STORE(I8, int8_t);
        STORE(U16, uint16_t);
        STORE(I16, int16_t);
        STORE(I32, int32_t);
        STORE(I64, int64_t);
        STORE(U32, uint32_t);
        STORE(U64, uint64_t);
    case QG_BOOL:
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)s->data)[s->at + i] = from[i] != 0;
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            qg_packed_set(s->data, qg_dtype_bits(s->dtype), (size_t)(s->at + i),
                          (unsigned)(uint64_t)from[i]);
    }
}
#undef STORE

/* x as float such that rounding it again, to fewer than 22 bits, equals rounding x
 * directly: toward zero, with the last bit set when inexact ("round to odd"; Boldo and
 * Melquiond, 2008). */
static float to_odd(double x)
{
    float f = (float)x;
    uint32_t bits;
    if ((double)f == x || f != f)
        return f;
    if (isinf(f))
        return f > 0 ? 0x1.fffffep127f : -0x1.fffffep127f;
    if (fabs((double)f) > fabs(x))
        f = nextafterf(f, 0.0f);
    memcpy(&bits, &f, sizeof bits);
    bits |= 1;
    memcpy(&f, &bits, sizeof bits);
    return f;
}

/* float16 and narrower take two steps, the first of which rounds to odd: together
 * one correct rounding. */
static void store_f64(const qg_cast_side *s, int64_t n, const double *from,
                      bool saturate)
{
    unsigned bits = qg_dtype_bits(s->dtype);
    for (int64_t i = 0; i < n; i++)
        switch (s->dtype) {
        case QG_F32:
            ((float *)s->data)[s->at + i] = (float)from[i];
            break;
        case QG_F64:
            ((double *)s->data)[s->at + i] = from[i];
            break;
        case QG_F16:
            ((uint16_t *)s->data)[s->at + i] = qg_f32_to_f16(to_odd(from[i]));
            break;
        case QG_BF16:
            ((uint16_t *)s->data)[s->at + i] = qg_f32_to_bf16(to_odd(from[i]));
            break;
        default: {
            uint8_t v = qg_small_of_f32(s->dtype, to_odd(from[i]), saturate);
            if (bits < 8)
                qg_packed_set(s->data, bits, (size_t)(s->at + i), v);
            else
                ((uint8_t *)s->data)[s->at + i] = v;
        }
        }
}

/* --- between kinds ------------------------------------------------------------- */

/* Toward zero; values beyond 32 (64) bits saturate, NaN becomes 0.  Narrower types wrap
 * from there, see the header. */
static int64_t truncated(double x, qg_dtype d)
{
    bool wide = qg_dtype_bits(d) == 64,
         is_unsigned = qg_dtype_kind_of(d) == QG_KIND_UINT;
    double top = wide ? 0x1p63 : 0x1p31;
    if (isnan(x))
        return 0;
    if (qg_dtype_bits(d) >= 32 && is_unsigned) {
        if (x >= 2 * top)
            return wide ? (int64_t)UINT64_MAX : (int64_t)UINT32_MAX;
        return x <= 0 ? 0 : (int64_t)(uint64_t)x;
    }
    if (x >= top)
        return wide ? INT64_MAX : INT32_MAX;
    return x < -top ? (wide ? INT64_MIN : INT32_MIN) : (int64_t)x;
}

/* Bool is true for non-zero values, including NaN. */
static void integers_of(const double *from, qg_dtype d, int64_t n, int64_t *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = d == QG_BOOL ? from[i] != 0 : truncated(from[i], d);
}

/* Integers above 2^53 reach float32 in one rounding, not through double. */
static void floats_of(const int64_t *from, qg_dtype from_type, qg_dtype d, int64_t n,
                      double *to)
{
    bool is_u64 = from_type == QG_U64, is_f32 = d == QG_F32;
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = (uint64_t)from[i];
        if (is_f32)
            to[i] = (double)(is_u64 ? (float)u : (float)from[i]);
        else
            to[i] = is_u64 ? (double)u : (double)from[i];
    }
}

/* CHUNK elements at a time through the widest type of each kind. */
void qg_cast(qg_cast_side from, qg_cast_side to, int64_t n, bool saturate)
{
    double f[CHUNK];
    int64_t v[CHUNK];
    assert(n >= 0 && from.dtype != QG_NODTYPE && to.dtype != QG_NODTYPE);
    for (int64_t m; n > 0; n -= m, from.at += m, to.at += m) {
        m = n < CHUNK ? n : CHUNK;
        if (is_float(from.dtype))
            load_f64(&from, m, f);
        else
            load_i64(&from, m, v);
        if (is_float(from.dtype) && !is_float(to.dtype))
            integers_of(f, to.dtype, m, v);
        if (!is_float(from.dtype) && is_float(to.dtype))
            floats_of(v, from.dtype, to.dtype, m, f);
        if (is_float(to.dtype))
            store_f64(&to, m, f, saturate);
        else
            store_i64(&to, m, v);
    }
}

void qg_cast_tensor(const qg_tensor *from, qg_tensor *to, bool saturate)
{
    int64_t n = qg_tensor_count(from);
    size_t bytes;
    assert(n >= 0 && n == qg_tensor_count(to));
    if (from->dtype != to->dtype)
        qg_cast((qg_cast_side){ from->dtype, from->data, 0 },
                (qg_cast_side){ to->dtype, to->data, 0 }, n, saturate);
    else if (n > 0 && qg_dtype_bytes(to->dtype, (uint64_t)n, &bytes))
        memmove(to->data, from->data, bytes);
}

qg_status qg_cast_view(qg_ctx *ctx, qg_arena *a, const qg_tensor *t, qg_dtype as,
                       const qg_tensor **out)
{
    if (!t || t->dtype == as) {
        *out = t;
        return QG_OK;
    }
    qg_tensor *copy = QG_NEW(a, qg_tensor);
    if (!copy)
        return qg_nomem(ctx);
    qg_tensor_init(copy, as, t->rank, t->dim);
    QG_TRY(qg_tensor_alloc(ctx, a, copy));
    qg_cast_tensor(t, copy, true);
    *out = copy;
    return QG_OK;
}

/* --- kernels in one type ------------------------------------------------------- */

/* Whether a tensor must be replaced for the call. */
static bool converts(const qg_tensor *t, uint64_t mask, qg_dtype as)
{
    return t && t->dtype != as && mask >> t->dtype & 1;
}

/* Scratch tensors of the same dims, plain. */
static qg_status replace_outputs(const qg_call *k, uint64_t mask, qg_dtype as,
                                 qg_tensor **out)
{
    for (size_t i = 0; i < k->n_out; i++) {
        out[i] = k->out[i];
        if (!converts(out[i], mask, as))
            continue;
        out[i] = QG_NEW(k->scratch, qg_tensor);
        if (!out[i])
            return qg_nomem(k->ctx);
        qg_tensor_init(out[i], as, k->out[i]->rank, k->out[i]->dim);
        QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, out[i]));
    }
    return QG_OK;
}

/* Inputs are converted before, outputs after; saturating, since an operator's result
 * should not wrap. */
qg_status qg_run_as(const qg_call *k, uint64_t mask, qg_dtype as,
                    qg_status (*run)(const qg_call *))
{
    bool any = false;
    for (size_t i = 0; i < k->n_in; i++)
        any |= converts(k->in[i], mask, as);
    for (size_t i = 0; i < k->n_out; i++)
        any |= converts(k->out[i], mask, as);
    if (!any)
        return run(k);
    const qg_tensor **in = QG_NEWN(k->scratch, k->n_in, const qg_tensor *);
    qg_tensor **out = QG_NEWN(k->scratch, k->n_out, qg_tensor *);
    if (!in || !out)
        return qg_nomem(k->ctx);
    for (size_t i = 0; i < k->n_in; i++) {
        in[i] = k->in[i];
        if (converts(in[i], mask, as))
            QG_TRY(qg_cast_view(k->ctx, k->scratch, in[i], as, &in[i]));
    }
    QG_TRY(replace_outputs(k, mask, as, out));
    qg_call inner = *k;
    inner.in = in;
    inner.out = out;
    QG_TRY(run(&inner));
    for (size_t i = 0; i < k->n_out; i++)
        if (out[i] != k->out[i])
            qg_cast_tensor(out[i], k->out[i], true);
    return QG_OK;
}

qg_status qg_run_f32(const qg_call *k, qg_status (*run)(const qg_call *))
{
    return qg_run_as(k, QG_DT(F16) | QG_DT(BF16) | QG_DT(F64), QG_F32, run);
}
