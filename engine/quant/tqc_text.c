#include "engine/quant/tqc_text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "engine/core/num.h"
#include "engine/quant/quantizer.h"

/* Text that grows in an arena. */
typedef struct sink {
    qg_ctx *ctx;
    qg_arena *arena;
    QG_VEC(char) out;
} sink;

static qg_status put(sink *s, const char *text)
{
    for (; *text; text++)
        QG_TRY(qg_vec_push(s->ctx, s->arena, &s->out, *text));
    return QG_OK;
}

#define putf(s, ...) put_made((s), qg_arena_printf((s)->arena, __VA_ARGS__))

/* NULL is a text that could not be made. */
static qg_status put_made(sink *s, const char *text)
{
    return text ? put(s, text) : qg_nomem(s->ctx);
}

const char *qg_tqc_rule_id(const qg_quant *q, const qg_tqc *t)
{
    if (t->rule == QG_NONE || !q->backend)
        return "defaults";
    assert(t->rule < q->backend->rule.n);
    return q->backend->rule.at[t->rule].origin.id;
}

/* " [n] s0 s1 ..." and " offset o0 o1 ..." when some offset is not 0. */
static qg_status put_scales(sink *s, const qg_tqc *t)
{
    char number[QG_NUM_TEXT];
    bool offsets = false;
    if (t->nparam > 1)
        QG_TRY(putf(s, " [%" PRIu32 "]", t->nparam));
    for (uint32_t i = 0; i < t->nparam; i++) {
        qg_num_f32(number, t->scale[i]);
        QG_TRY(putf(s, " %s", number));
        offsets |= t->offset[i] != 0;
    }
    if (offsets)
        QG_TRY(put(s, " offset"));
    for (uint32_t i = 0; offsets && i < t->nparam; i++)
        QG_TRY(putf(s, " %" PRId32, t->offset[i]));
    return QG_OK;
}

static qg_status put_scheme(sink *s, const qg_quant *q, const qg_tqc *t)
{
    const qg_scheme *k = &t->scheme;
    char policy[QG_POLICY_TEXT];
    QG_TRY(putf(s, " | %d [%" PRId64 ", %" PRId64 "] %s %s", k->bits, k->qmin, k->qmax,
                qg_rounding_name(k->rounding), qg_policy_text(k->policy, policy)));
    if (k->axis >= 0)
        QG_TRY(putf(s, " axis %d", k->axis));
    if (k->block)
        QG_TRY(putf(s, " block %d", (int)k->block));
    if (k->exponent_bits)
        QG_TRY(putf(s, " exponent %d", k->exponent_bits));
    if (t->quantizer)
        QG_TRY(putf(s, " quantizer %s", qg_tqc_quantizer(t)));
    return putf(s, " | %s | %s", t->observer.name ? t->observer.name : "none",
                qg_tqc_rule_id(q, t));
}

/* A member names its root instead of the scales, which are the root's. */
static qg_status put_line(sink *s, const qg_quant *q, const qg_tqc *t,
                          enum qg_tqc_detail detail)
{
    char at[QG_ENDPOINT_TEXT];
    const qg_tqc *root = qg_tqc_root(t);
    QG_TRY(putf(s, "%s %s", qg_tqc_text(t, at), qg_tqc_state_word(t->state)));
    if (root != t)
        QG_TRY(putf(s, " -> %s", qg_tqc_text(root, at)));
    else if (detail != QG_TQC_STATES)
        QG_TRY(put_scales(s, t));
    if (detail == QG_TQC_FULL)
        QG_TRY(put_scheme(s, q, t));
    return put(s, "\n");
}

qg_status qg_quant_text(const qg_quant *q, enum qg_tqc_detail detail, qg_arena *a,
                        char **text)
{
    sink s = { .ctx = q->ctx, .arena = a };
    for (size_t i = 0; i < q->tqc.n; i++)
        QG_TRY(put_line(&s, q, q->tqc.at[i], detail));
    QG_TRY(qg_vec_push(s.ctx, a, &s.out, '\0'));
    *text = s.out.at;
    return QG_OK;
}
