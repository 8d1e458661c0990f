#include "engine/calib/observe.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "engine/calib/derive.h"

/* NULL when the observer supports the scheme; else what it supports, and in *expected
 * what helps. */
static const char *objection(const qg_observer *o, uint32_t policy,
                             char expected[QG_POLICY_TEXT])
{
    if (!(policy & QG_PER_TENSOR) && !o->per_channel) {
        (void)snprintf(expected, QG_POLICY_TEXT, "minmax");
        return "per-tensor only";
    }
    if ((policy & o->policy) == o->policy)
        return NULL;
    (void)qg_policy_text(o->policy, expected);
    return "other schemes only";
}

qg_status qg_observe_start(qg_ctx *ctx, const char *what, const qg_tensor *x,
                           qg_observe *o)
{
    const qg_scheme *s = o->scheme;
    int64_t channels = qg_scheme_param_count(s, x);
    if (channels < 1)
        return qg_fail(
            ctx, QG_ECONFIG,
            "%s: axis %d does not fit rank %d, expected an axis below the rank", what,
            s->axis, (int)x->rank);
    if (s->policy & QG_BLOCK)
        return qg_fail(ctx, QG_ECONFIG,
                       "%s: no observer supports a block policy, expected per-tensor "
                       "or per-channel; `qg quantize-tensor` rounds an array in blocks",
                       what);
    char policy[QG_POLICY_TEXT];
    const char *why = objection(o->observer, s->policy, policy);
    if (why)
        return qg_fail(ctx, QG_ECONFIG, "%s: observer %s supports %s, expected %s",
                       what, o->observer->name, why, policy);
    if (o->observer->check && o->observer->check(ctx, o) != QG_OK)
        return qg_fail(ctx, QG_ECONFIG, "%s: observer %s: %s", what, o->observer->name,
                       qg_ctx_message(ctx));
    o->channels = (size_t)channels;
    return QG_OK;
}

qg_status qg_observe_begin(qg_ctx *ctx, const qg_tqc *t, const qg_tensor *x,
                           size_t samples, qg_observe *out)
{
    char at[QG_ENDPOINT_TEXT], what[QG_ENDPOINT_TEXT + 16];
    const char *name = t->observer.name;
    (void)snprintf(what, sizeof what, "calibrate: %s", qg_tqc_text(t, at));
    qg_observe o = { .observer = name ? qg_observer_find(ctx, name) : NULL,
                     .scheme = &t->scheme,
                     .setting = &t->observer,
                     .samples = samples };
    if (!o.observer)
        return qg_fail(
            ctx, QG_ECONFIG,
            "%s: observer '%s': unknown, expected one of `qg list observers`", what,
            name ? name : "none");
    QG_TRY(qg_observe_start(ctx, what, x, &o));
    if (o.observer->stacks && (t->scheme.policy & QG_PER_CHANNEL) &&
        !qg_tqc_is_constant(t))
        o.channels *= samples;
    *out = o;
    return QG_OK;
}

/* The settings that quirks replace: flags, as qg_scheme_from_range takes them. */
typedef struct observing {
    unsigned offset, pow2_offset; /* bits of qg_range_quirk */
    /* NULL: the observer stays */
    const qg_observer *(*adopted)(const qg_ctx *ctx, const char *name);
} observing;

static const qg_observer *ppq_adopted(const qg_ctx *ctx, const char *name)
{
    char ppq[64];
    (void)snprintf(ppq, sizeof ppq, "ppq-%s", name);
    return qg_observer_find(ctx, ppq);
}

const qg_quirk_row qg_observer_quirks[] = {
    QG_SWAP(PPQ_OFFSET, "D01: asymmetric offset lacks qmin and is not clamped",
            QG_PPQ "quantization/observer/range.py minmax_to_scale_offset", observing,
            offset, QG_RANGE_PPQ_OFFSET),
    QG_SWAP(PPQ_POW2_OFFSET,
            "D02: offset computed from the scale before it became a power of two",
            QG_PPQ "quantization/observer/range.py minmax_to_scale_offset", observing,
            pow2_offset, QG_RANGE_PPQ_POW2_OFFSET),
    QG_SWAP(PPQ_OBSERVERS,
            "minmax, percentile, kl, mse, ... are PPQ's: see `qg list observers`",
            QG_PPQ "quantization/observer/", observing, adopted, ppq_adopted),
    { 0 },
};

unsigned qg_range_quirks(uint64_t quirks)
{
    observing how = { 0 };
    qg_quirk_swap(qg_observer_quirks, quirks, &how);
    return how.offset | how.pow2_offset;
}

/* Scale and offset of the range of channel c. */
static void settle_channel(const qg_observe *o, unsigned quirks, size_t c, qg_found *f)
{
    const double least = qg_observe_value(o, QG_PARAM_MIN_SCALE);
    qg_range r = { f->low[c], f->high[c], least, o->observer->range | quirks };
    const bool zeros = r.low >= 0 && r.high <= 0;
    float own; /* without the floor */
    int32_t offset;
    qg_scheme_from_range(o->scheme, r, &f->scale[c], &f->offset[c]);
    r.min_scale = (double)FLT_MIN;
    qg_scheme_from_range(o->scheme, r, &own, &offset);
    f->raised += !zeros && own < f->scale[c];
    f->fit += !zeros && own >= f->scale[c];
}

/* The result as scales and offsets; all in `a`. */
static qg_status settle(qg_ctx *ctx, qg_observe *o, const void *state, unsigned quirks,
                        qg_arena *a, qg_found *f)
{
    size_t n = o->channels;
    *f = (qg_found){ .low = QG_NEWN(a, n, double),
                     .high = QG_NEWN(a, n, double),
                     .scale = QG_NEWN(a, n, float),
                     .offset = QG_NEWN(a, n, int32_t) };
    if (!f->low || !f->high || !f->scale || !f->offset)
        return qg_nomem(ctx);
    QG_TRY(o->stats || o->observer->blind ? qg_stats_derive(ctx, o, a, f)
                                          : o->observer->finish(ctx, o, state, a, f));
    for (size_t c = 0; c < n && !f->is_param; c++)
        settle_channel(o, quirks, c, f);
    o->floored = f->raised > 0 && f->fit == 0;
    return QG_OK;
}

/* The statistics of one tensor, as far as the observer reads them. */
static qg_status look_at(qg_ctx *ctx, const qg_observe *o, const qg_tensor *x,
                         qg_arena *a, qg_stats_value *v)
{
    bool per_tensor = (o->scheme->policy & QG_PER_TENSOR) != 0;
    unsigned holds = o->observer->reads;
    qg_stats_seen seen;
    assert(o->observer->pick && !o->observer->see);
    if (!per_tensor && (holds & QG_STATS_HISTOGRAM))
        holds |= QG_STATS_BY_CHANNEL;
    *v = (qg_stats_value){ .name = "constant",
                           .axis = per_tensor ? -1 : o->scheme->axis,
                           .holds = holds };
    QG_TRY(qg_stats_value_init(ctx, a, x, v));
    QG_TRY(qg_stats_look(ctx, v, x, a, &seen));
    return qg_stats_add(ctx, v, 0, &seen, a);
}

bool qg_observe_fall_back(qg_observe *o, uint64_t *elements)
{
    const qg_stats_value *v = o->stats;
    if (!v || !o->observer->least || o->with_any)
        return false;
    if (o->scheme->policy & QG_PER_TENSOR) {
        *elements = qg_stats_total(v).count;
    } else {
        *elements = UINT64_MAX;
        for (uint32_t c = 0; c < v->channels; c++)
            *elements =
                v->channel[c].count < *elements ? v->channel[c].count : *elements;
    }
    if (*elements == 0 || *elements >= o->observer->least(o))
        return false;
    o->observer = &qg_observer_minmax;
    return true;
}

qg_status qg_observe_note_few(qg_quant *q, qg_tqc *t)
{
    const char *author = q->author;
    qg_observer_setting s = { .name = qg_observer_minmax.name };
    s.value[QG_PARAM_MIN_SCALE] = t->observer.value[QG_PARAM_MIN_SCALE];
    q->author = qg_arena_printf(q->arena, "%s/few-elements", author);
    if (!q->author) {
        q->author = author;
        return qg_nomem(q->ctx);
    }
    qg_status st = qg_tqc_set_observer(q, t, &s);
    q->author = author;
    return st;
}

/* begin, see, next, ... up to the last pass. */
static qg_status make_passes(qg_ctx *ctx, qg_observe *o, const qg_tensor *x,
                             qg_arena *a, void *state)
{
    const qg_observer *ob = o->observer;
    if (ob->begin)
        ob->begin(o, state);
    for (;;) {
        QG_TRY(ob->see(ctx, o, state, 0, x, a));
        if (++o->pass == ob->passes)
            return QG_OK;
        if (ob->next)
            QG_TRY(ob->next(ctx, o, state));
    }
}

qg_status qg_observe_tensor(qg_ctx *ctx, qg_observe *o, const qg_tensor *x,
                            unsigned quirks, qg_arena *a, qg_qparam *out)
{
    assert(o->samples == 1 && qg_tensor_count(x) > 0);
    const qg_observer *ob = o->observer;
    qg_found f;
    qg_stats_value v;
    uint64_t elements;
    void *state = qg_arena_get(a, 1, qg_observe_bytes(o));
    if (!state)
        return qg_nomem(ctx);
    o->keep = a;
    o->pass = 0;
    if (ob->see)
        QG_TRY(make_passes(ctx, o, x, a, state));
    else if (!ob->blind)
        QG_TRY(look_at(ctx, o, x, a, &v));
    o->stats = ob->see || ob->blind ? NULL : &v;
    (void)qg_observe_fall_back(o, &elements);
    QG_TRY(settle(ctx, o, state, quirks, a, &f));
    *out = (qg_qparam){ o->channels, f.scale, f.offset };
    return QG_OK;
}

qg_status qg_observer_adopt(qg_quant *q, qg_tqc *t)
{
    observing how = { 0 };
    qg_quirk_swap(qg_observer_quirks, q->quirks, &how);
    const qg_observer *adopted =
        t->observer.name && how.adopted ? how.adopted(q->ctx, t->observer.name) : NULL;
    if (!adopted)
        return QG_OK;
    qg_observer_setting s = t->observer;
    s.name = adopted->name;
    return qg_tqc_set_observer(q, t, &s);
}

qg_status qg_observe_find(qg_ctx *ctx, const qg_tqc *t, qg_observe *o,
                          const void *state, qg_arena *scratch, qg_qparam *out)
{
    qg_found f;
    char at[QG_ENDPOINT_TEXT];
    qg_status s = settle(ctx, o, state, o->quirks, scratch, &f);
    if (s != QG_OK && !qg_is_nomem(s))
        return qg_fail(ctx, s, "calibrate: %s: %s: %s", qg_tqc_text(t, at),
                       o->observer->name, qg_ctx_message(ctx));
    QG_TRY(s);
    *out = (qg_qparam){ o->channels, f.scale, f.offset };
    return QG_OK;
}
