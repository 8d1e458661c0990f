#include "engine/analysis/split.h"

#include <string.h>

#include "engine/core/file.h"

qg_status qg_sample_hash(qg_ctx *ctx, const qg_tensor *const *x, size_t n,
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

/* Whether sample i is the same in both. */
static qg_status compare_sample(qg_model *m, const qg_feed *const feed[2], size_t i,
                                qg_arena *a, bool *same)
{
    const size_t n = m->graph->input.n;
    const qg_tensor **x = QG_NEWN(a, n, const qg_tensor *);
    char hash[2][QG_HASH_TEXT];
    if (!x)
        return qg_nomem(m->ctx);
    for (size_t k = 0; k < 2; k++) {
        QG_TRY(feed[k]->fetch(feed[k]->ud, m->ctx, a, i, x));
        QG_TRY(qg_sample_hash(m->ctx, x, n, hash[k]));
    }
    *same = strcmp(hash[0], hash[1]) == 0;
    return QG_OK;
}

/* Every sample of the holdout is the one of the data with its number: a copy of the
 * file, or its beginning.  Reading ends at the first difference. */
static qg_status has_samples_of_data(qg_model *m, const qg_split *s, bool *same)
{
    const qg_feed *const feed[] = { &s->feed.feed, &s->holdout.feed };
    *same = feed[1]->n <= feed[0]->n;
    for (size_t i = 0; i < feed[1]->n && *same; i++) {
        qg_arena *a = qg_arena_new(m->ctx->alloc);
        qg_status st = a ? compare_sample(m, feed, i, a, same) : qg_nomem(m->ctx);
        qg_arena_free(a);
        QG_TRY(st);
    }
    return QG_OK;
}

/* Samples that a host makes are not asked for twice. */
static qg_status warn_seen(qg_model *m, const qg_split_request *r, const qg_split *s)
{
    const char *data = r->work->data;
    bool same = data && qg_is_same_file(data, r->holdout);
    if (!same && !r->work->source)
        QG_TRY(has_samples_of_data(m, s, &same));
    if (same)
        qg_warn(m->ctx,
                "%s: holdout '%s': has the samples of the data, which cannot judge "
                "what was made from them, expected others",
                r->doing, r->holdout);
    return QG_OK;
}

static qg_status open_holdout(qg_model *m, const qg_split_request *r, qg_split *out)
{
    qg_workload other = *r->work;
    other.data = r->holdout;
    other.array = NULL;
    other.source = NULL;
    other.samples = 0;
    QG_TRY(qg_feed_open(m, &other, &out->holdout));
    out->judge = &out->holdout.feed;
    return warn_seen(m, r, out);
}

qg_status qg_split_open(qg_model *m, const qg_split_request *r, qg_split *out)
{
    const size_t n_input = m->graph->input.n;
    QG_TRY(qg_feed_open(m, r->work, &out->feed));
    out->choose = &out->feed.feed;
    if (!r->judges)
        return QG_OK;
    if (r->holdout)
        return open_holdout(m, r, out);
    if (out->feed.feed.n < 2)
        return qg_fail(m->ctx, QG_EDATA,
                       "%s: 1 sample, expected at least 2, or --holdout: a policy is "
                       "judged on samples that did not choose it",
                       r->doing);
    for (size_t k = 0; k < 2; k++) {
        out->half[k] =
            (qg_half){ .whole = &out->feed.feed, .n_input = n_input, .first = k };
        qg_half_open(&out->half[k]);
    }
    out->choose = &out->half[0].feed;
    out->judge = &out->half[1].feed;
    return QG_OK;
}

void qg_split_close(qg_split *s)
{
    qg_feed_close(&s->feed);
    qg_feed_close(&s->holdout);
}

qg_workload qg_split_work(const qg_split *s, const qg_workload *work)
{
    return s->half[0].whole ? qg_split_half(&s->half[0], work)
                            : qg_feed_again(&s->feed, work);
}

qg_workload qg_split_half(const qg_half *half, const qg_workload *work)
{
    qg_workload w = *work;
    w.data = NULL;
    w.array = NULL;
    w.samples = 0;
    w.source = &half->source;
    return w;
}

size_t qg_split_judge_index(const qg_split *s, size_t i)
{
    return s->half[0].whole ? 2 * i + s->half[1].first : i;
}
