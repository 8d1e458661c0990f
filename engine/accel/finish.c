#include "engine/accel/finish.h"

#include <assert.h>
#include <math.h>

#include "engine/accel/finish_rows.h"
#include "engine/core/ctx.h"
#include "engine/number/integer_array.h"

static const qg_finish_row *const rows[] = {
    &qg_finish_plain,
#if defined(__x86_64__)
    &qg_finish_avx2,
    &qg_finish_avx512,
    &qg_finish_avx512vbmi,
#endif
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

const qg_finish_row *const *qg_finish_rows(size_t *n)
{
    *n = N_ROWS;
    return rows;
}

static const qg_finish_row *best(void)
{
    size_t i = N_ROWS - 1;
    assert(rows[0]->supported());
    while (!rows[i]->supported())
        i--;
    return rows[i];
}

/* -- the definition ---------------------------------------------------------------- */

static float float_one(const qg_finish_spec *s, const qg_requant *r, int32_t sum,
                       size_t c)
{
    float plus = s->floats ? s->floats[c] : 0;
    return s->fma ? fmaf((float)sum, r->f, plus) : (float)sum * r->f + plus;
}

/* Any scheme, any type, element by element. */
static void define(const qg_finish *f, const int32_t *acc, void *y, size_t places)
{
    const qg_finish_spec *s = &f->spec;
    for (size_t i = 0; i < places * s->channels; i++) {
        size_t c = i % s->channels;
        const qg_requant *r = &s->r[s->per_channel ? c : 0];
        int32_t sum =
            (int32_t)((uint32_t)acc[i] + (uint32_t)(s->bias ? s->bias[c] : 0));
        if (s->out == QG_F32) {
            ((float *)y)[i] = float_one(s, r, sum, c);
        } else {
            int32_t code = qg_requant_one(r, sum);
            qg_codes_store(s->out, &code, y, i, 1);
        }
    }
}

/* -- loops ------------------------------------------------------------------------- */

/* Every channel has a factor below 1/2, so that nothing is shifted to the left. */
static bool all_right(const qg_finish_spec *s)
{
    for (size_t c = 0; c < (s->per_channel ? s->channels : 1); c++)
        if (s->r[c].m.shift >= 0)
            return false;
    return true;
}

/* The loop for this requantization; QG_NFINISH: the definition.  Limits beyond 2^22
 * cannot be, codes have 16 bits. */
static enum qg_finish_kind kind_of(const qg_finish_spec *s)
{
    const qg_requant *r = s->r;
    bool one_step = r->factor < QG_FACTOR_THEN_DIVIDE && isfinite(r->f);
    if (s->out == QG_F32)
        return s->fma ? QG_NFINISH : QG_FINISH_FLOATS;
    if (r->accumulator != 32 || qg_dtype_bits(s->out) != 8)
        return QG_NFINISH;
    switch (r->scheme) {
    case QG_SCHEME_FIX_DOUBLE:
        return all_right(s) ? QG_FINISH_NEAR_DOUBLE : QG_FINISH_FIX_DOUBLE;
    case QG_SCHEME_FIX_DOUBLE_UP:
        return all_right(s) ? QG_FINISH_NEAR_UP : QG_FINISH_FIX_DOUBLE_UP;
    case QG_SCHEME_DOUBLE_AWAY:
        return QG_FINISH_DOUBLE_AWAY;
    case QG_SCHEME_FLOAT_RNE:
        return !one_step || r->place == QG_ZERO_FUSED ? QG_NFINISH
               : r->place == QG_ZERO_AFTER            ? QG_FINISH_FLOAT_AFTER
                                                      : QG_FINISH_FLOAT_INSIDE;
    default:
        return QG_NFINISH;
    }
}

/* Lists that the loops read side by side. */
static qg_status fill(qg_ctx *ctx, qg_arena *a, enum qg_finish_kind kind, qg_finish *f)
{
    const qg_finish_spec *s = &f->spec;
    size_t n = f->period;
    int32_t *bias = QG_NEWN(a, n, int32_t), *m = QG_NEWN(a, n, int32_t);
    int32_t *left = QG_NEWN(a, n, int32_t), *right = QG_NEWN(a, n, int32_t);
    float *factor = QG_NEWN(a, n, float), *plus = QG_NEWN(a, n, float);
    double *real = QG_NEWN(a, n, double);
    bool fixed = kind == QG_FINISH_NEAR_DOUBLE || kind == QG_FINISH_NEAR_UP;
    if (!bias || !m || !left || !right || !factor || !plus || !real)
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        size_t c = i % s->channels;
        const qg_requant *r = &s->r[s->per_channel ? c : 0];
        bias[i] = s->bias ? s->bias[c] : 0;
        m[i] = r->m.m;
        left[i] = r->m.shift > 0 ? r->m.shift : 0;
        right[i] = r->m.shift < 0 ? -r->m.shift : 0;
        factor[i] = fixed ? ldexpf((float)r->m.m, r->m.shift - 31)
                    : kind == QG_FINISH_DOUBLE_AWAY ? (float)r->real
                                                    : r->f;
        plus[i] = fixed ? ldexpf(1, -1 - right[i]) : s->floats ? s->floats[c] : 0;
        real[i] = r->real;
    }
    f->bias = bias;
    f->m = m;
    f->left = left;
    f->right = right;
    f->f = factor;
    f->plus = plus;
    f->real = real;
    return QG_OK;
}

/* Whether every channel has the kind and the limits of the first. */
static bool alike(const qg_finish_spec *s)
{
    for (size_t c = 0; c < (s->per_channel ? s->channels : 1); c++)
        if (!isfinite(s->r[c].f) || s->r[c].range.lo != s->r->range.lo ||
            s->r[c].range.hi != s->r->range.hi)
            return false;
    return true;
}

enum { LONG = 512 }; /* the least period */

qg_status qg_finish_new(qg_ctx *ctx, qg_arena *a, const qg_finish_row *row,
                        const qg_finish_spec *spec, qg_finish *out)
{
    assert(spec->channels >= 1);
    enum qg_finish_kind kind = kind_of(spec);
    *out = (qg_finish){ .run = define, .spec = *spec, .kind = QG_NFINISH };
    if (kind == QG_NFINISH || !alike(spec))
        return QG_OK;
    row = row ? row : best();
    out->kind = kind;
    out->run = spec->out == QG_U8 ? row->u8[kind] : row->i8[kind];
    out->period = spec->channels * (1 + (LONG - 1) / spec->channels);
    out->zero = spec->r->range.zero;
    out->low = spec->r->range.lo - out->zero;
    out->high = spec->r->range.hi - out->zero;
    return fill(ctx, a, kind, out);
}

qg_near_fn *qg_near_loop(bool product, qg_dtype type)
{
    return (type == QG_U8 ? best()->near_u8 : best()->near_i8)[product];
}

qg_dequantize_fn *qg_dequantize_loop(qg_dtype type)
{
    return type == QG_U8 ? best()->dequantize_u8 : best()->dequantize_i8;
}

qg_look_up_fn *qg_look_up_loop(void) { return best()->look_up; }

/* -- from floats ------------------------------------------------------------------- */

qg_quantize_fn *qg_quantize_loop(const qg_finish_row *row, const qg_affine_quantizer *q,
                                 qg_dtype type)
{
    bool divides = q->form == QG_FORM_DIVIDE, away = q->rounding == QG_ROUND_HALF_AWAY;
    if ((type != QG_U8 && type != QG_I8) ||
        (!divides && q->form != QG_FORM_RECIPROCAL) ||
        (!away && q->rounding != QG_ROUND_HALF_EVEN))
        return NULL;
    enum qg_quantize_kind kind =
        divides ? QG_QUANTIZE_DIVIDE_EVEN : QG_QUANTIZE_MULTIPLY_EVEN;
    row = row ? row : best();
    return (type == QG_U8 ? row->quantize_u8 : row->quantize_i8)[kind + away];
}

typedef struct quantize_state {
    qg_quantize_fn *loop;
    qg_affine_quantizer q;
} quantize_state;

static qg_status run_quantize(const qg_kernel *k, const qg_call *call)
{
    const quantize_state *s = k->state;
    s->loop(&s->q, call->in[0]->f32, call->out[0]->data,
            (size_t)qg_tensor_count(call->in[0]));
    return QG_OK;
}

qg_status qg_accel_quantize(qg_compile *c, const qg_affine_quantizer *q,
                            qg_kernel **out)
{
    qg_quantize_fn *loop = qg_quantize_loop(NULL, q, c->out[0]->dtype);
    *out = NULL;
    if (!loop || c->in[0]->dtype != QG_F32)
        return QG_OK;
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    quantize_state *s = QG_NEW(c->arena, quantize_state);
    if (!k || !s)
        return qg_nomem(c->ctx);
    *s = (quantize_state){ loop, *q };
    *k = (qg_kernel){ .run = run_quantize, .state = s, .name = "quantize" };
    k->in_layout[0] = k->out_layout = c->in_layout[0];
    *out = k;
    return QG_OK;
}
