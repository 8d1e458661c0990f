#include "engine/device/premise.h"

#include "engine/device/correlate.h"
#include "engine/device/samples.h"

/* Share of elements from which a value is another one; a Relu leaves many zeros. */
#define OTHER 0.3
/* Correlation below which it has nothing to do with the device's.  Samples of one kind
 * correlate, too; rounding an input leaves nearly 1. */
#define RELATED       0.9
#define RELATED_INPUT 0.99

bool qg_premise_fed(const qg_device *d, const qg_cut *c)
{
    bool fed = c->n_in > 0;
    for (size_t i = 0; i < c->n_in; i++)
        fed &= !d->stop[c->in[i]->id];
    return fed;
}

typedef struct relation {
    qg_moments both;
    size_t elements; /* of a sample */
} relation;

static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const double *ours,
                     const double *theirs)
{
    relation *r = ud;
    (void)ctx, (void)sample;
    for (size_t i = 0; i < r->elements; i++)
        qg_moments_add(&r->both, ours[i], theirs[i]);
    return QG_OK;
}

qg_status qg_premise_relate(const qg_device *d, qg_finding *f)
{
    relation r = { .elements = f->step->elements };
    qg_cut c;
    QG_TRY(qg_step_cut(d, f->step, &c));
    f->fed = qg_premise_fed(d, &c);
    qg_status s = f->fed ? qg_step_try(d, d->ctx, f->step, &c,
                                       &(qg_step_see){ see, &r, 0 }, &f->tally)
                         : QG_OK;
    qg_graph_free(c.graph);
    if (f->fed && s == QG_OK)
        f->correlation = qg_moments_correlation(&r.both);
    return qg_refusal(s);
}

/* --- inputs --- */

/* An input that lowering quantizes is a step of its own. */
static bool is_as_fed(const qg_device *d, const qg_value *v)
{
    const qg_value *at = d->exe.program->value[v->id];
    return d->pair[v->id].array && at && !at->def;
}

qg_status qg_premise_inputs(const qg_device *d, qg_premise *p)
{
    for (size_t i = 0; i < d->m->graph->input.n; i++) {
        const qg_value *v = d->m->graph->input.at[i];
        qg_premise_input in = { .value = v };
        if (!is_as_fed(d, v))
            continue;
        QG_TRY(qg_step_fed(d, v, NULL, &in.tally));
        if (in.tally.differ)
            QG_TRY(qg_vec_push(d->ctx, d->arena, &p->input, in));
    }
    return QG_OK;
}

/* --- the fault --- */

static double share(const qg_tally *t)
{
    return t->of ? (double)t->differ / (double)t->of : 0;
}

static bool is_other(const qg_finding *f) { return share(&f->tally) >= OTHER; }

/* That elements lie on no code of its grid explains any input that is another one, so
 * that an explanation allows an input less correlation, not none. */
static bool is_unrelated(const qg_finding *f)
{
    bool input = !f->step->value->def;
    bool strict = input && !f->explained;
    return is_other(f) && (input || !f->explained) &&
           f->correlation < (strict ? RELATED_INPUT : RELATED);
}

/* Numbers of steps: those that read the samples alone, and the others. */
typedef struct census {
    size_t fed, fed_unrelated, rest, rest_unrelated, other;
} census;

static census count(const qg_device *d, const qg_finding *f)
{
    census n = { 0 };
    for (size_t i = 0; i < d->n_step; i++) {
        bool unrelated = is_unrelated(&f[i]);
        n.other += is_other(&f[i]);
        n.fed += f[i].fed;
        n.fed_unrelated += f[i].fed && unrelated;
        n.rest += !f[i].fed;
        n.rest_unrelated += !f[i].fed && unrelated;
    }
    return n;
}

/* Paired arrays of integers without a grid, where the program has codes. */
static size_t without_grid(const qg_device *d)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n_step; i++) {
        const qg_trace_array *a = d->step[i].pair->array;
        n += d->step[i].stored->codes && !a->grid && qg_trace_holds_codes(a);
    }
    return n;
}

static const char *fault_of_steps(const qg_device *d, const qg_finding *f)
{
    census n = count(d, f);
    size_t bare = without_grid(d);
    if (n.fed && n.fed_unrelated == n.fed && 2 * n.rest_unrelated <= n.rest)
        return "the dump does not come from these samples, or has them in another "
               "order: what is computed from the samples alone does not correlate";
    if (n.fed_unrelated + n.rest_unrelated > 1 &&
        2 * (n.fed_unrelated + n.rest_unrelated) >= d->n_step)
        return "most values of the dump do not correlate with the network's: check "
               "layout, order of samples and names";
    if (2 * n.other >= d->n_step && n.other > 1 && bare)
        return qg_arena_printf(d->arena,
                               "most codes of the dump are others than the snapshot's, "
                               "and %zu arrays of integers have no grid in trace.json: "
                               "expected the device's grids",
                               bare);
    return "";
}

/* --- samples --- */

/* Values of which whole samples can be others: each costs a run of its step. */
enum { STUDIED = 4 };

/* What is said of the samples of inputs and steps: the first sentence that there is. */
static qg_status study_samples(const qg_device *d, const qg_finding *f,
                               const qg_premise *p, const char **out)
{
    size_t studied = 0;
    *out = NULL;
    for (size_t i = 0; i < p->input.n && !*out; i++)
        if (qg_samples_suspicious(d, &p->input.at[i].tally))
            QG_TRY(qg_samples_study(d, NULL, p->input.at[i].value, out));
    for (size_t i = 0; f && i < d->n_step && !*out && studied < STUDIED; i++) {
        if (f[i].explained || !qg_samples_suspicious(d, &f[i].tally))
            continue;
        studied++;
        QG_TRY(qg_samples_study(d, f[i].step, NULL, out));
        if (!*out || f[i].fed)
            continue;
        *out = qg_arena_printf(d->arena, "array '%.1000s': %s", f[i].step->value->name,
                               *out);
        return *out ? QG_OK : qg_nomem(d->ctx);
    }
    if (!*out)
        return QG_OK;
    *out = qg_arena_printf(
        d->arena, "the dump does not come from these samples in this order: %s", *out);
    return *out ? QG_OK : qg_nomem(d->ctx);
}

qg_status qg_premise_judge(const qg_device *d, const qg_finding *f, qg_premise *p)
{
    const char *text = "";
    QG_TRY(study_samples(d, f, p, &p->fault));
    if (p->fault)
        return QG_OK;
    if (p->input.n) {
        const qg_premise_input *in = &p->input.at[0];
        text = qg_arena_printf(d->arena,
                               "the dump does not come from these samples: input "
                               "'%.1000s' differs in %llu "
                               "of %llu elements",
                               in->value->name, (unsigned long long)in->tally.differ,
                               (unsigned long long)in->tally.of);
    } else if (f)
        text = fault_of_steps(d, f);
    p->fault = text && *text ? text : NULL;
    return text ? QG_OK : qg_nomem(d->ctx);
}

qg_status qg_premise_report(const qg_premise *p, qg_report *r)
{
    qg_table *t;
    if (p->fault)
        QG_TRY(qg_report_add(r, "fault", qg_cell_text(p->fault)));
    if (!p->input.n)
        return QG_OK;
    QG_TRY(qg_report_table(r, "inputs", "value differ of share", &t));
    for (size_t i = 0; i < p->input.n; i++) {
        const qg_tally *n = &p->input.at[i].tally;
        QG_TRY(qg_table_cells(r, t, qg_cell_text(p->input.at[i].value->name),
                              qg_cell_count((size_t)n->differ),
                              qg_cell_count((size_t)n->of), qg_cell_percent(share(n))));
    }
    return QG_OK;
}
