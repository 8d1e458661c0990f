#include "engine/data/part.h"

#include <assert.h>
#include <math.h>

#include "engine/number/format.h"

/* Element i; integers beyond 2^53 in size, which double cannot hold, as NaN. */
static double load(const qg_tensor *t, int64_t i)
{
    const int64_t most = INT64_C(1) << 53;
    if (t->dtype == QG_I64 && (t->i64[i] < -most || t->i64[i] > most))
        return NAN;
    if (t->dtype == QG_U64 && t->u64[i] > (uint64_t)most)
        return NAN;
    return t->dtype == QG_F32 ? (double)t->f32[i] : qg_tensor_f64(t, i);
}

/* Returns the stored value, so that the caller can compare it with x. */
static double store_float(qg_tensor *t, int64_t i, double x)
{
    switch (t->dtype) {
    case QG_F32:
        t->f32[i] = (float)x;
        return (double)t->f32[i];
    case QG_F16: /* through float32: an exact result needs only one rounding */
        t->u16[i] = qg_f32_to_f16((float)x);
        return (double)qg_f16_to_f32(t->u16[i]);
    case QG_BF16:
        t->u16[i] = qg_f32_to_bf16((float)x);
        return (double)qg_bf16_to_f32(t->u16[i]);
    default:
        assert(t->dtype == QG_F64);
        t->f64[i] = x;
        return x;
    }
}

/* False when the type cannot represent x; nothing is stored then. */
static bool store_integer(qg_tensor *t, int64_t i, double x)
{
    bool is_signed = qg_dtype_kind_of(t->dtype) == QG_KIND_INT;
    unsigned bits = t->dtype == QG_BOOL ? 1 : qg_dtype_bits(t->dtype);
    double high = ldexp(1, (int)bits - is_signed), low = is_signed ? -high : 0;
    if (x != floor(x) || x < low || x >= high)
        return false;
    uint64_t word = is_signed ? (uint64_t)(int64_t)x : (uint64_t)x;
    size_t size = qg_dtype_bits(t->dtype) / 8;
    memcpy((char *)t->data + (size_t)i * size, &word, size); /* little-endian */
    return true;
}

int64_t qg_data_find_nan(const qg_tensor *t)
{
    int64_t n = qg_tensor_count(t);
    if (qg_dtype_kind_of(t->dtype) != QG_KIND_FLOAT)
        return -1;
    if (t->dtype == QG_F32) {
        for (int64_t i = 0; i < n; i++)
            if (isnan(t->f32[i]))
                return i;
        return -1;
    }
    for (int64_t i = 0; i < n; i++)
        if (isnan(load(t, i)))
            return i;
    return -1;
}

int64_t qg_data_find_beyond(const qg_tensor *t, qg_dtype file)
{
    int64_t n = qg_tensor_count(t);
    if (t->dtype != QG_F32 || (file != QG_F16 && file != QG_BF16))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        float x = file == QG_F16 ? qg_f16_to_f32(qg_f32_to_f16(t->f32[i]))
                                 : qg_bf16_to_f32(qg_f32_to_bf16(t->f32[i]));
        if (isinf(x) && !isinf(t->f32[i]))
            return i;
    }
    return -1;
}

/* float8 and packed types have no use as data yet: only bytes that are the model's own
 * type could be meant, and NaN cannot be detected in those. */
bool qg_data_convertible(qg_dtype from, qg_dtype to)
{
    enum qg_dtype_kind a = qg_dtype_kind_of(from), b = qg_dtype_kind_of(to);
    if (from == to)
        return from == QG_F16 || from == QG_BF16 || qg_dtype_bits(from) != 8 ||
               a != QG_KIND_FLOAT;
    if (qg_dtype_bits(from) < 8 || qg_dtype_bits(to) < 8)
        return false;
    if ((a == QG_KIND_FLOAT && qg_dtype_bits(from) == 8) ||
        (b == QG_KIND_FLOAT && qg_dtype_bits(to) == 8))
        return false;
    return a != QG_KIND_FLOAT || b == QG_KIND_FLOAT;
}

bool qg_data_convert(const qg_tensor *from, qg_tensor *to, unsigned allow, int64_t *bad)
{
    int64_t n = qg_tensor_count(from);
    size_t bytes;
    assert(n == qg_tensor_count(to) && qg_data_convertible(from->dtype, to->dtype));
    *bad = allow & QG_DATA_NAN ? -1 : qg_data_find_nan(from);
    if (*bad >= 0)
        return false;
    if (from->dtype == to->dtype) {
        bool fits = qg_dtype_bytes(to->dtype, (uint64_t)n, &bytes);
        assert(fits); /* both tensors are in memory */
        if (fits && bytes)
            memcpy(to->data, from->data, bytes);
        return true;
    }
    bool to_float = qg_dtype_kind_of(to->dtype) == QG_KIND_FLOAT;
    for (int64_t i = 0; i < n; i++) {
        double x = load(from, i);
        unsigned pass = isnan(x) ? QG_DATA_NAN : QG_DATA_LOSSY;
        bool ok = to_float ? store_float(to, i, x) == x || (allow & pass)
                           : store_integer(to, i, x);
        if (!ok) {
            *bad = i;
            return false;
        }
    }
    return true;
}
