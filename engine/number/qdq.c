/* qdq.c -- runs of elements with one parameter are quantized CHUNK codes at a time;
 * blocked parameters with inner > 1 are handled element by element, because ORT
 * wraps there. */
#include "engine/number/qdq.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/number/format.h"

enum { CHUNK = 256 };

#define INTEGERS                                                                       \
    (QG_DT(I2) | QG_DT(U2) | QG_DT(I4) | QG_DT(U4) | QG_DT(I8) | QG_DT(U8) |           \
     QG_DT(I16) | QG_DT(U16))
#define FLOATS                                                                         \
    (QG_DT(F8E4M3FN) | QG_DT(F8E4M3FNUZ) | QG_DT(F8E5M2) | QG_DT(F8E5M2FNUZ) |         \
     QG_DT(F4E2M1))

bool qg_qdq_knows(qg_dtype type, bool quantize)
{
    uint64_t known = INTEGERS | FLOATS | (quantize ? 0 : QG_DT(I32));
    return known >> type & 1;
}

/* --- codes in memory ------------------------------------------------------------ */

/* Codes [at, at + n) as int32.  x ^ sign - sign extends the sign of any width. */
static void load(qg_dtype type, const void *from, size_t at, size_t n, int32_t *to)
{
    assert(qg_dtype_bits(type) >= 2);
    unsigned bits = qg_dtype_bits(type), sign = 1u << (bits - 1);
    int32_t low = qg_dtype_kind_of(type) == QG_KIND_INT ? (int32_t)sign : 0;
    if (type == QG_I32) {
        memcpy(to, (const int32_t *)from + at, n * sizeof *to);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        int32_t v = bits == 16  ? ((const uint16_t *)from)[at + i]
                    : bits == 8 ? ((const uint8_t *)from)[at + i]
                                : (int32_t)qg_packed_get(from, bits, at + i);
        to[i] = (v ^ low) - low; /* the sign extended, where there is one */
    }
}

/* The reverse; codes are within the type (asserted by the width only: clamped
 * before). */
static void store(qg_dtype type, void *to, size_t at, size_t n, const int32_t *from)
{
    unsigned bits = qg_dtype_bits(type);
    assert(bits >= 2 && bits <= 16);
    for (size_t i = 0; i < n; i++)
        if (bits == 16)
            ((uint16_t *)to)[at + i] = (uint16_t)from[i];
        else if (bits == 8)
            ((uint8_t *)to)[at + i] = (uint8_t)from[i];
        else
            qg_packed_set(to, bits, at + i, (unsigned)from[i]);
}

/* --- runs: neighbours with one parameter, or with one each ------------------------ */

typedef struct run {
    size_t at, n; /* elements */
    size_t param; /* of the first */
    bool each;
} run;

typedef void run_fn(const qg_qdq *q, run r, const void *x, void *y);

/* Calls f for every run: per tensor one, per channel outer * dim, per block as the
 * header has it. */
static void for_runs(const qg_qdq *q, run_fn *f, const void *x, void *y)
{
    size_t blocks = q->block ? (q->dim + q->block - 1) / q->block : q->dim;
    assert(q->scale && (q->block == 0 || blocks > 0 || q->dim == 0));
    bool last = q->block && q->inner == 1; /* a whole block lies side by side */
    size_t step = last ? q->block : 1;
    for (size_t o = 0; o < q->outer; o++)
        for (size_t d = 0; d < q->dim; d += step) {
            size_t rows = q->dim - d < step ? q->dim - d : step;
            run r = { (o * q->dim + d) * q->inner, rows * q->inner, d, false };
            if (q->block)
                r.param = (o * blocks + d / q->block) * q->inner;
            r.each = q->block && !last;
            f(q, r, x, y);
        }
}

/* --- QuantizeLinear --------------------------------------------------------------- */

typedef struct limits {
    int32_t zero, low, high;
} limits;

/* Range of the type and zero point of one parameter. */
static limits limits_of(const qg_qdq *q, size_t param)
{
    int32_t zero = 0, steps = (int32_t)((1u << qg_dtype_bits(q->type)) - 1);
    int32_t low = qg_dtype_kind_of(q->type) == QG_KIND_INT ? -(steps / 2) - 1 : 0;
    if (q->zero_point)
        load(q->type, q->zero_point, param, 1, &zero);
    return (limits){ zero, low, low + steps };
}

/* The conversion instruction of the machine: cvttps and fcvtns differ out of range. */
static int32_t to_int32(float v, bool aarch64)
{
    if (v >= -0x1p31f && v < 0x1p31f)
        return (int32_t)rintf(v);
    if (!aarch64)
        return INT32_MIN;
    return v < 0 ? INT32_MIN : v > 0 ? INT32_MAX : 0;
}

/* v = x / scale in the precision asked for. */
static void quotients(const qg_qdq *q, float scale, const float *x, size_t n, float *v)
{
    for (size_t i = 0; i < n; i++)
        v[i] = x[i] / scale;
    for (size_t i = 0; q->precision == QG_F16 && i < n; i++)
        v[i] = qg_f16_to_f32(qg_f32_to_f16(v[i]));
    for (size_t i = 0; q->precision == QG_BF16 && i < n; i++)
        v[i] = qg_bf16_to_f32(qg_f32_to_bf16(v[i]));
}

/* Round, add modulo 2^32, clamp: the order of ORT's scalar loops. */
static int32_t wrapped(const qg_qdq *q, limits m, float v)
{
    int32_t code = to_int32(v, q->aarch64);
    code = (int32_t)((uint32_t)code + (uint32_t)m.zero);
    return code < m.low ? m.low : code > m.high ? m.high : code;
}

/* Codes lie within 2^17, where adding 1.5 * 2^23 rounds half-even. */
static void clamped(limits m, const float *v, size_t n, int32_t *code)
{
    const float low = (float)(m.low - m.zero), high = (float)(m.high - m.zero);
    for (size_t i = 0; i < n; i++) {
        float c = v[i] > low ? v[i] : low; /* NaN: low */
        c = c < high ? c : high;
        code[i] = (int32_t)((c + 0x1.8p23f) - 0x1.8p23f) + m.zero;
    }
}

static void quantize_each(const qg_qdq *q, run r, const void *x, void *y)
{
    const float *from = x;
    for (size_t i = 0; i < r.n; i++) {
        float v;
        int32_t code;
        const limits m = limits_of(q, r.param + i);
        quotients(q, q->scale[r.param + i], from + r.at + i, 1, &v);
        if (q->onnx)
            clamped(m, &v, 1, &code);
        else
            code = wrapped(q, m, v);
        store(q->type, y, r.at + i, 1, &code);
    }
}

/* 2-bit elements always, and 4-bit elements in a byte shared with a neighbouring
 * run, go through ORT's scalar loop: those codes are computed again. */
static void quantize_run(const qg_qdq *q, run r, const void *x, void *y)
{
    float v[CHUNK];
    int32_t code[CHUNK];
    if (r.n == 0) /* x may be NULL then */
        return;
    const float *from = (const float *)x + r.at;
    const limits m = limits_of(q, r.param);
    const bool always = qg_dtype_bits(q->type) == 2;
    const size_t per = q->onnx ? 1 : 8 / qg_dtype_bits(q->type); /* in a byte */
    for (size_t i = 0, n; i < r.n; i += n) {
        n = r.n - i < CHUNK ? r.n - i : CHUNK;
        quotients(q, q->scale[r.param], from + i, n, v);
        clamped(m, v, n, code);
        for (size_t k = 0; per > 1 && k < n; k++) {
            size_t byte = (r.at + i + k) / per * per;
            if (always || byte < r.at || byte + per > r.at + r.n)
                code[k] = wrapped(q, m, v[k]);
        }
        store(q->type, y, r.at + i, n, code);
    }
}

static void quantize(const qg_qdq *q, run r, const void *x, void *y)
{
    (r.each ? quantize_each : quantize_run)(q, r, x, y);
}

/* Where ONNX Runtime without saturation differs from the Cast of the standard: E4M3FN
 * keeps [480, 496) at 448, E5M2 turns [61440, 65536) into NaN. */
static int32_t float_code(const qg_qdq *q, float v)
{
    float size = fabsf(v);
    bool kept = !q->onnx && q->type == QG_F8E4M3FN && size >= 480 && size < 496;
    if (q->no_saturate && !q->onnx && q->type == QG_F8E5M2 && size >= 61440 &&
        size < 65536)
        v = copysignf(NAN, v);
    return qg_small_of_f32(q->type, v, !q->no_saturate || kept);
}

static void quantize_float(const qg_qdq *q, run r, const void *x, void *y)
{
    const float *from = x;
    for (size_t i = 0; i < r.n; i++) {
        float v;
        quotients(q, q->scale[r.param + (r.each ? i : 0)], from + r.at + i, 1, &v);
        int32_t code = float_code(q, v);
        store(q->type, y, r.at + i, 1, &code);
    }
}

void qg_quantize_linear(const qg_qdq *q, const float *x, void *y)
{
    assert(qg_qdq_knows(q->type, true));
    bool integer = INTEGERS >> q->type & 1;
    for_runs(q, integer ? quantize : quantize_float, x, y);
}

/* --- DequantizeLinear ------------------------------------------------------------- */

/* The difference is taken modulo 2^32, which only int32 codes can notice. */
static void dequantize(const qg_qdq *q, run r, const void *x, void *y)
{
    int32_t code[CHUNK], zero[CHUNK] = { 0 };
    float *to = (float *)y + r.at;
    if (q->zero_point && !r.each)
        load(q->type, q->zero_point, r.param, 1, zero);
    for (size_t i = 0, n; i < r.n; i += n) {
        n = r.n - i < CHUNK ? r.n - i : CHUNK;
        load(q->type, x, r.at + i, n, code);
        if (q->zero_point && r.each)
            load(q->type, q->zero_point, r.param + i, n, zero);
        for (size_t k = 0; k < n; k++) {
            uint32_t z = (uint32_t)zero[r.each ? k : 0];
            to[i + k] = (float)(int32_t)((uint32_t)code[k] - z) *
                        q->scale[r.param + (r.each ? i + k : 0)];
        }
    }
}

static void dequantize_float(const qg_qdq *q, run r, const void *x, void *y)
{
    for (size_t i = 0; i < r.n; i++) {
        int32_t code;
        load(q->type, x, r.at + i, 1, &code);
        ((float *)y)[r.at + i] = qg_small_to_f32(q->type, (uint8_t)code) *
                                 q->scale[r.param + (r.each ? i : 0)];
    }
}

void qg_dequantize_linear(const qg_qdq *q, const void *x, float *y)
{
    assert(qg_qdq_knows(q->type, false));
    bool small = FLOATS >> q->type & 1;
    for_runs(q, small ? dequantize_float : dequantize, x, y);
}

/* --- DynamicQuantizeLinear -------------------------------------------------------- */

/* Source: ORT's GetQuantizationParameter.  0.0f - x, not -x: the result must not be
 * -0. */
void qg_dynamic_quantize_linear(const float *x, size_t n, uint8_t *y, float *scale,
                                uint8_t *zero_point)
{
    assert(n == 0 || (x && y));
    float low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    *scale = low == high ? 1.0f : (high - low) / 255.0f;
    float zero = 0.0f - low / *scale;
    zero = zero < 255.0f ? zero : 255.0f; /* NaN, of infinite ranges, too */
    *zero_point = (uint8_t)rintf(zero > 0.0f ? zero : 0.0f);
    qg_quantize_linear(&(qg_qdq){ .type = QG_U8,
                                  .outer = 1,
                                  .dim = 1,
                                  .inner = n,
                                  .scale = scale,
                                  .zero_point = zero_point },
                       x, y);
}
