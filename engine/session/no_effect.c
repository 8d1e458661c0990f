/* no_effect.c -- options of --set whose bits change nothing: those of endpoints that
 * are OVERLAPPED, since their dominator quantizes with bits of its own. */
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
            "'value=%.100s bits=%u' sets that one",
            r->origin.line, t->scheme.bits, n, n == 1 ? "" : "s", qg_tqc_text(t, at),
            qg_tqc_text(root, leads), root->scheme.bits, qg_tqc_value(root)->name,
            t->scheme.bits);
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
    }
}
