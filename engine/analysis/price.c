/* price.c -- the cost of shared scales: for each group that a sharing rule made, the
 * error of the outputs with the joint scale, with the scales that its parts had before,
 * and the number of requantizations that separate scales would add.
 *
 * The parts of a group and their scales are those of engine/analysis/parts.h.  Nothing
 * is changed: plans use substitutes for the TQCs of a group (exec/plan.h,
 * `instead`). */
#include <stdlib.h>

#include "engine/analysis/measure.h"
#include "engine/session/session.h"
#include "engine/analysis/parts.h"
#include "engine/analysis/what_if.h"
#include "engine/analysis/requantize.h"

QG_OPTIONS_INIT(qg_price_options)

/* One group with at least two parts. */
typedef struct lot {
    const qg_tqc *root;
    const char *rule;             /* id of the sharing rule that joined it last */
    const qg_tqc *const *instead; /* [TQCs] */
    const uint8_t *only;          /* [TQCs] mute map: everything but the group */
    size_t parts, values, requantizations;
    double joint, separate, network; /* errors of the worst output */
    double gain; /* of separating, in the metric; larger is better */
} lot;

typedef struct pricing {
    qg_model *m;
    const qg_price_options *o;
    qg_arena *arena;
    qg_api_feed feed;
    const qg_metric *metric;
    qg_parts parts;
    qg_measured at;
    QG_VEC(lot) lot;
    double all;     /* error of the network as it is */
    size_t strange; /* the first sample with an error that is not finite */
} pricing;

/* --- groups --- */

static size_t count_values(const qg_tqc *root)
{
    size_t n = 0;
    for (const qg_tqc *t = root; t; t = qg_group_next(t, root)) {
        const qg_value *v = qg_tqc_value(t);
        bool first = true;
        for (const qg_tqc *u = root; u != t && first; u = u->next)
            first = qg_tqc_value(u) != v;
        n += first && !v->constant;
    }
    return n;
}

/* The rule whose entry about the group came last. */
static const char *sharing_rule_of(const pricing *p, const qg_tqc *root)
{
    const qg_quant *q = p->m->quant;
    for (size_t i = q->journal.n; i-- > 0;) {
        const qg_journal_entry *e = &q->journal.at[i];
        const char *rule = qg_sharing_rule(q->backend, e->by);
        if (rule && qg_tqc_root(q->tqc.at[e->tqc]) == root)
            return rule;
    }
    return NULL;
}

static qg_status add_lot(pricing *p, const qg_tqc *root, size_t parts)
{
    const qg_quant *q = p->m->quant;
    qg_tqc **copy = QG_NEWN(p->arena, q->tqc.n, qg_tqc *);
    uint8_t *only = QG_NEWN(p->arena, q->tqc.n, uint8_t);
    if (!copy || !only)
        return qg_nomem(p->m->ctx);
    QG_TRY(qg_parts_separate(p->m->ctx, &p->parts, p->arena, root, copy));
    for (size_t i = 0; i < q->tqc.n; i++)
        only[i] = qg_tqc_root(q->tqc.at[i]) != root;
    const qg_tqc *const *instead = (const qg_tqc *const *)copy;
    size_t joint = qg_requantizations(p->m->graph, NULL);
    size_t apart = qg_requantizations(p->m->graph, instead);
    lot l = { .root = root,
              .rule = sharing_rule_of(p, root),
              .instead = instead,
              .only = only,
              .parts = parts,
              .values = count_values(root),
              .requantizations = apart > joint ? apart - joint : 0 };
    return qg_vec_push(p->m->ctx, p->arena, &p->lot, l);
}

static qg_status list_lots(pricing *p)
{
    const qg_quant *q = p->m->quant;
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        size_t parts = qg_parts_count(&p->parts, t);
        if (parts > 1)
            QG_TRY(add_lot(p, t, parts));
    }
    return QG_OK;
}

/* --- asking --- */

static qg_study study_of(const pricing *p, bool rounding_base)
{
    return (qg_study){ .ctx = p->m->ctx,
                       .graph = p->m->graph,
                       .quant = p->m->quant,
                       .feed = &p->feed.feed,
                       .metric = p->metric,
                       .rounding_base = rounding_base,
                       .work = &p->o->work,
                       .stage = "price" };
}

static double worst(const qg_study *s, const double *error)
{
    return error[qg_study_worst(s, error)];
}

/* Two questions with nothing but the group rounding, one with all of the network. */
static qg_status ask(pricing *p)
{
    size_t n = p->lot.n, n_out = p->m->graph->output.n;
    qg_study alone = study_of(p, false), all = study_of(p, true);
    qg_what_if *few = QG_NEWN(p->arena, 2 * n + 1, qg_what_if);
    qg_what_if *whole = QG_NEWN(p->arena, n + 1, qg_what_if);
    double *error = QG_NEWN(p->arena, (2 * n + 1) * n_out, double);
    double *network = QG_NEWN(p->arena, (n + 1) * n_out, double);
    if (!few || !whole || !error || !network)
        return qg_nomem(p->m->ctx);
    for (size_t i = 0; i < n; i++) {
        const lot *l = &p->lot.at[i];
        few[2 * i] = (qg_what_if){ .mute = l->only };
        few[2 * i + 1] = (qg_what_if){ .mute = l->only, .instead = l->instead };
        whole[i] = (qg_what_if){ .instead = l->instead };
    }
    QG_TRY(qg_study_ask(&alone, few, 2 * n, error));
    QG_TRY(qg_study_ask(&all, whole, n + 1, network));
    for (size_t i = 0; i < n; i++) {
        lot *l = &p->lot.at[i];
        l->joint = worst(&alone, error + 2 * i * n_out);
        l->separate = worst(&alone, error + (2 * i + 1) * n_out);
        l->network = worst(&all, network + i * n_out);
        l->gain = p->metric->higher_is_better ? l->separate - l->joint
                                              : l->joint - l->separate;
    }
    p->all = worst(&all, network + n * n_out);
    p->strange = alone.strange < all.strange ? alone.strange : all.strange;
    return QG_OK;
}

/* --- the report --- */

/* Ties by id, so that the order is a function of the model. */
static int by_gain(const void *a, const void *b)
{
    const lot *x = a, *y = b;
    if (x->gain != y->gain)
        return x->gain < y->gain ? 1 : -1;
    return (x->root->id > y->root->id) - (x->root->id < y->root->id);
}

static qg_status report_lots(const pricing *p, qg_report *r)
{
    qg_table *t;
    char at[QG_ENDPOINT_TEXT];
    QG_TRY(qg_report_table(r, "groups",
                           "group rule values parts joint separate requantizations "
                           "network_if_separate",
                           &t));
    for (size_t i = 0; i < p->lot.n; i++) {
        const lot *l = &p->lot.at[i];
        QG_TRY(qg_table_cells(
            r, t, qg_cell_text(qg_tqc_text(l->root, at)), qg_cell_text(l->rule),
            qg_cell_count(l->values), qg_cell_count(l->parts),
            qg_measure_cell(p->metric, l->joint),
            qg_measure_cell(p->metric, l->separate), qg_cell_count(l->requantizations),
            qg_measure_cell(p->metric, l->network)));
    }
    return QG_OK;
}

static qg_status report(pricing *p, qg_report *r)
{
    if (p->lot.n)
        qsort(p->lot.at, p->lot.n, sizeof *p->lot.at, by_gain);
    QG_TRY(qg_report_metric(r, p->metric));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(p->feed.feed.n)));
    QG_TRY(qg_measured_report(&p->at, r));
    QG_TRY(qg_report_add(r, "network", qg_measure_cell(p->metric, p->all)));
    QG_TRY(qg_report_add(r, "requantizations",
                         qg_cell_count(qg_requantizations(p->m->graph, NULL))));
    return report_lots(p, r);
}

static qg_status run(pricing *p, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_feed_open(p->m, &p->o->work, &p->feed));
    QG_TRY(qg_parts_read(p->m->ctx, p->m->quant, p->arena, &p->parts));
    QG_TRY(list_lots(p));
    QG_TRY(qg_measured_find(p->m->graph, &p->feed.feed, "price", p->arena, &p->at));
    qg_measured_begin(&p->at);
    qg_status s = ask(p);
    qg_measured_end(&p->at);
    QG_TRY(s);
    QG_TRY(qg_model_warn_not_finite(p->m, QG_RUN_SIMULATE, &p->o->work, &p->feed.feed,
                                    p->strange));
    QG_TRY(qg_report_new(p->m->ctx, "price", &r));
    return qg_report_end(report(p, r), r, out);
}

qg_status qg_model_price(qg_model *m, const qg_price_options *given, qg_report **out)
{
    qg_price_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_price_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    pricing p = { .m = m, .o = &o };
    QG_TRY(qg_model_expect_quantized(m, "price"));
    QG_TRY(qg_model_warn_clamps(m, "price"));
    QG_TRY(qg_measure_by(m->ctx, o.metric, &p.metric));
    p.arena = qg_arena_new(m->ctx->alloc);
    qg_status st = p.arena ? run(&p, out) : qg_nomem(m->ctx);
    qg_feed_close(&p.feed);
    qg_arena_free(p.arena);
    return st;
}
