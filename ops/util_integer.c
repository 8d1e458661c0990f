/* util_integer.c -- common parts of the kernels of domain quantgraph (IntConv, IntTable
 * and others): they check a recipe against the tensors of a call, sum products of codes
 * exactly, and requantize the sums.
 *
 * Sums are held in double.  All are integers below 2^52 (qg_integer_check_exact), hence
 * exact in any order; the accumulator of the runtime, 32 bits with wraparound or 64
 * bits, is applied to the exact sum afterwards.  Signed overflow of the runtime is
 * therefore reproduced for every order in which it may add. */
#include "ops/util_integer.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "ops/util_axis.h"

static const char *const form_names[QG_NFORM] = {
#define X(id, text, ...) text,
    QG_FORM_MAP(X)
#undef X
};

qg_status qg_integer_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    return qg_recipe_read(ctx, n, param);
}

qg_status qg_integer_check_in(const qg_call *k, const qg_recipe *r, size_t slot,
                              int64_t channels)
{
    const qg_tensor *t = qg_in(k, slot);
    const qg_stored *s = &r->in[slot];
    if (!t)
        return QG_OK;
    if (!s->codes)
        return qg_infer_fail(k, QG_EMODEL, "in%zu_type is missing, expected a grid",
                             slot);
    if (t->dtype != s->dtype)
        return qg_infer_fail(k, QG_EMODEL,
                             "input %zu has type %s, expected %s as in%zu"
                             "_type",
                             slot, qg_dtype_name(t->dtype), qg_dtype_name(s->dtype),
                             slot);
    if (s->n == 1 || channels < 0 || s->n == channels)
        return QG_OK;
    return qg_infer_fail(k, QG_EMODEL, "in%zu_scale has %u values, expected %lld", slot,
                         (unsigned)s->n, (long long)channels);
}

qg_status qg_integer_check_codes(const qg_call *k, const qg_recipe *r)
{
    return r->out.codes ? QG_OK
                        : qg_infer_fail(k, QG_EMODEL,
                                        "out0_type is float32, expected a type of "
                                        "codes");
}

/* "divide or reciprocal" */
static const char *form_list(uint64_t mask, char *text, size_t room)
{
    size_t at = 0;
    text[0] = '\0';
    for (int f = 0; f < QG_NFORM; f++)
        if (mask >> f & 1 && at < room)
            at += (size_t)snprintf(text + at, room - at, "%s%s", at ? " or " : "",
                                   form_names[f]);
    return text;
}

qg_status qg_integer_check_form(const qg_call *k, const qg_recipe *r, uint64_t mask)
{
    char text[160];
    if (mask >> r->row.form & 1)
        return QG_OK;
    return qg_infer_fail(k, QG_EUNSUPPORTED, "form %s, expected %s",
                         form_names[r->row.form], form_list(mask, text, sizeof text));
}

qg_grid qg_integer_grid(const qg_stored *s)
{
    return (qg_grid){ s->dtype, s->scale[0], s->zero[0] };
}

qg_code_range qg_integer_range(const qg_recipe *r)
{
    return (qg_code_range){ r->out.zero[0], r->out.low, r->out.high };
}

void qg_integer_limit(const qg_recipe *r, int32_t *y, size_t n)
{
    const int32_t low = r->out.low, high = r->out.high;
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] < low ? low : y[i] > high ? high : y[i];
}

bool qg_integer_by_vectors(const qg_recipe *r)
{
    return r->row.form == QG_FORM_VECTOR8 && r->in[1].n % QG_VECTOR8 != 0;
}

/* The rule of channel c. */
static qg_requant_rule rule_of(const qg_recipe *r, uint32_t c)
{
    qg_requant_rule rule = r->row.requant;
    if (r->row.form == QG_FORM_VECTOR8 && c / QG_VECTOR8 < r->in[1].n / QG_VECTOR8)
        rule.scheme = QG_SCHEME_FIX_DOUBLE_UP;
    return rule;
}

qg_status qg_integer_requant(const qg_call *k, const qg_recipe *r, const qg_stored *w,
                             uint32_t c, qg_requant *out)
{
    qg_requant_rule rule = rule_of(r, c);
    bool codes = r->out.codes;
    if (!rule.accumulator)
        return qg_infer_fail(k, QG_EMODEL, "scheme is missing, expected it");
    qg_scales s = { r->in[0].scale[0], w ? w->scale[w->n == 1 ? 0 : c] : 1,
                    codes ? r->out.scale[0] : 1 };
    qg_code_range range = codes ? qg_integer_range(r) : qg_code_range_of(QG_I8, 0);
    return qg_requant_prepare(k->ctx, k->node->name, &rule, s, range, out);
}

qg_status qg_integer_requants(const qg_call *k, const qg_recipe *r, const qg_stored *w,
                              const qg_requant **out)
{
    qg_requant *all = QG_NEWN(k->scratch, w->n, qg_requant);
    if (!all)
        return qg_nomem(k->ctx);
    for (uint32_t c = 0; c < w->n; c++)
        QG_TRY(qg_integer_requant(k, r, w, c, &all[c]));
    *out = all;
    return QG_OK;
}

enum { SPAN = 256 };

void qg_integer_map(const qg_call *k, qg_integer_map_fn *f, const void *state)
{
    const qg_tensor *x = k->in[0];
    qg_tensor *y = k->out[0];
    int32_t codes[SPAN];
    size_t n = qg_elements(x);
    for (size_t at = 0; at < n; at += SPAN) {
        size_t count = n - at < SPAN ? n - at : SPAN;
        qg_codes_load(x->dtype, x->data, at, codes, count);
        f(state, codes, codes, count);
        qg_codes_store(y->dtype, codes, y->data, at, count);
    }
}

qg_status qg_integer_sums(const qg_call *k, const qg_tensor *t, double **out)
{
    *out = QG_NEWN(k->scratch, qg_elements(t), double);
    return *out ? QG_OK : qg_nomem(k->ctx);
}

qg_status qg_integer_centred(const qg_call *k, const qg_tensor *t, const qg_stored *s,
                             double **out)
{
    int32_t codes[SPAN];
    size_t n = qg_elements(t);
    qg_around a = s->n > 1 ? qg_around_axis(t, s->axis) : (qg_around){ 1, 1, 1 };
    QG_TRY(qg_integer_sums(k, t, out));
    for (size_t at = 0; at < n; at += SPAN) {
        size_t count = n - at < SPAN ? n - at : SPAN;
        qg_codes_load(t->dtype, t->data, at, codes, count);
        for (size_t i = 0; i < count; i++) {
            size_t c = s->n > 1 ? (at + i) / (size_t)a.inner % s->n : 0;
            (*out)[at + i] = codes[i] - s->zero[c];
        }
    }
    return QG_OK;
}

/* The largest |q - zero| that the type allows, over all channels. */
static double reach(const qg_stored *s)
{
    qg_code_range range = qg_code_range_of(s->dtype, 0);
    return 2.0 * (range.hi - range.lo);
}

qg_status qg_integer_check_exact(const qg_call *k, const qg_stored *a,
                                 const qg_stored *b, int64_t terms)
{
    if (reach(a) * reach(b) * (double)terms < 0x1p52)
        return QG_OK;
    return qg_infer_fail(k, QG_EUNSUPPORTED,
                         "sums of %lld products of %s and %s, expected fewer: they "
                         "would not be exact",
                         (long long)terms, qg_dtype_name(a->dtype),
                         qg_dtype_name(b->dtype));
}

/* An exact sum as the accumulator holds it. */
static int64_t accumulated(const qg_requant *r, double acc)
{
    int64_t sum = (int64_t)acc;
    return r->accumulator == 64 ? sum : (int32_t)(uint32_t)sum;
}

static float float_tail(const qg_integer_tail *t, const qg_requant *r, double acc,
                        int64_t c)
{
    float sum = (float)accumulated(r, acc), bias = t->bias ? t->bias[c] : 0;
    return t->fma ? fmaf(sum, r->f, bias) : sum * r->f + bias;
}

void qg_integer_finish(const qg_call *k, const qg_integer_tail *t, int64_t channels,
                       int64_t inner, const double *acc)
{
    qg_tensor *y = k->out[0];
    size_t n = qg_elements(y);
    int32_t codes[SPAN];
    for (size_t at = 0; at < n; at += SPAN) {
        size_t count = n - at < SPAN ? n - at : SPAN;
        for (size_t i = 0; i < count; i++) {
            int64_t c = (int64_t)(at + i) / inner % channels;
            const qg_requant *r = &t->r[t->per_channel ? c : 0];
            if (y->dtype == QG_F32)
                y->f32[at + i] = float_tail(t, r, acc[at + i], c);
            else
                codes[i] = qg_requant_one(r, accumulated(r, acc[at + i]));
        }
        if (y->dtype != QG_F32)
            qg_codes_store(y->dtype, codes, y->data, at, count);
    }
}
