/* observer.c -- observers of the host: rows whose functions call the host once per
 * channel.  The state of an endpoint consists of those of its channels, in order. */
#include "engine/embed/extend.h"

#include <math.h>
#include <string.h>

#include "engine/calib/observer.h"

void qg_host_observer_init(qg_host_observer *o, size_t size)
{
    static const qg_host_observer preset = { .passes = 1 };
    qg_options_init(o, size, &preset,
                    (qg_options_type){ "qg_host_observer", sizeof *o });
}

/* --- trampolines --- */

static const qg_host_observer *given(const qg_observe *o) { return o->observer->host; }

/* Bytes from one channel's state to the next, aligned for any type. */
static size_t stride(const qg_host_observer *h)
{
    const size_t align = _Alignof(max_align_t);
    return (h->state + align - 1) / align * align;
}

static size_t bytes(const qg_observe *o) { return o->channels * stride(given(o)); }

static void begin(const qg_observe *o, void *state)
{
    const qg_host_observer *h = given(o);
    for (size_t c = 0; h->begin && c < o->channels; c++)
        h->begin(h->ud, (char *)state + c * stride(h));
}

/* The elements of channel c of a plain tensor, in order: x itself when it has one. */
static const float *channel_of(const qg_observe *o, const qg_tensor *x, size_t c,
                               float *room)
{
    int32_t axis = o->scheme->axis;
    if (o->channels == 1)
        return x->f32;
    size_t inner = (size_t)qg_dims_product(x, axis + 1, x->rank);
    size_t outer = (size_t)qg_dims_product(x, 0, axis);
    for (size_t i = 0; i < outer; i++)
        memcpy(room + i * inner, x->f32 + (i * o->channels + c) * inner,
               inner * sizeof *room);
    return room;
}

static qg_status see(qg_ctx *ctx, const qg_observe *o, void *state, size_t sample,
                     const qg_tensor *x, qg_arena *scratch)
{
    const qg_host_observer *h = given(o);
    size_t n = (size_t)qg_tensor_count(x) / o->channels;
    float *room = o->channels > 1 ? qg_arena_raw(scratch, n, sizeof *room) : NULL;
    qg_tensor *plain = NULL;
    if (o->channels > 1 && !room)
        return qg_nomem(ctx);
    if (!qg_tensor_is_plain(x))
        QG_TRY(qg_tensor_clone(ctx, scratch, x, &plain));
    for (size_t c = 0; c < o->channels; c++) {
        qg_observed seen = {
            .size = sizeof seen, .pass = o->pass, .sample = sample, .n = n
        };
        seen.x = channel_of(o, plain ? plain : x, c, room);
        qg_host_begin(ctx);
        qg_status s = h->see(h->ud, ctx, (char *)state + c * stride(h), &seen);
        QG_TRY(qg_host_end(ctx, s, "observer", h->name));
    }
    return QG_OK;
}

static void merge(const qg_observe *o, void *into, const void *from)
{
    const qg_host_observer *h = given(o);
    for (size_t c = 0; c < o->channels; c++)
        h->merge(h->ud, (char *)into + c * stride(h),
                 (const char *)from + c * stride(h));
}

static qg_status next(qg_ctx *ctx, const qg_observe *o, void *state)
{
    const qg_host_observer *h = given(o);
    for (size_t c = 0; c < o->channels; c++) {
        qg_host_begin(ctx);
        qg_status s = h->next(h->ud, ctx, (char *)state + c * stride(h), o->pass);
        QG_TRY(qg_host_end(ctx, s, "observer", h->name));
    }
    return QG_OK;
}

static qg_status finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                        qg_arena *scratch, qg_found *out)
{
    const qg_host_observer *h = given(o);
    (void)scratch;
    for (size_t c = 0; c < o->channels; c++) {
        double low = NAN, high = NAN;
        qg_host_begin(ctx);
        qg_status s = h->finish(h->ud, ctx, (const char *)state + c * stride(h),
                                o->scheme, &low, &high);
        QG_TRY(qg_host_end(ctx, s, "observer", h->name));
        if (!isfinite(low) || !isfinite(high) || low > high)
            return qg_fail(
                ctx, QG_ENUMERIC,
                "channel %zu: the range is %g to %g, expected finite limits, "
                "the lower one first",
                c, low, high);
        out->low[c] = low;
        out->high[c] = high;
    }
    return QG_OK;
}

/* --- adding --- */

static qg_status check(qg_ctx *ctx, qg_host_observer *o)
{
    qg_param_limit floor = qg_observer_param_limit(QG_PARAM_MIN_SCALE);
    QG_TRY(qg_extend_name(ctx, "observer", &o->name));
    QG_TRY(qg_extend_text(ctx, &o->summary));
    const char *wrong =
        !o->see || !o->finish      ? "see or finish is NULL, expected both functions"
        : !o->ordered && !o->merge ? "merge is NULL, expected it unless ordered"
        : !o->passes               ? "passes is 0, expected at least 1"
        : o->state > SIZE_MAX / 2 - sizeof(max_align_t)
            ? "state is larger than memory, expected bytes of one channel"
        : o->min_scale != 0 &&
                !(o->min_scale >= floor.least && o->min_scale <= floor.most)
            ? "min_scale: expected 0, or 1e-38 to 1"
            : NULL;
    if (wrong)
        return qg_fail(ctx, QG_ECONFIG, "add observer %s: %s", o->name, wrong);
    return qg_observer_find(ctx, o->name) ? qg_extend_taken(ctx, "observer", o->name)
                                          : QG_OK;
}

qg_status qg_add_observer(qg_ctx *ctx, const qg_host_observer *o)
{
    qg_host_observer *kept = QG_NEW(ctx->arena, qg_host_observer);
    qg_observer *row = QG_NEW(ctx->arena, qg_observer);
    if (!kept || !row)
        return qg_nomem(ctx);
    QG_TRY(QG_OPTIONS_READ(ctx, qg_host_observer, o, kept));
    QG_TRY(check(ctx, kept));
    *row =
        (qg_observer){ .name = kept->name,
                       .summary =
                           kept->summary ? kept->summary : "an observer of the host",
                       .source = "the program that added it",
                       .per_channel = kept->per_channel,
                       .ordered = kept->ordered,
                       .passes = kept->passes,
                       .value = { [QG_PARAM_MIN_SCALE] =
                                      kept->min_scale != 0 ? kept->min_scale : 1e-8 },
                       .bytes = bytes,
                       .begin = begin,
                       .see = see,
                       .merge = kept->ordered ? NULL : merge,
                       .next = kept->next ? next : NULL,
                       .finish = finish,
                       .host = kept };
    return qg_ctx_add(ctx, QG_ADDED_OBSERVER, row->name, row);
}
