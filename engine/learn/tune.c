/* tune.c -- qg_model_tune: blocks learn one after the other, each from what the blocks
 * before it give after learning.
 *
 * Two decisions: a block keeps what it learned only where its own loss is clearly
 * smaller on the samples held back (reconstruct.h, verdict.h); the network keeps all of
 * that only where its outputs are clearly nearer to the float network on the same
 * samples, and none of them is clearly farther from it.  Otherwise model and records
 * stay as they were, and `changed` of the report is false.
 *
 * Nothing is written to graph or records before the last block is done: tapes of later
 * blocks read the constants and scales of the graph as they were. */
#include <math.h>
#include <string.h>

#include "engine/analysis/measure.h"
#include "engine/exec/pool.h"
#include "engine/learn/checkpoint.h"
#include "engine/learn/error_row.h"
#include "engine/learn/write.h"
#include "engine/session/session.h"

QG_OPTIONS_INIT(qg_tune_options)

typedef struct tuning {
    qg_model *m;
    const qg_tune_options *o;
    const qg_tune_method *method;
    qg_step_gradient gradient;
    const qg_optimizer *optimizer;
    qg_loss loss;
    qg_arena *arena;
    const uint8_t *wanted; /* [nodes] an output depends on it */
    qg_block *block;
    size_t n_block;
    qg_stream stream;
    qg_tapes *tapes;              /* [blocks] the leaders are kept until the end */
    const qg_tape_step **learned; /* [TQCs] by id of the root, of blocks that are done;
                                   * NULL: none */
    qg_importance importance;
    qg_reconstruction *result; /* [blocks] */
    size_t chosen, done;       /* blocks that learn */
    size_t resumed;            /* of them, by an earlier run (checkpoint.h) */
    bool has_folder;           /* of checkpoints, made by this run */
    size_t n_tape;             /* of a tapes, where memory suffices */
} tuning;

/* What a block may do with the memory that there is: the same bits. */
typedef struct thrift {
    bool alone;      /* one sample after the other */
    bool recomputes; /* activations, in backward (tape.h) */
} thrift;

/* --- blocks ---------------------------------------------------------------------- */

/* What names a block: its first node that accumulates products. */
static const qg_node *head_of(const tuning *t, const qg_block *b)
{
    const qg_graph *g = t->m->graph;
    for (size_t i = b->first; i < b->end; i++)
        if (g->node.at[i]->op->traits & QG_OP_COMPUTE)
            return g->node.at[i];
    return g->node.at[b->first];
}

static const char *name_of(const tuning *t, const qg_block *b)
{
    return head_of(t, b)->name;
}

/* Whether the loss compares a result of the block. */
static bool is_compared(const tuning *t, const qg_block *b)
{
    const qg_graph *g = t->m->graph;
    for (size_t i = b->first; i < b->end; i++)
        for (uint32_t k = 0; k < g->node.at[i]->n_out; k++)
            if (g->node.at[i]->out[k] &&
                qg_loss_compares(&t->loss, g, g->node.at[i]->out[k]))
                return true;
    return false;
}

static bool is_chosen(const tuning *t, const qg_block *b)
{
    return !b->stop && b->compute > 0 && is_compared(t, b) &&
           (!t->o->block || strcmp(t->o->block, name_of(t, b)) == 0);
}

static uint64_t seed_of(const tuning *t) { return t->o->seed ? t->o->seed : 1; }

/* The constants that the float network had before anything was learned, also by an
 * earlier tune; the tape does not round. */
static qg_status begin_float(tuning *t, qg_tape *tape)
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
    return QG_OK;
}

/* An output of the network that is not finite: neither the loss nor the verdict would
 * say anything. */
static qg_status check_output(const tuning *t, const qg_value *v)
{
    for (size_t i = 0; i < t->stream.n; i++) {
        const qg_tensor *f = qg_stream_value(&t->stream, v, QG_LANE_FLOAT, i);
        if (f && !isfinite(qg_power_row(f->f32, NULL, (size_t)qg_tensor_count(f))))
            return qg_fail(t->m->ctx, QG_ENUMERIC,
                           "tune: sample %zu: the float network gives NaN or infinity "
                           "at its output '%s', expected finite numbers",
                           i, v->name);
    }
    return QG_OK;
}

static qg_status check_outputs(const tuning *t, const qg_tape *tape)
{
    for (size_t k = 0; k < tape->n_out; k++) {
        const qg_value *v = tape->out[k];
        if (v->is_output && v->type.dtype == QG_F32 &&
            qg_loss_compares(&t->loss, t->m->graph, v))
            QG_TRY(check_output(t, v));
    }
    return QG_OK;
}

/* The tape is left as it was: weights at their start, rounding on. */
static qg_status run_float(tuning *t, size_t k)
{
    qg_tape *tape = t->tapes[k].tape[0];
    QG_TRY(begin_float(t, tape));
    QG_TRY(qg_stream_run(&t->stream, k, &t->tapes[k], QG_LANE_FLOAT));
    QG_TRY(check_outputs(t, tape));
    tape->rounds = true;
    for (size_t i = 0; i < tape->n_weight; i++)
        qg_tensor_copy(&tape->weight[i].start, &tape->weight[i].now);
    return QG_OK;
}

/* Of the outputs of all blocks, by a tape of the whole network. */
static qg_status weigh_with(tuning *t, const uint8_t *watched, bool recomputes)
{
    qg_tape *tape;
    const qg_tape_options o = { .part = t->wanted,
                                .watched = watched,
                                .recomputes = recomputes };
    QG_TRY(qg_tape_new(t->m->ctx, t->m->graph, t->m->quant, &o, &tape));
    qg_status s = begin_float(t, tape);
    if (s == QG_OK)
        s = qg_importance_of(&t->stream, tape, (qg_rng){ seed_of(t) }, t->arena,
                             &t->importance);
    qg_tape_free(tape);
    return s;
}

static qg_status weigh(tuning *t)
{
    const uint8_t *watched = qg_importance_watched(&t->stream, t->arena);
    if (!watched)
        return qg_nomem(t->m->ctx);
    const qg_status s = weigh_with(t, watched, false);
    return s == QG_EMEMORY ? weigh_with(t, watched, true) : s;
}

static bool weighs(const tuning *t)
{
    return t->method->weighs && t->loss.kind == QG_LOSS_BLOCKS;
}

static double rate_of(const tuning *t)
{
    return t->o->rate > 0 ? t->o->rate : t->method->rate * t->optimizer->rate_factor;
}

static qg_status learn_block(tuning *t, size_t k)
{
    const size_t steps = t->o->steps ? t->o->steps : t->method->iterations;
    t->result[k] = (qg_reconstruction){ .ctx = t->m->ctx,
                                        .method = t->method,
                                        .stream = &t->stream,
                                        .tapes = &t->tapes[k],
                                        .loss = t->loss,
                                        .drops = t->o->qdrop,
                                        .importance = weighs(t) ? &t->importance : NULL,
                                        .steps = steps,
                                        .optimizer = t->optimizer,
                                        .rate = rate_of(t),
                                        .progress = &t->o->work.progress,
                                        .done = steps * t->done,
                                        .total = steps * t->chosen,
                                        .rng = { seed_of(t) + k } };
    qg_reconstruction *r = &t->result[k];
    const char *folder = t->o->checkpoint;
    char name[QG_HASH_TEXT];
    bool found = false;
    if (folder)
        QG_TRY(qg_checkpoint_load(r, folder, name, &found));
    t->resumed += found;
    if (found)
        return qg_ctx_step(r->ctx, r->progress, "resume", r->done + steps, r->total);
    QG_TRY(qg_reconstruct(r));
    return folder ? qg_checkpoint_save(r, folder, name) : QG_OK;
}

/* Each lane has requests of its own, for which memory of another would not fit. */
static void rest(const qg_tapes *tapes)
{
    for (size_t i = 0; i < tapes->n; i++)
        qg_tape_rest(tapes->tape[i]);
}

/* Scales of biases follow those of inputs that an earlier block has learned. */
static void inherit(const tuning *t, qg_tape *tape)
{
    for (size_t i = 0; i < tape->n_step; i++) {
        const qg_tape_step *learned = t->learned[tape->step[i].root->id];
        if (learned)
            qg_tape_inherit(tape, i, learned);
    }
}

static void bequeath(const tuning *t, const qg_tape *tape)
{
    for (size_t i = 0; i < tape->n_step; i++)
        if (tape->step[i].learned)
            t->learned[tape->step[i].root->id] = &tape->step[i];
}

static qg_status run_block(tuning *t, size_t k, thrift how)
{
    qg_ctx *ctx = t->m->ctx;
    const qg_block *b = &t->block[k];
    const bool chosen = is_chosen(t, b);
    uint8_t *part = qg_block_part(t->m->graph, b, t->wanted, t->arena);
    qg_tapes *tapes = &t->tapes[k];
    if (!part)
        return qg_nomem(ctx);
    const qg_tape_options o = { .part = part,
                                .learns = chosen,
                                .gradient = t->gradient,
                                .recomputes = how.recomputes };
    QG_TRY(qg_tapes_new(ctx, t->m->graph, t->m->quant, &o, how.alone ? 1 : t->n_tape,
                        tapes));
    QG_TRY(run_float(t, k));
    rest(tapes);
    QG_TRY(qg_stream_run(&t->stream, k, tapes, QG_LANE_BEFORE));
    inherit(t, tapes->tape[0]);
    if (chosen)
        QG_TRY(learn_block(t, k));
    QG_TRY(qg_stream_run(&t->stream, k, tapes, QG_LANE_NOW));
    qg_tapes_dismiss(tapes);
    bequeath(t, tapes->tape[0]);
    qg_stream_done(&t->stream, k);
    t->done += chosen;
    return QG_OK;
}

/* From the fastest way to the one that needs least memory, each from the start of the
 * block.  Memory that lacks for no single node, such as the state of an optimizer,
 * lacks for the block. */
static qg_status tune_block(tuning *t, size_t k)
{
    static const thrift ways[] = {
        {false,  false},
        { false, true },
        { true,  false},
        { true,  true }
    };
    qg_ctx *ctx = t->m->ctx;
    qg_status s = QG_EMEMORY;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && s == QG_EMEMORY; i++) {
        if (ways[i].alone && t->n_tape == 1)
            continue;
        if (i > 0) {
            qg_tapes_free(&t->tapes[k]);
            QG_TRY(qg_stream_undo(&t->stream, k));
        }
        s = run_block(t, k, ways[i]);
    }
    return qg_node_memory(ctx, s, "learn", head_of(t, &t->block[k]));
}

/* "A, B, C and 5 more": the blocks that can learn. */
static const char *names_of_blocks(const tuning *t)
{
    enum { SHOWN = 12 };
    const char *text = "";
    size_t n = 0;
    for (size_t k = 0; k < t->n_block && text; k++) {
        const qg_block *b = &t->block[k];
        if (!b->stop && b->compute > 0 && n++ < SHOWN)
            text = qg_arena_printf(t->arena, "%s%s%s", text, n > 1 ? ", " : "",
                                   name_of(t, b));
    }
    if (text && n > SHOWN)
        text = qg_arena_printf(t->arena, "%s and %zu more", text, n - SHOWN);
    return text && n ? text : "no block";
}

/* Of a block that was named: why it does not learn. */
static qg_status not_chosen(const tuning *t)
{
    const qg_block *b = NULL;
    for (size_t k = 0; k < t->n_block && !b; k++)
        b = strcmp(t->o->block, name_of(t, &t->block[k])) == 0 ? &t->block[k] : NULL;
    if (!b)
        return qg_fail(t->m->ctx, QG_ECONFIG,
                       "tune: block '%s': there is none, expected the first compute "
                       "node of a block: %s",
                       t->o->block, names_of_blocks(t));
    if (b->stop)
        return qg_node_fail(t->m->ctx, QG_ECONFIG, "tune", b->stop,
                            "has no gradient, expected another block");
    return qg_fail(
        t->m->ctx, QG_ECONFIG, "tune: block '%s': %s, expected %s", t->o->block,
        b->compute ? "it computes nothing that --loss compares"
                   : "it has no compute node",
        b->compute ? "the block of an output, or --loss blocks" : "another block");
}

/* A loss of the network, whose outputs no block computes that learns. */
static qg_status nothing_learns(const tuning *t)
{
    const qg_node *stop = NULL;
    for (size_t k = 0; k < t->n_block; k++)
        stop = t->block[k].stop ? t->block[k].stop : stop;
    if (stop)
        return qg_node_fail(t->m->ctx, QG_EUNSUPPORTED, "tune", stop,
                            "has no gradient, expected one for --loss %s",
                            qg_loss_name(t->loss.kind));
    return qg_fail(t->m->ctx, QG_EUNSUPPORTED,
                   "tune: loss %s: no output is computed by a node with weights, "
                   "expected one",
                   qg_loss_name(t->loss.kind));
}

static qg_status tune_all(tuning *t)
{
    qg_ctx *ctx = t->m->ctx;
    const bool whole = t->loss.kind != QG_LOSS_BLOCKS && !t->o->block;
    QG_TRY(qg_blocks_of(ctx, t->m->graph, whole ? SIZE_MAX : t->method->depth, t->arena,
                        &t->block, &t->n_block));
    t->tapes = QG_NEWN(t->arena, t->n_block, qg_tapes);
    t->result = QG_NEWN(t->arena, t->n_block, qg_reconstruction);
    t->learned = QG_NEWN(t->arena, t->m->quant->tqc.n, const qg_tape_step *);
    if (!t->tapes || !t->result || !t->learned)
        return qg_nomem(ctx);
    for (size_t k = 0; k < t->n_block; k++)
        t->chosen += is_chosen(t, &t->block[k]);
    if (t->o->block && !t->chosen)
        return not_chosen(t);
    if (whole && !t->chosen)
        return nothing_learns(t);
    t->stream.block = t->block;
    t->stream.n_block = t->n_block;
    if (t->o->checkpoint)
        QG_TRY(qg_directory_make(ctx, t->o->checkpoint));
    t->has_folder = t->o->checkpoint != NULL;
    return QG_OK;
}

/* --- the network ----------------------------------------------------------------- */

/* Of one output, the metric of each sample held back.  n 0: the output is no float32,
 * or 0 everywhere. */
typedef struct output_errors {
    double *before, *after;
    size_t n;
} output_errors;

static double mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return n ? sum / (double)n : 0;
}

/* A loss that is no noise of outputs has judged them, on the same samples. */
static bool has_own_verdict(const tuning *t)
{
    return t->loss.kind == QG_LOSS_KD || t->loss.kind == QG_LOSS_LABELS;
}

static qg_status errors_of_output(const tuning *t, const qg_value *v,
                                  const qg_metric *metric, output_errors *e)
{
    const qg_stream *s = &t->stream;
    double signal = 0;
    *e = (output_errors){ QG_NEWN(t->arena, s->n, double),
                          QG_NEWN(t->arena, s->n, double), 0 };
    if (!e->before || !e->after)
        return qg_nomem(t->m->ctx);
    for (size_t i = 0; v->type.dtype == QG_F32 && i < s->n; i++) {
        const qg_tensor *f = qg_stream_value(s, v, QG_LANE_FLOAT, i);
        if (!f || !qg_is_held_back(i, s->n))
            continue;
        signal += qg_power_row(f->f32, NULL, (size_t)qg_tensor_count(f));
        e->before[e->n] =
            qg_measure(metric, f->f32, qg_stream_value(s, v, QG_LANE_BEFORE, i));
        e->after[e->n++] =
            qg_measure(metric, f->f32, qg_stream_value(s, v, QG_LANE_NOW, i));
    }
    e->n = signal > 0 ? e->n : 0;
    return QG_OK;
}

static size_t n_kept(const tuning *t)
{
    size_t kept = 0;
    for (size_t k = 0; k < t->n_block; k++)
        kept += t->result[k].kept;
    return kept;
}

/* Of the worst output before and after; better: all of them together, the worst of them
 * is no worse than before, and no other is clearly worse. */
static qg_status judge_network(const tuning *t, double worst[2], bool *better)
{
    const qg_graph *g = t->m->graph;
    const qg_metric *metric;
    double *sum[2] = { QG_NEWN(t->arena, t->stream.n, double),
                       QG_NEWN(t->arena, t->stream.n, double) };
    bool worse = false;
    size_t n = 0;
    QG_TRY(qg_measure_by(t->m->ctx, NULL, &metric));
    if (!sum[0] || !sum[1])
        return qg_nomem(t->m->ctx);
    for (size_t k = 0; k < g->output.n; k++) {
        output_errors e;
        QG_TRY(errors_of_output(t, g->output.at[k], metric, &e));
        for (size_t i = 0; i < e.n; i++) {
            sum[0][i] += e.before[i];
            sum[1][i] += e.after[i];
        }
        n = e.n > n ? e.n : n;
        worse = worse || (e.n && qg_is_better(e.after, e.before, e.n, QG_ONE_IN_SIX));
        worst[0] = fmax(worst[0], mean_of(e.before, e.n));
        worst[1] = fmax(worst[1], mean_of(e.after, e.n));
    }
    *better = n && !worse && worst[1] <= worst[0] &&
              qg_is_better(sum[0], sum[1], n, QG_ONE_IN_TWENTY);
    if (has_own_verdict(t))
        *better = n_kept(t) > 0;
    return QG_OK;
}

/* --- writing what was learned ---------------------------------------------------- */

static qg_status write_all(tuning *t)
{
    qg_learned_block *block = QG_NEWN(t->arena, t->n_block, qg_learned_block);
    if (!block)
        return qg_nomem(t->m->ctx);
    for (size_t k = 0; k < t->n_block; k++)
        block[k] = (qg_learned_block){ .name = name_of(t, &t->block[k]),
                                       .tape = t->tapes[k].tape[0],
                                       .before = t->result[k].before,
                                       .after = t->result[k].after };
    return qg_learned_write(t->m, t->method, block, t->n_block);
}

/* --- report ---------------------------------------------------------------------- */

/* Divergence and cross entropy are numbers, noise a percentage. */
static qg_cell loss_cell(const tuning *t, const qg_metric *noise, double loss)
{
    return has_own_verdict(t) ? qg_cell_number(loss) : qg_measure_cell(noise, loss);
}

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
        QG_TRY(qg_table_cells(r, table, loss_cell(t, metric, a->before),
                              loss_cell(t, metric, a->after),
                              qg_cell_text(a->kept ? "kept" : "left as it was")));
    }
    return QG_OK;
}

/* The loss on the samples that teach, while a block learns. */
static qg_status report_curves(const tuning *t, qg_report *r)
{
    const qg_metric *metric;
    qg_table *table;
    QG_TRY(qg_measure_by(t->m->ctx, NULL, &metric));
    QG_TRY(qg_report_table(r, "curves",
                           "block 10% 20% 30% 40% 50% 60% 70% 80% 90% 100%", &table));
    for (size_t k = 0; k < t->n_block; k++) {
        if (!is_chosen(t, &t->block[k]))
            continue;
        QG_TRY(qg_table_cells(r, table, qg_cell_text(name_of(t, &t->block[k]))));
        for (size_t i = 0; i < QG_LOSS_CURVE; i++) {
            const double loss = t->result[k].curve[i];
            QG_TRY(qg_table_cells(r, table,
                                  isnan(loss) ? qg_cell_text(NULL)
                                              : loss_cell(t, metric, loss)));
        }
    }
    return QG_OK;
}

static qg_status report(const tuning *t, const double worst[2], bool better,
                        qg_report *r)
{
    const qg_metric *metric;
    QG_TRY(qg_measure_by(t->m->ctx, NULL, &metric));
    QG_TRY(qg_report_add(r, "method", qg_cell_text(t->method->name)));
    QG_TRY(
        qg_report_add(r, "gradient", qg_cell_text(qg_step_gradient_name(t->gradient))));
    QG_TRY(qg_report_add(r, "optimizer", qg_cell_text(t->optimizer->name)));
    QG_TRY(qg_report_add(r, "loss", qg_cell_text(qg_loss_name(t->loss.kind))));
    QG_TRY(qg_report_add(r, "qdrop", qg_cell_bool(t->o->qdrop)));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(t->stream.n)));
    QG_TRY(qg_report_addf(r, "judged_on",
                          t->stream.n < QG_TUNE_LEAST
                              ? "the samples that taught: %zu, too few to hold any back"
                          : qg_n_held_back(t->stream.n) == 1 ? "%zu sample held back"
                                                             : "%zu samples held back",
                          qg_n_held_back(t->stream.n)));
    QG_TRY(qg_report_add(r, "metric", qg_cell_text(metric->name)));
    QG_TRY(qg_report_add(r, "before", qg_measure_cell(metric, worst[0])));
    QG_TRY(qg_report_add(r, "after", qg_measure_cell(metric, worst[1])));
    if (t->resumed)
        QG_TRY(qg_report_addf(r, "resumed",
                              "%zu of %zu blocks, learned by an earlier run",
                              t->resumed, t->chosen));
    QG_TRY(qg_report_addf(r, "kept", "%zu of %zu blocks", n_kept(t), t->chosen));
    QG_TRY(qg_report_add(r, "changed", qg_cell_bool(better)));
    if (!better)
        QG_TRY(
            qg_report_add(r, "why",
                          qg_cell_text("not clearly better on the samples held back: "
                                       "the model stays as it was")));
    QG_TRY(report_blocks(t, r));
    return report_curves(t, r);
}

/* --- all together ---------------------------------------------------------------- */

/* A gradient that was asked for and that no step of the network can have. */
static void warn_of_no_step(const tuning *t)
{
    const bool none =
        t->gradient == QG_STEP_GRADIENT_USUAL || t->gradient == QG_STEP_GRADIENT_STE;
    for (size_t i = 0; i < t->m->quant->tqc.n; i++)
        if (t->learned[i])
            return;
    if (t->method->steps && !none)
        qg_warn(t->m->ctx,
                "tune: gradient %s: fits no step size here, none was learned, expected "
                "one for %s",
                qg_step_gradient_name(t->gradient),
                t->gradient == QG_STEP_GRADIENT_TQT ? "linear steps: lsq"
                                                    : "powers of two: tqt");
}

static void warn_of_few(const tuning *t, size_t n)
{
    if (n < QG_TUNE_LEAST)
        qg_warn(
            t->m->ctx,
            "tune: samples: %zu, which teach and judge: whether the result holds on "
            "others is not known, expected at least %d",
            n, QG_TUNE_ENOUGH);
    else if (n < QG_TUNE_ENOUGH)
        qg_warn(t->m->ctx,
                "tune: samples: %zu, of which %zu judge%s: the result may not hold on "
                "others, expected at least %d",
                n, qg_n_held_back(n), qg_n_held_back(n) == 1 ? "s" : "",
                QG_TUNE_ENOUGH);
}

static qg_status run(tuning *t, const qg_feed *feed, qg_report **out)
{
    qg_report *r;
    double worst[2] = { 0, 0 };
    bool better;
    t->n_tape = qg_pool_workers(t->o->work.jobs, feed->n);
    t->stream = (qg_stream){
        .ctx = t->m->ctx, .graph = t->m->graph, .n = feed->n, .n_in = t->n_tape
    };
    warn_of_few(t, feed->n);
    if (t->o->labels)
        QG_TRY(qg_labels_load(t->m->ctx, t->o->labels, t->arena, feed->n,
                              t->o->work.samples > 0, &t->loss.label));
    t->wanted = qg_block_wanted(t->m->graph, t->arena);
    if (!t->wanted)
        return qg_nomem(t->m->ctx);
    QG_TRY(tune_all(t));
    QG_TRY(qg_stream_open(&t->stream, feed));
    if (weighs(t))
        QG_TRY(weigh(t));
    for (size_t k = 0; k < t->n_block; k++)
        QG_TRY(tune_block(t, k));
    warn_of_no_step(t);
    QG_TRY(judge_network(t, worst, &better));
    if (better)
        QG_TRY(write_all(t));
    QG_TRY(qg_report_new(t->m->ctx, "tune", &r));
    return qg_report_end(report(t, worst, better, r), r, out);
}

enum { NAMES = 128 };

/* Appends to the names so far. */
static void list(char names[NAMES], const char *name)
{
    (void)strncat(names, *names ? ", " : "", NAMES - strlen(names) - 1);
    (void)strncat(names, name, NAMES - strlen(names) - 1);
}

/* The message lists the names that exist. */
static qg_status unknown(const tuning *t, const char *what, const char *name,
                         const char *(*nth)(size_t i))
{
    char all[NAMES] = "";
    for (size_t i = 0; nth(i); i++)
        list(all, nth(i));
    return qg_fail(t->m->ctx, QG_ECONFIG, "tune: %s '%s': expected one of %s", what,
                   name, all);
}

static const char *method_name(size_t i) { return qg_tune_methods[i].name; }

static const char *gradient_name(size_t i)
{
    return i < QG_NSTEP_GRADIENT ? qg_step_gradient_name((qg_step_gradient)i) : NULL;
}

static qg_status choose_method(tuning *t)
{
    const char *name = t->o->method ? t->o->method : qg_tune_methods[0].name;
    t->method = qg_tune_method_named(name);
    return t->method ? QG_OK : unknown(t, "method", name, method_name);
}

static qg_status choose_gradient(tuning *t)
{
    char all[NAMES] = "";
    const char *name = t->o->gradient ? t->o->gradient : gradient_name(0);
    const int g = qg_step_gradient_named(name);
    if (g < 0)
        return unknown(t, "gradient", name, gradient_name);
    t->gradient = (qg_step_gradient)g;
    if (t->method->steps || g == QG_STEP_GRADIENT_USUAL)
        return QG_OK;
    for (const qg_tune_method *m = qg_tune_methods; m->name; m++)
        if (m->steps)
            list(all, m->name);
    return qg_fail(t->m->ctx, QG_ECONFIG,
                   "tune: gradient %s: method %s learns no step sizes, expected no "
                   "gradient, or a method that does: %s",
                   name, t->method->name, all);
}

static const char *loss_name(size_t i)
{
    return i < QG_NLOSS ? qg_loss_name((qg_loss_kind)i) : NULL;
}

static qg_status choose_loss(tuning *t)
{
    const char *name = t->o->loss ? t->o->loss : loss_name(0);
    const int k = qg_loss_named(name);
    if (k < 0)
        return unknown(t, "loss", name, loss_name);
    t->loss.kind = (qg_loss_kind)k;
    if (k == QG_LOSS_LABELS && !t->o->labels)
        return qg_fail(t->m->ctx, QG_ECONFIG,
                       "tune: loss labels: there are none, expected --labels FILE with "
                       "the class of each sample");
    if (k != QG_LOSS_LABELS && t->o->labels)
        return qg_fail(t->m->ctx, QG_ECONFIG,
                       "tune: labels '%s': loss %s does not read them, expected "
                       "--loss labels",
                       t->o->labels, name);
    return QG_OK;
}

static const char *optimizer_name(size_t i) { return qg_optimizers[i].name; }

static qg_status choose_optimizer(tuning *t)
{
    const char *name = t->o->optimizer ? t->o->optimizer : qg_optimizers[0].name;
    for (const qg_optimizer *o = qg_optimizers; o->name; o++)
        if (strcmp(o->name, name) == 0) {
            t->optimizer = o;
            return QG_OK;
        }
    return unknown(t, "optimizer", name, optimizer_name);
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
    QG_TRY(choose_gradient(&t));
    QG_TRY(choose_optimizer(&t));
    QG_TRY(choose_loss(&t));
    t.arena = qg_arena_new(m->ctx->alloc);
    qg_status s = t.arena ? qg_feed_open(m, &o.work, &feed) : qg_nomem(m->ctx);
    qg_measured at = { 0 };
    if (s == QG_OK)
        s = qg_measured_find(m->graph, &feed.feed, "tune", t.arena, &at);
    qg_measured_begin(&at);
    if (s == QG_OK)
        s = run(&t, &feed.feed, out);
    if (s != QG_OK && t.has_folder)
        qg_checkpoint_tidy(o.checkpoint);
    qg_measured_end(&at);
    for (size_t k = 0; t.tapes && k < t.n_block; k++)
        qg_tapes_free(&t.tapes[k]);
    qg_stream_close(&t.stream);
    qg_feed_close(&feed);
    qg_arena_free(t.arena);
    return s;
}

void qg_tune_forget(qg_ctx *ctx, const char *checkpoint)
{
    qg_checkpoint_remove(ctx, checkpoint);
}
