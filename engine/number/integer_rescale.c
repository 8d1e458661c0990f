#include "engine/number/integer_rescale.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/core/num.h"
#include "engine/number/round.h"

/* One message for all refusals: form, from, to. */
static qg_status refuse(qg_ctx *ctx, const qg_rescale_spec *s, const char *expected)
{
    return qg_fail(
        ctx, QG_EUNSUPPORTED,
        "integer rescale: form '%s': %s (%g, %d) -> %s (%g, %d), expected %s",
        qg_form_name(s->row->form), qg_dtype_name(s->x.dtype), (double)s->x.scale,
        (int)s->x.zero, qg_dtype_name(s->y.dtype), (double)s->y.scale, (int)s->y.zero,
        expected);
}

/* Source: TFLite's concatenation of uint8. */
static qg_status prepare_affine(qg_ctx *ctx, const qg_rescale_spec *s, qg_rescale *r)
{
    r->how = QG_RESCALE_AFFINE;
    r->k = s->x.scale * (1.0f / s->y.scale);
    r->plus = -(float)s->x.zero * r->k;
    if (!isfinite(r->k) || !isfinite(255 * r->k))
        return refuse(ctx, s, "a finite ratio of scales");
    return QG_OK;
}

/* DequantizeLinear and QuantizeLinear, as one requantization. */
static qg_status table_rule(qg_ctx *ctx, const qg_rescale_spec *s, qg_requant_rule *out)
{
    bool even = s->row->rounding == QG_ROUND_HALF_EVEN;
    if (!even && s->row->rounding != QG_ROUND_HALF_AWAY)
        return refuse(ctx, s, "rounding half-even or half-away-from-zero");
    *out =
        (qg_requant_rule){ .scheme = even ? QG_SCHEME_FLOAT_RNE : QG_SCHEME_FLOAT_AWAY,
                           .factor = QG_FACTOR_THEN_DIVIDE,
                           .symmetric = s->row->requant.symmetric,
                           .accumulator = 32 };
    return QG_OK;
}

static qg_status prepare_requant(qg_ctx *ctx, const qg_rescale_spec *s, qg_rescale *r)
{
    qg_requant_rule rule = s->row->requant;
    if (s->row->form == QG_FORM_TABLE)
        QG_TRY(table_rule(ctx, s, &rule));
    r->how = QG_RESCALE_REQUANT;
    return qg_requant_prepare(ctx, "rescale", &rule,
                              (qg_scales){ s->x.scale, 1, s->y.scale }, s->range,
                              &r->r);
}

qg_status qg_rescale_prepare(qg_ctx *ctx, const qg_rescale_spec *spec, qg_rescale *out)
{
    assert(spec->row && spec->range.lo <= spec->range.hi);
    QG_TRY(qg_grid_check(ctx, "integer rescale", "input", spec->x));
    QG_TRY(qg_grid_check(ctx, "integer rescale", "output", spec->y));
    qg_rescale r = { .how = QG_RESCALE_COPY, .zero_x = spec->x.zero };
    qg_form form = spec->row->form;
    r.r.range = spec->range;
    bool concat = (qg_form_uses(form) & QG_USE_BIT(CONCAT)) != 0;
    if (!concat && form != QG_FORM_PLAIN && form != QG_FORM_VECTOR16)
        return refuse(ctx, spec,
                      "plain, vector16, or copy, affine or table of a concatenation");
    if (!concat || form == QG_FORM_TABLE)
        QG_TRY(concat && qg_grid_same(spec->x, spec->y)
                   ? QG_OK
                   : prepare_requant(ctx, spec, &r));
    else if (!qg_grid_same(spec->x, spec->y))
        QG_TRY(form == QG_FORM_AFFINE
                   ? prepare_affine(ctx, spec, &r)
                   : refuse(ctx, spec,
                            "the output's scale and zero point on every input"));
    *out = r;
    return QG_OK;
}

/* 2^31 is beyond every code, and limiting to it keeps the conversion defined. */
static int32_t affine_one(const qg_rescale *r, int32_t q)
{
    const qg_code_range *to = &r->r.range;
    float v = qg_round_f32(QG_ROUND_HALF_AWAY, (float)q * r->k + r->plus);
    int64_t y = (int64_t)fminf(fmaxf(v, -0x1p31f), 0x1p31f) + to->zero;
    return (int32_t)qg_clamp_i64(y, to->lo, to->hi);
}

void qg_rescale_codes(const qg_rescale *r, const int32_t *x, int32_t *y, size_t n)
{
    assert(n == 0 || (x && y));
    for (size_t i = 0; i < n; i++) {
        if (r->how == QG_RESCALE_COPY)
            y[i] = x[i];
        else if (r->how == QG_RESCALE_AFFINE)
            y[i] = affine_one(r, x[i]);
        else
            y[i] = qg_requant_one(&r->r, (int64_t)x[i] - r->zero_x);
    }
}

/* -- from float -------------------------------------------------------------------- */

/* The range is that of the codes, in float32 as a file of the runtime has it. */
static void prepare_levels(qg_grid y, qg_affine_quantizer *q)
{
    double scale = (double)y.scale;
    q->low = (float)(scale * (q->range.lo - y.zero));
    q->high = (float)(scale * (q->range.hi - y.zero));
    q->scale = (float)(q->range.hi - q->range.lo) / (q->high - q->low);
    q->shift = -(q->low * q->scale);
}

qg_status qg_affine_quantizer_prepare(qg_ctx *ctx, const qg_profile_row *row, qg_grid y,
                                      qg_code_range range, qg_affine_quantizer *out)
{
    QG_TRY(qg_grid_check(ctx, "integer quantize", "output", y));
    assert(range.lo <= range.hi);
    if (!(qg_form_uses(row->form) & QG_USE_BIT(QUANTIZE)))
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "integer quantize: form '%s', expected divide, reciprocal, "
                       "add-half, levels or vector8",
                       qg_form_name(row->form));
    bool divides = row->form == QG_FORM_DIVIDE;
    qg_nan nan = qg_nan_at(row->nan ? row->nan : QG_NAN_LOWEST, range.zero);
    qg_affine_quantizer q = { .form = row->form,
                              .rounding = row->form == QG_FORM_VECTOR8
                                              ? QG_ROUND_HALF_EVEN
                                              : row->rounding,
                              .scale = divides ? y.scale : 1.0f / y.scale,
                              .step = y.scale,
                              .nan = qg_nan_value(nan),
                              .range = range };
    if (row->requant.symmetric && range.lo == -128)
        q.range.lo = -127;
    if (row->form == QG_FORM_LEVELS) {
        prepare_levels(y, &q);
        if (!(q.low < q.high) || !isfinite(q.scale) || !isfinite(q.shift))
            return qg_fail(ctx, QG_ENUMERIC,
                           "integer quantize: range [%g, %g], expected low < high in "
                           "float32",
                           (double)q.low, (double)q.high);
    }
    *out = q;
    return QG_OK;
}

enum { VECTOR8 = 8 };

/* No v is NaN. */
static float limited(float v, float low, float high)
{
    v = v > low ? v : low;
    return v < high ? v : high;
}

/* lo, hi: of the codes, from the zero point. */
static int32_t code_of(const qg_affine_quantizer *q, float x, float lo, float hi)
{
    x = x == x ? x : q->nan;
    if (q->form == QG_FORM_LEVELS) {
        float t = limited(x, q->low, q->high) * q->scale + q->shift;
        float steps = qg_round_f32(QG_ROUND_HALF_EVEN, t);
        return (int32_t)limited(steps, 0, hi - lo) + q->range.lo;
    }
    float v = limited(q->form == QG_FORM_DIVIDE ? x / q->scale : x * q->scale, lo, hi);
    return (int32_t)(q->form == QG_FORM_ADD_HALF ? qg_round_add_half(v)
                                                 : qg_round_f32(q->rounding, v)) +
           q->range.zero;
}

/* vector8: of an element behind the groups, a quotient in double. */
static int32_t code_behind(const qg_affine_quantizer *q, float x)
{
    double v = round((double)(x == x ? x : q->nan) / (double)q->step) + q->range.zero;
    return (int32_t)fmin(fmax(v, q->range.lo), q->range.hi);
}

void qg_affine_quantizer_codes(const qg_affine_quantizer *q, const float *x, int32_t *y,
                               size_t n)
{
    assert(n == 0 || (x && y));
    float lo = (float)(q->range.lo - q->range.zero);
    float hi = (float)(q->range.hi - q->range.zero);
    size_t whole = q->form == QG_FORM_VECTOR8 ? n / VECTOR8 * VECTOR8 : n;
    for (size_t i = 0; i < whole; i++)
        y[i] = code_of(q, x[i], lo, hi);
    for (size_t i = whole; i < n; i++)
        y[i] = code_behind(q, x[i]);
}

/* -- concat ------------------------------------------------------------------------ */

static qg_status axis_of(qg_ctx *ctx, int32_t axis, int32_t rank, int32_t *out)
{
    if (rank < 1 || rank > QG_INTEGER_RANK || axis < -rank || axis >= rank)
        return qg_fail(ctx, QG_EMODEL,
                       "integer concat: axis %d of rank %d, expected within the rank",
                       (int)axis, (int)rank);
    *out = axis < 0 ? axis + rank : axis;
    return QG_OK;
}

/* Sums the extents along the axis; all others must be equal to those of input 0. */
qg_status qg_int_concat_dims(qg_ctx *ctx, int32_t axis, const qg_int_concat_input *in,
                             size_t n, qg_int_dims *out)
{
    assert(n >= 1);
    qg_int_dims d = in[0].dims;
    QG_TRY(axis_of(ctx, axis, d.rank, &axis));
    d.dim[axis] = 0;
    for (size_t k = 0; k < n; k++) {
        bool fits = in[k].dims.rank == d.rank;
        for (int32_t i = 0; fits && i < d.rank; i++)
            fits =
                in[k].dims.dim[i] >= 0 && (i == axis || in[k].dims.dim[i] == d.dim[i]);
        if (!fits || !qg_add_i64(d.dim[axis], in[k].dims.dim[axis], &d.dim[axis]))
            return qg_fail(ctx, QG_EMODEL,
                           "integer concat: input %zu does not fit the first, expected "
                           "equal dims except along axis %d",
                           k, (int)axis);
    }
    *out = d;
    return QG_OK;
}

enum { CHUNK = 256 };

/* Where one input's blocks go: each of `block` elements, `pitch` apart in y. */
struct placement {
    size_t blocks, block, pitch, first;
};

static void place(const qg_rescale *r, const qg_int_concat_input *in, qg_dtype type,
                  void *y, struct placement p)
{
    assert(p.block <= p.pitch && p.first + p.block <= p.pitch);
    int32_t codes[CHUNK];
    for (size_t k = 0; k < p.blocks; k++)
        for (size_t at = 0; at < p.block; at += CHUNK) {
            size_t n = p.block - at < CHUNK ? p.block - at : CHUNK;
            qg_codes_load(in->grid.dtype, in->data, k * p.block + at, codes, n);
            qg_rescale_codes(r, codes, codes, n);
            qg_codes_store(type, codes, y, p.first + k * p.pitch + at, n);
        }
}

/* Product of dim[from .. to): checked by qg_int_concat_dims, so it cannot overflow. */
static size_t extent(const qg_int_dims *d, int32_t from, int32_t to)
{
    size_t n = 1;
    for (int32_t i = from; i < to; i++)
        n *= (size_t)d->dim[i];
    return n;
}

qg_status qg_int_concat_run(qg_ctx *ctx, const qg_int_concat_spec *spec,
                            const qg_int_concat_input *in, size_t n, void *y)
{
    assert(n >= 1);
    qg_int_dims d;
    int32_t axis;
    QG_TRY(qg_int_concat_dims(ctx, spec->axis, in, n, &d));
    QG_TRY(axis_of(ctx, spec->axis, d.rank, &axis));
    struct placement p = { .blocks = extent(&d, 0, axis),
                           .pitch = extent(&d, axis, d.rank) };
    for (size_t k = 0; k < n; k++) {
        qg_rescale r;
        qg_rescale_spec one = { spec->row, in[k].grid, spec->y,
                                qg_code_range_of(spec->y.dtype, spec->y.zero) };
        QG_TRY(qg_rescale_prepare(ctx, &one, &r));
        p.block = extent(&in[k].dims, axis, d.rank);
        place(&r, &in[k], spec->y.dtype, y, p);
        p.first += p.block;
    }
    return QG_OK;
}
