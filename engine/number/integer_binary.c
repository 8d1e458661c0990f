/* integer_binary.c -- one prepare and one span function per form of
 * integer_binary.h.
 *
 * prepare_* turns scales into constants once and picks the loop; the loops see at
 * most CHUNK elements widened to int32, so each form is written once for all storage
 * types. */
#include "engine/number/integer_binary.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/number/round.h"

typedef qg_status prepare_fn(qg_ctx *ctx, const char *what, qg_int_binary *p);

static const qg_kernel_use use_of[QG_INT_NBINARY] = {
    QG_USE_ADD, QG_USE_SUB, QG_USE_MULTIPLY, QG_USE_SQUARED_DIFFERENCE, QG_USE_PRELU
};

const char *qg_int_binary_op_name(qg_int_binary_op op)
{
    assert((unsigned)op < QG_INT_NBINARY);
    return qg_kernel_use_name(use_of[op]);
}

/* -- the forms of Add ------------------------------------------------------------- */

/* TFLite's reference Add: `left` bits of headroom, both operands brought to the
 * coarser grid, one requantization of the sum. */
static void span_fixed(const qg_int_binary *p, const qg_int_operands *o, int32_t *y)
{
    for (size_t i = 0; i < o->n; i++) {
        int32_t va = qg_shift_left(o->a[i * o->a_step] - p->spec.a.zero, p->left);
        int32_t vb = qg_shift_left(o->b[i * o->b_step] - p->spec.b.zero, p->left);
        int64_t sum = (int64_t)p->scale(va, p->ma) + p->sign * p->scale(vb, p->mb);
        int64_t q = (int64_t)p->scale((int32_t)sum, p->my) + p->range.zero;
        y[i] = (int32_t)qg_clamp_i64(q, p->range.lo, p->range.hi);
    }
}

/* The same difference, squared before the last requantization. */
static void span_squared(const qg_int_binary *p, const qg_int_operands *o, int32_t *y)
{
    for (size_t i = 0; i < o->n; i++) {
        int32_t va = qg_shift_left(o->a[i * o->a_step] - p->spec.a.zero, p->left);
        int32_t vb = qg_shift_left(o->b[i * o->b_step] - p->spec.b.zero, p->left);
        int64_t d = (int64_t)p->scale(va, p->ma) - p->scale(vb, p->mb);
        int64_t q = (int64_t)p->scale((int32_t)(d * d), p->my) + p->range.zero;
        y[i] = (int32_t)qg_clamp_i64(q, p->range.lo, p->range.hi);
    }
}

/* Twice the larger scale, and the output's with the headroom, are float32 there, and
 * must be finite: runtimes abort on the multipliers that follow. */
static qg_status check_finite(qg_ctx *ctx, const char *what, const qg_int_binary *p,
                              int left)
{
    const qg_int_binary_spec *s = &p->spec;
    float twice = 2.0f * fmaxf(s->a.scale, s->b.scale), y = ldexpf(s->y.scale, left);
    if (isfinite(twice) && isfinite(y))
        return QG_OK;
    return qg_fail(ctx, QG_EUNSUPPORTED,
                   "integer %s: scales %g and %g -> %g, expected twice the larger one, "
                   "and 2^%d times that of the output, within float32",
                   what, (double)s->a.scale, (double)s->b.scale, (double)s->y.scale,
                   left);
}

/* twice is 2 max(sa, sb), hence both input multipliers are at most 1/2 and the sum
 * of the two shifted operands cannot overflow; the square of a difference of 8-bit
 * codes with 7 bits of headroom fits 32 bits as well. */
static qg_status prepare_fixed(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    const qg_profile_row *row = p->spec.row;
    bool single = row->requant.scheme == QG_SCHEME_FIX_SINGLE;
    bool squared = p->spec.op == QG_INT_BINARY_SQUARED_DIFFERENCE;
    qg_multiplier (*multiplier)(double) = single ? qg_q31_of_single : qg_q31_of;
    double twice = 2.0 * fmax((double)p->spec.a.scale, (double)p->spec.b.scale);
    bool wide = qg_dtype_bits(p->spec.y.dtype) == 16;
    p->left = wide ? row->left16 : row->left8;
    if (p->left == 0 || (squared && (wide || p->left > 7)))
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer %s: %d bits of headroom for %s, expected %s", what,
                       p->left, qg_dtype_name(p->spec.y.dtype),
                       squared ? "8-bit codes and at most 7" : "left in the row");
    if (!single && row->requant.scheme != QG_SCHEME_FIX_DOUBLE)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer %s: scheme '%s', expected fix-double or fix-single",
                       what,
                       qg_requant_scheme_name((qg_requant_scheme)row->requant.scheme));
    QG_TRY(check_finite(ctx, what, p, squared ? 2 * p->left : p->left));
    double out = squared
                     ? twice * twice / (ldexp(1, 2 * p->left) * (double)p->spec.y.scale)
                     : twice / (ldexp(1, p->left) * (double)p->spec.y.scale);
    p->scale = single ? qg_scale_single : qg_scale_double;
    p->ma = multiplier((double)p->spec.a.scale / twice);
    p->mb = multiplier((double)p->spec.b.scale / twice);
    if (!(out < 1))
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer %s: output multiplier %g, expected below 1: the output "
                       "scale is too small for the inputs'",
                       what, out);
    p->my = multiplier(out);
    p->span = squared ? span_squared : span_fixed;
    return QG_OK;
}

/* Both 64-bit forms: XNNPACK rounds halves up, ORT's NEON kernel away from zero. */
static void span_sum(const qg_int_binary *p, const qg_int_operands *o, int32_t *y)
{
    qg_rounding rounding = p->left ? QG_ROUND_HALF_AWAY : QG_ROUND_HALF_UP;
    for (size_t i = 0; i < o->n; i++) {
        int64_t sum = (int64_t)(o->a[i * o->a_step] - p->spec.a.zero) * p->ma.m +
                      (int64_t)(o->b[i * o->b_step] - p->spec.b.zero) * p->mb.m;
        int64_t q =
            qg_round_shift(rounding, sum, (unsigned)p->my.shift) + p->range.zero;
        y[i] = (int32_t)qg_clamp_i64(q, p->range.lo, p->range.hi);
    }
}

/* Integer factors of `bits` bits for the larger ratio. */
static void sum_factors(qg_int_binary *p, int bits)
{
    int shift = bits - 1 - qg_log2_floor(fmaxf(p->ra, p->rb));
    p->my.shift = shift;
    p->ma.m = (int32_t)qg_round_f32(QG_ROUND_HALF_EVEN, ldexpf(p->ra, shift));
    p->mb.m = p->sign * (int32_t)qg_round_f32(QG_ROUND_HALF_EVEN, ldexpf(p->rb, shift));
    p->span = span_sum;
}

/* XNNPACK and the NEON kernel only take ratios for which their factors keep enough
 * bits. */
static bool ratios_within(const qg_int_binary *p, float low, float high)
{
    return p->ra >= low && p->ra < high && p->rb >= low && p->rb < high;
}

/* Source: XNNPACK's qs8 add, which asserts the same bounds. */
static qg_status prepare_mantissa(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    if (!ratios_within(p, 0x1p-10f, 0x1p8f))
        return qg_fail(
            ctx, QG_EUNSUPPORTED,
            "integer %s: scale ratios %g and %g, expected within [2^-10, 2^8)", what,
            (double)p->ra, (double)p->rb);
    p->left = 0;
    sum_factors(p, 21);
    return QG_OK;
}

/* The limits are applied before the zero point is added, as in
 * MlasQLinearAddKernelHelper. */
static void span_portable(const qg_int_binary *p, const qg_int_operands *o, int32_t *y)
{
    float zero = (float)p->range.zero;
    float lo = (float)p->range.lo - zero, hi = (float)p->range.hi - zero;
    for (size_t i = 0; i < o->n; i++) {
        float va = p->spec.a.scale * (float)(o->a[i * o->a_step] - p->spec.a.zero);
        float vb = p->spec.b.scale * (float)(o->b[i * o->b_step] - p->spec.b.zero);
        float v = fminf(fmaxf((va + vb) / p->spec.y.scale, lo), hi);
        y[i] = (int32_t)qg_round_f32(QG_ROUND_HALF_EVEN, v + zero);
    }
}

static qg_status prepare_portable(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    (void)ctx, (void)what;
    p->span = span_portable;
    return QG_OK;
}

/* Falls back to the portable form like the kernel itself: extreme ratios and shifts
 * that vqrshl cannot make. */
static qg_status prepare_neon(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    if (!ratios_within(p, 0x1p-14f, 0x1p8f))
        return prepare_portable(ctx, what, p);
    int shift = 21 - qg_log2_floor(fmaxf(p->ra, p->rb));
    if (shift < 13 || shift > 31)
        return prepare_portable(ctx, what, p);
    p->left = 1; /* halves away from zero */
    sum_factors(p, 22);
    return QG_OK;
}

/* cvtps2dq: values outside int32, of either sign, become -2^31, so the lowest
 * code. */
static int32_t saturate_x86(float v, qg_code_range range)
{
    if (!(fabsf(v) < 0x1p31f))
        return range.lo;
    int64_t q = (int64_t)qg_round_f32(QG_ROUND_HALF_EVEN, v);
    return (int32_t)qg_clamp_i64(q, range.lo, range.hi);
}

/* Which operand goes into the inner fma decides the last bit; when A stands still
 * ORT exchanges the two. */
static void span_fma(const qg_int_binary *p, const qg_int_operands *o, int32_t *y)
{
    for (size_t i = 0; i < o->n; i++) {
        float va = (float)o->a[i * o->a_step], vb = (float)o->b[i * o->b_step];
        float v = o->a_step ? fmaf(va, p->ra, fmaf(vb, p->rb, p->fix))
                            : fmaf(vb, p->rb, fmaf(va, p->ra, p->fix_standing));
        y[i] = saturate_x86(v, p->range);
    }
}

static qg_status prepare_fma(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    (void)ctx, (void)what;
    float za = (float)p->spec.a.zero, zb = (float)p->spec.b.zero;
    float zero = (float)p->range.zero;
    p->fix = zero - fmaf(p->ra, za, p->rb * zb);
    p->fix_standing = zero - fmaf(p->rb, zb, p->ra * za);
    p->span = span_fma;
    return QG_OK;
}

/* As span_fma on machines without FMA: each product and each sum rounds by itself. */
static void span_sse(const qg_int_binary *p, const qg_int_operands *o, int32_t *y)
{
    for (size_t i = 0; i < o->n; i++) {
        float va = (float)o->a[i * o->a_step] * p->ra,
              vb = (float)o->b[i * o->b_step] * p->rb;
        float v = o->a_step ? (p->fix + va) + vb : (p->fix_standing + vb) + va;
        y[i] = saturate_x86(v, p->range);
    }
}

static qg_status prepare_sse(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    (void)ctx, (void)what;
    float za = (float)p->spec.a.zero, zb = (float)p->spec.b.zero;
    float zero = (float)p->range.zero;
    p->fix = zero - (p->ra * za + p->rb * zb);
    p->fix_standing = zero - (p->rb * zb + p->ra * za);
    p->span = span_sse;
    return QG_OK;
}

/* -- Mul and PRelu ----------------------------------------------------------------- */

static void span_product(const qg_int_binary *p, const qg_int_operands *o, int32_t *y)
{
    for (size_t i = 0; i < o->n; i++) {
        int64_t va = o->a[i * o->a_step] - p->spec.a.zero,
                vb = o->b[i * o->b_step] - p->spec.b.zero;
        y[i] = qg_requant_one(&p->product, va * vb);
    }
}

/* The largest |q - zero|. */
static int64_t reach(qg_grid g)
{
    qg_code_range r = qg_code_range_of(g.dtype, g.zero);
    return r.hi - g.zero > g.zero - r.lo ? r.hi - g.zero : g.zero - r.lo;
}

/* requantizes (A - za)(B - zb), which every runtime here holds in 32 bits; scales or
 * zero points that could exceed that are refused. */
static qg_status prepare_product(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    const qg_int_binary_spec *s = &p->spec;
    if (reach(s->a) * reach(s->b) > INT32_MAX)
        return qg_fail(
            ctx, QG_EUNSUPPORTED,
            "integer %s: products exceed 32 bits, expected zero points near 0", what);
    qg_scales scales = { s->a.scale, s->b.scale, s->y.scale };
    p->span = span_product;
    return qg_requant_prepare(ctx, what, &s->row->requant, scales, p->range,
                              &p->product);
}

static void span_prelu(const qg_int_binary *p, const qg_int_operands *o, int32_t *y)
{
    for (size_t i = 0; i < o->n; i++) {
        int64_t va = o->a[i * o->a_step] - p->spec.a.zero,
                vb = o->b[i * o->b_step] - p->spec.b.zero;
        y[i] = va >= 0 ? qg_requant_one(&p->above, va)
                       : qg_requant_one(&p->product, va * vb);
    }
}

static qg_status prepare_prelu(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    const qg_int_binary_spec *s = &p->spec;
    QG_TRY(prepare_product(ctx, what, p));
    p->span = span_prelu;
    return qg_requant_prepare(ctx, what, &s->row->requant,
                              (qg_scales){ s->a.scale, 1, s->y.scale }, p->range,
                              &p->above);
}

/* -- all --------------------------------------------------------------------------- */

static const struct form {
    prepare_fn *prepare;
    bool bits16, ratios; /* takes 16-bit codes; reads ra and rb */
} forms[QG_NFORM] = {
    [QG_FORM_PLAIN] = {prepare_product,   true,  false},
    [QG_FORM_TWO_SIDES] = { prepare_prelu,    true,  false},
    [QG_FORM_FIXED] = { prepare_fixed,    true,  true },
    [QG_FORM_MANTISSA] = { prepare_mantissa, false, true },
    [QG_FORM_NEON] = { prepare_neon,     false, true },
    [QG_FORM_FMA] = { prepare_fma,      false, true },
    [QG_FORM_SSE] = { prepare_sse,      false, true },
    [QG_FORM_PORTABLE] = { prepare_portable, true,  true },
};

static qg_status prepare_form(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    const qg_int_binary_spec *s = &p->spec;
    qg_form form = s->row->form;
    if (!(qg_form_uses(form) >> use_of[s->op] & 1))
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer %s: form '%s', expected one of this operator", what,
                       qg_form_name(form));
    if (!forms[form].bits16 && qg_dtype_bits(s->y.dtype) == 16)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer %s: %s in form '%s', expected 8 bits", what,
                       qg_dtype_name(s->y.dtype), qg_form_name(form));
    p->ra = s->a.scale / s->y.scale;
    p->rb = s->b.scale / s->y.scale;
    if (forms[form].ratios && (!isnormal(p->ra) || !isnormal(p->rb)))
        return qg_fail(ctx, QG_ENUMERIC,
                       "integer %s: scale ratios %g and %g, expected normal float32",
                       what, (double)p->ra, (double)p->rb);
    p->sign = s->op == QG_INT_BINARY_SUB ? -1 : 1;
    return forms[form].prepare(ctx, what, p);
}

qg_status qg_int_binary_prepare(qg_ctx *ctx, const qg_int_binary_spec *spec,
                                qg_int_binary *out)
{
    assert(spec->row && spec->range.lo <= spec->range.hi);
    const char *what = qg_int_binary_op_name(spec->op);
    QG_TRY(qg_grid_check(ctx, what, "first input", spec->a));
    QG_TRY(qg_grid_check(ctx, what, "second input", spec->b));
    QG_TRY(qg_grid_check(ctx, what, "output", spec->y));
    if (spec->a.dtype != spec->y.dtype || spec->b.dtype != spec->y.dtype)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer %s: types %s, %s -> %s, expected one type for all",
                       what, qg_dtype_name(spec->a.dtype), qg_dtype_name(spec->b.dtype),
                       qg_dtype_name(spec->y.dtype));
    qg_int_binary p = { .spec = *spec, .range = spec->range };
    QG_TRY(prepare_form(ctx, what, &p));
    *out = p;
    return QG_OK;
}

enum { CHUNK = 256 };

/* A standing operand is loaded as one element per chunk, see a_step. */
qg_status qg_int_binary_run(qg_ctx *ctx, const qg_int_binary *p,
                            const qg_int_argument *a, const qg_int_argument *b, void *y)
{
    assert(p->span);
    qg_int_broadcast shape;
    const char *what = qg_int_binary_op_name(p->spec.op);
    QG_TRY(qg_int_broadcast_make(ctx, what, &a->dims, &b->dims, &shape));
    qg_dtype type = p->spec.y.dtype;
    int32_t va[CHUNK], vb[CHUNK], vy[CHUNK];
    for (size_t k = 0; k < shape.spans; k++) {
        qg_int_span s = qg_int_broadcast_span(&shape, k);
        for (size_t at = 0; at < s.n; at += CHUNK) {
            size_t n = s.n - at < CHUNK ? s.n - at : CHUNK;
            qg_int_operands o = { va, vb, s.a_step, s.b_step, n };
            qg_codes_load(type, a->data, s.a + at * s.a_step, va, s.a_step ? n : 1);
            qg_codes_load(type, b->data, s.b + at * s.b_step, vb, s.b_step ? n : 1);
            p->span(p, &o, vy);
            qg_codes_store(type, vy, y, s.y + at, n);
        }
    }
    return QG_OK;
}
