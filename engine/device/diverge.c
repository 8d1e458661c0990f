/* diverge.c -- qg_model_diverge: where a device computes something else, and what. */
#include <math.h>
#include <string.h>

#include "engine/device/arrays.h"
#include "engine/device/correlate.h"
#include "engine/device/declared.h"
#include "engine/device/premise.h"
#include "engine/exec/meter.h"
#include "engine/exec/pool.h"

QG_OPTIONS_INIT(qg_diverge_options)

/* Hypotheses shown for one step. */
enum { SHOWN = 8 };
/* Nodes that are explained unless the options give a number. */
enum { EXPLAINED = 1 };

/* What a hypothesis must explain to be a verdict: of all elements, and of those that
 * differ.  Codes of few levels fit by chance.  One whose numbers were fitted explains
 * more by itself. */
#define FLOOR                     0.75
#define FLOOR_OF_FITTED           0.9
#define FLOOR_OF_DIFFERING        0.5
#define FLOOR_OF_DIFFERING_FITTED 0.75
/* Share of differing elements from which layout, names or weights are doubtful; a value
 * of which less differs is right but for its arithmetic. */
#define NEARLY_ALL 0.5

/* Cuts are made before the workers begin and freed by qg_model_diverge; `cut` is
 * NULL in a comparison end to end. */
typedef struct comparison {
    const qg_diverge_options *o;
    qg_device d;
    qg_cut *cut;         /* [n_step] */
    qg_finding *finding; /* [n_step] */
    qg_premise premise;
    size_t differing; /* values */
    qg_meter meter;
} comparison;

/* --- every step on the device's inputs --- */

typedef struct witness {
    qg_finding *f;
    qg_moments both;
} witness;

/* Notes the first elements that are not equal.  Samples come in order, and a step
 * has one worker, so the evidence does not depend on timing. */
static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const double *ours,
                     const double *theirs)
{
    witness *w = ud;
    qg_finding *f = w->f;
    (void)ctx;
    for (size_t i = 0; i < f->step->elements; i++) {
        qg_moments_add(&w->both, ours[i], theirs[i]);
        if (ours[i] != theirs[i] && f->n_at < QG_EVIDENCE)
            f->at[f->n_at++] = (qg_evidence){ sample,    i,           ours[i],
                                              theirs[i], (double)NAN, (double)NAN };
    }
    return QG_OK;
}

/* Floats within the tolerance are no evidence: without a difference there is none. */
static void conclude(witness *w)
{
    w->f->correlation = qg_moments_correlation(&w->both);
    if (!w->f->tally.differ)
        w->f->n_at = 0;
}

static qg_status work(void *ud, qg_ctx *ctx, void *state, size_t i)
{
    comparison *c = ud;
    witness w = { .f = &c->finding[i] };
    (void)state;
    QG_TRY(qg_step_try(&c->d, ctx, &c->d.step[i], &c->cut[i],
                       &(qg_step_see){ see, &w, 0 }, &w.f->tally));
    conclude(&w);
    return qg_meter_add(&c->meter, ctx, 1);
}

static qg_status compare(comparison *c)
{
    size_t n = c->d.n_step;
    c->cut = QG_NEWN(c->d.arena, n, qg_cut);
    c->finding = QG_NEWN(c->d.arena, n, qg_finding);
    if (!c->cut || !c->finding)
        return qg_nomem(c->d.ctx);
    for (size_t i = 0; i < n; i++) {
        c->finding[i].step = &c->d.step[i];
        QG_TRY(qg_step_cut(&c->d, &c->d.step[i], &c->cut[i]));
        c->finding[i].fed = qg_premise_fed(&c->d, &c->cut[i]);
    }
    qg_job job = {
        .n = n, .workers = c->o->work.jobs, .work = work, .ud = c, .meter = &c->meter
    };
    qg_meter_begin(&c->meter, &c->o->work.progress, "diverge", n);
    qg_status s = qg_pool_run(c->d.ctx, &job);
    qg_meter_end(&c->meter);
    return s;
}

/* The same values in one run of the whole program. */
static qg_status compare_whole(comparison *c)
{
    size_t n = c->d.n_step;
    qg_step_see *how = QG_NEWN(c->d.arena, n, qg_step_see);
    witness *w = QG_NEWN(c->d.arena, n, witness);
    qg_tally *tally = QG_NEWN(c->d.arena, n, qg_tally);
    c->finding = QG_NEWN(c->d.arena, n, qg_finding);
    if (!how || !w || !tally || !c->finding)
        return qg_nomem(c->d.ctx);
    for (size_t i = 0; i < n; i++) {
        c->finding[i].step = &c->d.step[i];
        w[i].f = &c->finding[i];
        w[i].f->fed = true; /* nothing is read from the trace */
        how[i] = (qg_step_see){ see, &w[i], 0 };
    }
    QG_TRY(qg_device_whole(&c->d, how, tally));
    for (size_t i = 0; i < n; i++) {
        c->finding[i].tally = tally[i];
        conclude(&w[i]);
    }
    return QG_OK;
}

/* A grid that the dump gives otherwise is a difference, too. */
static bool differs(const comparison *c, const qg_finding *f)
{
    return f->tally.differ || qg_declared_differs(&c->d, f->step->value);
}

/* Inputs of the network that no step computes. */
static bool input_differs(const comparison *c, const qg_value *v)
{
    const qg_value *at = c->d.exe.program->value[v->id];
    return at && !at->def && qg_declared_differs(&c->d, v);
}

static void count_differing(comparison *c)
{
    const qg_graph *g = c->d.m->graph;
    c->differing = c->premise.input.n;
    for (size_t i = 0; i < c->d.n_step; i++)
        c->differing += differs(c, &c->finding[i]);
    for (size_t i = 0; i < g->input.n; i++)
        c->differing += input_differs(c, g->input.at[i]);
}

static double share(uint64_t part, uint64_t of)
{
    return of ? (double)part / (double)of : 0;
}

/* Whether the best hypothesis explains these shares of the elements, and of those that
 * differ. */
static bool explains(const qg_finding *f, double least, double of_differing)
{
    const qg_suspect *s = f->suspect.n ? &f->suspect.at[0] : NULL;
    uint64_t own = f->tally.of - f->tally.differ;
    return s && !s->undecided && share(s->fits, s->of) >= least &&
           share(s->fits - own, f->tally.differ) >= of_differing;
}

/* Enough to be a verdict. */
static bool is_explained(const qg_finding *f)
{
    return f->suspect.n && f->suspect.at[0].fitted
               ? explains(f, FLOOR_OF_FITTED, FLOOR_OF_DIFFERING_FITTED)
               : explains(f, FLOOR, FLOOR_OF_DIFFERING);
}

/* Hypotheses for the first differing steps in order of the program, as many as the
 * options request: each hypothesis costs a run of the step over the samples. */
static qg_status explain_first(comparison *c, const qg_others *others)
{
    size_t explained = 0, most = c->o->explain ? c->o->explain : EXPLAINED;
    for (size_t i = 0; i < c->d.n_step && explained < most; i++) {
        if (!c->finding[i].tally.differ || c->finding[i].tally.reshaped)
            continue;
        QG_TRY(qg_suspect_step(&c->d, others, &c->finding[i]));
        c->finding[i].judged = true;
        c->finding[i].explained = is_explained(&c->finding[i]);
        explained++;
    }
    return QG_OK;
}

static qg_status explain(comparison *c)
{
    qg_others others = { 0 };
    if (!c->differing)
        return QG_OK;
    qg_status s = qg_others_open(&c->d, &others);
    if (s == QG_OK)
        s = explain_first(c, &others);
    qg_others_close(&others);
    return s;
}

/* --- the report --- */

static const char *node_of(const qg_device_step *s)
{
    return s->value->def ? s->value->def->name : s->value->name;
}

static bool reads(const qg_cut *c, const qg_value *v)
{
    bool does = false;
    for (size_t i = 0; i < c->n_in; i++)
        does |= c->in[i] == v;
    return does;
}

/* What to look at where most elements of f differ.  Layout, order and names are those
 * of the network where most other values have few differences, with those that f is
 * computed from and those computed from f. */
static const char *advice(const comparison *c, const qg_finding *f)
{
    size_t far = 0, readers = 0;
    bool near = !c->premise.input.n;
    for (size_t i = 0; i < c->d.n_step; i++) {
        const qg_finding *o = &c->finding[i];
        bool reader = reads(&c->cut[i], f->step->target);
        readers += reader;
        if (o == f || share(o->tally.differ, o->tally.of) < NEARLY_ALL)
            continue;
        far++;
        near &= !reader && !reads(&c->cut[f - c->finding], o->step->target);
    }
    if (!near || 2 * far >= c->d.n_step - 1)
        return "check layout, order of samples, names";
    return readers ? "check weights, bias, operator"
                   : "check weights, bias, operator, layout of this array";
}

/* No hypothesis is a verdict: the nearest fitted one, or what to look at. */
static const char *unexplained(const comparison *c, qg_report *r, const qg_finding *f)
{
    const qg_suspect *best = f->suspect.n ? &f->suspect.at[0] : NULL;
    if (explains(f, FLOOR, FLOOR_OF_DIFFERING))
        return qg_arena_printf(
            r->arena, "no hypothesis explains it; nearest: %s: fits %llu of %llu",
            best->verdict, (unsigned long long)best->fits,
            (unsigned long long)best->of);
    bool most = share(f->tally.differ, f->tally.of) >= NEARLY_ALL;
    return qg_arena_printf(r->arena, "no hypothesis explains it%s%s", most ? ": " : "",
                           most ? advice(c, f) : "");
}

/* Dims that depend on the data are others in some samples: no arithmetic of the step
 * explains these, but a difference before it. */
static const char *reshaped(const comparison *c, qg_report *r, const qg_finding *f)
{
    char ours[QG_SHAPE_TEXT], theirs[QG_SHAPE_TEXT];
    return qg_arena_printf(
        r->arena,
        "other dims in %zu of %zu samples: %s computed, %s of samples "
        "in the dump",
        f->tally.reshaped, c->d.samples, qg_tensor_text(&f->tally.other, ours),
        qg_tensor_text(&f->step->pair->array->type, theirs));
}

/* One sentence for the best hypothesis; *out NULL: the step was not judged. */
static qg_status verdict(const comparison *c, qg_report *r, const qg_finding *f,
                         const char **out)
{
    const qg_suspect *best = f->suspect.n ? &f->suspect.at[0] : NULL;
    bool ties =
        f->differ_at_ties && f->differ_at_ties == f->tally.differ && f->tally.most <= 1;
    *out = NULL;
    if (!f->tally.differ) {
        *out = qg_declared_verdict(&c->d, f->step->value, r->arena);
        return *out ? QG_OK : qg_nomem(r->ctx);
    }
    if (f->tally.reshaped) {
        *out = reshaped(c, r, f);
        return *out ? QG_OK : qg_nomem(r->ctx);
    }
    if (!f->judged)
        return QG_OK;
    if (!f->explained) {
        *out = unexplained(c, r, f);
        return *out ? QG_OK : qg_nomem(r->ctx);
    }
    *out = qg_arena_printf(
        r->arena, "%s%s: fits %llu of %llu", ties ? "off by one on ties: " : "",
        best->verdict, (unsigned long long)best->fits, (unsigned long long)best->of);
    return *out ? QG_OK : qg_nomem(r->ctx);
}

static qg_status report_nodes(const comparison *c, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "nodes", "node value differ of share most mean verdict",
                           &t));
    for (size_t i = 0; i < c->d.n_step; i++) {
        const qg_finding *f = &c->finding[i];
        if (!differs(c, f))
            continue;
        const char *text;
        QG_TRY(verdict(c, r, f, &text));
        QG_TRY(qg_table_cells(
            r, t, qg_cell_text(node_of(f->step)), qg_cell_text(f->step->value->name),
            qg_cell_count((size_t)f->tally.differ), qg_cell_count((size_t)f->tally.of),
            qg_cell_percent(share(f->tally.differ, f->tally.of)),
            qg_cell_number(f->tally.most),
            qg_cell_number(f->tally.differ ? f->tally.total / (double)f->tally.differ
                                           : 0),
            qg_cell_text(text)));
    }
    return QG_OK;
}

/* An integer, which may be negative. */
static qg_cell whole(double x)
{
    return isnan(x) ? (qg_cell){ 0 } : (qg_cell){ .kind = QG_CELL_COUNT, .number = x };
}

/* A code, or a float. */
static qg_cell stored(const qg_stored *g, double x)
{
    return g->codes ? whole(x) : qg_cell_number(x);
}

static qg_cell known(double x) { return isnan(x) ? (qg_cell){ 0 } : qg_cell_number(x); }

/* exact: the real value in codes, before rounding; its fraction shows ties. */
static qg_status report_elements(const comparison *c, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(
        r, "elements",
        "node sample element accumulator exact fraction real ours theirs", &t));
    for (size_t i = 0; i < c->d.n_step; i++) {
        const qg_finding *f = &c->finding[i];
        for (size_t k = 0; k < f->n_at; k++) {
            const qg_evidence *e = &f->at[k];
            const qg_stored *g = &f->step->pair->grid;
            double exact =
                g->codes ? e->real / (double)g->scale[0] + g->zero[0] : (double)NAN;
            QG_TRY(qg_table_cells(r, t, qg_cell_text(node_of(f->step)),
                                  qg_cell_count(e->sample), qg_cell_count(e->index),
                                  whole(e->accumulator), known(exact),
                                  known(exact - floor(exact)), known(e->real),
                                  stored(g, e->ours), stored(g, e->theirs)));
        }
    }
    return QG_OK;
}

/* A wrong description explains nothing that differs, but what would differ with it. */
static qg_status report_refuted(const comparison *c, const qg_finding *f, qg_report *r,
                                qg_table *t)
{
    uint64_t fits = f->tally.of - f->tally.differ;
    const char *text = qg_declared_verdict(&c->d, f->step->value, r->arena);
    return text ? qg_table_cells(r, t, qg_cell_text(node_of(f->step)),
                                 qg_cell_text("grid"), qg_cell_count((size_t)fits),
                                 qg_cell_count((size_t)f->tally.of),
                                 qg_cell_percent(share(fits, f->tally.of)),
                                 qg_cell_text(text), (qg_cell){ 0 })
                : qg_nomem(r->ctx);
}

static qg_status report_hypotheses(const comparison *c, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "hypotheses", "node cause fits of share verdict detail",
                           &t));
    for (size_t i = 0; i < c->d.n_step; i++) {
        const qg_finding *f = &c->finding[i];
        if (qg_declared_differs(&c->d, f->step->value) && f->step->pair->refuted)
            QG_TRY(report_refuted(c, f, r, t));
        for (size_t k = 0; k < f->suspect.n; k++) {
            const qg_suspect *s = &f->suspect.at[k];
            /* all that explain as much as the best, a few behind, undecided ones */
            if (k >= SHOWN && s->fits < f->suspect.at[0].fits && !s->undecided)
                continue;
            QG_TRY(qg_table_cells(
                r, t, qg_cell_text(node_of(f->step)), qg_cell_text(s->cause),
                qg_cell_count((size_t)s->fits), qg_cell_count((size_t)s->of),
                qg_cell_percent(share(s->fits, s->of)), qg_cell_text(s->verdict),
                qg_cell_text(s->detail)));
        }
    }
    return QG_OK;
}

/* Floats that lie on no code of the value's grid, but for inputs as they are fed. */
static qg_status report_off(const comparison *c, qg_report *r)
{
    qg_table *t = NULL;
    for (size_t i = 0; i < c->d.n_step; i++) {
        const qg_finding *f = &c->finding[i];
        if (!f->tally.off || f->step->pair->fed)
            continue;
        if (!t)
            QG_TRY(qg_report_table(r, "off_the_grid", "value elements of", &t));
        QG_TRY(qg_table_cells(r, t, qg_cell_text(f->step->value->name),
                              qg_cell_count((size_t)f->tally.off),
                              qg_cell_count((size_t)f->tally.of)));
    }
    return QG_OK;
}

/* The name of the first that differs: an input, or a node in order of the program;
 * NULL: none. */
static const char *first_of(const comparison *c)
{
    const qg_graph *g = c->d.m->graph;
    if (c->premise.input.n)
        return c->premise.input.at[0].value->name;
    for (size_t i = 0; i < g->input.n; i++)
        if (input_differs(c, g->input.at[i]))
            return g->input.at[i]->name;
    for (size_t i = 0; i < c->d.n_step; i++)
        if (differs(c, &c->finding[i]))
            return node_of(c->finding[i].step);
    return NULL;
}

static qg_status fill(const comparison *c, qg_report *r)
{
    const char *first = first_of(c);
    QG_TRY(qg_report_add(r, "profile", qg_cell_text(c->d.exe.program->profile->name)));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(c->d.samples)));
    QG_TRY(qg_report_add(
        r, "compared",
        qg_cell_text(c->o->end_to_end ? "end to end" : "on the device's own inputs")));
    QG_TRY(qg_report_add(r, "values", qg_cell_count(c->d.n_step)));
    QG_TRY(qg_report_add(r, "differing", qg_cell_count(c->differing)));
    QG_TRY(qg_report_add(r, "first", qg_cell_text(first)));
    QG_TRY(qg_premise_report(&c->premise, r));
    QG_TRY(qg_arrays_report(&c->d, r));
    QG_TRY(report_off(c, r));
    QG_TRY(qg_declared_report(&c->d, r));
    if (!first)
        return QG_OK;
    QG_TRY(report_nodes(c, r));
    QG_TRY(report_elements(c, r));
    return c->o->end_to_end ? QG_OK : report_hypotheses(c, r);
}

static qg_status run(comparison *c, qg_trace *t, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_device_pair(&c->d, t));
    QG_TRY(qg_device_find_grids(&c->d));
    qg_device_hide_doubted(&c->d);
    QG_TRY(qg_declared_settle(&c->d));
    QG_TRY(qg_premise_inputs(&c->d, &c->premise));
    QG_TRY(c->o->end_to_end ? compare_whole(c) : compare(c));
    count_differing(c);
    if (!c->o->end_to_end)
        QG_TRY(explain(c));
    QG_TRY(qg_premise_judge(&c->d, c->o->end_to_end ? NULL : c->finding, &c->premise));
    QG_TRY(qg_report_new(c->d.ctx, "diverge", &r));
    return qg_report_end(fill(c, r), r, out);
}

qg_status qg_model_diverge(qg_model *m, const qg_diverge_options *given,
                           const char *dump, qg_report **report)
{
    qg_diverge_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_diverge_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    comparison c = { .o = &o };
    qg_trace *t = NULL;
    qg_status s = qg_device_open(&c.d, m, &o.work, o.profile);
    if (s == QG_OK)
        s = qg_trace_open(m->ctx, dump, &t);
    if (s == QG_OK)
        s = run(&c, t, report);
    for (size_t i = 0; c.cut && i < c.d.n_step; i++)
        qg_graph_free(c.cut[i].graph);
    qg_device_close(&c.d);
    qg_trace_close(t);
    return s;
}
