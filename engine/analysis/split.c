#include "engine/analysis/split.h"

static qg_status open_holdout(qg_model *m, const qg_split_request *r, qg_split *out)
{
    qg_workload other = *r->work;
    other.data = r->holdout;
    other.array = NULL;
    other.source = NULL;
    other.samples = 0;
    QG_TRY(qg_feed_open(m, &other, &out->holdout));
    out->judge = &out->holdout.feed;
    return QG_OK;
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
    for (size_t k = 0; k < 2; k++)
        qg_half_of(&out->feed.feed, n_input, k, &out->half[k]);
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
    qg_workload w = qg_feed_again(&s->feed, work);
    if (!s->half[0].whole)
        return w;
    w.data = NULL;
    w.array = NULL;
    w.samples = 0;
    w.source = &s->half[0].source;
    return w;
}

size_t qg_split_judge_index(const qg_split *s, size_t i)
{
    return s->half[0].whole ? 2 * i + s->half[1].first : i;
}
