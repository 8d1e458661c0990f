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

static prepare_fn prepare_double, prepare_single, prepare_mantissa, prepare_fma,
    prepare_neon, prepare_portable, prepare_sse, prepare_delegate;

/* The addition of each runtime.  An isa of "any" matches all; the first match wins.
 * MUL needs no row here: it is in the table of requantizations. */
static const struct form {
    const char *runtime, *isa;
    bool subtracts, bits16;
    prepare_fn *prepare;
} forms[] = {
    {"tflite-reference",   "any",         true,  true,  prepare_double  },
    { "tflite-integer-fc", "any",         true,  true,  prepare_double  },
    { "tflite-builtin",    "any",         true,  true,  prepare_double  },
    { "tflite-micro",      "any",         true,  true,  prepare_double  },
    { "tflite-single",     "any",         true,  true,  prepare_single  },
    { "cmsis-nn",          "any",         true,  true,  prepare_double  },
    { "tflite-xnnpack",    "any",         true,  false, prepare_delegate},
    { "xnnpack",           "any",         true,  false, prepare_mantissa},
    { "onnxruntime",       "x86-64",      false, true,  prepare_fma     },
    { "onnxruntime",       "x86-64-avx2", false, true,  prepare_fma     },
    { "onnxruntime",       "x86-64-sse2", false, true,  prepare_sse     },
    { "onnxruntime",       "aarch64",     false, true,  prepare_neon    },
    { "onnxruntime",       "portable",    false, true,  prepare_portable},
};

static const char *const op_names[] = { "add", "sub", "mul" };

const char *qg_int_binary_op_name(qg_int_binary_op op)
{
    assert((unsigned)op <= QG_INT_BINARY_MUL);
    return op_names[op];
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

/* twice is 2 max(sa, sb), hence both input multipliers are at most 1/2 and the sum
 * of the two shifted operands cannot overflow. */
static qg_status prepare_fixed(qg_ctx *ctx, const char *what, qg_int_binary *p,
                               qg_multiplier (*multiplier)(double))
{
    double twice = 2.0 * fmax((double)p->spec.a.scale, (double)p->spec.b.scale);
    bool wide = qg_dtype_bits(p->spec.y.dtype) == 16;
    p->left = wide ? 15 : 20;
    double out = twice / (ldexp(1, p->left) * (double)p->spec.y.scale);
    p->ma = multiplier((double)p->spec.a.scale / twice);
    p->mb = multiplier((double)p->spec.b.scale / twice);
    if (out >= 1)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer %s: output multiplier %g, expected below 1: the output "
                       "scale is too small for the inputs'",
                       what, out);
    p->my = multiplier(out);
    p->span = span_fixed;
    return QG_OK;
}

static qg_status prepare_double(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    p->scale = qg_scale_double;
    return prepare_fixed(ctx, what, p, qg_q31_of);
}

static qg_status prepare_single(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    p->scale = qg_scale_single;
    return prepare_fixed(ctx, what, p, qg_q31_of_single);
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

/* Cases that XNNPACK refuses go to the built-in kernels. */
static qg_status prepare_delegate(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    if (ratios_within(p, 0x1p-10f, 0x1p8f))
        return prepare_mantissa(ctx, what, p);
    return prepare_double(ctx, what, p);
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

/* Falls back to the portable form like the kernel itself: 16-bit types, extreme
 * ratios and shifts that vqrshl cannot make. */
static qg_status prepare_neon(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    if (qg_dtype_bits(p->spec.y.dtype) == 16 || !ratios_within(p, 0x1p-14f, 0x1p8f))
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
    if (qg_dtype_bits(p->spec.y.dtype) == 16)
        return prepare_portable(ctx, what, p);
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
    if (qg_dtype_bits(p->spec.y.dtype) == 16)
        return prepare_portable(ctx, what, p);
    float za = (float)p->spec.a.zero, zb = (float)p->spec.b.zero;
    float zero = (float)p->range.zero;
    p->fix = zero - (p->ra * za + p->rb * zb);
    p->fix_standing = zero - (p->rb * zb + p->ra * za);
    p->span = span_sse;
    return QG_OK;
}

/* -- Mul --------------------------------------------------------------------------- */

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
    const qg_requant_rule *rule = qg_requant_find(s->runtime, s->isa, QG_USE_MULTIPLY);
    if (!rule)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer %s: runtime '%s' on '%s' has no product, expected one "
                       "with use multiply in the table of requantizations",
                       what, s->runtime, s->isa);
    if (reach(s->a) * reach(s->b) > INT32_MAX)
        return qg_fail(
            ctx, QG_EUNSUPPORTED,
            "integer %s: products exceed 32 bits, expected zero points near 0", what);
    qg_scales scales = { s->a.scale, s->b.scale, s->y.scale };
    QG_TRY(qg_requant_prepare(ctx, what, rule, scales, p->range, &p->product));
    p->span = span_product;
    return QG_OK;
}

/* -- both -------------------------------------------------------------------------- */

/* The first row for runtime and instruction set; NULL when the runtime has no Add. */
static const struct form *form_find(const qg_int_binary_spec *s)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(forms[i].runtime, s->runtime) == 0 &&
            (strcmp(forms[i].isa, "any") == 0 || strcmp(forms[i].isa, s->isa) == 0))
            return &forms[i];
    return NULL;
}

static qg_status prepare_sum(qg_ctx *ctx, const char *what, qg_int_binary *p)
{
    const qg_int_binary_spec *s = &p->spec;
    const struct form *form = form_find(s);
    if (!form || (s->op == QG_INT_BINARY_SUB && !form->subtracts))
        return qg_fail(
            ctx, QG_EUNSUPPORTED,
            "integer %s: runtime '%s' on '%s' has no such operator, expected "
            "one listed in docs/fixed-point.md",
            what, s->runtime, s->isa);
    if (!form->bits16 && qg_dtype_bits(s->y.dtype) == 16)
        return qg_fail(ctx, QG_EUNSUPPORTED, "integer %s: %s of '%s', expected 8 bits",
                       what, qg_dtype_name(s->y.dtype), s->runtime);
    p->ra = s->a.scale / s->y.scale;
    p->rb = s->b.scale / s->y.scale;
    if (!isnormal(p->ra) || !isnormal(p->rb))
        return qg_fail(ctx, QG_ENUMERIC,
                       "integer %s: scale ratios %g and %g, expected normal float32",
                       what, (double)p->ra, (double)p->rb);
    p->sign = s->op == QG_INT_BINARY_SUB ? -1 : 1;
    return form->prepare(ctx, what, p);
}

qg_status qg_int_binary_prepare(qg_ctx *ctx, const qg_int_binary_spec *spec,
                                qg_int_binary *out)
{
    assert(spec->runtime && spec->isa);
    const char *what = op_names[spec->op];
    QG_TRY(qg_grid_check(ctx, what, "first input", spec->a));
    QG_TRY(qg_grid_check(ctx, what, "second input", spec->b));
    QG_TRY(qg_grid_check(ctx, what, "output", spec->y));
    if (spec->a.dtype != spec->y.dtype || spec->b.dtype != spec->y.dtype)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer %s: types %s, %s -> %s, expected one type for all",
                       what, qg_dtype_name(spec->a.dtype), qg_dtype_name(spec->b.dtype),
                       qg_dtype_name(spec->y.dtype));
    qg_int_binary p = { .spec = *spec };
    p.range = qg_fused_range(spec->fused, spec->y.scale,
                             qg_code_range_of(spec->y.dtype, spec->y.zero));
    QG_TRY(spec->op == QG_INT_BINARY_MUL ? prepare_product(ctx, what, &p)
                                         : prepare_sum(ctx, what, &p));
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
    const char *what = op_names[p->spec.op];
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
