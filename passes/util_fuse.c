#include "passes/util_fuse.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* NULL where the node has no endpoint: it is not quantized, or the slot is absent. */
static qg_tqc *tqc_at(const qg_match *m, const qg_pattern_end *e)
{
    if (e->node == QG_NONE)
        return NULL;
    const qg_node *n = m->node[e->node];
    assert(n); /* a match has every node of its pattern */
    return qg_endpoint_tqc((qg_endpoint){ n, e->slot, e->is_output });
}

static bool in_float(const qg_fusion *f, uint32_t node)
{
    for (size_t i = 0; i < f->n_in_float; i++)
        if (f->in_float[i] == node)
            return true;
    return false;
}

/* Of a float node in the kernel: it has no record there, or reads a constant. */
static bool rounds_nowhere(const qg_fusion *f, const qg_match *m,
                           const qg_pattern_end *e)
{
    const qg_tqc *t = tqc_at(m, e);
    return e->node == QG_NONE ||
           (in_float(f, e->node) && (!t || qg_tqc_is_constant(t)));
}

/* A kernel whose last node is float too: the endpoint has no leader and becomes float,
 * unless an earlier fusion has taken it. */
static bool becomes_float(const qg_tqc *t)
{
    return t->up == t &&
           (t->state == QG_TQC_INITIAL || t->state == QG_TQC_PASSIVE_INIT);
}

/* "c.out0 is fp32, expected ..." in text; false: the pair can be joined. */
enum { OBJECTION_TEXT = 320 };
static bool objection(const qg_fusion *f, const qg_match *m, const qg_silence *s,
                      char text[OBJECTION_TEXT])
{
    const qg_tqc *silent = tqc_at(m, &s->silent), *leader = tqc_at(m, &s->leader);
    if (rounds_nowhere(f, m, &s->silent) &&
        (leader || rounds_nowhere(f, m, &s->leader)))
        return false;
    if (silent && in_float(f, s->silent.node) && rounds_nowhere(f, m, &s->leader))
        return false;
    const qg_tqc *missing = !silent ? silent : leader;
    const qg_pattern_end *end = !silent ? &s->silent : &s->leader;
    char slot[QG_SLOT_TEXT];
    if (!silent || !missing) {
        (void)snprintf(text, OBJECTION_TEXT,
                       "%s.%s has no record, expected a quantized endpoint",
                       f->pattern.node[end->node].name,
                       qg_slot_text(end->is_output, end->slot, slot));
        return true;
    }
    const qg_tqc *root = qg_tqc_root(silent), *lead = qg_tqc_root(leader);
    const qg_tqc *wrong = NULL;
    if (root != lead && root->state != QG_TQC_OVERLAPPED &&
        !qg_tqc_may_move(root->state, root->saved, QG_TQC_OVERLAPPED))
        wrong = root;
    if (lead->state == QG_TQC_FP32 || lead->state == QG_TQC_SOI ||
        lead->derive != QG_DERIVE_NONE)
        wrong = lead;
    if (!wrong)
        return false;
    char at[QG_ENDPOINT_TEXT];
    (void)snprintf(text, OBJECTION_TEXT, "%s is %s, expected a quantized endpoint",
                   qg_tqc_text(wrong, at), qg_tqc_state_word(wrong->state));
    return true;
}

/* Constants of nodes that compute in float are not quantized either. */
static qg_status release_constants(qg_pass_env *env, const qg_fusion *f,
                                   const qg_match *m)
{
    for (size_t i = 0; i < f->n_in_float; i++) {
        const qg_node *n = m->node[f->in_float[i]];
        for (uint32_t k = 0; k < n->n_in; k++) {
            qg_tqc *t = qg_input_tqc(n, k);
            if (t && qg_tqc_is_constant(t) && t->up == t &&
                (t->state == QG_TQC_INITIAL || t->state == QG_TQC_PASSIVE_INIT))
                QG_TRY(qg_tqc_set_state(env->quant, t, QG_TQC_FP32));
        }
    }
    return QG_OK;
}

/* The pattern node that computes v; QG_NONE: none, or one outside of `float`. */
static uint32_t maker_of(const qg_fusion *f, const qg_match *m, const qg_value *v)
{
    for (size_t i = 0; v && i < f->n_in_float; i++)
        if (m->node[f->in_float[i]] == v->def)
            return f->in_float[i];
    return QG_NONE;
}

/* The pairs of a match: those of the fusion, or both ends of every value between float
 * nodes, at the slots it has in this match.  Outputs of the network are rounded. */
static qg_status pairs_of(qg_pass_env *env, const qg_fusion *f, const qg_match *m,
                          qg_silence **out, size_t *n)
{
    enum { ENDS = 2 * QG_PATTERN_NODES * QG_PATTERN_EDGES };
    *n = f->n_silence;
    *out = QG_NEWN(env->graph->arena, *n ? *n : ENDS, qg_silence);
    if (!*out)
        return qg_nomem(env->ctx);
    if (*n)
        memcpy(*out, f->silence, *n * sizeof **out);
    for (size_t i = 0; !f->n_silence && i < f->n_in_float; i++) {
        uint32_t reader = f->in_float[i];
        const qg_node *node = m->node[reader];
        for (uint32_t k = 0; k < node->n_in && *n + 2 <= ENDS; k++) {
            uint32_t maker = maker_of(f, m, node->in[k]);
            if (maker == QG_NONE || node->in[k]->is_output)
                continue;
            (*out)[(*n)++] = (qg_silence){
                {maker, true, node->in[k]->def_slot},
                f->leader
            };
            (*out)[(*n)++] = (qg_silence){
                {reader, false, k},
                f->leader
            };
        }
    }
    return QG_OK;
}

static qg_status join(qg_pass_env *env, const qg_fusion *f, const qg_match *m,
                      const qg_silence *s)
{
    qg_tqc *silent = tqc_at(m, &s->silent), *leader = tqc_at(m, &s->leader);
    if (rounds_nowhere(f, m, &s->silent))
        return QG_OK;
    if (!leader && !becomes_float(silent))
        return QG_OK;
    if (leader && qg_tqc_root(silent) == qg_tqc_root(leader))
        return QG_OK;
    env->changed++;
    return leader ? qg_tqc_join(env->quant, silent, leader)
                  : qg_tqc_set_state(env->quant, silent, QG_TQC_FP32);
}

/* Joins all pairs of a match or none.  Counts as matched only when an endpoint became
 * overlapped or float. */
static qg_status silence(qg_pass_env *env, const qg_fusion *f, const qg_match *m)
{
    const qg_node *last = m->node[f->pattern.n_node - 1];
    qg_silence *pair;
    size_t n;
    QG_TRY(pairs_of(env, f, m, &pair, &n));
    for (size_t i = 0; i < n; i++) {
        char why[OBJECTION_TEXT];
        if (objection(f, m, &pair[i], why))
            return qg_pass_near_miss(env, f->origin.id, last, "%s", why);
    }
    uint32_t before = env->changed;
    for (size_t i = 0; i < n; i++)
        QG_TRY(join(env, f, m, &pair[i]));
    QG_TRY(release_constants(env, f, m));
    /* nothing to report where an earlier fusion did the same */
    return env->changed > before ? qg_pass_matched(env, f->origin.id) : QG_OK;
}

/* Behaviours that quirks replace. */
typedef struct behaviours {
    qg_status (*find)(qg_pass_env *env, const qg_pattern *p, qg_matches *found);
} behaviours;

static qg_status find(qg_pass_env *env, const qg_pattern *p, qg_matches *found)
{
    return qg_match_pattern(env->graph, p, QG_MATCH_ALL, env->graph->arena, found);
}

/* Whether a node of the match other than the first reads a value computed outside the
 * match: a limit of Clip. */
static bool ppq_reads_others(const qg_pattern *p, const qg_match *m)
{
    for (size_t i = 0; i < p->n_node; i++)
        for (uint32_t k = 0; p->node[i].n_in > 0 && k < m->node[i]->n_in; k++) {
            const qg_value *v = m->node[i]->in[k];
            bool inside = !v || !v->def;
            for (size_t j = 0; !inside && j < p->n_node; j++)
                inside = m->node[j] == v->def;
            if (!inside)
                return true;
        }
    return false;
}

/* Ignores whether a value is an output of the network, but checks the other values that
 * are read. */
static qg_status ppq_find(qg_pass_env *env, const qg_pattern *p, qg_matches *found)
{
    qg_pattern loose = *p;
    qg_pattern_where *where = QG_NEWN(env->graph->arena, p->n_where, qg_pattern_where);
    size_t n = 0;
    if (!where)
        return qg_nomem(env->ctx);
    for (size_t i = 0; i < p->n_where; i++)
        if (p->where[i].test != QG_WHERE_GRAPH_OUTPUT)
            where[n++] = p->where[i];
    loose.where = where;
    loose.n_where = n;
    QG_TRY(find(env, &loose, found));
    size_t kept = 0;
    for (size_t i = 0; i < found->match.n; i++)
        if (!ppq_reads_others(p, &found->match.at[i]))
            found->match.at[kept++] = found->match.at[i];
    found->match.n = kept;
    return QG_OK;
}

static const behaviours ordinary = { .find = find };

const qg_quirk_row qg_fuse_quirks[] = {
    QG_SWAP(PPQ_SILENT_OUTPUTS,
            "D22: fusion also overlaps graph outputs, and skips nodes with a further "
            "computed input",
            QG_PPQ "quantization/optim/refine.py QuantizeFusionPass", behaviours, find,
            ppq_find),
    { 0 },
};

/* A match outside the quantized part of the graph does not count, and near misses there
 * are not recorded. */
static bool concerns_us(const qg_node *const *node, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= node[i] && node[i]->platform == QG_PLATFORM_QUANTIZED;
    return any;
}

/* `taken` (NULL: any number of times) marks nodes that are already fused. */
static bool take(uint8_t *taken, const qg_match *m, size_t n)
{
    for (size_t i = 0; taken && i < n; i++)
        if (taken[m->node[i]->id])
            return false;
    for (size_t i = 0; taken && i < n; i++)
        taken[m->node[i]->id] = 1;
    return true;
}

/* Matches are collected once, then applied in order: later ones see the groups that
 * earlier ones formed. */
static qg_status fuse_one(qg_pass_env *env, const behaviours *how, const qg_fusion *f)
{
    size_t n = f->pattern.n_node;
    qg_matches found = { 0 };
    QG_TRY(how->find(env, &f->pattern, &found));
    QG_TRY(qg_pass_pattern(
        env, f->origin.id,
        found.nearest ? found.nearest : "its nodes are float, or already overlapped"));
    QG_TRY(qg_pass_author(env, f->origin.id));
    uint8_t *taken =
        f->once ? QG_NEWN(env->graph->arena, env->graph->node.n, uint8_t) : NULL;
    if (f->once && !taken)
        return qg_nomem(env->ctx);
    for (size_t i = 0; i < found.match.n; i++) {
        const qg_match *m = &found.match.at[i];
        if (!concerns_us((const qg_node *const *)m->node, n))
            continue;
        if (take(taken, m, n))
            QG_TRY(silence(env, f, m));
        else
            QG_TRY(qg_pass_near_miss(env, f->origin.id, m->node[0],
                                     "one of its nodes belongs to another match"));
    }
    for (size_t i = 0; i < found.miss.n; i++) {
        const qg_match_miss *miss = &found.miss.at[i];
        assert(miss->at && miss->condition);
        if (concerns_us((const qg_node *const *)miss->node, n))
            QG_TRY(
                qg_pass_near_miss(env, f->origin.id, miss->at, "%s", miss->condition));
    }
    return QG_OK;
}

qg_status qg_fuse(qg_pass_env *env, bool after_passive)
{
    assert(env->backend && env->quant);
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    for (size_t i = 0; i < env->backend->fusion.n; i++)
        if (env->backend->fusion.at[i].after_passive == after_passive)
            QG_TRY(fuse_one(env, &how, &env->backend->fusion.at[i]));
    return QG_OK;
}
