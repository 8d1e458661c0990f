#include "engine/analysis/split.h"

#include <string.h>

/* --- equal samples --- */

static qg_status hash_of(qg_ctx *ctx, const qg_tensor *const *x, size_t n,
                         char text[QG_HASH_TEXT])
{
    qg_hash h;
    qg_hash_begin(&h);
    for (size_t k = 0; k < n; k++) {
        const int64_t type[] = { x[k]->dtype, x[k]->rank };
        size_t bytes;
        QG_TRY(qg_tensor_bytes(ctx, "samples", x[k], &bytes));
        qg_hash_add(&h, type, sizeof type);
        qg_hash_add(&h, x[k]->dim, (size_t)x[k]->rank * sizeof *x[k]->dim);
        qg_hash_add(&h, x[k]->data, bytes);
    }
    qg_hash_end(&h, text);
    return QG_OK;
}

qg_status qg_sample_add(qg_ctx *ctx, qg_names *known, const qg_tensor *const *x,
                        size_t n, bool *repeats)
{
    char hash[QG_HASH_TEXT];
    uint32_t before = qg_names_count(known), id;
    QG_TRY(hash_of(ctx, x, n, hash));
    if (qg_names_add(known, hash, strlen(hash), &id) != QG_OK)
        return qg_nomem(ctx);
    *repeats = id < before;
    return QG_OK;
}

static qg_status add_one(qg_model *m, const qg_feed *feed, size_t i, qg_names *known,
                         bool *repeats)
{
    qg_arena *a = qg_arena_new(m->ctx->alloc);
    const qg_tensor **x = a ? QG_NEWN(a, m->graph->input.n, const qg_tensor *) : NULL;
    qg_status st = x ? feed->fetch(feed->ud, m->ctx, a, i, x) : qg_nomem(m->ctx);
    if (st == QG_OK)
        st = qg_sample_add(m->ctx, known, x, m->graph->input.n, repeats);
    qg_arena_free(a);
    return st;
}

/* The samples of a feed that are not known yet; known NULL: all. */
static qg_status list_new(qg_model *m, const qg_feed *feed, qg_names *known,
                          qg_arena *a, qg_subset *out)
{
    size_t *index = QG_NEWN(a, feed->n, size_t);
    if (!index)
        return qg_nomem(m->ctx);
    *out = (qg_subset){ .whole = feed, .n_input = m->graph->input.n, .index = index };
    for (size_t i = 0; i < feed->n; i++) {
        bool repeats = false;
        if (known)
            QG_TRY(add_one(m, feed, i, known, &repeats));
        if (!repeats)
            index[out->n++] = i;
    }
    return QG_OK;
}

static qg_status count_new(qg_model *m, const qg_feed *feed, const qg_feed *holdout,
                           qg_arena *a, size_t *n)
{
    qg_subset seen, other = { 0 };
    qg_names *known = a ? qg_names_new(m->ctx->alloc) : NULL;
    qg_status s = known ? list_new(m, feed, known, a, &seen) : qg_nomem(m->ctx);
    if (s == QG_OK)
        s = list_new(m, holdout, known, a, &other);
    qg_names_free(known);
    *n = other.n;
    return s;
}

qg_status qg_split_warn(qg_model *m, const char *doing, const qg_feed *feed,
                        const qg_feed *holdout, const char *data)
{
    size_t n;
    qg_arena *a = qg_arena_new(m->ctx->alloc);
    qg_status s = count_new(m, feed, holdout, a, &n);
    qg_arena_free(a);
    if (s == QG_OK && n < holdout->n)
        qg_warn(m->ctx,
                "%s: holdout '%s': %zu of %zu samples are in the data or repeat an "
                "earlier one, which cannot judge what was made from them, expected "
                "others",
                doing, data, holdout->n - n, holdout->n);
    return s;
}

/* --- who chooses, who judges --- */

/* Of the samples of work: those at even places choose, the others judge. */
static qg_status split_own(qg_model *m, const qg_split_request *r, qg_split *s)
{
    const qg_fold even = { 0, 0 };
    bool any;
    if (s->own.n < 2)
        return qg_fail(m->ctx, QG_EDATA,
                       "%s: 1 sample%s, expected at least 2, or --holdout: a policy is "
                       "judged on samples that did not choose it",
                       r->doing, s->feed.feed.n > 1 ? " that is not a repeat" : "");
    QG_TRY(qg_split_fold(s, even, s->arena, s->part, &any));
    s->choose = &s->part[0].feed;
    s->judge = &s->part[1].feed;
    s->halves = true;
    return QG_OK;
}

static qg_status open_holdout(qg_model *m, const qg_split_request *r, qg_split *s)
{
    qg_workload other = *r->work;
    other.data = r->holdout;
    other.array = NULL;
    other.source = NULL;
    other.samples = 0;
    QG_TRY(qg_feed_open(m, &other, &s->holdout));
    s->judge = &s->holdout.feed;
    return QG_OK;
}

/* A host makes its samples when they are asked for, and may take long. */
static qg_status find_new(qg_model *m, const qg_split_request *r, qg_names *known,
                          qg_split *s)
{
    QG_TRY(
        list_new(m, &s->feed.feed, r->work->source ? NULL : known, s->arena, &s->own));
    qg_subset_open(&s->own);
    return r->holdout ? list_new(m, &s->holdout.feed, known, s->arena, &s->part[1])
                      : QG_OK;
}

static void warn_repeats(const qg_model *m, const qg_split_request *r,
                         const qg_split *s)
{
    const size_t all = s->feed.feed.n + (r->holdout ? s->holdout.feed.n : 0);
    const size_t n = s->own.n + (r->holdout ? s->part[1].n : 0);
    if (r->holdout && !s->part[1].n)
        qg_warn(m->ctx,
                "%s: holdout '%s': has the samples of the data, which cannot judge "
                "what was made from them, expected others: half of the data judges",
                r->doing, r->holdout);
    else if (n < all)
        qg_warn(m->ctx,
                "%s: samples: %zu of %zu are equal to an earlier one and do not judge, "
                "expected different ones",
                r->doing, all - n, all);
}

static qg_status choose_judges(qg_model *m, const qg_split_request *r, qg_split *s)
{
    qg_names *known = qg_names_new(m->ctx->alloc);
    qg_status st = known ? find_new(m, r, known, s) : qg_nomem(m->ctx);
    qg_names_free(known);
    QG_TRY(st);
    warn_repeats(m, r, s);
    if (!r->holdout || !s->part[1].n)
        return split_own(m, r, s);
    qg_subset_open(&s->part[1]);
    s->judge = &s->part[1].feed;
    return QG_OK;
}

qg_status qg_split_open(qg_model *m, const qg_split_request *r, qg_split *out)
{
    out->ctx = m->ctx;
    out->n_input = m->graph->input.n;
    out->arena = qg_arena_new(m->ctx->alloc);
    if (!out->arena)
        return qg_nomem(m->ctx);
    QG_TRY(qg_feed_open(m, r->work, &out->feed));
    out->choose = &out->feed.feed;
    if (r->holdout && r->judges)
        QG_TRY(open_holdout(m, r, out));
    return r->judges && !r->repeats ? choose_judges(m, r, out) : QG_OK;
}

void qg_split_close(qg_split *s)
{
    qg_feed_close(&s->feed);
    qg_feed_close(&s->holdout);
    qg_arena_free(s->arena);
}

qg_workload qg_split_work(const qg_split *s, const qg_workload *work)
{
    return s->halves ? qg_split_subset(&s->part[0], work)
                     : qg_feed_again(&s->feed, work);
}

qg_workload qg_split_subset(const qg_subset *subset, const qg_workload *work)
{
    qg_workload w = *work;
    w.data = NULL;
    w.array = NULL;
    w.samples = 0;
    w.source = &subset->source;
    return w;
}

qg_status qg_split_fold(const qg_split *s, qg_fold f, qg_arena *a, qg_subset out[2],
                        bool *any)
{
    for (size_t k = 0; k < 2; k++) {
        size_t *index = QG_NEWN(a, s->own.n, size_t);
        if (!index)
            return qg_nomem(s->ctx);
        out[k] = (qg_subset){ .whole = &s->feed.feed,
                              .n_input = s->n_input,
                              .index = index };
        for (size_t i = 0; i < s->own.n; i++)
            if ((i >> f.bit & 1) == (f.first ^ k))
                index[out[k].n++] = s->own.index[i];
    }
    *any = out[0].n && out[1].n;
    for (size_t k = 0; k < 2 && *any; k++)
        qg_subset_open(&out[k]);
    return QG_OK;
}

size_t qg_split_judge_index(const qg_split *s, size_t i) { return s->part[1].index[i]; }
