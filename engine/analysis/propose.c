/* propose.c -- a policy that keeps the error of the network within a budget: the most
 * harmful values by sensitivity, in float or with more bits, in as few rows as suffice.
 *
 * A row stands for the parts (engine/analysis/parts.h) that its endpoints lead: a value
 * is only unrounded when the whole chain on its grid is.
 * A candidate is not evaluated by muting: it is written as a patch and the network is
 * quantized again with it, since fusions, sharing and calibration may change.  The
 * number of rows is found by doubling and halving: some number that meets the budget
 * while one less, or the last one tried below it, does not.
 * The result is judged on samples that had no part in ranking, calibrating or choosing:
 * against the network quantized from the same samples without it.  What does not help
 * there is not written: the policy has no rules. */
#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "engine/analysis/again.h"
#include "engine/analysis/measure.h"
#include "engine/analysis/parts.h"
#include "engine/analysis/subject.h"
#include "engine/config/yaml.h"

typedef struct search {
    qg_sensitivity *s;
    qg_parts parts;
    uint8_t *chosen; /* [TQCs] 1: leads a part that is raised */
    uint8_t *raised; /* [values] 1: in the patch */
    qg_again again;
    size_t harmful; /* rows that harm at all */
    size_t tried;   /* candidates */
} search;

/* On the samples that judge. */
typedef struct verdict {
    const qg_feed *feed;
    double error[2], top1[2]; /* without and with the proposal */
    int32_t *vote[2];         /* NULL without labels */
    size_t gained, lost;      /* labels that only one of both gets right */
    bool by_class;            /* these decide: they differ by more than chance */
    bool helps;
} verdict;

/* --- the patch --- */

/* Whether the patch may name the value of t.  A bound has the grid of its input: its
 * constant may be that of many nodes.  More bits are none where there are as many, or
 * where they do not change the scale, which is derived. */
static bool may_rise(const search *p, const qg_tqc *t)
{
    unsigned bits = p->s->o->proposal.bits;
    return !qg_tqc_is_bound(t) &&
           (!bits || (t->derive == QG_DERIVE_NONE && t->scheme.bits < bits));
}

static bool leads(const search *p, const qg_tqc *t)
{
    return qg_tqc_is_on_grid(t) && may_rise(p, t);
}

/* Marks the values of the parts of the first k rows; how many there are. */
static size_t choose_values(search *p, size_t k)
{
    const qg_quant *q = p->s->m->quant;
    size_t n = 0;
    memset(p->chosen, 0, q->tqc.n);
    memset(p->raised, 0, p->s->m->graph->value.n);
    for (size_t i = 0; i < q->tqc.n; i++)
        for (size_t row = 0; leads(p, q->tqc.at[i]) && row < k; row++)
            if (qg_sensitivity_key(p->s, q->tqc.at[i]) == p->s->row.at[row].key)
                p->chosen[qg_part_of(&p->parts, (uint32_t)i)] = 1;
    for (size_t i = 0; i < q->tqc.n; i++) {
        uint8_t *raised = &p->raised[qg_tqc_value(q->tqc.at[i])->id];
        bool in =
            may_rise(p, q->tqc.at[i]) && p->chosen[qg_part_of(&p->parts, (uint32_t)i)];
        n += in && !*raised;
        *raised = *raised || in;
    }
    return n;
}

static bool is_raised(const void *raised, size_t value)
{
    return ((const uint8_t *)raised)[value];
}

static void print_patch(search *p, size_t k, FILE *f)
{
    const qg_sensitivity *s = p->s;
    size_t n = choose_values(p, k);
    char comment[96];
    (void)snprintf(comment, sizeof comment,
                   "qg sensitivity --propose: %zu values of the %zu most harmful rows",
                   n, k);
    qg_again_print_head(&p->again, comment, f);
    if (n == 0) {
        (void)fputs("  []\n", f);
        return;
    }
    qg_again_print_match(&p->again, "proposal", is_raised, p->raised, f);
    if (s->o->proposal.bits)
        (void)fprintf(f, "    set: {bits: %u}\n", s->o->proposal.bits);
    else
        (void)fputs("    set: {state: fp32}\n", f);
    (void)fprintf(f, "    why: quantizing these values harms the outputs most (%s)\n",
                  s->study.metric->name);
}

/* The patch of the first k rows as a text; freed by qg_memory_free. */
static qg_status make_patch(search *p, size_t k, qg_memory_file *f)
{
    QG_TRY(qg_memory_open(p->s->m->ctx, f));
    print_patch(p, k, f->stream);
    return qg_memory_close(f, QG_OK);
}

/* --- one candidate --- */

/* Quantized with the first k rows raised (0: none); the graph is the caller's to drop,
 * also on failure. */
static qg_status quantize(search *p, size_t k, qg_model *trial)
{
    qg_memory_file f = { 0 };
    *trial = (qg_model){ 0 };
    if (k > 0)
        QG_TRY(make_patch(p, k, &f));
    qg_status st = qg_again_quantize(&p->again, f.bytes, trial);
    qg_memory_free(&f);
    return st;
}

static qg_status measure(const search *p, const qg_model *trial, const qg_feed *feed,
                         double *error)
{
    qg_again_question q = { trial, feed, p->s->study.metric };
    return qg_again_error(&p->again, &q, error, NULL);
}

static qg_status try_first(search *p, size_t k, double *error)
{
    qg_model trial;
    qg_status st = quantize(p, k, &trial);
    if (st == QG_OK)
        st = measure(p, &trial, p->s->study.feed, error);
    qg_again_drop(&trial);
    p->tried++;
    return st;
}

/* --- the judge --- */

/* Every label, as far as the model tells its classes. */
static qg_status check_labels(const qg_sensitivity *s, const qg_labels *l, size_t n)
{
    const qg_tensor *scores = &s->m->graph->output.at[0]->type;
    QG_TRY(qg_labels_check_scores(s->m->ctx, "propose", scores, l));
    for (size_t i = 0; i < n && qg_tensor_known(scores); i++)
        QG_TRY(qg_labels_check(s->m->ctx, "propose", scores, l, i));
    return QG_OK;
}

/* Of every label of work, those of the second half. */
qg_status qg_sensitivity_labels(qg_sensitivity *s)
{
    const bool halves = s->split.halves;
    const size_t n = halves ? s->split.feed.feed.n : s->split.holdout.feed.n;
    const size_t judge = s->split.judge->n;
    const qg_labelled of = { s->m->graph, n, halves && s->o->work.samples > 0 };
    qg_labels all;
    if (!s->o->labels)
        return QG_OK;
    QG_TRY(qg_labels_load(s->m->ctx, s->o->labels, s->arena, &of, &all));
    QG_TRY(check_labels(s, &all, n));
    int64_t *label = QG_NEWN(s->arena, judge * all.each, int64_t);
    if (!label)
        return qg_nomem(s->m->ctx);
    for (size_t i = 0; i < judge; i++)
        memcpy(&label[i * all.each],
               &all.label[qg_split_judge_index(&s->split, i) * all.each],
               all.each * sizeof *label);
    s->label = (qg_labels){ label, all.each, all.origin };
    return QG_OK;
}

static qg_status judge_one(const search *p, qg_model *trial, bool patched, verdict *v)
{
    const qg_sensitivity *s = p->s;
    qg_executable e = { trial, QG_RUN_SIMULATE, NULL, trial->graph };
    QG_TRY(measure(p, trial, v->feed, &v->error[patched]));
    if (!s->label.label)
        return QG_OK;
    int32_t *vote = QG_NEWN(s->arena, v->feed->n * s->label.each, int32_t);
    if (!vote)
        return qg_nomem(s->m->ctx);
    QG_TRY(qg_executable_vote(&e, &s->o->work, v->feed, &s->label, vote));
    v->vote[patched] = vote;
    v->top1[patched] = qg_labels_top1(&s->label, vote, v->feed->n);
    return QG_OK;
}

/* The labels decide where the difference exceeds its standard error.  Both networks see
 * the same samples: of gained + lost labels that only one of them gets right, each is
 * a gain or a loss by chance, with a standard deviation of sqrt(gained + lost). */
static void compare_votes(const search *p, verdict *v)
{
    const qg_labels *l = &p->s->label;
    for (size_t i = 0; l->label && i < v->feed->n * l->each; i++) {
        const bool without = v->vote[0][i] == l->label[i];
        const bool with = v->vote[1][i] == l->label[i];
        v->gained += with && !without;
        v->lost += without && !with;
    }
    double d = (double)v->gained - (double)v->lost;
    v->by_class = d * d > (double)(v->gained + v->lost);
}

/* NaN is worse than any number. */
static bool is_closer(const qg_metric *metric, double error, double than)
{
    if (isnan(error) || isnan(than))
        return !isnan(error);
    return metric->higher_is_better ? error > than : error < than;
}

/* With the first k rows raised, and with none. */
static qg_status judge(search *p, size_t k, verdict *v)
{
    const qg_sensitivity *s = p->s;
    v->feed = s->split.judge;
    for (int patched = 0; patched < 2; patched++) {
        qg_model trial;
        qg_status st = quantize(p, patched ? k : 0, &trial);
        if (st == QG_OK)
            st = judge_one(p, &trial, patched, v);
        qg_again_drop(&trial);
        QG_TRY(st);
    }
    compare_votes(p, v);
    v->helps = v->by_class ? v->gained > v->lost
                           : is_closer(s->study.metric, v->error[1], v->error[0]);
    return QG_OK;
}

/* --- how many --- */

static bool meets(const search *p, double error)
{
    double budget = p->s->o->proposal.budget;
    return p->s->study.metric->higher_is_better ? error >= budget : error <= budget;
}

/* Doubling until the budget is met, then halving; *k 0: it cannot be met, and *error is
 * the best that was seen. */
static qg_status find_number(search *p, size_t *k, double *error)
{
    size_t fails = 0, works = 0;
    double e = 0;
    *k = 0;
    for (size_t n = 1; !works && p->harmful; n *= 2) {
        n = n < p->harmful ? n : p->harmful;
        QG_TRY(try_first(p, n, &e));
        *error = e;
        if (meets(p, e))
            works = n;
        else if ((fails = n) == p->harmful)
            return QG_OK;
    }
    while (works && works - fails > 1) {
        size_t middle = fails + (works - fails) / 2;
        QG_TRY(try_first(p, middle, &e));
        if (!meets(p, e)) {
            fails = middle;
            continue;
        }
        works = middle;
        *error = e;
    }
    *k = works;
    return QG_OK;
}

static qg_status too_tight(const search *p, double best)
{
    const qg_proposal_options *o = &p->s->o->proposal;
    return qg_fail(p->s->m->ctx, QG_ENUMERIC,
                   "propose: budget %g: the error is %g with all %zu harmful rows %s, "
                   "expected a budget that can be met",
                   o->budget, best, p->harmful, o->bits ? "at more bits" : "in float");
}

/* More bits than any of the values has: the others stay as they are. */
static qg_status expect_risable(search *p)
{
    const qg_proposal_options *o = &p->s->o->proposal;
    if (!o->bits || !p->harmful || choose_values(p, p->harmful) > 0)
        return QG_OK;
    return qg_fail(p->s->m->ctx, QG_ECONFIG,
                   "propose: raise to %u bits: no value of the %zu harmful rows has "
                   "fewer, expected more bits than they have",
                   o->bits, p->harmful);
}

static qg_status write_patch(search *p, size_t k)
{
    qg_writer w;
    QG_TRY(qg_writer_open(p->s->m->ctx, p->s->o->proposal.patch, &w));
    print_patch(p, k, w.stream);
    return qg_writer_commit(&w);
}

/* Which of both decided, and the labels that only one network gets right. */
static qg_status report_judge(const verdict *v, qg_report *r)
{
    return qg_report_addf(
        r, "judged_by",
        "%s: labels right only with the proposal %zu, only without it %zu: the "
        "difference is %s its standard error of %.3g",
        v->by_class ? "labels" : "error", v->gained, v->lost,
        v->by_class ? "above" : "within", sqrt((double)(v->gained + v->lost)));
}

static qg_status report_verdict(const search *p, const verdict *v, qg_report *r)
{
    const qg_sensitivity *s = p->s;
    const qg_metric *metric = s->study.metric;
    QG_TRY(qg_report_addf(r, "judged_on", "%zu %s of %s", v->feed->n,
                          v->feed->n == 1 ? "sample" : "samples",
                          s->o->holdout ? qg_path_base(s->o->holdout)
                                        : "the data that had no part in it"));
    QG_TRY(qg_report_add(r, "judged_error", qg_measure_cell(metric, v->error[1])));
    QG_TRY(
        qg_report_add(r, "judged_error_without", qg_measure_cell(metric, v->error[0])));
    if (s->label.label) {
        QG_TRY(qg_report_add(r, "judged_top1", qg_cell_percent(v->top1[1])));
        QG_TRY(qg_report_add(r, "judged_top1_without", qg_cell_percent(v->top1[0])));
        QG_TRY(report_judge(v, r));
    }
    if (v->helps)
        return QG_OK;
    const double *figure = v->by_class ? v->top1 : v->error;
    bool percent = v->by_class || strcmp(metric->name, "nsr") == 0;
    return qg_report_addf(
        r, "proposal",
        "none: it does not help there: %s %.6g%s with it, %.6g%s without",
        v->by_class ? "top-1" : metric->name, figure[1] * (percent ? 100 : 1),
        percent ? " %" : "", figure[0] * (percent ? 100 : 1), percent ? " %" : "");
}

static qg_status report(search *p, qg_report *r, size_t k, double error)
{
    size_t values = choose_values(p, k);
    const qg_sensitivity *s = p->s;
    const qg_metric *metric = s->study.metric;
    QG_TRY(qg_report_add(r, "error_with_proposal", qg_measure_cell(metric, error)));
    QG_TRY(qg_report_add(r, "rows_raised", qg_cell_count(k)));
    QG_TRY(qg_report_add(r, "values_raised", qg_cell_count(values)));
    QG_TRY(qg_again_report_set(&p->again, r));
    return qg_report_add(r, "candidates", qg_cell_count(p->tried));
}

static void warn_judged(const search *p, double error)
{
    qg_warn(p->s->m->ctx,
            "propose: budget %g: the judged error is %.4g, expected at most the "
            "budget: samples that judge have no part in the choice",
            p->s->o->proposal.budget, error);
}

/* Of a holdout: the data have been examined before. */
static qg_status warn_not_finite(const search *p, double error)
{
    const qg_sensitivity *s = p->s;
    const qg_feed *holdout = &s->split.holdout.feed;
    return s->split.halves || isfinite(error)
               ? QG_OK
               : qg_model_warn_not_finite(s->m, QG_RUN_SIMULATE, &s->o->work, holdout,
                                          holdout->n);
}

/* The samples that choose are within the budget: those that judge may not be. */
static qg_status propose_nothing(search *p, qg_report *r)
{
    const qg_sensitivity *s = p->s;
    double error = s->all;
    if (s->split.judge)
        QG_TRY(measure(p, s->m, s->split.judge, &error));
    if (meets(p, error))
        return qg_report_add(r, "proposal", qg_cell_text("none: within the budget"));
    QG_TRY(warn_not_finite(p, error));
    warn_judged(p, error);
    return qg_report_add(
        r, "proposal",
        qg_cell_text("none: within the budget, but not on the samples that judge"));
}

/* *rows: of the proposal; 0: it does not help. */
static qg_status find_and_judge(search *p, qg_report *r, size_t *rows)
{
    const qg_sensitivity *s = p->s;
    size_t k;
    double error = s->all;
    verdict v = { 0 };
    QG_TRY(expect_risable(p));
    QG_TRY(find_number(p, &k, &error));
    if (k == 0)
        return too_tight(p, error);
    QG_TRY(judge(p, k, &v));
    QG_TRY(warn_not_finite(p, v.error[0] + v.error[1]));
    if (v.helps && !meets(p, v.error[1]))
        warn_judged(p, v.error[1]);
    *rows = v.helps ? k : 0;
    QG_TRY(report(p, r, k, error));
    return report_verdict(p, &v, r);
}

/* A policy is written in any case, as `search` does: without rules where the network as
 * it is quantized now is best. */
static qg_status propose(search *p, qg_report *r)
{
    qg_sensitivity *s = p->s;
    size_t k = 0;
    double nothing = s->study.metric->higher_is_better ? -1 : 0;
    while (p->harmful < s->row.n && s->row.at[p->harmful].harm > nothing)
        p->harmful++;
    p->chosen = QG_NEWN(s->arena, s->m->quant->tqc.n, uint8_t);
    p->raised = QG_NEWN(s->arena, s->m->graph->value.n, uint8_t);
    if (!p->chosen || !p->raised)
        return qg_nomem(s->m->ctx);
    QG_TRY(qg_parts_read(s->m->ctx, s->m->quant, s->arena, &p->parts));
    p->again = (qg_again){ .m = s->m, .work = &s->o->work, .split = &s->split };
    QG_TRY(qg_again_read(&p->again, s->arena, s->o->proposal.backend));
    QG_TRY(qg_report_add(r, "budget",
                         qg_measure_cell(s->study.metric, s->o->proposal.budget)));
    if (meets(p, s->all))
        QG_TRY(propose_nothing(p, r));
    else
        QG_TRY(find_and_judge(p, r, &k));
    QG_TRY(write_patch(p, k));
    return qg_report_add(r, "written", qg_cell_text(s->o->proposal.patch));
}

qg_status qg_sensitivity_propose(qg_sensitivity *s, qg_report *r)
{
    assert(s->o->proposal.patch);
    search p = { .s = s };
    return propose(&p, r);
}
