/* integer_unary.c -- fills tables of 256 codes, one function per way of computing
 * them. */
#include "engine/number/integer_unary.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/number/integer_exp.h"
#include "engine/number/integer_rescale.h"
#include "engine/number/requant.h"
#include "engine/number/round.h"

typedef qg_status table_fn(qg_ctx *ctx, const qg_int_unary_spec *s, int32_t table[256]);

static const qg_kernel_use use_of[QG_INT_NUNARY] = { QG_USE_SIGMOID, QG_USE_TANH,
                                                     QG_USE_LEAKY_RELU,
                                                     QG_USE_HARD_SWISH };

/* In double and rounded once, except the leaky relu, whose product is a float32
 * operation in the runtimes too. */
static float function_of(const qg_int_unary_spec *s, float x)
{
    if (s->function == QG_INT_UNARY_LOGISTIC)
        return (float)(1 / (1 + exp(-(double)x)));
    if (s->function == QG_INT_UNARY_TANH)
        return (float)tanh((double)x);
    return x >= 0 ? x : x * s->alpha;
}

/* The input code of table entry i: -128 + i for int8, i for uint8. */
static int32_t code_at(const qg_int_unary_spec *s, int i)
{
    return qg_code_range_of(s->x.dtype, 0).lo + i;
}

/* In float32 operations, of which exp is rounded once: near a half they decide. */
static float float_function_of(const qg_int_unary_spec *s, float x)
{
    return s->function == QG_INT_UNARY_LOGISTIC ? 1 / (1 + (float)exp(-(double)x))
                                                : function_of(s, x);
}

/* TFLite: dequantize, function, times the reciprocal of the output scale.
 * Source: LUTPopulate and Logistic in tensorflow/lite/kernels/activations.cc */
static qg_status float_table(qg_ctx *ctx, const qg_int_unary_spec *s,
                             int32_t table[256])
{
    (void)ctx;
    qg_code_range to = qg_code_range_of(s->y.dtype, s->y.zero);
    float inverse = 1.0f / s->y.scale;
    for (int i = 0; i < 256; i++) {
        float x = s->x.scale * (float)(code_at(s, i) - s->x.zero);
        float y = qg_round_f32(s->row->rounding, float_function_of(s, x) * inverse);
        table[i] =
            (int32_t)fminf(fmaxf(y + (float)to.zero, (float)to.lo), (float)to.hi);
    }
    return QG_OK;
}

/* ORT builds its table through DequantizeLinear, the function and QuantizeLinear. */
static qg_status dequantized_table(qg_ctx *ctx, const qg_int_unary_spec *s,
                                   int32_t table[256])
{
    qg_affine_quantizer q;
    const qg_profile_row divide = { .form = QG_FORM_DIVIDE,
                                    .rounding = s->row->rounding };
    QG_TRY(qg_affine_quantizer_prepare(ctx, &divide, s->y,
                                       qg_code_range_of(s->y.dtype, s->y.zero), &q));
    for (int i = 0; i < 256; i++) {
        float x = s->x.scale * (float)(code_at(s, i) - s->x.zero);
        float y = function_of(s, x);
        qg_affine_quantizer_codes(&q, &y, &table[i], 1);
    }
    return QG_OK;
}

/* -- logistic and tanh in fixed point: 4 integer bits ----------------------------- */

typedef int32_t scale_fn(int32_t, qg_multiplier);

/* z in Q(4) to an int8 code: 8 fraction bits for logistic less 128, 7 for tanh. */
static int32_t fixed_one(const qg_int_unary_spec *s, int32_t z)
{
    if (s->function == QG_INT_UNARY_LOGISTIC)
        return qg_shift_away(qg_logistic_fixed(z, 4), 23) - 128;
    return qg_shift_away(qg_tanh_fixed(z, 4), 24);
}

/* Inputs beyond the radius saturate without computing: 15 = 2^4 - 1, the largest
 * integer that four integer bits hold. */
static qg_status fixed_table(qg_ctx *ctx, const qg_int_unary_spec *s,
                             int32_t table[256])
{
    bool single = s->row->requant.scheme == QG_SCHEME_FIX_SINGLE;
    scale_fn *scale = single ? qg_scale_single : qg_scale_double;
    if (!single && s->row->requant.scheme != QG_SCHEME_FIX_DOUBLE)
        return qg_fail(
            ctx, QG_EUNSUPPORTED,
            "integer function: scheme '%s', expected fix-double or fix-single",
            qg_requant_scheme_name((qg_requant_scheme)s->row->requant.scheme));
    if (s->x.dtype != QG_I8 || s->y.dtype != QG_I8)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer function: form 'fixed' of %s -> %s, expected int8",
                       qg_dtype_name(s->x.dtype), qg_dtype_name(s->y.dtype));
    qg_multiplier m = qg_q31_of((double)s->x.scale * 0x1p27);
    if (m.shift < 1 || m.shift > 30)
        return qg_fail(ctx, QG_ENUMERIC,
                       "integer function: input scale %g, expected within [2^-27, 8)",
                       (double)s->x.scale);
    int32_t radius = (int32_t)floor(15 * 0x1p27 / ldexp(1, m.shift));
    for (int i = 0; i < 256; i++) {
        int32_t v = code_at(s, i) - s->x.zero;
        int32_t inside = v <= -radius ? -128 : 127;
        if (v > -radius && v < radius)
            inside = fixed_one(s, scale(v, m));
        table[i] = (int32_t)qg_clamp_i64(inside, -128, 127);
    }
    return QG_OK;
}

/* -- leaky relu ------------------------------------------------------------------- */

/* A factor per side of zero. */
static qg_status leaky_table(qg_ctx *ctx, const qg_int_unary_spec *s,
                             int32_t table[256])
{
    const qg_requant_rule *rule = &s->row->requant;
    qg_code_range to = qg_code_range_of(s->y.dtype, s->y.zero);
    qg_scales above = { s->x.scale, 1, s->y.scale };
    qg_scales below = { s->x.scale, s->alpha, s->y.scale };
    qg_requant up, down;
    if (!(s->alpha > 0))
        return qg_fail(ctx, QG_ENUMERIC, "leaky relu: alpha is %g, expected above 0",
                       (double)s->alpha);
    QG_TRY(qg_requant_prepare(ctx, "leaky relu", rule, above, to, &up));
    QG_TRY(qg_requant_prepare(ctx, "leaky relu", rule, below, to, &down));
    for (int i = 0; i < 256; i++) {
        int32_t v = code_at(s, i) - s->x.zero;
        table[i] = qg_requant_one(v >= 0 ? &up : &down, v);
    }
    return QG_OK;
}

/* -- hard swish ------------------------------------------------------------------- */

static int16_t sat16(int64_t v)
{
    return (int16_t)qg_clamp_i64(v, INT16_MIN, INT16_MAX);
}

/* min(max(x + 3, 0), 6) / 6 of h (7 fraction bits of the input) in Q15. */
static int32_t swish_gate(int16_t h, qg_multiplier m)
{
    int16_t r = h;
    if (m.shift > 0)
        r = sat16((int64_t)r * (1 << (m.shift - 1 > 15 ? 15 : m.shift - 1)));
    r = qg_high_mul16(r, (int16_t)m.m);
    if (m.shift > 0)
        r = sat16((int64_t)r * 2);
    else
        r = (int16_t)qg_shift_away(r, -m.shift);
    return (r + 32768) >> 1;
}

/* h carries 7 more fraction bits than the code, saturated to 16 bits; the gate and
 * the output factor are q15, and the product is cut, not rounded, as in the source
 * (HardSwish in TFLite's reference kernels). */
static qg_status swish_table(qg_ctx *ctx, const qg_int_unary_spec *s,
                             int32_t table[256])
{
    qg_code_range to = qg_code_range_of(s->y.dtype, s->y.zero);
    float fine = s->x.scale / 128.0f, gate_scale = 3.0f / 32768.0f;
    qg_multiplier out = qg_q15_of(qg_q31_of((double)(fine / s->y.scale)));
    qg_multiplier gate = qg_q15_of(qg_q31_of((double)(fine / gate_scale)));
    if (out.shift > 0)
        return qg_fail(ctx, QG_ENUMERIC,
                       "integer hard swish: scales %g -> %g, expected at most 128 "
                       "output steps per input step",
                       (double)s->x.scale, (double)s->y.scale);
    for (int i = 0; i < 256; i++) {
        int16_t h = sat16((int64_t)(code_at(s, i) - s->x.zero) * 128);
        int16_t p = qg_high_mul16(h, (int16_t)out.m);
        int32_t product = sat16((int64_t)swish_gate(h, gate) * p / 32768);
        int32_t y = qg_shift_away(product, -out.shift) + to.zero;
        table[i] = (int32_t)qg_clamp_i64(y, to.lo, to.hi);
    }
    return QG_OK;
}

/* -- all -------------------------------------------------------------------------- */

qg_status qg_int_unary_table(qg_ctx *ctx, const qg_int_unary_spec *spec,
                             int32_t table[256])
{
    assert(spec->row && (unsigned)spec->function < QG_INT_NUNARY);
    qg_form form = spec->row->form;
    QG_TRY(qg_grid_check(ctx, "integer function", "input", spec->x));
    QG_TRY(qg_grid_check(ctx, "integer function", "output", spec->y));
    if (qg_dtype_bits(spec->x.dtype) != 8 || qg_dtype_bits(spec->y.dtype) != 8)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer function: %s -> %s, expected 8 bits",
                       qg_dtype_name(spec->x.dtype), qg_dtype_name(spec->y.dtype));
    if (!(qg_form_uses(form) >> use_of[spec->function] & 1))
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer function: form '%s' of %s, expected one that it has",
                       qg_form_name(form), qg_kernel_use_name(use_of[spec->function]));
    table_fn *fill = form == QG_FORM_FLOAT_RECIPROCAL            ? float_table
                     : form == QG_FORM_FLOAT_TABLE               ? dequantized_table
                     : form == QG_FORM_TWO_SIDES                 ? leaky_table
                     : spec->function == QG_INT_UNARY_HARD_SWISH ? swish_table
                                                                 : fixed_table;
    return fill(ctx, spec, table);
}
