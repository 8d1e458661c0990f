#include "engine/calib/readings.h"

#include <assert.h>
#include <string.h>

#include "engine/ir/text.h"
#include "engine/quant/backend.h"

/* A backend may rewrite the network before it calibrates, as may the run's options. */
static qg_status refuse_graph(const qg_quant *q, const qg_stats *given,
                              const char *print)
{
    const char *backend = q->backend ? q->backend->name : "";
    return qg_fail(q->ctx, QG_EDATA,
                   "calibrate: the statistics are of graph %.16s, and backend %.64s "
                   "calibrates graph %s, expected those of `qg stats collect -b "
                   "%.64s` with the same --policy, --set, --quirks and "
                   "--dispatcher; `compare` and `quantize` also calibrate without "
                   "--stats, on the samples of -d",
                   given->manifest.graph, backend, print, backend);
}

qg_status qg_readings_begin(qg_ctx *ctx, qg_arena *a, const qg_quant *q,
                            const qg_stats *given, qg_readings *out)
{
    char text[QG_FINGERPRINT_TEXT];
    *out = (qg_readings){ .ctx = ctx, .arena = a, .given = given };
    if (!given)
        return QG_OK;
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    if (!scratch)
        return qg_nomem(ctx);
    qg_status s = qg_graph_fingerprint(q->graph, scratch, text);
    qg_arena_free(scratch);
    return s == QG_OK && strcmp(text, given->manifest.graph) != 0
               ? refuse_graph(q, given, text)
               : s;
}

/* Sums per channel depend on the axis: observers that read moments get them along the
 * axis that files have, too. */
static int32_t axis_for(const qg_observe *o, const qg_value *v)
{
    assert(o->observer->pick);
    if (!(o->scheme->policy & QG_PER_TENSOR))
        return o->scheme->axis;
    return o->observer->reads & QG_STATS_MOMENTS ? qg_stats_axis_of(&v->type) : -1;
}

qg_status qg_readings_want(qg_readings *s, const qg_observe *o, const qg_value *v,
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
        return qg_vec_push(s->ctx, s->arena, &s->wanted,
                           (qg_reading){ v, axis, holds, NULL });
    s->wanted.at[i].holds |= holds;
    return QG_OK;
}

static qg_status look_up(qg_readings *s)
{
    assert(s->given && !s->own);
    for (size_t i = 0; i < s->wanted.n; i++) {
        qg_reading *w = &s->wanted.at[i];
        w->stats = qg_stats_find(s->given, w->value->name);
        if (!w->stats)
            return qg_fail(s->ctx, QG_EDATA,
                           "calibrate: no statistics of '%.1000s', expected those of "
                           "every value that is quantized",
                           w->value->name);
    }
    return QG_OK;
}

/* Names include the axis, which only this file sees. */
static qg_status make(qg_readings *s)
{
    assert(!s->own);
    QG_TRY(qg_stats_new(s->ctx, &s->own));
    for (size_t i = 0; i < s->wanted.n; i++) {
        qg_reading *w = &s->wanted.at[i];
        const char *key =
            qg_arena_printf(s->own->arena, "%s@%d", w->value->name, (int)w->axis);
        qg_stats_value *v;
        if (!key)
            return qg_nomem(s->ctx);
        QG_TRY(qg_stats_add_value(s->own, key, &w->value->type, w->axis, w->holds, &v));
        v->name = w->value->name;
        w->stats = v;
    }
    QG_TRY(qg_collector_open(s->ctx, s->own, &s->collector));
    s->collector.finite = true;
    return QG_OK;
}

qg_status qg_readings_open(qg_readings *s) { return s->given ? look_up(s) : make(s); }

void qg_readings_end(qg_readings *s)
{
    qg_collector_close(&s->collector);
    qg_stats_free(s->own);
    s->own = NULL;
}
