/* pass.c -- the driver.  After every pass the graph is in topological order, and it is
 * verified there or (in a release) after the last one: the next pass, a dump or a
 * failure message may rely on it. */
#include "engine/pass/pass.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "engine/core/clock.h"
#include "engine/core/suggest.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/quant/tqc_check.h"

const qg_pass *qg_pass_find(const qg_pass *const *all, const char *name)
{
    while (*all && strcmp((*all)->name, name) != 0)
        all++;
    return *all;
}

/* All names before the first pass runs: a typing error must not cost a calibration. */
static qg_status find_all(qg_pass_env *env, const qg_pass *const *all,
                          const char *const *name, size_t n, const qg_pass **out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = qg_pass_find(all, name[i]);
        if (out[i])
            continue;
        qg_suggest near = qg_suggest_for(name[i]);
        for (const qg_pass *const *p = all; *p; p++)
            qg_suggest_try(&near, (*p)->name);
        char hint[QG_SUGGEST_TEXT];
        return qg_fail(
            env->ctx, QG_ECONFIG,
            "pipeline: unknown pass '%s'%s, expected one of `qg list passes`", name[i],
            qg_suggest_text(&near, hint));
    }
    return QG_OK;
}

/* --- parameters --- */

/* NULL: the pass has no such parameter. */
static const qg_pass_param *param_of(const qg_pass *pass, const char *name)
{
    static const qg_pass_param on = { "run", "whether the pass runs", 1, 0, 1 };
    if (strcmp(name, on.name) == 0)
        return &on;
    for (const qg_pass_param *p = pass->param; p && p->name; p++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

static qg_status unknown_param(qg_ctx *ctx, const qg_pass_setting *s,
                               const qg_pass *pass)
{
    char hint[QG_SUGGEST_TEXT];
    qg_suggest near = qg_suggest_for(s->param);
    for (const qg_pass_param *p = pass->param; p && p->name; p++)
        qg_suggest_try(&near, p->name);
    return qg_fail(ctx, QG_ECONFIG,
                   "%s:%u: passes: %s has no parameter '%s'%s, expected run or one of "
                   "`qg list passes`",
                   s->file, s->line, s->pass, s->param, qg_suggest_text(&near, hint));
}

/* A setting must name a pass of this pipeline, and stay within its limits. */
static qg_status check_setting(qg_ctx *ctx, const qg_pass_setting *s,
                               const qg_pass *const *pass, size_t n)
{
    size_t i = 0;
    qg_suggest near = qg_suggest_for(s->pass);
    char hint[QG_SUGGEST_TEXT];
    for (; i < n && strcmp(pass[i]->name, s->pass) != 0; i++)
        qg_suggest_try(&near, pass[i]->name);
    if (i == n)
        return qg_fail(ctx, QG_ECONFIG,
                       "%s:%u: passes: '%s' is not a pass of the pipeline%s, expected "
                       "a pass of it",
                       s->file, s->line, s->pass, qg_suggest_text(&near, hint));
    const qg_pass_param *p = param_of(pass[i], s->param);
    if (!p)
        return unknown_param(ctx, s, pass[i]);
    if (!(s->value >= p->low && s->value <= p->high))
        return qg_fail(ctx, QG_ECONFIG,
                       "%s:%u: passes: %s: %s is %g, expected %g to %g", s->file,
                       s->line, s->pass, s->param, s->value, p->low, p->high);
    return QG_OK;
}

/* The last word counts. */
static double value_of(const qg_pass_env *env, const qg_pass *pass, const char *param)
{
    const qg_pass_options *o = &env->options;
    for (size_t i = o->n_setting; i-- > 0;)
        if (strcmp(o->setting[i].pass, pass->name) == 0 &&
            strcmp(o->setting[i].param, param) == 0)
            return o->setting[i].value;
    const qg_pass_param *p = param_of(pass, param);
    assert(p);
    return p->value;
}

double qg_pass_value(const qg_pass_env *env, const char *param)
{
    assert(env->at_work);
    return value_of(env, env->at_work, param);
}

/* From `rules` on the TQCs record the quirks they were made with. */
void qg_pass_quirks(const qg_pass_env *env, void *behaviours)
{
    assert(env->at_work && env->at_work->quirk);
    uint64_t mask = env->quant     ? env->quant->quirks
                    : env->backend ? env->backend->quirks
                                   : 0;
    qg_quirk_swap(env->at_work->quirk, mask, behaviours);
}

/* A node that is gone has no place in the graph any more, though its id is not taken
 * back. */
qg_status qg_pass_listed_last(const qg_pass_env *env, qg_arena *a, const uint8_t **last)
{
    const qg_graph *g = env->graph;
    uint8_t *mark = QG_NEWN(a, g->node.n, uint8_t);
    if (!mark)
        return qg_nomem(env->ctx);
    for (size_t i = 0; i < env->listed_last.n; i++) {
        const qg_node *n = env->listed_last.at[i];
        if (n->id < g->node.n && g->node.at[n->id] == n)
            mark[n->id] = 1;
    }
    *last = mark;
    return QG_OK;
}

/* --- analyses: how each is made --- */

static qg_status make_topo(qg_pass_env *env) { return qg_graph_normalize(env->graph); }

static qg_status make_shape(qg_pass_env *env) { return qg_infer(env->graph, NULL, 0); }

/* Only a pass can make TQCs: `rules`. */
static qg_status make_tqc(qg_pass_env *env)
{
    return qg_fail(env->ctx, QG_ECONFIG,
                   "pipeline: pass %s needs TQCs, expected pass rules before it",
                   env->at_work->name);
}

static const struct {
    const char *name;
    qg_status (*make)(qg_pass_env *env);
} analysis[QG_NANALYSIS] = {
    [QG_A_BIT_TOPO] = {"topo",   make_topo },
    [QG_A_BIT_SHAPE] = { "shape", make_shape},
    [QG_A_BIT_TQC] = { "tqc",   make_tqc  },
};

/* In the order of the map, where each analysis needs only those before it. */
static qg_status make_needed(qg_pass_env *env, uint32_t needs)
{
    if (needs & QG_A_SHAPE)
        needs |= QG_A_TOPO; /* inference walks in order */
    for (unsigned i = 0; i < QG_NANALYSIS; i++)
        if ((needs & ~env->valid) >> i & 1u) {
            QG_TRY(analysis[i].make(env));
            env->valid |= 1u << i;
        }
    return QG_OK;
}

/* --- one pass --- */

static bool verifies_each(const qg_pass_env *env)
{
#ifdef NDEBUG
    return env->options.verify == QG_VERIFY_EACH;
#else
    return env->options.verify != QG_VERIFY_LAST;
#endif
}

/* Only QG_ESTATE is a broken promise; other failures keep their own words. */
static qg_status verify(qg_pass_env *env)
{
    qg_status s = QG_OK;
    if (env->valid & QG_A_TOPO)
        s = qg_check_graph(env->ctx, env->graph, QG_CHECK_ALL);
    if (s == QG_OK && env->quant)
        s = qg_check_tqcs(env->ctx, env->quant, QG_CHECK_ALL);
    if (s != QG_ESTATE)
        return s;
    return qg_fail(env->ctx, s,
                   verifies_each(env) ? "pass %s: %s" : "passes up to %s: %s",
                   env->at_work->name, qg_ctx_message(env->ctx));
}

/* `valid` loses the analyses that the pass breaks only when it changed something. */
static qg_status run_one(qg_pass_env *env, const qg_pass *pass)
{
    assert(pass->run);
    double start = qg_clock_seconds();
    env->at_work = pass;
    env->changed = 0;
    QG_TRY(qg_ctx_step(env->ctx, env->progress, pass->name, 0, 0));
    QG_TRY(make_needed(env, pass->needs));
    QG_TRY(qg_pass_author(env, NULL));
    QG_TRY(pass->run(env));
    if (env->changed)
        env->valid &= ~pass->breaks;
    if (env->quant) {
        qg_quant_settle(env->quant);
        env->valid |= QG_A_TQC;
    }
    QG_TRY(make_needed(env, QG_A_TOPO));
    if (verifies_each(env))
        QG_TRY(verify(env));
    QG_TRY(qg_vec_push(env->ctx, env->graph->arena, &env->result,
                       (qg_pass_result){ .name = pass->name,
                                         .seconds = qg_clock_seconds() - start,
                                         .changed = env->changed }));
    return env->dump ? env->dump(env->ud, env, pass->name) : QG_OK;
}

/* A pass that is off was given an option by another file than the one that switches it
 * off: whoever gave it expects that the pass runs. */
static void warn_off(const qg_pass_env *env, const qg_pass *pass)
{
    const qg_pass_options *o = &env->options;
    const qg_pass_setting *off = NULL, *option = NULL;
    for (size_t i = 0; i < o->n_setting; i++) {
        const qg_pass_setting *s = &o->setting[i];
        if (strcmp(s->pass, pass->name) != 0)
            continue;
        if (strcmp(s->param, "run") == 0)
            off = s;
        else
            option = s;
    }
    if (option && off && off->value == 0 && strcmp(option->file, off->file) != 0)
        qg_warn(env->ctx,
                "%s:%u: passes: %s: %s is given, but the pass is off, expected "
                "'run=yes' beside it",
                option->file, option->line, pass->name, option->param);
}

qg_status qg_pass_run_all(qg_pass_env *env, const qg_pass *const *all,
                          const char *const *name, size_t n)
{
    assert(env->ctx && env->graph && env->ctx == env->graph->ctx);
    const qg_pass **pass = QG_NEWN(env->graph->arena, n, const qg_pass *);
    if (!pass)
        return qg_nomem(env->ctx);
    QG_TRY(find_all(env, all, name, n, pass));
    for (size_t i = 0; i < env->options.n_setting; i++)
        QG_TRY(check_setting(env->ctx, &env->options.setting[i], pass, n));
    for (size_t i = 0; i < n; i++) {
        const bool on = value_of(env, pass[i], "run") != 0;
        if (!on)
            warn_off(env, pass[i]);
        if (on && !(pass[i]->once && env->options.rewritten))
            QG_TRY(run_one(env, pass[i]));
    }
    return n > 0 && !verifies_each(env) ? verify(env) : QG_OK;
}

/* --- reports of passes --- */

/* Rows in order of first use.  The pointer is good until the next row is made. */
static qg_status coverage_row(qg_pass_env *env, const char *pattern, qg_coverage **out)
{
    assert(env->at_work);
    for (size_t i = 0; i < env->coverage.n; i++) {
        qg_coverage *c = &env->coverage.at[i];
        if (strcmp(c->pattern, pattern) == 0 &&
            strcmp(c->pass, env->at_work->name) == 0) {
            *out = c;
            return QG_OK;
        }
    }
    qg_coverage row = { .pass = env->at_work->name, .pattern = pattern };
    QG_TRY(qg_vec_push(env->ctx, env->graph->arena, &env->coverage, row));
    *out = &env->coverage.at[env->coverage.n - 1];
    return QG_OK;
}

qg_status qg_pass_pattern(qg_pass_env *env, const char *pattern, const char *nearest)
{
    qg_coverage *c;
    QG_TRY(coverage_row(env, pattern, &c));
    c->nearest = nearest;
    return QG_OK;
}

qg_status qg_pass_matched(qg_pass_env *env, const char *pattern)
{
    qg_coverage *c;
    QG_TRY(coverage_row(env, pattern, &c));
    c->matched++;
    return QG_OK;
}

/* The message gives the one condition that kept the pattern from matching. */
qg_status qg_pass_near_miss(qg_pass_env *env, const char *pattern, const qg_node *n,
                            const char *fmt, ...)
{
    char text[320];
    qg_coverage *c;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    QG_TRY(coverage_row(env, pattern, &c));
    qg_near_miss miss = { .node = n->name,
                          .condition = qg_arena_strdup(env->graph->arena, text) };
    if (!miss.condition)
        return qg_nomem(env->ctx);
    return qg_vec_push(env->ctx, env->graph->arena, &c->near_miss, miss);
}

qg_status qg_pass_author(qg_pass_env *env, const char *detail)
{
    if (!env->quant)
        return QG_OK;
    const char *pass = env->at_work->name;
    const char *text =
        detail ? qg_arena_printf(env->quant->arena, "%s/%s", pass, detail) : pass;
    if (!text)
        return qg_nomem(env->ctx);
    env->quant->author = text;
    return QG_OK;
}
