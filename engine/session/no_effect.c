/* no_effect.c -- options of --set that change nothing: bits of endpoints that are
 * OVERLAPPED, since their dominator quantizes with bits of its own, and all settings of
 * endpoints that stay in float. */
#include "engine/session/session.h"

/* The rule gave t bits other than those of its dominator. */
static bool is_lost(const qg_quant *q, const qg_tqc *t, const qg_rule *r)
{
    if (t->state != QG_TQC_OVERLAPPED || qg_tqc_root(t)->scheme.bits == t->scheme.bits)
        return false;
    for (size_t i = q->journal.n; i-- > 0;) {
        const qg_journal_entry *e = &q->journal.at[i];
        if (e->tqc == t->id && strcmp(e->field, "bits") == 0)
            return strcmp(e->by, r->origin.id) == 0;
    }
    return false;
}

static void warn(const qg_quant *q, const qg_rule *r, const qg_tqc *t, size_t n)
{
    char at[QG_ENDPOINT_TEXT], leads[QG_ENDPOINT_TEXT];
    const qg_tqc *root = qg_tqc_root(t);
    qg_warn(q->ctx,
            "quantize: --set:%u: bits=%u has no effect at %zu endpoint%s that others "
            "dominate, as %s, which is on the grid of %s with %u bits; "
            "'value=%.1000s bits=%u' sets that one",
            r->origin.line, t->scheme.bits, n, n == 1 ? "" : "s", qg_tqc_text(t, at),
            qg_tqc_text(root, leads), root->scheme.bits, qg_tqc_value(root)->name,
            t->scheme.bits);
}

static bool is_idle(const qg_tqc *t)
{
    return t->state == QG_TQC_FP32 || t->state == QG_TQC_SOI ||
           t->state == QG_TQC_INITIAL;
}

/* Of a rule that changes endpoints, all of which stay in float: the first of them.  One
 * that is OVERLAPPED decides nothing here: warn tells of it. */
static const qg_tqc *idle_alone(const qg_quant *q, const qg_rule *r)
{
    const qg_tqc *first = NULL;
    if (r->set.fields & (QG_SET_STATE | QG_SET_PLATFORM))
        return NULL;
    for (size_t i = 0; i < q->journal.n; i++) {
        const qg_journal_entry *e = &q->journal.at[i];
        if (e->tqc == QG_NONE || strcmp(e->by, r->origin.id) != 0)
            continue;
        const qg_tqc *t = q->tqc.at[e->tqc];
        if (!is_idle(t) && t->state != QG_TQC_OVERLAPPED)
            return NULL;
        first = first || !is_idle(t) ? first : t;
    }
    return first;
}

static void warn_idle(const qg_quant *q, const qg_rule *r, const qg_tqc *t)
{
    char at[QG_ENDPOINT_TEXT];
    qg_warn(
        q->ctx,
        "quantize: --set:%u: '%.200s' has no effect: no endpoint that it changes is "
        "quantized, as %s, which is %s; `qg explain` tells why",
        r->origin.line, r->origin.why, qg_tqc_text(t, at), qg_tqc_state_name(t->state));
}

void qg_warn_no_effect(const qg_quant *q)
{
    for (size_t k = 0; k < q->backend->rule.n; k++) {
        const qg_rule *r = &q->backend->rule.at[k];
        const qg_tqc *first = NULL;
        size_t n = 0;
        if (!r->origin.file || strcmp(r->origin.file, "--set") != 0)
            continue;
        for (size_t i = 0; i < q->tqc.n; i++) {
            if (!is_lost(q, q->tqc.at[i], r))
                continue;
            first = first ? first : q->tqc.at[i];
            n++;
        }
        if (first)
            warn(q, r, first, n);
        if ((first = idle_alone(q, r)) != NULL)
            warn_idle(q, r, first);
    }
}
