/* over.c -- `qg search --over rules`: every fusion and sharing rule of a backend that
 * acts on the network is switched off by a policy patch, alone and in pairs.
 *
 * Acts     it matched, as the coverage of the passes tells; switching others off
 *          changes nothing */
#include <math.h>
#include <stdlib.h>

#include "engine/analysis/measure.h"
#include "engine/analysis/requantize.h"
#include "engine/search/search.h"

QG_OPTIONS_INIT(qg_rules_options)

/* A rule of the backend. */
typedef struct rule {
    const char *id;
    bool is_sharing;
} rule;

/* The network without some rules. */
typedef struct row {
    size_t off[2], n; /* rules, and how many: 0 to 2 */
    double nsr;
    size_t rounding, requantizations;
} row;

typedef struct taking {
    qg_model *m;
    const qg_rules_options *o;
    qg_arena *arena;
    qg_split split;
    qg_again again;
    qg_measured at; /* for messages: each trial has its own */
    const qg_metric *metric;
    QG_VEC(rule) rule; /* that act */
    size_t idle;
    QG_VEC(row) row; /* the first: with all rules */
} taking;

/* --- which rules act --- */

static bool acts(const qg_model *trial, const char *id, bool is_sharing)
{
    for (size_t i = 0; i < trial->info.n_coverage; i++) {
        const qg_coverage_row *c = &trial->info.coverage[i];
        if (strcmp(c->pattern, id) == 0 && c->matched > 0 &&
            (strcmp(c->pass, "align") == 0) == is_sharing)
            return true;
    }
    return false;
}

static qg_status add_rule(taking *k, const qg_model *trial, const char *id,
                          bool is_sharing)
{
    rule r = { qg_arena_strdup(k->arena, id), is_sharing };
    if (!acts(trial, id, is_sharing)) {
        k->idle++;
        return QG_OK;
    }
    return r.id ? qg_vec_push(k->m->ctx, k->arena, &k->rule, r) : qg_nomem(k->m->ctx);
}

static qg_status find_rules(taking *k, const qg_model *trial)
{
    const qg_backend *b = trial->quant->backend;
    for (size_t i = 0; i < b->fusion.n; i++)
        QG_TRY(add_rule(k, trial, b->fusion.at[i].origin.id, false));
    for (size_t i = 0; i < b->sharing.n; i++)
        QG_TRY(add_rule(k, trial, b->sharing.at[i].origin.id, true));
    return QG_OK;
}

/* --- one policy --- */

static void print_section(const taking *k, const row *x, bool sharing, FILE *f)
{
    const char *open = sharing ? "-sharing: [" : "-fusions: [";
    bool any = false;
    for (size_t i = 0; i < x->n; i++) {
        const rule *r = &k->rule.at[x->off[i]];
        if (r->is_sharing != sharing)
            continue;
        (void)fprintf(f, "%s%s", any ? ", " : open, r->id);
        any = true;
    }
    if (any)
        (void)fputs("]\n", f);
}

static qg_status make_patch(const taking *k, const row *x, qg_memory_file *f)
{
    QG_TRY(qg_memory_open(k->m->ctx, f));
    print_section(k, x, false, f->stream);
    print_section(k, x, true, f->stream);
    return qg_memory_close(f, QG_OK);
}

/* Of the backend as it is; warnings of its quantization are not shown. */
static qg_status warn_not_finite(const taking *k, qg_model *trial, double nsr)
{
    const qg_split *s = &k->split;
    const qg_feed *all = s->halves ? &s->feed.feed : &s->holdout.feed;
    return isfinite(nsr) ? QG_OK
                         : qg_model_warn_not_finite(trial, QG_RUN_SIMULATE, &k->o->work,
                                                    all, all->n);
}

static qg_status measure(taking *k, qg_model *trial, row *x)
{
    if (x->n == 0)
        QG_TRY(qg_again_check_holdout(&k->again, trial));
    if (x->n == 0)
        QG_TRY(find_rules(k, trial));
    x->rounding = qg_rounding_points(trial->quant);
    x->requantizations = qg_requantizations(trial->graph, NULL);
    qg_again_question q = { trial, k->split.judge, k->metric };
    QG_TRY(qg_again_error(&k->again, &q, &x->nsr, NULL));
    return x->n == 0 ? warn_not_finite(k, trial, x->nsr) : QG_OK;
}

static qg_status try_row(taking *k, row x)
{
    qg_memory_file f = { 0 };
    qg_model trial;
    if (x.n > 0)
        QG_TRY(make_patch(k, &x, &f));
    qg_status st = qg_again_quantize(&k->again, f.bytes, &trial);
    qg_memory_free(&f);
    if (st == QG_OK)
        st = measure(k, &trial, &x);
    qg_again_drop(&trial);
    QG_TRY(st);
    return qg_vec_push(k->m->ctx, k->arena, &k->row, x);
}

static qg_status try_all(taking *k)
{
    QG_TRY(try_row(k, (row){ 0 }));
    for (size_t i = 0; i < k->rule.n; i++)
        QG_TRY(try_row(k, (row){ .off = { i }, .n = 1 }));
    for (size_t i = 0; i < k->rule.n; i++)
        for (size_t j = i + 1; j < k->rule.n; j++)
            QG_TRY(try_row(k, (row){
                                  .off = {i, j},
                                    .n = 2
            }));
    return QG_OK;
}

/* --- the report --- */

/* Least noise first; fewer rules off, then their order. */
static int by_nsr(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (isnan(x->nsr) != isnan(y->nsr))
        return isnan(x->nsr) ? 1 : -1;
    if (x->nsr != y->nsr && !isnan(x->nsr))
        return x->nsr < y->nsr ? -1 : 1;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    if (x->off[0] != y->off[0])
        return x->off[0] < y->off[0] ? -1 : 1;
    return (x->off[1] > y->off[1]) - (x->off[1] < y->off[1]);
}

static const char *off_text(const taking *k, const row *x)
{
    if (x->n == 0)
        return "none";
    const char *first = k->rule.at[x->off[0]].id;
    return x->n == 1
               ? first
               : qg_arena_printf(k->arena, "%s, %s", first, k->rule.at[x->off[1]].id);
}

static qg_status report_rows(taking *k, qg_report *r)
{
    qg_table *t;
    row all = k->row.at[0];
    QG_TRY(qg_report_table(
        r, "policies", "off nsr nsr_change rounding_points requantizations added_steps",
        &t));
    qsort(k->row.at, k->row.n, sizeof *k->row.at, by_nsr);
    for (size_t i = 0; i < k->row.n; i++) {
        const row *x = &k->row.at[i];
        double steps = (double)(x->rounding + x->requantizations) -
                       (double)(all.rounding + all.requantizations);
        QG_TRY(qg_table_cells(
            r, t, qg_cell_made(off_text(k, x)), qg_measure_cell(k->metric, x->nsr),
            qg_measure_cell(k->metric, x->nsr - all.nsr), qg_cell_count(x->rounding),
            qg_cell_count(x->requantizations), qg_cell_number(steps)));
    }
    return QG_OK;
}

static qg_status report(taking *k, qg_report *r)
{
    QG_TRY(qg_report_add(r, "backend", qg_cell_text(qg_path_base(k->o->backend))));
    QG_TRY(qg_report_add(r, "metric", qg_cell_text(k->metric->name)));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(k->split.choose->n)));
    QG_TRY(qg_report_add(r, "measured_on", qg_cell_count(k->split.judge->n)));
    QG_TRY(qg_measured_report(&k->at, r));
    QG_TRY(qg_report_add(r, "rules_acting", qg_cell_count(k->rule.n)));
    QG_TRY(qg_report_add(r, "rules_idle", qg_cell_count(k->idle)));
    return report_rows(k, r);
}

static qg_status run(taking *k, qg_report **out)
{
    qg_split_request r = {
        .doing = "search", .work = &k->o->work, .holdout = k->o->holdout, .judges = true
    };
    qg_report *answer;
    QG_TRY(qg_split_open(k->m, &r, &k->split));
    QG_TRY(qg_measured_find(k->m->graph, k->split.judge, "search", k->arena, &k->at));
    k->again = (qg_again){ .m = k->m,
                           .work = &k->o->work,
                           .split = &k->split,
                           .backend = k->o->backend,
                           .observer = k->o->observer };
    QG_TRY(qg_again_policies(&k->again, k->arena, k->o->policy, k->o->n_policy));
    QG_TRY(try_all(k));
    QG_TRY(qg_report_new(k->m->ctx, "search", &answer));
    return qg_report_end(report(k, answer), answer, out);
}

qg_status qg_model_search_rules(qg_model *m, const qg_rules_options *given,
                                qg_report **out)
{
    qg_rules_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_rules_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    if (!o.backend)
        return qg_fail(m->ctx, QG_ECONFIG, "search: no backend given, expected a name");
    taking k = { .m = m, .o = &o };
    if (m->quant)
        return qg_fail(m->ctx, QG_ECONFIG,
                       "search: %s is a snapshot, expected with --over rules a model "
                       "that is not quantized, and its backend",
                       m->path);
    QG_TRY(qg_model_expect_float(m, "search"));
    QG_TRY(qg_model_begin_float32(m));
    QG_TRY(qg_measure_by(m->ctx, NULL, &k.metric));
    k.arena = qg_arena_new(m->ctx->alloc);
    qg_status st = k.arena ? run(&k, out) : qg_nomem(m->ctx);
    qg_split_close(&k.split);
    qg_arena_free(k.arena);
    return st;
}
