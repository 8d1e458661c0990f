#include "engine/quant/journal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "engine/core/num.h"
#include "engine/quant/endpoint.h"

enum { SHOWN = 4 }; /* parameters of one endpoint that are spelt out */

/* A text that is NULL could not be made for lack of memory: callers pass the result
 * of printing straight on. */
qg_status qg_journal_add(qg_quant *q, const qg_tqc *t, const char *field,
                         const char *before, const char *after)
{
    assert(q->author); /* nobody works anonymously */
    if (!before || !after || q->journal.n >= UINT32_MAX)
        return qg_nomem(q->ctx);
    qg_journal_entry e = { .seq = (uint32_t)q->journal.n,
                           .tqc = t->id,
                           .field = field,
                           .old_value = before,
                           .new_value = after,
                           .by = q->author };
    return qg_vec_push(q->ctx, q->arena, &q->journal, e);
}

static qg_status add_int(qg_quant *q, const qg_tqc *t, const char *field,
                         int64_t before, int64_t after)
{
    if (before == after)
        return QG_OK;
    return qg_journal_add(q, t, field, qg_arena_printf(q->arena, "%" PRId64, before),
                          qg_arena_printf(q->arena, "%" PRId64, after));
}

const char *qg_journal_endpoint(qg_quant *q, const qg_tqc *t)
{
    return qg_endpoint_full_text(q->arena, qg_tqc_endpoint(t));
}

/* As text in the arena; NULL when out of memory, which qg_journal_add reports. */
static const char *policy(qg_quant *q, const qg_scheme *s)
{
    char text[QG_POLICY_TEXT];
    return qg_arena_strdup(q->arena, qg_policy_text(s->policy, text));
}

static const char *range(qg_quant *q, const qg_scheme *s)
{
    return qg_arena_printf(q->arena, "[%" PRId64 ", %" PRId64 "]", s->qmin, s->qmax);
}

/* One record per field, in the order of the fields in quant.json. */
qg_status qg_journal_scheme(qg_quant *q, const qg_tqc *t, const qg_scheme *after)
{
    const qg_scheme *before = &t->scheme;
    if (before->policy != after->policy)
        QG_TRY(qg_journal_add(q, t, "policy", policy(q, before), policy(q, after)));
    QG_TRY(add_int(q, t, "bits", before->bits, after->bits));
    QG_TRY(add_int(q, t, "exponent_bits", before->exponent_bits, after->exponent_bits));
    if (before->qmin != after->qmin || before->qmax != after->qmax)
        QG_TRY(qg_journal_add(q, t, "range", range(q, before), range(q, after)));
    if (before->rounding != after->rounding)
        QG_TRY(qg_journal_add(q, t, "rounding", qg_rounding_name(before->rounding),
                              qg_rounding_name(after->rounding)));
    if (before->nan != after->nan)
        QG_TRY(qg_journal_add(q, t, "nan", qg_nan_name(before->nan),
                              qg_nan_name(after->nan)));
    QG_TRY(add_int(q, t, "axis", before->axis, after->axis));
    return add_int(q, t, "block", before->block, after->block);
}

qg_status qg_journal_learned(qg_quant *q, const qg_value *v, const char *field,
                             const qg_tensor *before, const qg_tensor *after)
{
    const size_t n = (size_t)qg_tensor_count(after);
    for (uint32_t i = 0; i < v->use.n; i++) {
        const qg_tqc *t =
            qg_endpoint_tqc(qg_input_at(v->use.at[i].node, v->use.at[i].slot));
        if (t)
            QG_TRY(qg_journal_add(q, t, field,
                                  qg_journal_numbers(q, n, before->f32, NULL),
                                  qg_journal_numbers(q, n, after->f32, NULL)));
    }
    return QG_OK;
}

const char *qg_journal_numbers(qg_quant *q, size_t n, const float *f, const int32_t *i)
{
    char text[(SHOWN + 1) * QG_NUM_TEXT] = "none", one[QG_NUM_TEXT];
    size_t used = 0, shown = n > SHOWN ? SHOWN - 1 : n;
    for (size_t k = 0; k < shown; k++) {
        if (f)
            qg_num_f32(one, f[k]);
        else
            (void)snprintf(one, sizeof one, "%" PRId32, i[k]);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", k ? " " : "",
                                 one);
    }
    assert(used < sizeof text);
    if (shown < n)
        (void)snprintf(text + used, sizeof text - used, " ... (%zu)", n);
    return qg_arena_strdup(q->arena, text);
}
