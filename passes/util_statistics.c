#include "passes/util_statistics.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/ir/text.h"

qg_status qg_pass_stats_begin(qg_pass_env *env, qg_pass_stats *out)
{
    char text[QG_FINGERPRINT_TEXT];
    *out = (qg_pass_stats){ .env = env };
    if (!env->stats)
        return QG_OK;
    qg_arena *a = qg_arena_new(env->ctx->alloc);
    if (!a)
        return qg_nomem(env->ctx);
    qg_status s = qg_graph_fingerprint(env->graph, a, text);
    qg_arena_free(a);
    if (s == QG_OK && strcmp(text, env->stats->manifest.graph) != 0)
        s = qg_fail(env->ctx, QG_EDATA,
                    "calibrate: the statistics are of graph %.16s, expected %s: the "
                    "same model after the same rewrites",
                    env->stats->manifest.graph, text);
    return s;
}

/* Sums of channels depend on how channels are told apart: who reads moments gets them
 * along the axis that files have, too. */
static int32_t axis_for(const qg_observe *o, const qg_value *v)
{
    assert(o->observer->pick);
    if (!(o->scheme->policy & QG_PER_TENSOR))
        return o->scheme->axis;
    return o->observer->reads & QG_STATS_MOMENTS ? qg_stats_axis_of(&v->type) : -1;
}

qg_status qg_pass_stats_want(qg_pass_stats *s, const qg_observe *o, const qg_value *v,
                             uint32_t *entry, bool *first)
{
    int32_t axis = axis_for(o, v);
    unsigned holds = o->observer->reads;
    size_t i = 0;
    assert(o->observer->pick && !s->own);
    if (!(o->scheme->policy & QG_PER_TENSOR) && (holds & QG_STATS_HISTOGRAM))
        holds |= QG_STATS_BY_CHANNEL;
    while (i < s->wanted.n &&
           (s->wanted.at[i].value != v || s->wanted.at[i].axis != axis))
        i++;
    *entry = (uint32_t)i;
    *first = i == s->wanted.n;
    if (*first)
        return qg_vec_push(s->env->ctx, s->env->graph->arena, &s->wanted,
                           (qg_wanted){ v, axis, holds, NULL });
    s->wanted.at[i].holds |= holds;
    return QG_OK;
}

static qg_status look_up(qg_pass_stats *s)
{
    assert(s->env->stats && !s->own);
    for (size_t i = 0; i < s->wanted.n; i++) {
        qg_wanted *w = &s->wanted.at[i];
        w->stats = qg_stats_find(s->env->stats, w->value->name);
        if (!w->stats)
            return qg_fail(s->env->ctx, QG_EDATA,
                           "calibrate: no statistics of '%.100s', expected those of "
                           "every value that is quantized",
                           w->value->name);
    }
    return QG_OK;
}

/* Names are told apart by axes, which only this pass sees. */
static qg_status make(qg_pass_stats *s)
{
    assert(!s->own);
    QG_TRY(qg_stats_new(s->env->ctx, &s->own));
    for (size_t i = 0; i < s->wanted.n; i++) {
        qg_wanted *w = &s->wanted.at[i];
        const char *key =
            qg_arena_printf(s->own->arena, "%s@%d", w->value->name, (int)w->axis);
        qg_stats_value *v;
        if (!key)
            return qg_nomem(s->env->ctx);
        QG_TRY(qg_stats_add_value(s->own, key, &w->value->type, w->axis, w->holds, &v));
        v->name = w->value->name;
        w->stats = v;
    }
    QG_TRY(qg_collector_open(s->env->ctx, s->own, &s->collector));
    s->collector.finite = true;
    return QG_OK;
}

qg_status qg_pass_stats_open(qg_pass_stats *s)
{
    return s->env->stats ? look_up(s) : make(s);
}

qg_status qg_pass_stats_settled(const qg_pass_stats *s, const qg_tqc *t,
                                const qg_confidence *c)
{
    qg_pass_env *env = s->env;
    double scale = (double)t->scale[0];
    assert(t->nparam == 1 && c->settled >= 1 && c->settled <= QG_STATS_PARTS);
    qg_settled row = { .tqc = t,
                       .low = fmax(scale * (1 - 2 * c->error), 0),
                       .high = scale * (1 + 2 * c->error),
                       .after = qg_stats_samples_in(env->stats ? env->stats : s->own,
                                                    c->settled) };
    return qg_vec_push(env->ctx, env->graph->arena, &env->settled, row);
}

void qg_pass_stats_end(qg_pass_stats *s)
{
    qg_collector_close(&s->collector);
    qg_stats_free(s->own);
    s->own = NULL;
}
