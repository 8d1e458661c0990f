#include "engine/analysis/causes.h"

#include <math.h>
#include <string.h>

#include "engine/analysis/parts.h"
#include "engine/analysis/what_if.h"
#include "engine/quant/fake_kernel.h"
#include "engine/session/session.h"

/* Subsets of causes are masks: bit k is set where cause k is switched off. */
enum { CAUSES = 3, SUBSETS = 1 << CAUSES, ALL = SUBSETS - 1, BUDGETS = 2 };
enum { WEIGHTS = 1, ACTIVATIONS = 2, BIAS = 4 };
enum { ROUNDING = 1, CLIPPING = 2, SHARING = 4 };

static const char *const budget_name[BUDGETS] = { "place", "mechanism" };
static const char *const cause_name[BUDGETS][CAUSES] = {
    {"weights",   "activations", "bias"   },
    { "rounding", "clipping",    "sharing"},
};

typedef struct causes {
    qg_model *m;
    const qg_analyse_options *o;
    const qg_metric *metric;
    qg_arena *arena;
    qg_api_feed feed;
    qg_parts parts;
    qg_what_if question[BUDGETS * SUBSETS];
    double error[BUDGETS][SUBSETS]; /* of the worst output */
    uint32_t output;
    const char *worst; /* the name of that output */
    qg_measured at;
    size_t strange; /* the first sample with an error that is not finite */
} causes;

/* --- places --- */

static unsigned place_of(const qg_tqc *t)
{
    if (!qg_tqc_is_constant(t))
        return ACTIVATIONS;
    return qg_tqc_role(t) == 'b' ? BIAS : WEIGHTS;
}

static qg_status mute_places(causes *c, unsigned off, const uint8_t **out)
{
    const qg_quant *q = c->m->quant;
    uint8_t *mute = QG_NEWN(c->arena, q->tqc.n, uint8_t);
    if (!mute)
        return qg_nomem(c->m->ctx);
    for (size_t i = 0; i < q->tqc.n; i++)
        mute[i] = (place_of(q->tqc.at[i]) & off) != 0;
    *out = mute;
    return QG_OK;
}

/* --- mechanisms --- */

/* Steps are divided by 2^FINE; offsets have to stay below 2^31. */
enum { FINE = 12, SMALL_BITS = 16, CODE_BITS = 31, WIDE = 40 };

static int fine_shift(const qg_scheme *s)
{
    bool fits = !(s->policy & QG_ASYMMETRIC) || s->bits + FINE < CODE_BITS;
    return fits ? FINE : s->bits < CODE_BITS - 1 ? CODE_BITS - 1 - s->bits : 0;
}

/* The factor of a scale under make_fine. */
static double fine_factor(const qg_scheme *s)
{
    return s->policy & QG_FLOATING ? ldexp(qg_floating_top(s), -WIDE)
                                   : ldexp(1, -fine_shift(s));
}

/* Without rounding: the same ends. */
static void make_fine(qg_scheme *s)
{
    int shift = fine_shift(s);
    s->rounding = QG_ROUND_HALF_EVEN;
    s->variant = 0;
    if (s->policy & QG_FLOATING) {
        s->policy = (uint16_t)((s->policy & ~(unsigned)QG_FLOATING) | QG_LINEAR);
        s->exponent_bits = 0;
        s->bits = 32;
        s->qmax = INT64_C(1) << WIDE;
        s->qmin = -s->qmax;
        return;
    }
    s->bits = (uint8_t)(s->bits + shift < 32 ? s->bits + shift : 32);
    s->qmin *= INT64_C(1) << shift;
    s->qmax *= INT64_C(1) << shift;
}

/* Without ends: so far away that no value of a network reaches them.  Small grids stay
 * within the domain of the fast kernels (fake_kernel.h). */
static void make_wide(qg_scheme *s)
{
    bool small = s->bits <= SMALL_BITS;
    if (s->policy & QG_FLOATING) {
        s->bits = (uint8_t)(s->bits - s->exponent_bits + 8);
        s->exponent_bits = 8;
        s->variant &= QG_FLOAT_PPQ_TIES;
        s->qmax = INT64_MAX;
    } else {
        s->rounding =
            s->rounding == QG_ROUND_HALF_EVEN_LEVEL ? QG_ROUND_HALF_EVEN : s->rounding;
        s->bits = small ? 24 : 32;
        s->variant = 0;
        s->qmax = INT64_C(1) << (small ? 21 : WIDE);
    }
    s->qmin = -s->qmax;
}

static bool has_ends(const qg_tqc *t)
{
    return !t->quantizer && !(t->scheme.policy & QG_DYNAMIC);
}

/* The scales of a root, for the scheme that make_fine gives it. */
static qg_status refine(causes *c, qg_tqc *copy, const qg_scheme *was)
{
    double factor = fine_factor(was);
    int shift = was->policy & QG_FLOATING ? 0 : fine_shift(was);
    const float *scale = copy->scale;
    const int32_t *offset = copy->offset;
    if (!scale || !copy->nparam)
        return QG_OK;
    copy->scale = QG_NEWN(c->arena, copy->nparam, float);
    copy->offset = QG_NEWN(c->arena, copy->nparam, int32_t);
    if (!copy->scale || !copy->offset)
        return qg_nomem(c->m->ctx);
    for (uint32_t i = 0; i < copy->nparam; i++) {
        copy->scale[i] = fmaxf((float)((double)scale[i] * factor), 0x1p-149f);
        copy->offset[i] = offset ? offset[i] * (1 << shift) : 0;
    }
    return QG_OK;
}

static qg_status change(causes *c, qg_tqc *copy, unsigned off)
{
    qg_scheme was = copy->scheme;
    if (off & ROUNDING && !has_ends(copy) &&
        (qg_tqc_rounds(copy) || qg_tqc_is_constant(copy)))
        copy->state = QG_TQC_DEACTIVATED;
    if (!has_ends(copy))
        return QG_OK;
    if (off & CLIPPING)
        make_wide(&copy->scheme);
    if (!(off & ROUNDING))
        return QG_OK;
    make_fine(&copy->scheme);
    return refine(c, copy, &was);
}

/* A copy of every TQC, under copies of the dominators. */
static qg_status copy_all(causes *c, unsigned off, qg_tqc ***out)
{
    const qg_quant *q = c->m->quant;
    qg_tqc **copy = QG_NEWN(c->arena, q->tqc.n, qg_tqc *);
    if (!copy)
        return qg_nomem(c->m->ctx);
    for (size_t i = 0; off & SHARING && i < q->tqc.n; i++)
        if (qg_parts_count(&c->parts, q->tqc.at[i]) > 1)
            QG_TRY(
                qg_parts_separate(c->m->ctx, &c->parts, c->arena, q->tqc.at[i], copy));
    uint8_t *apart = QG_NEWN(c->arena, q->tqc.n, uint8_t);
    if (!apart)
        return qg_nomem(c->m->ctx);
    for (size_t i = 0; i < q->tqc.n; i++) {
        apart[i] = copy[i] != NULL;
        if (apart[i])
            continue;
        copy[i] = QG_NEW(c->arena, qg_tqc);
        if (!copy[i])
            return qg_nomem(c->m->ctx);
        *copy[i] = *q->tqc.at[i];
    }
    for (size_t i = 0; i < q->tqc.n; i++)
        if (!apart[i])
            copy[i]->up = copy[qg_tqc_root(q->tqc.at[i])->id];
    *out = copy;
    return QG_OK;
}

static qg_status replace(causes *c, unsigned off, qg_what_if *out)
{
    qg_tqc **copy;
    if ((off & (ROUNDING | CLIPPING)) == (ROUNDING | CLIPPING))
        return mute_places(c, ALL, &out->mute);
    QG_TRY(copy_all(c, off, &copy));
    for (size_t i = 0; i < c->m->quant->tqc.n; i++)
        QG_TRY(change(c, copy[i], off));
    out->instead = (const qg_tqc *const *)copy;
    out->untuned = (off & ROUNDING) != 0;
    return QG_OK;
}

/* --- measuring --- */

static qg_status ask(causes *c)
{
    size_t n_out = c->m->graph->output.n;
    double *error = QG_NEWN(c->arena, BUDGETS * SUBSETS * n_out, double);
    qg_study s = { .ctx = c->m->ctx,
                   .graph = c->m->graph,
                   .quant = c->m->quant,
                   .feed = &c->feed.feed,
                   .metric = c->metric,
                   .work = &c->o->work,
                   .stage = "causes" };
    if (!error)
        return qg_nomem(c->m->ctx);
    for (unsigned off = 1; off < SUBSETS; off++) {
        QG_TRY(mute_places(c, off, &c->question[off].mute));
        QG_TRY(replace(c, off, &c->question[SUBSETS + off]));
    }
    QG_TRY(qg_study_ask(&s, c->question, BUDGETS * SUBSETS, error));
    c->output = qg_study_worst(&s, error);
    c->strange = s.strange;
    for (int b = 0; b < BUDGETS; b++)
        for (int off = 0; off < SUBSETS; off++)
            c->error[b][off] = error[(size_t)(b * SUBSETS + off) * n_out + c->output];
    return QG_OK;
}

/* f of a mask: larger is worse, whatever the metric. */
static double removed(const causes *c, int budget, unsigned off)
{
    double less = c->error[budget][0] - c->error[budget][off];
    return c->metric->higher_is_better ? -less : less;
}

static int bits_in(unsigned mask)
{
    return (int)((mask & 1) + (mask >> 1 & 1) + (mask >> 2 & 1));
}

/* m of a mask: see the header. */
static double dividend(const causes *c, int budget, unsigned mask)
{
    double sum = 0;
    for (unsigned part = 0; part < SUBSETS; part++)
        if ((part & ~mask) == 0)
            sum += (bits_in(mask ^ part) & 1 ? -1 : 1) * removed(c, budget, part);
    return sum;
}

/* --- the report --- */

/* "rounding x clipping" */
static qg_status put_name(const causes *c, qg_report *r, qg_table *t, int budget,
                          unsigned mask)
{
    const char *text = "";
    for (int k = 0; k < CAUSES && text; k++)
        if (mask >> k & 1)
            text = qg_arena_printf(c->arena, "%s%s%s", text, *text ? " x " : "",
                                   cause_name[budget][k]);
    return qg_table_add(r, t, qg_cell_made(text));
}

/* Single causes before pairs before all three; then their sum. */
static qg_status put_budget(const causes *c, qg_report *r, qg_table *t, int budget)
{
    double all = fabs(removed(c, budget, ALL)), sum = 0;
    for (int size = 1; size <= CAUSES; size++)
        for (unsigned mask = 1; mask < SUBSETS; mask++) {
            double m = dividend(c, budget, mask);
            if (bits_in(mask) != size)
                continue;
            sum += m;
            QG_TRY(qg_table_add(r, t, qg_cell_text(budget_name[budget])));
            QG_TRY(put_name(c, r, t, budget, mask));
            QG_TRY(qg_table_cells(r, t, qg_measure_cell(c->metric, m),
                                  qg_cell_percent(all > 0 ? m / all : 0)));
        }
    return qg_table_cells(r, t, qg_cell_text(budget_name[budget]), qg_cell_text("sum"),
                          qg_measure_cell(c->metric, sum),
                          qg_cell_percent(all > 0 ? sum / all : 0));
}

static qg_status fill(const causes *c, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_add(r, "by", qg_cell_text("cause")));
    QG_TRY(qg_report_metric(r, c->metric));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(c->feed.feed.n)));
    QG_TRY(qg_measured_report(&c->at, r));
    QG_TRY(qg_report_add(r, "output", qg_cell_text(c->worst)));
    QG_TRY(qg_report_add(r, "error", qg_measure_cell(c->metric, c->error[0][0])));
    QG_TRY(qg_report_add(r, "left", qg_measure_cell(c->metric, c->error[0][ALL])));
    QG_TRY(qg_report_table(r, "causes", "budget cause removes share", &t));
    for (int b = 0; b < BUDGETS; b++)
        QG_TRY(put_budget(c, r, t, b));
    return QG_OK;
}

static qg_status run(causes *c, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_feed_open(c->m, &c->o->work, &c->feed));
    QG_TRY(qg_parts_read(c->m->ctx, c->m->quant, c->arena, &c->parts));
    QG_TRY(qg_measured_find(c->m->graph, &c->feed.feed, "analyse", c->arena, &c->at));
    qg_measured_begin(&c->at);
    qg_status s = ask(c);
    if (s == QG_OK)
        c->worst = c->at.at[c->output]->name;
    qg_measured_end(&c->at);
    QG_TRY(s);
    QG_TRY(qg_model_warn_not_finite(c->m, QG_RUN_SIMULATE, &c->o->work, &c->feed.feed,
                                    c->strange));
    QG_TRY(qg_report_new(c->m->ctx, "analyse", &r));
    return qg_report_end(fill(c, r), r, out);
}

qg_status qg_analyse_causes(qg_model *m, const qg_analyse_options *o,
                            const qg_metric *metric, qg_report **report)
{
    causes c = { .m = m, .o = o, .metric = metric };
    c.arena = qg_arena_new(m->ctx->alloc);
    qg_status s = c.arena ? run(&c, report) : qg_nomem(m->ctx);
    qg_feed_close(&c.feed);
    qg_arena_free(c.arena);
    return s;
}
