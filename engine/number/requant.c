#include "engine/number/requant.h"

#include <assert.h>
#include <math.h>

#include "engine/number/round.h"

static const char *const scheme_names[QG_NSCHEME] = {
#define X(id, text, meaning) text,
    QG_SCHEME_MAP(X)
#undef X
};

static const char *const factor_names[QG_NFACTOR] = {
#define X(id, text, meaning) text,
    QG_FACTOR_MAP(X)
#undef X
};

static const char *const use_names[QG_NUSE] = {
#define X(id, text, meaning) text,
    QG_USE_MAP(X)
#undef X
};

const char *qg_requant_scheme_name(qg_requant_scheme s)
{
    assert((unsigned)s < QG_NSCHEME);
    return scheme_names[s];
}
const char *qg_factor_name(qg_factor f)
{
    assert((unsigned)f < QG_NFACTOR);
    return factor_names[f];
}
const char *qg_kernel_use_name(qg_kernel_use u)
{
    assert((unsigned)u < QG_NUSE);
    return use_names[u];
}

qg_code_range qg_code_range_of(qg_dtype dtype, int32_t zero)
{
    unsigned bits = qg_dtype_bits(dtype);
    enum qg_dtype_kind kind = qg_dtype_kind_of(dtype);
    assert(bits <= 16 && (kind == QG_KIND_INT || kind == QG_KIND_UINT));
    int32_t lo = kind == QG_KIND_INT ? -(1 << (bits - 1)) : 0;
    return (qg_code_range){ zero, lo, lo + (1 << bits) - 1 };
}

/* RELU6 of a tiny scale may exceed the codes: the bounds are limited to the range
 * first. */
qg_code_range qg_fused_range(qg_fused a, float scale, qg_code_range range)
{
    static const struct {
        bool has_low, has_high;
        float low, high;
    } bound[QG_NFUSED] = {
        [QG_FUSED_RELU] = {true,  false, 0,  0},
        [QG_FUSED_RELU6] = { true, true,  0,  6},
        [QG_FUSED_RELU_N1_TO_1] = { true, true,  -1, 1},
    };
    assert(scale > 0);
    float low = qg_round_f32(QG_ROUND_HALF_AWAY, bound[a].low / scale);
    float high = qg_round_f32(QG_ROUND_HALF_AWAY, bound[a].high / scale);
    float zero = (float)range.zero;
    if (bound[a].has_low)
        range.lo = (int32_t)fmaxf((float)range.lo, fminf((float)range.hi, zero + low));
    if (bound[a].has_high)
        range.hi = (int32_t)fminf((float)range.hi, fmaxf((float)range.lo, zero + high));
    return range;
}

/* Products and quotients of floats are float32 operations here, each rounded: this
 * distinguishes these factors. */
static double factor_of(qg_factor factor, qg_scales s)
{
    switch (factor) {
    case QG_FACTOR_DOUBLE:
        return (double)s.x * (double)s.w / (double)s.y;
    case QG_FACTOR_F32_PRODUCT:
        return (double)(s.x * s.w) / (double)s.y;
    case QG_FACTOR_F32:
        return s.x * s.w / s.y;
    case QG_FACTOR_MEAN:
        return s.x / (s.y * s.w);
    case QG_FACTOR_THEN_DIVIDE:
    case QG_FACTOR_THEN_FMA:
        return s.x * s.w;
    case QG_FACTOR_THEN_MULTIPLY:
        return 1.0f / (1.0f / s.x * (1.0f / s.w));
    case QG_NFACTOR:
        break;
    }
    assert(!"factor");
    return 0;
}

static qg_status scale_check(qg_ctx *ctx, const char *what, const char *which, float s)
{
    if (isfinite(s) && s > 0)
        return QG_OK;
    return qg_fail(ctx, QG_ENUMERIC,
                   "requantize: %s: %s scale is %g, expected a finite number above 0",
                   what, which, (double)s);
}

/* Quantizers write a scale of 0 for a channel of zeros: schemes that multiply in float
 * compute with it, no other scheme can represent it. */
static qg_status weight_check(qg_ctx *ctx, const char *what, qg_requant_scheme scheme,
                              float s)
{
    bool zeros = s == 0 && scheme == QG_SCHEME_FLOAT_RNE;
    return zeros ? QG_OK : scale_check(ctx, what, "weight", s);
}

/* Can the scheme hold this factor?  Otherwise `limit` gives the reason. */
static bool factor_fits(qg_requant_scheme scheme, double real, const char **limit)
{
    int exponent = 0;
    double fraction = frexp(real, &exponent);
    double most = scheme == QG_SCHEME_FIX_REDUCED    ? 0x1p15
                  : scheme == QG_SCHEME_FIX_MANTISSA ? 0x1p24
                                                     : 0x1p30;
    *limit = "a finite factor that this scheme can hold";
    if (!isfinite(real) || (scheme != QG_SCHEME_FLOAT_RNE &&
                            scheme != QG_SCHEME_DOUBLE_AWAY && real >= most))
        return false;
    *limit = "a normal float32 factor";
    if (scheme == QG_SCHEME_FIX_MANTISSA && !isnormal((float)real))
        return false;
    *limit = "a power of two of at most 1 for the factor";
    return scheme != QG_SCHEME_POW2_SHIFT || (fraction == 0.5 && exponent <= 1);
}

/* POW2_SHIFT: frexp has real = 1/2 * 2^exponent, so the shift is 1 - exponent. */
static qg_multiplier multiplier_of(qg_requant_scheme scheme, double real)
{
    switch (scheme) {
    case QG_SCHEME_FIX_SINGLE:
        return qg_q31_of_single(real);
    case QG_SCHEME_FIX_MANTISSA:
        return qg_m24_of((float)real);
    case QG_SCHEME_FIX_EIGHTH:
        return (
            qg_multiplier){ (int32_t)qg_round_f32(QG_ROUND_HALF_EVEN,
                                                  256.0f * (float)fmin(real, 0x1p22)),
                            8 };
    case QG_SCHEME_POW2_SHIFT: {
        int exponent = 0;
        frexp(real, &exponent);
        return (qg_multiplier){ 1, 1 - exponent };
    }
    default:
        return qg_q31_of(real);
    }
}

qg_status qg_requant_prepare(qg_ctx *ctx, const char *what, const qg_requant_rule *rule,
                             qg_scales s, qg_code_range range, qg_requant *out)
{
    assert(range.lo <= range.hi);
    QG_TRY(scale_check(ctx, what, "input", s.x));
    QG_TRY(weight_check(ctx, what, rule->scheme, s.w));
    QG_TRY(scale_check(ctx, what, "output", s.y));
    const char *limit;
    double real = factor_of(rule->factor, s);
    if (!factor_fits(rule->scheme, real, &limit))
        return qg_fail(ctx, QG_ENUMERIC,
                       "requantize: %s: factor %g does not fit %s, expected %s", what,
                       real, scheme_names[rule->scheme], limit);
    qg_requant r = { .scheme = rule->scheme,
                     .factor = rule->factor,
                     .place = rule->zero,
                     .accumulator = rule->accumulator,
                     .range = range,
                     .real = real,
                     .f = (float)real };
    r.then = rule->factor == QG_FACTOR_THEN_DIVIDE ? s.y : 1.0f / s.y;
    r.plus = (float)range.zero;
    if (rule->symmetric && r.range.lo == -128)
        r.range.lo = -127;
    if (rule->scheme >= QG_SCHEME_FIX_DOUBLE)
        r.m = multiplier_of(rule->scheme, real);
    *out = r;
    return QG_OK;
}

qg_status qg_requant_prepare_levels(qg_ctx *ctx, const char *what, qg_scales s,
                                    qg_level_range y, qg_requant *out)
{
    QG_TRY(scale_check(ctx, what, "input", s.x));
    QG_TRY(scale_check(ctx, what, "weight", s.w));
    bool ordered = isfinite(y.low) && isfinite(y.high) && y.low < y.high;
    if (!ordered || y.levels < 2 || y.levels > 65536)
        return qg_fail(ctx, QG_ENUMERIC,
                       "requantize: %s: range [%g, %g] in %d levels, expected low < "
                       "high and 2 to 65536 levels",
                       what, (double)y.low, (double)y.high, (int)y.levels);
    float steps = (float)(y.levels - 1), width = y.high - y.low;
    *out = (qg_requant){
        .scheme = QG_SCHEME_FLOAT_RNE,
        .factor = QG_FACTOR_THEN_FMA,
        .place = QG_ZERO_INSIDE,
        .accumulator = 32,
        .range = {0, 0, y.levels - 1},
        .real = s.x * s.w,
        .f = s.x * s.w,
        .then = steps / width,
        .plus = -y.low * steps / width
    };
    return QG_OK;
}

/* Rounds a float in steps, zero point as in the tuple, and limits it in float. */
static int32_t float_code(const qg_requant *r, float v)
{
    bool after = r->place == QG_ZERO_AFTER && r->factor != QG_FACTOR_THEN_FMA;
    if (r->place == QG_ZERO_INSIDE && r->factor != QG_FACTOR_THEN_FMA)
        v = v + r->plus;
    float q = r->scheme == QG_SCHEME_FLOAT_RNE    ? qg_round_f32(QG_ROUND_HALF_EVEN, v)
              : r->scheme == QG_SCHEME_FLOAT_AWAY ? qg_round_f32(QG_ROUND_HALF_AWAY, v)
                                                  : qg_round_add_half(v);
    float zero = after ? r->plus : 0;
    float lo = (float)r->range.lo - zero, hi = (float)r->range.hi - zero;
    q = q < lo ? lo : q > hi ? hi : q;
    return (int32_t)q + (int32_t)zero;
}

/* bias 0 is added too: v + 0 changes nothing but the sign of a zero, which rounds
 * alike. */
static int32_t float_one(const qg_requant *r, int64_t acc, float bias)
{
    float sum = (float)acc;
    if (r->place == QG_ZERO_FUSED)
        return float_code(r, fmaf(sum, r->f, r->plus));
    float v = sum * r->f;
    if (r->factor == QG_FACTOR_THEN_DIVIDE)
        v = (v + bias) / r->then;
    else if (r->factor == QG_FACTOR_THEN_MULTIPLY)
        v = (v + bias) * r->then;
    else if (r->factor == QG_FACTOR_THEN_FMA)
        v = fmaf(v + bias, r->then, r->plus);
    return float_code(r, v);
}

/* Limited to a magnitude below 2^bits: sums of a runtime stay within; those of a
 * hostile program saturate. */
static int64_t within(int64_t acc, int bits)
{
    int64_t most = (INT64_C(1) << bits) - 1;
    return qg_clamp_i64(acc, -most, most);
}

/* The sum scaled and rounded, without zero point and limits. */
static int64_t fixed_one(const qg_requant *r, int64_t acc)
{
    switch ((qg_requant_scheme)r->scheme) {
    case QG_SCHEME_DOUBLE_AWAY: {
        double v = qg_round_f64(QG_ROUND_HALF_AWAY, (double)acc * r->real);
        return (int64_t)fmin(fmax(v, -0x1p40), 0x1p40);
    }
    case QG_SCHEME_FIX_DOUBLE:
        return qg_scale_double((int32_t)acc, r->m);
    case QG_SCHEME_FIX_DOUBLE_UP:
        return qg_scale_double_up((int32_t)acc, r->m);
    case QG_SCHEME_FIX_SINGLE:
        return qg_scale_single((int32_t)acc, r->m);
    case QG_SCHEME_FIX_MANTISSA:
        return qg_scale_mantissa(within(acc, 38), r->m);
    case QG_SCHEME_FIX_REDUCED:
        return qg_scale_reduced(within(acc, 47), r->m);
    default:
        assert(r->scheme == QG_SCHEME_FIX_EIGHTH || r->scheme == QG_SCHEME_POW2_SHIFT);
        return r->m.shift > 62 ? 0
                               : qg_round_shift(QG_ROUND_HALF_UP, acc * r->m.m,
                                                (unsigned)r->m.shift);
    }
}

int32_t qg_requant_one(const qg_requant *r, int64_t acc)
{
    assert(r->accumulator == 64 || (acc >= INT32_MIN && acc <= INT32_MAX));
    if (r->scheme < QG_SCHEME_DOUBLE_AWAY)
        return float_one(r, acc, 0);
    int64_t y = fixed_one(r, acc) + r->range.zero;
    return (int32_t)qg_clamp_i64(y, r->range.lo, r->range.hi);
}

int32_t qg_requant_biased(const qg_requant *r, int64_t acc, float bias)
{
    assert(r->factor >= QG_FACTOR_THEN_DIVIDE && r->scheme < QG_SCHEME_DOUBLE_AWAY);
    return float_one(r, acc, bias);
}

void qg_requant_many(const qg_requant *r, const int32_t *acc, int32_t *y, size_t n)
{
    assert(n == 0 || (acc && y));
    for (size_t i = 0; i < n; i++)
        y[i] = qg_requant_one(r, acc[i]);
}
