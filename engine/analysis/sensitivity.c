/* sensitivity.c -- how much the network's outputs suffer from each node, endpoint or
 * group alone (direction `only`), or from everything but it (`all-but`).
 *
 * Source   PPQ's layerwise analysis (docs/evidence/ppq-behaviour.md#error-analysis),
 *          which runs the whole network
 *          twice per layer and sample; here engine/analysis/what_if.h runs the part
 *          that a question changes. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "engine/analysis/measure.h"
#include "engine/analysis/subject.h"
#include "engine/core/reads.h"

QG_OPTIONS_INIT(qg_sensitivity_options)

static const char *const by_word[] = {
    [QG_BY_NODE] = "node", [QG_BY_ENDPOINT] = "endpoint", [QG_BY_GROUP] = "group"
};

/* --- subjects --- */

static qg_status add_subject(qg_sensitivity *s, const char *name, const char *what,
                             uint32_t key)
{
    qg_sensitivity_row row = { .name = qg_arena_strdup(s->arena, name),
                               .what = what,
                               .key = key };
    return row.name ? qg_vec_push(s->m->ctx, s->arena, &s->row, row)
                    : qg_nomem(s->m->ctx);
}

static qg_status describe_subject(qg_sensitivity *s, const qg_tqc *t)
{
    char text[QG_ENDPOINT_TEXT];
    if (s->by == QG_BY_NODE)
        return add_subject(s, t->node->name, t->node->op->name, t->node->id);
    const qg_tqc *lead = s->by == QG_BY_GROUP ? qg_tqc_root(t) : t;
    return add_subject(s, qg_tqc_text(lead, text), qg_tqc_state_name(lead->state),
                       lead->id);
}

/* In order of endpoints: subjects with an active endpoint; of nodes, all that are
 * quantized, so that the table lists each of them. */
static qg_status choose_subjects(qg_sensitivity *s)
{
    const qg_quant *q = s->m->quant;
    size_t most = q->tqc.n > s->m->graph->node.n ? q->tqc.n : s->m->graph->node.n;
    uint8_t *chosen = QG_NEWN(s->arena, most, uint8_t);
    if (!chosen)
        return qg_nomem(s->m->ctx);
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        uint32_t key = qg_sensitivity_key(s, t);
        bool speaks = s->by == QG_BY_NODE || qg_tqc_is_on_grid(t);
        if (!speaks || chosen[key])
            continue;
        chosen[key] = 1;
        QG_TRY(describe_subject(s, t));
    }
    return QG_OK;
}

/* --- asking --- */

static qg_status mute_for(qg_sensitivity *s, uint32_t key, const uint8_t **out)
{
    const qg_quant *q = s->m->quant;
    uint8_t *mute = QG_NEWN(s->arena, q->tqc.n, uint8_t);
    if (!mute)
        return qg_nomem(s->m->ctx);
    for (size_t i = 0; i < q->tqc.n; i++)
        mute[i] = (qg_sensitivity_key(s, q->tqc.at[i]) == key) == s->all_but;
    *out = mute;
    return QG_OK;
}

static void take_error(const qg_sensitivity *s, const double *error, double *mean,
                       uint32_t *output)
{
    *output = qg_study_worst(&s->study, error);
    *mean = error[*output];
}

/* The last question is the whole quantized network. */
static qg_status ask(qg_sensitivity *s)
{
    qg_ctx *ctx = s->m->ctx;
    size_t n = s->row.n, n_out = s->m->graph->output.n;
    qg_what_if *question = QG_NEWN(s->arena, n + 1, qg_what_if);
    double *error = QG_NEWN(s->arena, (n + 1) * n_out, double);
    if (!question || !error)
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++)
        QG_TRY(mute_for(s, s->row.at[i].key, &question[i].mute));
    QG_TRY(qg_study_ask(&s->study, question, n + 1, error));
    for (size_t i = 0; i < n; i++)
        take_error(s, error + i * n_out, &s->row.at[i].error, &s->row.at[i].output);
    take_error(s, error + n * n_out, &s->all, &s->all_output);
    return QG_OK;
}

/* --- the order --- */

/* Most harmful first; ties by key, so that the order is a function of the model. */
static int by_error(const void *a, const void *b)
{
    const qg_sensitivity_row *x = a, *y = b;
    if (x->harm != y->harm)
        return x->harm < y->harm ? 1 : -1;
    return (x->key > y->key) - (x->key < y->key);
}

/* harm: larger is worse, whatever the metric and the direction.  An error of NaN is the
 * most harmful one: of the row or, where direction is all-but, of the others. */
static void sort(qg_sensitivity *s)
{
    bool flip = s->study.metric->higher_is_better != s->all_but;
    for (size_t i = 0; i < s->row.n; i++) {
        qg_sensitivity_row *row = &s->row.at[i];
        row->harm = flip ? -row->error : row->error;
        if (isnan(row->error))
            row->harm = s->all_but ? -INFINITY : INFINITY;
    }
    if (s->row.n) /* else there is no array */
        qsort(s->row.at, s->row.n, sizeof *s->row.at, by_error);
}

/* --- the report --- */

static const char *output_name(const qg_sensitivity *s, uint32_t k)
{
    return s->measured.at[k]->name;
}

/* All-but: `removes` is the part of the whole error that goes with the row, the worst
 * first; `error` is what the others leave. */
static qg_status report_rows(const qg_sensitivity *s, qg_report *r)
{
    qg_table *t;
    size_t top = s->o->top ? s->o->top : s->row.n;
    const qg_metric *metric = s->study.metric;
    const char *columns =
        s->all_but ? "name what removes error output" : "name what error output";
    QG_TRY(qg_report_table(r, "errors", columns, &t));
    for (size_t i = 0; i < s->row.n && i < top; i++) {
        const qg_sensitivity_row *row = &s->row.at[i];
        double removes =
            metric->higher_is_better ? row->error - s->all : s->all - row->error;
        QG_TRY(qg_table_cells(r, t, qg_cell_text(row->name), qg_cell_text(row->what)));
        if (s->all_but)
            QG_TRY(qg_table_add(r, t, qg_measure_cell(metric, removes)));
        QG_TRY(qg_table_cells(r, t, qg_measure_cell(metric, row->error),
                              qg_cell_text(output_name(s, row->output))));
    }
    return QG_OK;
}

static size_t count_not_finite(const qg_sensitivity *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->row.n; i++)
        n += !isfinite(s->row.at[i].error);
    return n;
}

static qg_status report(const qg_sensitivity *s, qg_report *r)
{
    const qg_study *a = &s->study;
    double share = a->nodes_whole ? (double)a->nodes_run / (double)a->nodes_whole : 0;
    QG_TRY(qg_report_add(r, "by", qg_cell_text(by_word[s->by])));
    QG_TRY(
        qg_report_add(r, "direction", qg_cell_text(s->all_but ? "all-but" : "only")));
    QG_TRY(qg_report_metric(r, a->metric));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(a->feed->n)));
    QG_TRY(qg_measured_report(&s->measured, r));
    QG_TRY(qg_report_add(r, "all_quantized", qg_measure_cell(s->study.metric, s->all)));
    QG_TRY(qg_report_add(r, "nodes_run", qg_cell_percent(share)));
    QG_TRY(qg_report_not_finite(r, count_not_finite(s)));
    return report_rows(s, r);
}

/* --- all together --- */

static qg_status word(qg_ctx *ctx, const char *what, const char *text,
                      const char *const *word, size_t n, int *out)
{
    for (size_t i = 0; i < n; i++)
        if (!text || strcmp(text, word[i]) == 0) {
            *out = (int)i;
            return QG_OK;
        }
    return qg_fail(ctx, QG_ECONFIG, "sensitivity: %s '%s': expected %s%s%s%s%s", what,
                   text, word[0], n > 2 ? ", " : " or ", word[1], n > 2 ? " or " : "",
                   n > 2 ? word[2] : "");
}

static qg_status read_options(qg_sensitivity *s)
{
    static const char *const direction[] = { "only", "all-but" };
    qg_ctx *ctx = s->m->ctx;
    int k;
    QG_TRY(word(ctx, "by", s->o->by, by_word, 3, &k));
    s->by = (enum qg_sensitivity_by)k;
    QG_TRY(word(ctx, "direction", s->o->direction, direction, 2, &k));
    s->all_but = k == 1;
    return qg_measure_by(ctx, s->o->metric, &s->study.metric);
}

/* A proposal leaves samples over for its judge. */
static qg_status open_samples(qg_sensitivity *s)
{
    qg_split_request r = { .doing = "propose",
                           .work = &s->o->work,
                           .holdout = s->o->holdout,
                           .judges = s->o->proposal.patch != NULL };
    QG_TRY(qg_split_open(s->m, &r, &s->split));
    s->study.feed = s->split.choose;
    return r.judges ? qg_sensitivity_labels(s) : QG_OK;
}

/* Samples are those of the data, of which a proposal has half for its judge. */
static qg_status warn_not_finite(qg_sensitivity *s)
{
    const qg_feed *all = &s->split.feed.feed;
    size_t sample = s->study.strange;
    if (sample == s->study.feed->n)
        sample = all->n;
    else if (s->split.halves)
        sample = s->split.part[0].index[sample];
    return qg_model_warn_not_finite(s->m, QG_RUN_SIMULATE, &s->o->work, all, sample);
}

static qg_status check_proposal(const qg_sensitivity *s)
{
    const qg_proposal_options *o = &s->o->proposal;
    qg_ctx *ctx = s->m->ctx;
    if (s->all_but)
        return qg_fail(ctx, QG_ECONFIG, "propose: expected direction only");
    if (strcmp(s->study.metric->name, "nsr") == 0 && o->budget >= 1)
        return qg_fail(ctx, QG_ECONFIG,
                       "propose: budget %g: is noise as large as the signal, expected "
                       "less, such as 1%%",
                       o->budget);
    if (o->bits && (o->bits < QG_LEAST_BITS || o->bits > QG_MOST_BITS))
        return qg_fail(ctx, QG_ECONFIG, "propose: raise to %u bits, expected %d to %d",
                       o->bits, QG_LEAST_BITS, QG_MOST_BITS);
    return qg_writer_check(ctx, o->patch);
}

static qg_status run(qg_sensitivity *s, qg_report **out)
{
    qg_report *r;
    s->study = (qg_study){ .ctx = s->m->ctx,
                           .graph = s->m->graph,
                           .quant = s->m->quant,
                           .whole = s->o->whole,
                           .work = &s->o->work,
                           .stage = "sensitivity" };
    QG_TRY(read_options(s));
    s->study.rounding_base = s->all_but;
    if (s->o->proposal.patch)
        QG_TRY(check_proposal(s));
    QG_TRY(open_samples(s));
    QG_TRY(choose_subjects(s));
    QG_TRY(qg_measured_find(s->m->graph, s->study.feed, "sensitivity", s->arena,
                            &s->measured));
    qg_measured_begin(&s->measured);
    qg_status asked = ask(s);
    qg_measured_end(&s->measured);
    QG_TRY(asked);
    QG_TRY(warn_not_finite(s));
    sort(s);
    QG_TRY(qg_report_new(s->m->ctx, "sensitivity", &r));
    qg_status st = s->o->proposal.patch ? qg_sensitivity_propose(s, r) : QG_OK;
    if (st == QG_OK)
        st = report(s, r);
    return qg_report_end(st, r, out);
}

qg_status qg_model_sensitivity(qg_model *m, const qg_sensitivity_options *given,
                               qg_report **out)
{
    qg_sensitivity_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_sensitivity_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    QG_TRY(qg_proposal_check(m->ctx, &o.proposal));
    qg_reads_forget(m->ctx);
    qg_sensitivity s = { .m = m, .o = &o };
    QG_TRY(qg_model_expect_quantized(m, "sensitivity"));
    QG_TRY(qg_model_warn_share(m, "sensitivity"));
    QG_TRY(qg_model_warn_clamps(m, "sensitivity"));
    s.arena = qg_arena_new(m->ctx->alloc);
    qg_status st = s.arena ? run(&s, out) : qg_nomem(m->ctx);
    qg_split_close(&s.split);
    qg_arena_free(s.arena);
    return st;
}
