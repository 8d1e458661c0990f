/* fit.c -- qg_model_fit: which profile's rows explain the outputs of a device. */
#include <string.h>

#include "engine/core/reads.h"
#include "engine/device/arrays.h"
#include "engine/device/compose.h"
#include "engine/device/declared.h"
#include "engine/device/draft.h"
#include "engine/device/exact.h"
#include "engine/device/premise.h"

/* --- the report --- */

/* The float operator whose kernel makes step i; nodes that lowering adds have no
 * node of their name in the model, so the value's producer counts.  "input": none. */
static const char *operator_of(const qg_fit *f, size_t i)
{
    const qg_device_step *s = &f->d->step[i];
    const qg_node *n = qg_graph_node(f->d->m->graph, s->target->def->name);
    n = n ? n : s->value->def;
    return n ? n->op->name : "input";
}

/* "a, b", or "all" of those that have the step. */
typedef struct tellers {
    const char *names; /* profiles that explain every element of the operator */
    size_t explaining, computing;
    size_t results; /* different results among those that explain */
} tellers;

static bool of_operator(const qg_fit *f, size_t i, const char *op)
{
    return strcmp(operator_of(f, i), op) == 0;
}

/* Whether the profile has a kernel for, and explains, every step of this operator.
 * *has: it computes one at least. */
static bool explains(const qg_fit *f, const qg_fit_profile *p, const char *op,
                     bool *has)
{
    bool all = p->cell != NULL;
    *has = false;
    for (size_t i = 0; p->cell && i < f->d->n_step; i++) {
        if (!of_operator(f, i, op))
            continue;
        *has |= p->cell[i].try != NULL;
        all &= qg_fit_explains(&p->cell[i]);
    }
    return all && *has;
}

static qg_status tell(const qg_fit *f, const char *op, qg_arena *a, tellers *out)
{
    *out = (tellers){ .names = "" };
    for (size_t i = 0; i < f->profile.n; i++) {
        const qg_fit_profile *p = f->profile.at[i];
        bool has;
        if (explains(f, p, op, &has)) {
            out->names = qg_arena_printf(a, "%s%s%s", out->names,
                                         *out->names ? ", " : "", p->profile->name);
            out->explaining++;
        }
        out->computing += has;
        if (!out->names)
            return qg_nomem(f->d->ctx);
    }
    return QG_OK;
}

/* The largest number of different results that profiles give for one step of an
 * operator: 1 when the samples tell nothing apart.  explaining: only of those that
 * explain the step. */
static size_t results_of(const qg_fit *f, const char *op, bool explaining)
{
    size_t different = 0;
    for (size_t i = 0; i < f->d->n_step; i++) {
        size_t here = 0;
        for (size_t p = 0; of_operator(f, i, op) && p < f->profile.n; p++) {
            const qg_fit_cell *c =
                f->profile.at[p]->cell ? &f->profile.at[p]->cell[i] : NULL;
            bool seen =
                !c || !c->try || c->try->failed || (explaining && !qg_fit_explains(c));
            for (size_t q = 0; q < p && !seen; q++) {
                const qg_fit_cell *o = f->profile.at[q]->cell;
                seen = o && o[i].try && !o[i].try->failed &&
                       o[i].try->result == c->try->result;
            }
            here += !seen;
        }
        different = here > different ? here : different;
    }
    return different;
}

/* A row for the operator of step `at`, unless an earlier step has given it. */
static qg_status report_operator(const qg_fit *f, size_t at, qg_report *r, qg_table *t)
{
    const char *op = operator_of(f, at);
    tellers who;
    size_t nodes = 0;
    uint64_t elements = 0, ties = 0;
    for (size_t i = 0; i < f->d->n_step; i++) {
        if (!of_operator(f, i, op))
            continue;
        if (i < at)
            return QG_OK; /* its row is there */
        nodes++;
        elements += (uint64_t)f->d->step[i].elements * f->d->samples;
        ties += f->ties[i];
    }
    QG_TRY(tell(f, op, r->arena, &who));
    bool some = who.explaining > 1 && results_of(f, op, false) > 1;
    const char *verdict = !who.explaining       ? "no profile explains all"
                          : who.explaining == 1 ? "told"
                          : !some               ? "not told apart"
                                  : qg_arena_printf(r->arena, "%zu others ruled out",
                                                    who.computing - who.explaining);
    if (!verdict)
        return qg_nomem(f->d->ctx);
    return qg_table_cells(r, t, qg_cell_text(op), qg_cell_count(nodes),
                          qg_cell_count((size_t)elements), qg_cell_count((size_t)ties),
                          qg_cell_text(verdict), qg_cell_count(who.explaining),
                          qg_cell_names(who.names, who.explaining));
}

static qg_status report_operators(const qg_fit *f, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "operators",
                           "operator nodes elements ties verdict explaining profiles",
                           &t));
    for (size_t i = 0; i < f->d->n_step; i++)
        QG_TRY(report_operator(f, i, r, t));
    return QG_OK;
}

static qg_status report_profiles(const qg_fit *f, qg_report *r)
{
    qg_table *t;
    QG_TRY(
        qg_report_table(r, "profiles", "profile values of share first_other why", &t));
    for (size_t i = 0; i < f->profile.n; i++) {
        const qg_fit_profile *p = f->profile.at[i];
        const char *other = NULL;
        for (size_t k = f->d->n_step; p->cell && k-- > 0;)
            if (!qg_fit_explains(&p->cell[k]))
                other = f->d->step[k].value->name;
        size_t n = qg_fit_explained(f, p);
        QG_TRY(qg_table_cells(r, t, qg_cell_text(p->profile->name), qg_cell_count(n),
                              qg_cell_count(f->d->n_step),
                              qg_cell_percent((double)n / (double)f->d->n_step),
                              qg_cell_text(other), qg_cell_text(p->refusal)));
    }
    return QG_OK;
}

/* --- ties --- */

/* Of all samples: real values half-way between two codes. */
static qg_status count_ties(qg_fit *f)
{
    f->ties = QG_NEWN(f->d->arena, f->d->n_step, uint64_t);
    if (!f->ties)
        return qg_nomem(f->d->ctx);
    for (size_t i = 0; i < f->d->n_step; i++)
        QG_TRY(qg_exact_ties(f->d, &f->d->step[i], &f->ties[i]));
    return QG_OK;
}

/* --- the premise --- */

/* The differences of the profile that explains most of the step: what is left does not
 * come from a kernel. */
static void note_best(const qg_fit *f, size_t i, qg_finding *out)
{
    out->tally.differ = UINT64_MAX;
    for (size_t k = 0; k < f->profile.n; k++) {
        const qg_fit_cell *x = f->profile.at[k]->cell;
        if (x && x[i].try && !x[i].try->failed &&
            x[i].try->tally.differ < out->tally.differ)
            out->tally = x[i].try->tally;
    }
}

/* Only steps that read the samples alone are correlated, and others taken as related:
 * that tells other samples. */
static qg_status judge_premise(const qg_fit *f, qg_premise *p)
{
    qg_finding *all = QG_NEWN(f->d->arena, f->d->n_step, qg_finding);
    if (!all)
        return qg_nomem(f->d->ctx);
    for (size_t i = 0; i < f->d->n_step; i++) {
        all[i] = (qg_finding){ .step = &f->d->step[i], .correlation = 1 };
        QG_TRY(qg_premise_relate(f->d, &all[i]));
        note_best(f, i, &all[i]);
    }
    return qg_premise_judge(f->d, all, p);
}

/* --- all --- */

static qg_status try_profiles(qg_fit *f)
{
    qg_search search;
    const char **name;
    size_t n;
    QG_TRY(qg_config_search(f->d->ctx, f->d->arena, "profiles", &search));
    QG_TRY(qg_config_names(f->d->ctx, f->d->arena, search, &name, &n));
    bool listed = !f->given;
    for (size_t i = 0; i < n; i++) {
        listed = listed || strcmp(name[i], f->given) == 0;
        QG_TRY(qg_fit_add(f, name[i], search));
    }
    if (!listed)
        QG_TRY(qg_fit_add(f, f->given, search));
    QG_TRY(qg_fit_run(f));
    return count_ties(f);
}

/* Profiles that explain every value, "a, b", and their number; NULL: no memory. */
static const char *whole(const qg_fit *f, qg_arena *a, size_t *n)
{
    const char *names = "";
    *n = 0;
    for (size_t i = 0; names && i < f->profile.n; i++)
        if (qg_fit_explained(f, f->profile.at[i]) == f->d->n_step) {
            names = qg_arena_printf(a, "%s%s%s", names, *names ? ", " : "",
                                    f->profile.at[i]->profile->name);
            ++*n;
        }
    return names;
}

/* A value inside of a kernel that no rounding explains: then no profile is right. */
static bool is_doubted(const qg_device *d)
{
    for (size_t i = 0; i < d->m->graph->value.n; i++)
        if (d->pair[i].doubted)
            return true;
    return false;
}

static qg_status fill(qg_fit *f, const qg_premise *p, const char *yaml, qg_report *r)
{
    size_t n;
    const char *names = whole(f, r->arena, &n);
    if (!names)
        return qg_nomem(f->d->ctx);
    if (is_doubted(f->d))
        n = 0;
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(f->d->samples)));
    QG_TRY(qg_report_add(r, "values", qg_cell_count(f->d->n_step)));
    QG_TRY(qg_report_addf(r, "verdict", "%s",
                          n == 0   ? "no profile explains all values"
                          : n == 1 ? names
                                   : "not told apart"));
    if (n > 1)
        QG_TRY(qg_report_add(r, "not_told_apart", qg_cell_text(names)));
    QG_TRY(qg_premise_report(p, r));
    QG_TRY(qg_arrays_report(f->d, r));
    QG_TRY(qg_declared_report(f->d, r));
    QG_TRY(report_operators(f, r));
    QG_TRY(report_profiles(f, r));
    return qg_fit_compose(f, yaml, r);
}

static qg_status run(qg_device *d, qg_trace *t, const char *given, const char *yaml,
                     qg_report **out)
{
    qg_report *r;
    qg_fit f = { .d = d, .given = given };
    qg_premise p = { 0 };
    QG_TRY(qg_device_pair(d, t));
    QG_TRY(qg_device_find_grids(d));
    QG_TRY(qg_declared_settle(d));
    QG_TRY(qg_premise_inputs(d, &p));
    for (size_t i = 0; i < d->n_step; i++) /* a try that fails explains nothing */
        QG_TRY(qg_step_read(d, &d->step[i]));
    qg_status s = try_profiles(&f);
    if (s == QG_OK)
        s = judge_premise(&f, &p);
    if (s == QG_OK)
        s = qg_report_new(d->ctx, "fit", &r);
    if (s == QG_OK)
        s = qg_report_end(fill(&f, &p, yaml, r), r, out);
    qg_fit_free(&f);
    return s;
}

qg_status qg_model_fit(qg_model *m, const qg_diverge_options *given, const char *dump,
                       const char *yaml, qg_report **report)
{
    qg_diverge_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_diverge_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    QG_TRY(qg_draft_check_path(m->ctx, "fit", "--profile", o.profile, yaml));
    qg_reads_forget(m->ctx);
    qg_device d = { 0 };
    qg_trace *t = NULL;
    qg_status s = qg_device_open(&d, m, &o.work, o.profile);
    if (s == QG_OK)
        s = qg_trace_open(m->ctx, dump, &t);
    if (s == QG_OK)
        s = run(&d, t, o.profile, yaml, report);
    qg_device_close(&d);
    qg_trace_close(t);
    return s;
}
