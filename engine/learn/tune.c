/* tune.c -- qg_model_tune: blocks learn one after the other, each from what the blocks
 * before it give after learning.
 *
 * Two decisions: a block keeps what it learned only where its own loss is smaller on
 * the samples held back (reconstruct.c); the network keeps all of that only where the
 * worst of its outputs is nearer to the float network on the same samples.  Otherwise
 * model and records stay as they were, and `changed` of the report is false.
 *
 * Nothing is written to graph or records before the last block is done: tapes of later
 * blocks read the constants and scales of the graph as they were. */
#include <math.h>
#include <string.h>

#include "engine/analysis/measure.h"
#include "engine/ir/edit.h"
#include "engine/learn/checkpoint.h"
#include "engine/session/session.h"

QG_OPTIONS_INIT(qg_tune_options)

typedef struct tuning {
    qg_model *m;
    const qg_tune_options *o;
    const qg_tune_method *method;
    qg_arena *arena;
    qg_block *block;
    size_t n_block;
    qg_stream stream;
    qg_tape **tape;            /* [blocks] kept until the end: NULL, nothing learned */
    qg_reconstruction *result; /* [blocks] */
    size_t chosen, done;       /* blocks that learn */
} tuning;

/* --- blocks ---------------------------------------------------------------------- */

/* The name of a block: that of its first node that accumulates products. */
static const char *name_of(const tuning *t, const qg_block *b)
{
    const qg_graph *g = t->m->graph;
    for (size_t i = b->first; i < b->end; i++)
        if (g->node.at[i]->op->traits & QG_OP_COMPUTE)
            return g->node.at[i]->name;
    return g->node.at[b->first]->name;
}

static bool is_chosen(const tuning *t, const qg_block *b)
{
    return !b->stop && b->compute > 0 &&
           (!t->o->block || strcmp(t->o->block, name_of(t, b)) == 0);
}

/* The float network has the constants that it had before anything was learned, also by
 * an earlier tune.  The tape is left as it was: weights at their start, rounding on. */
static qg_status run_float(tuning *t, size_t k, qg_tape *tape)
{
    const qg_graph *g = t->m->graph;
    const qg_tensor **real = QG_NEWN(t->arena, g->value.n, const qg_tensor *);
    if (!real)
        return qg_nomem(t->m->ctx);
    QG_TRY(qg_graph_untuned(g, t->arena, real));
    for (size_t i = 0; i < tape->n_weight; i++)
        if (real[tape->weight[i].value->id])
            qg_tensor_copy(real[tape->weight[i].value->id], &tape->weight[i].now);
    tape->rounds = false;
    QG_TRY(qg_stream_run(&t->stream, k, tape, QG_LANE_FLOAT));
    tape->rounds = true;
    for (size_t i = 0; i < tape->n_weight; i++)
        qg_tensor_copy(&tape->weight[i].start, &tape->weight[i].now);
    return QG_OK;
}

static qg_status learn_block(tuning *t, size_t k, qg_tape *tape)
{
    const size_t steps = t->o->steps ? t->o->steps : t->method->iterations;
    t->result[k] =
        (qg_reconstruction){ .ctx = t->m->ctx,
                             .method = t->method,
                             .stream = &t->stream,
                             .tape = tape,
                             .steps = steps,
                             .rate = t->o->rate > 0 ? t->o->rate : t->method->rate,
                             .progress = &t->o->work.progress,
                             .done = steps * t->done++,
                             .total = steps * t->chosen,
                             .rng = { (t->o->seed ? t->o->seed : 1) + k } };
    qg_reconstruction *r = &t->result[k];
    const char *folder = t->o->checkpoint;
    char name[QG_HASH_TEXT];
    bool found = false;
    if (folder)
        QG_TRY(qg_checkpoint_load(r, folder, name, &found));
    if (found)
        return qg_ctx_step(r->ctx, r->progress, "tune", r->done + steps, r->total);
    QG_TRY(qg_reconstruct(r));
    return folder ? qg_checkpoint_save(r, folder, name) : QG_OK;
}

static qg_status tune_block(tuning *t, size_t k)
{
    qg_ctx *ctx = t->m->ctx;
    const qg_block *b = &t->block[k];
    const bool chosen = is_chosen(t, b);
    uint8_t *part = qg_block_part(t->m->graph, b, t->arena);
    qg_tape *tape;
    if (!part)
        return qg_nomem(ctx);
    QG_TRY(qg_tape_new(ctx, t->m->graph, t->m->quant, part, chosen, &tape));
    t->tape[k] = tape;
    QG_TRY(run_float(t, k, tape));
    QG_TRY(qg_stream_run(&t->stream, k, tape, QG_LANE_BEFORE));
    if (chosen)
        QG_TRY(learn_block(t, k, tape));
    QG_TRY(qg_stream_run(&t->stream, k, tape, QG_LANE_NOW));
    qg_stream_done(&t->stream, k);
    return QG_OK;
}

static qg_status tune_all(tuning *t)
{
    qg_ctx *ctx = t->m->ctx;
    QG_TRY(qg_blocks_of(ctx, t->m->graph, t->method->depth, t->arena, &t->block,
                        &t->n_block));
    t->tape = QG_NEWN(t->arena, t->n_block, qg_tape *);
    t->result = QG_NEWN(t->arena, t->n_block, qg_reconstruction);
    if (!t->tape || !t->result)
        return qg_nomem(ctx);
    for (size_t k = 0; k < t->n_block; k++)
        t->chosen += is_chosen(t, &t->block[k]);
    if (t->o->block && !t->chosen)
        return qg_fail(
            ctx, QG_ECONFIG,
            "tune: block '%s': there is none, expected the name of the first "
            "compute node of a block",
            t->o->block);
    t->stream.block = t->block;
    t->stream.n_block = t->n_block;
    return t->o->checkpoint ? qg_directory_make(ctx, t->o->checkpoint) : QG_OK;
}

/* --- the network ----------------------------------------------------------------- */

/* Noise over signal of the outputs on the samples held back. */
static double network_error(const tuning *t, enum qg_lane lane)
{
    const qg_graph *g = t->m->graph;
    double worst = 0;
    for (size_t k = 0; k < g->output.n; k++) {
        double noise = 0, signal = 0;
        const qg_value *v = g->output.at[k];
        for (size_t i = 0; v->type.dtype == QG_F32 && i < t->stream.n; i++) {
            const qg_tensor *y = qg_stream_value(&t->stream, v, lane, i);
            const qg_tensor *f = qg_stream_value(&t->stream, v, QG_LANE_FLOAT, i);
            if (!y || !f || !qg_is_held_back(i, t->stream.n))
                continue;
            for (int64_t j = 0; j < qg_tensor_count(y); j++) {
                const double d = (double)y->f32[j] - (double)f->f32[j];
                noise += d * d;
                signal += (double)f->f32[j] * (double)f->f32[j];
            }
        }
        if (signal > 0 && noise / signal > worst)
            worst = noise / signal;
    }
    return worst;
}

/* --- writing what was learned ---------------------------------------------------- */

static bool differs(const qg_tensor *a, const qg_tensor *b)
{
    return memcmp(a->data, b->data, (size_t)qg_tensor_count(a) * sizeof *a->f32) != 0;
}

/* The constant that the float network has stays beside the learned one. */
static qg_status keep_untuned(qg_graph *g, const qg_value *v)
{
    qg_value *u;
    const char *name = qg_arena_printf(g->arena, "%s" QG_UNTUNED, v->name);
    if (!name)
        return qg_nomem(g->ctx);
    if (qg_graph_value(g, name))
        return QG_OK; /* learned before */
    QG_TRY(qg_graph_add_value(g, name, &u));
    return qg_edit_make_constant(g, u, v->constant);
}

static qg_status write_weight(tuning *t, const qg_tape_weight *w)
{
    qg_graph *g = t->m->graph;
    qg_tensor *copy;
    if (!differs(&w->now, &w->start))
        return QG_OK;
    QG_TRY(keep_untuned(g, w->value));
    QG_TRY(qg_tensor_clone(t->m->ctx, g->arena, &w->now, &copy));
    return qg_edit_make_constant(g, g->value.at[w->value->id], copy);
}

/* Baked scales are thawed to be set. */
static qg_status write_step(tuning *t, const qg_tape_step *s)
{
    qg_quant *q = t->m->quant;
    qg_tqc *root = q->tqc.at[s->root->id];
    const bool baked = root->state == QG_TQC_BAKED;
    if (!s->learned || memcmp(s->scale, s->start, s->n * sizeof *s->scale) == 0)
        return QG_OK;
    if (baked)
        QG_TRY(qg_tqc_set_state(q, root, QG_TQC_ACTIVATED));
    QG_TRY(qg_tqc_set_param(q, root, s->n, s->scale, root->offset));
    return baked ? qg_tqc_set_state(q, root, QG_TQC_BAKED) : QG_OK;
}

/* Derived scales follow. */
static qg_status derive_again(tuning *t)
{
    qg_quant *q = t->m->quant;
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *d = q->tqc.at[i];
        const bool baked = d->state == QG_TQC_PASSIVE_BAKED;
        if (!d->derive || (!baked && d->state != QG_TQC_PASSIVE))
            continue;
        if (baked)
            QG_TRY(qg_tqc_set_state(q, d, QG_TQC_PASSIVE));
        QG_TRY(qg_tqc_derive(q, d, d->derive, d->lender[0], d->lender[1]));
        if (baked)
            QG_TRY(qg_tqc_set_state(q, d, QG_TQC_PASSIVE_BAKED));
    }
    return QG_OK;
}

static qg_status write_all(tuning *t)
{
    qg_quant *q = t->m->quant;
    const char *author = q->author;
    qg_status s = QG_OK;
    q->author = qg_arena_printf(q->arena, "tune/%s", t->method->name);
    if (!q->author)
        s = qg_nomem(t->m->ctx);
    for (size_t k = 0; s == QG_OK && k < t->n_block; k++) {
        const qg_tape *tape = t->tape[k];
        for (size_t i = 0; s == QG_OK && i < tape->n_weight; i++)
            s = write_weight(t, &tape->weight[i]);
        for (size_t i = 0; s == QG_OK && i < tape->n_step; i++)
            s = write_step(t, &tape->step[i]);
    }
    if (s == QG_OK)
        s = derive_again(t);
    q->author = author;
    return s;
}

/* --- report ---------------------------------------------------------------------- */

static qg_status report_blocks(const tuning *t, qg_report *r)
{
    const qg_metric *metric;
    qg_table *table;
    QG_TRY(qg_measure_by(t->m->ctx, NULL, &metric));
    QG_TRY(qg_report_table(r, "blocks", "block nodes before after verdict", &table));
    for (size_t k = 0; k < t->n_block; k++) {
        const qg_block *b = &t->block[k];
        const qg_reconstruction *a = &t->result[k];
        if (!is_chosen(t, b) && !b->stop)
            continue;
        QG_TRY(qg_table_cells(r, table, qg_cell_text(name_of(t, b)),
                              qg_cell_count(b->end - b->first)));
        if (b->stop) {
            QG_TRY(qg_table_cells(r, table, qg_cell_text(NULL), qg_cell_text(NULL)));
            QG_TRY(qg_table_addf(r, table, "no gradient of %s", b->stop->op->name));
            continue;
        }
        QG_TRY(qg_table_cells(r, table, qg_measure_cell(metric, a->before),
                              qg_measure_cell(metric, a->after),
                              qg_cell_text(a->kept ? "kept" : "left as it was")));
    }
    return QG_OK;
}

static qg_status report(const tuning *t, double before, double after, qg_report *r)
{
    const qg_metric *metric;
    size_t kept = 0;
    for (size_t k = 0; k < t->n_block; k++)
        kept += t->result[k].kept;
    QG_TRY(qg_measure_by(t->m->ctx, NULL, &metric));
    QG_TRY(qg_report_add(r, "method", qg_cell_text(t->method->name)));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(t->stream.n)));
    QG_TRY(qg_report_addf(r, "judged_on", "%zu samples held back",
                          t->stream.n < 4 ? t->stream.n : t->stream.n / 4));
    QG_TRY(qg_report_add(r, "metric", qg_cell_text(metric->name)));
    QG_TRY(qg_report_add(r, "before", qg_measure_cell(metric, before)));
    QG_TRY(qg_report_add(r, "after", qg_measure_cell(metric, after)));
    QG_TRY(qg_report_addf(r, "kept", "%zu of %zu blocks", kept, t->chosen));
    QG_TRY(qg_report_add(r, "changed", qg_cell_bool(after < before)));
    if (!(after < before))
        QG_TRY(qg_report_add(r, "why",
                             qg_cell_text("no better on the samples held back: the "
                                          "model stays as it was")));
    return report_blocks(t, r);
}

/* --- all together ---------------------------------------------------------------- */

static qg_status run(tuning *t, const qg_feed *feed, qg_report **out)
{
    qg_report *r;
    t->stream = (qg_stream){ .ctx = t->m->ctx, .graph = t->m->graph, .n = feed->n };
    QG_TRY(tune_all(t));
    QG_TRY(qg_stream_open(&t->stream, feed));
    for (size_t k = 0; k < t->n_block; k++)
        QG_TRY(tune_block(t, k));
    const double before = network_error(t, QG_LANE_BEFORE);
    const double after = network_error(t, QG_LANE_NOW);
    if (after < before)
        QG_TRY(write_all(t));
    QG_TRY(qg_report_new(t->m->ctx, "tune", &r));
    return qg_report_end(report(t, before, after, r), r, out);
}

static qg_status choose_method(tuning *t)
{
    const char *name = t->o->method ? t->o->method : qg_tune_methods[0].name;
    t->method = qg_tune_method_named(name);
    if (t->method)
        return QG_OK;
    char all[128] = "";
    for (const qg_tune_method *m = qg_tune_methods; m->name; m++) {
        (void)strncat(all, m == qg_tune_methods ? "" : ", ",
                      sizeof all - strlen(all) - 1);
        (void)strncat(all, m->name, sizeof all - strlen(all) - 1);
    }
    return qg_fail(t->m->ctx, QG_ECONFIG, "tune: method '%s': expected one of %s", name,
                   all);
}

qg_status qg_model_tune(qg_model *m, const qg_tune_options *given, qg_report **out)
{
    qg_tune_options o;
    qg_api_feed feed = { 0 };
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_tune_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    QG_TRY(qg_model_expect_quantized(m, "tune"));
    tuning t = { .m = m, .o = &o };
    QG_TRY(choose_method(&t));
    t.arena = qg_arena_new(m->ctx->alloc);
    qg_status s = t.arena ? qg_feed_open(m, &o.work, &feed) : qg_nomem(m->ctx);
    if (s == QG_OK)
        s = run(&t, &feed.feed, out);
    for (size_t k = 0; t.tape && k < t.n_block; k++)
        qg_tape_free(t.tape[k]);
    qg_stream_close(&t.stream);
    qg_feed_close(&feed);
    qg_arena_free(t.arena);
    return s;
}

void qg_tune_forget(qg_ctx *ctx, const char *checkpoint)
{
    qg_checkpoint_remove(ctx, checkpoint);
}
