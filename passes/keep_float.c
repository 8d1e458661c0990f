/* keep-float -- carries out what the run keeps in float (`state: fp32` of a policy or
 * of --set).
 *
 * A choice names endpoints; it is about the rounding of their values.  Single float
 * endpoints would break the fusions around them, and their neighbours would round the
 * same values on the same grid.  Hence the choice acts on groups, after fusions,
 * passive nodes and simplification have made them:
 *
 *   - all endpoints of a group with a chosen member stay float;
 *   - so do the groups that a node with a shared scale (`sharing`, align output or
 *     input: it moves values) makes of them: behind it, and before it, but not those of
 *     its other operands.  Operands of a sum share a scale, not a value.
 *
 * A rule of a backend sets single endpoints: it describes a kernel. */
#include "passes/passes.h"

/* By group: the rule that keeps it in float, at the id of its root; NULL: none. */
typedef struct floating {
    qg_pass_env *env;
    const char **chosen, **behind, **before; /* [TQCs] */
} floating;

/* The entry of t's group; NULL there: no rule has reached it. */
static const char **of(const char **by, const qg_tqc *t)
{
    return &by[qg_tqc_root(t)->id];
}

/* Whether the backend requires one scale on both sides because the node copies
 * elements.  So do the alignments OUTPUT and INPUT; LARGE is for operands of a
 * computation. */
static bool moves_values(const qg_backend *b, const qg_node *n)
{
    const qg_sharing *s = qg_backend_sharing(b, n);
    return s && (s->align == QG_ALIGN_OUTPUT || s->align == QG_ALIGN_INPUT);
}

/* From one side of a node to the other; true: it reached another group.  Every input
 * meets every output.  The first rule that reaches a group is the one that is named.  A
 * constant input, a number to pad with, is not what the node moves. */
static bool pass_on(const qg_node *n, const char **by, bool forward)
{
    bool more = false;
    for (uint32_t i = 0; n->tin && i < n->n_in; i++)
        for (uint32_t k = 0; n->tout && k < n->n_out; k++) {
            const qg_tqc *in = n->tin[i], *out = n->tout[k];
            if (!in || !out || qg_tqc_is_constant(in))
                continue;
            const char **from = of(by, forward ? in : out);
            const char **to = of(by, forward ? out : in);
            more |= *from && !*to;
            *to = *to ? *to : *from;
        }
    return more;
}

/* Groups span nodes in any order: until nothing changes.  `by` begins as the choices.
 * A group gets a rule once and never loses it, so that the loop ends after at most one
 * round per group. */
static void spread(const floating *f, const char **by, bool forward)
{
    const qg_graph *g = f->env->graph;
    memcpy(by, f->chosen, f->env->quant->tqc.n * sizeof *by);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < g->node.n; i++)
            if (moves_values(f->env->backend, g->node.at[i]))
                more |= pass_on(g->node.at[i], by, forward);
    }
}

/* The whole group.  `by` is the rule, as author of the journal's entries and as a
 * pattern that matched. */
static qg_status release(floating *f, qg_tqc *root, const char *by)
{
    QG_TRY(qg_pass_author(f->env, by));
    QG_TRY(qg_pass_matched(f->env, by));
    return qg_tqc_release(f->env->quant, root, &f->env->changed);
}

/* Rules are announced as patterns first, so that one without effect is reported.
 * Forward and backward start from the choices alone: a group reached backward must not
 * spread forward to its other readers.  Groups for shapes and indices are exact
 * already, unless the run chose them. */
static qg_status run(qg_pass_env *env)
{
    qg_quant *q = env->quant;
    size_t n = q->tqc.n;
    floating f = { env, QG_NEWN(q->arena, n, const char *),
                   QG_NEWN(q->arena, n, const char *),
                   QG_NEWN(q->arena, n, const char *) };
    if (!f.chosen || !f.behind || !f.before)
        return qg_nomem(env->ctx);
    for (size_t i = 0; i < env->backend->rule.n; i++)
        if (qg_rule_keeps_float(&env->backend->rule.at[i]))
            QG_TRY(qg_pass_pattern(env, env->backend->rule.at[i].origin.id,
                                   "a later rule sets another state"));
    for (size_t i = 0; i < n; i++) {
        const char **by = of(f.chosen, q->tqc.at[i]);
        *by = *by ? *by : q->tqc.at[i]->float_by;
    }
    spread(&f, f.behind, true);
    spread(&f, f.before, false);
    for (size_t i = 0; i < n; i++) {
        qg_tqc *t = q->tqc.at[i];
        const char *by = f.behind[i] ? f.behind[i] : f.before[i];
        if (t->up == t && by && t->state != QG_TQC_FP32 &&
            (t->state != QG_TQC_SOI || t->float_by))
            QG_TRY(release(&f, t, by));
    }
    return QG_OK;
}

const qg_pass qg_pass_keep_float = {
    .name = "keep-float",
    .summary = "keep in float, as groups, the values that the run does not quantize",
    .needs = QG_A_TOPO | QG_A_TQC,
    .run = run,
};
