/* pass.c -- passes of the host: rows next to those of the build, whose run hands the
 * host a view of the model that the pipeline works on. */
#include "engine/embed/extend.h"

#include <assert.h>
#include <string.h>

#include "engine/core/suggest.h"
#include "engine/ir/edit.h"
#include "engine/snapshot/model.h"
#include "passes/passes.h"

QG_OPTIONS_INIT(qg_host_pass)

/* --- at work --- */

/* A pass that counts nothing may have changed something all the same. */
static qg_status run(qg_pass_env *env)
{
    const qg_host_pass *p = env->at_work->host;
    const qg_graph *g = env->graph;
    size_t nodes = g->node.n, values = g->value.n;
    if (p->edits && env->quant)
        return qg_fail(env->ctx, QG_ESTATE,
                       "pass %s: adds or removes nodes when there are TQCs, expected a "
                       "place before pass rules",
                       p->name);
    qg_model view = {
        .ctx = env->ctx, .graph = env->graph, .quant = env->quant, .pass = env
    };
    qg_host_begin(env->ctx);
    qg_status s = p->run(p->ud, env, &view);
    if (s != QG_OK)
        return qg_host_end(env->ctx, s, "pass", p->name);
    if (!p->edits && (g->node.n != nodes || g->value.n != values))
        return qg_fail(
            env->ctx, QG_ESTATE,
            "pass %s: added nodes or values, expected a pass with `edits` to "
            "do so",
            p->name);
    if (p->edits)
        env->valid &= ~env->at_work->breaks;
    return QG_OK;
}

void qg_pass_count(qg_pass_env *env, size_t changes)
{
    env->changed += (uint32_t)(changes < UINT32_MAX ? changes : UINT32_MAX);
}

/* The driver keeps pattern names as they are, a host's text is its own. */
static qg_status keep(qg_pass_env *env, const char *pattern, const char **out)
{
    *out = qg_intern(env->ctx, pattern);
    return *out ? QG_OK : qg_nomem(env->ctx);
}

qg_status qg_pass_match(qg_pass_env *env, const char *pattern)
{
    QG_TRY(keep(env, pattern, &pattern));
    return qg_pass_matched(env, pattern);
}

qg_status qg_pass_miss(qg_pass_env *env, const char *pattern, const qg_node *n,
                       const char *condition)
{
    QG_TRY(keep(env, pattern, &pattern));
    return qg_pass_near_miss(env, pattern, n, "%s", condition);
}

/* --- edits --- */

/* Only in the hands of a pass with `edits`. */
static qg_status may_edit(const qg_model *m, const char *what)
{
    const qg_host_pass *p = m->pass ? m->pass->at_work->host : NULL;
    if (p && p->edits)
        return QG_OK;
    return qg_fail(m->ctx, QG_ESTATE, "edit: %s: expected a running pass with `edits`",
                   what);
}

static qg_status is_inside(const qg_model *m, const qg_value *v)
{
    return qg_value_is_in(m->graph, v)
               ? QG_OK
               : qg_fail(m->ctx, QG_EMODEL,
                         "edit: value '%s': expected one of the outermost graph",
                         v->name);
}

/* The producer of `to` continues to read `from`: otherwise there would be a cycle. */
qg_status qg_model_replace_value(qg_model *m, qg_value *from, qg_value *to)
{
    const qg_node *maker = to->def;
    QG_TRY(may_edit(m, from->name));
    QG_TRY(is_inside(m, from));
    QG_TRY(is_inside(m, to));
    if (from == to)
        return QG_OK;
    QG_TRY(qg_edit_replace_value(m->graph, from, to));
    for (uint32_t slot = 0; maker && slot < maker->n_in; slot++)
        if (maker->in[slot] == to)
            QG_TRY(qg_edit_set_input(m->graph, to->def, slot, from));
    return QG_OK;
}

qg_status qg_model_set_input(qg_model *m, qg_node *n, size_t slot, qg_value *v)
{
    QG_TRY(may_edit(m, n->name));
    if (n->dead || slot >= n->n_in || (!v && slot < n->op->min_in))
        return qg_node_fail(
            m->ctx, QG_EMODEL, "edit", n,
            "input %zu cannot be %s, expected a slot of an existing node", slot,
            v ? "set" : "absent");
    if (v)
        QG_TRY(is_inside(m, v));
    return qg_edit_set_input(m->graph, n, (uint32_t)slot, v);
}

qg_status qg_model_remove_node(qg_model *m, qg_node *n)
{
    QG_TRY(may_edit(m, n->name));
    for (uint32_t k = 0; k < n->n_out && !n->dead; k++)
        if (n->out[k] && qg_value_watchers(n->out[k]) > 0)
            return qg_node_fail(m->ctx, QG_EMODEL, "edit", n,
                                "its output '%s' is still read, expected no readers",
                                n->out[k]->name);
    if (!n->dead)
        qg_edit_remove_node(m->graph, n);
    return QG_OK;
}

/* --- adding --- */

static qg_status check_beside(qg_ctx *ctx, const qg_host_pass *p,
                              const qg_pass *const *all)
{
    const char *beside = p->before ? p->before : p->after;
    char hint[QG_SUGGEST_TEXT];
    if (!beside || qg_pass_find(all, beside))
        return QG_OK;
    qg_suggest near = qg_suggest_for(beside);
    for (; *all; all++)
        qg_suggest_try(&near, (*all)->name);
    return qg_fail(
        ctx, QG_ECONFIG,
        "add pass %s: %s '%.80s': no such pass%s, expected one of `qg list passes`",
        p->name, p->before ? "before" : "after", beside, qg_suggest_text(&near, hint));
}

static qg_status check(qg_ctx *ctx, qg_host_pass *p)
{
    const qg_pass *const *all;
    QG_TRY(qg_extend_name(ctx, "pass", &p->name));
    QG_TRY(qg_extend_text(ctx, &p->summary));
    QG_TRY(qg_extend_text(ctx, &p->before));
    QG_TRY(qg_extend_text(ctx, &p->after));
    if (!p->run)
        return qg_fail(ctx, QG_ECONFIG, "add pass %s: run is NULL, expected a function",
                       p->name);
    if (p->before && p->after)
        return qg_fail(
            ctx, QG_ECONFIG,
            "add pass %s: before and after are both set, expected only one of them",
            p->name);
    QG_TRY(qg_passes_of(ctx, ctx->arena, &all));
    QG_TRY(check_beside(ctx, p, all));
    return qg_pass_find(all, p->name) || strcmp(p->name, "all") == 0
               ? qg_extend_taken(ctx, "pass", p->name)
               : QG_OK;
}

qg_status qg_add_pass(qg_ctx *ctx, const qg_host_pass *p)
{
    qg_host_pass *kept = QG_NEW(ctx->arena, qg_host_pass);
    qg_pass *row = QG_NEW(ctx->arena, qg_pass);
    if (!kept || !row)
        return qg_nomem(ctx);
    QG_TRY(QG_OPTIONS_READ(ctx, qg_host_pass, p, kept));
    QG_TRY(check(ctx, kept));
    *row = (qg_pass){ .name = kept->name,
                      .summary = kept->summary ? kept->summary : "a pass of the host",
                      .needs = QG_A_TOPO | QG_A_SHAPE,
                      .breaks = kept->edits ? QG_A_TOPO | QG_A_SHAPE : 0,
                      .run = run,
                      .before = kept->before,
                      .after = kept->after,
                      .host = kept };
    return qg_ctx_add(ctx, QG_ADDED_PASS, row->name, row);
}
