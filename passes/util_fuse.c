#include "passes/util_fuse.h"

#include <assert.h>

#include "engine/quant/quirk.h"

/* NULL where the node has no endpoint: it is not quantized, or the slot is absent. */
static qg_tqc *tqc_at(const qg_match *m, const qg_pattern_end *e)
{
    const qg_node *n = m->node[e->node];
    assert(n); /* a match has every node of its pattern */
    qg_tqc **row = e->is_output ? n->tout : n->tin;
    uint32_t count = e->is_output ? n->n_out : n->n_in;
    return row && e->slot < count ? row[e->slot] : NULL;
}

/* "c.out0 is fp32, expected ..."; NULL when the pair can be joined. */
static const char *objection(const qg_fusion *f, const qg_match *m, const qg_silence *s,
                             qg_arena *a)
{
    const qg_tqc *silent = tqc_at(m, &s->silent), *leader = tqc_at(m, &s->leader);
    const qg_tqc *missing = !silent ? silent : leader;
    const qg_pattern_end *end = !silent ? &s->silent : &s->leader;
    if (!silent || !missing)
        return qg_arena_printf(a,
                               "%s.%s%u has no record, expected a quantized endpoint",
                               f->pattern.node[end->node].name,
                               end->is_output ? "out" : "in", (unsigned)end->slot);
    const qg_tqc *root = qg_tqc_root(silent), *lead = qg_tqc_root(leader);
    const qg_tqc *wrong = NULL;
    if (root != lead && root->state != QG_TQC_OVERLAPPED &&
        !qg_tqc_may_move(root->state, root->saved, QG_TQC_OVERLAPPED))
        wrong = root;
    if (lead->state == QG_TQC_FP32 || lead->state == QG_TQC_SOI ||
        lead->derive != QG_DERIVE_NONE)
        wrong = lead;
    if (!wrong)
        return NULL;
    char at[QG_ENDPOINT_TEXT];
    return qg_arena_printf(a, "%s is %s, expected an endpoint that rounds",
                           qg_tqc_text(wrong, at), qg_tqc_state_word(wrong->state));
}

/* All pairs of a match or none.  Counts as matched only when something was silenced. */
static qg_status silence(qg_pass_env *env, const qg_fusion *f, const qg_match *m)
{
    const qg_node *last = m->node[f->pattern.n_node - 1];
    for (size_t i = 0; i < f->n_silence; i++) {
        const char *why = objection(f, m, &f->silence[i], env->graph->arena);
        if (why)
            return qg_pass_near_miss(env, f->origin.id, last, "%s", why);
    }
    uint32_t before = env->changed;
    for (size_t i = 0; i < f->n_silence; i++) {
        qg_tqc *silent = tqc_at(m, &f->silence[i].silent);
        qg_tqc *leader = tqc_at(m, &f->silence[i].leader);
        if (qg_tqc_root(silent) == qg_tqc_root(leader))
            continue;
        QG_TRY(qg_tqc_join(env->quant, silent, leader));
        env->changed++;
    }
    /* where an earlier fusion did the same there is nothing to report */
    return env->changed > before ? qg_pass_matched(env, f->origin.id) : QG_OK;
}

/* D22: PPQ does not look whether a value is an output of the network. */
static qg_status without_outputs(qg_pass_env *env, qg_pattern *p)
{
    qg_pattern_where *where = QG_NEWN(env->graph->arena, p->n_where, qg_pattern_where);
    size_t n = 0;
    if (!where)
        return qg_nomem(env->ctx);
    for (size_t i = 0; i < p->n_where; i++)
        if (p->where[i].test != QG_WHERE_GRAPH_OUTPUT)
            where[n++] = p->where[i];
    p->where = where;
    p->n_where = n;
    return QG_OK;
}

/* A match outside the quantized part of the graph is none, and a near miss there is not
 * worth a word. */
static bool concerns_us(const qg_node *const *node, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= node[i] && node[i]->platform == QG_PLATFORM_QUANTIZED;
    return any;
}

/* Matches are looked for once, then applied in order: a later one sees the groups
 * that earlier ones made. */
static qg_status fuse_one(qg_pass_env *env, const qg_fusion *f)
{
    qg_pattern p = f->pattern;
    qg_matches found = { 0 };
    if (env->quant->quirks & QG_QUIRK(PPQ_SILENT_OUTPUTS))
        QG_TRY(without_outputs(env, &p));
    QG_TRY(qg_match_pattern(env->graph, &p, QG_MATCH_ALL, env->graph->arena, &found));
    QG_TRY(qg_pass_author(env, f->origin.id));
    for (size_t i = 0; i < found.match.n; i++)
        if (concerns_us((const qg_node *const *)found.match.at[i].node, p.n_node))
            QG_TRY(silence(env, f, &found.match.at[i]));
    for (size_t i = 0; i < found.miss.n; i++) {
        const qg_match_miss *miss = &found.miss.at[i];
        assert(miss->at && miss->condition);
        if (concerns_us((const qg_node *const *)miss->node, p.n_node))
            QG_TRY(
                qg_pass_near_miss(env, f->origin.id, miss->at, "%s", miss->condition));
    }
    return QG_OK;
}

qg_status qg_fuse(qg_pass_env *env, bool after_passive)
{
    assert(env->backend && env->quant);
    for (size_t i = 0; i < env->backend->fusion.n; i++)
        if (env->backend->fusion.at[i].after_passive == after_passive)
            QG_TRY(fuse_one(env, &env->backend->fusion.at[i]));
    return QG_OK;
}
