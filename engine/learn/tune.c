/* tune.c -- qg_model_tune: blocks learn one after the other, each from what the blocks
 * before it give after learning.
 *
 * Two decisions: a block keeps what it learned only where its own loss is smaller on
 * the samples that judge (reconstruct.h); the network keeps all of that only where its
 * outputs are clearly nearer to the float network, and none of them is clearly farther
 * from it (verdict.h).  Otherwise model and records stay as they were, and `changed` of
 * the report is false.
 *
 * Nothing is written to graph or records before the last block is done: tapes of later
 * blocks read the constants and scales of the graph as they were. */
#include <math.h>
#include <string.h>

#include "engine/analysis/measure.h"
#include "engine/exec/pool.h"
#include "engine/learn/checkpoint.h"
#include "engine/learn/choice.h"
#include "engine/learn/error_row.h"
#include "engine/learn/judgement.h"
#include "engine/learn/mixup.h"
#include "engine/learn/tune_report.h"
#include "engine/learn/write.h"
#include "engine/session/session.h"

QG_OPTIONS_INIT(qg_tune_options)

typedef qg_tuning tuning;

/* What a block may do with the memory that there is: the same bits. */
typedef struct thrift {
    bool alone;      /* one sample after the other */
    bool recomputes; /* activations, in backward (tape.h) */
} thrift;

/* --- blocks ---------------------------------------------------------------------- */

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

/* The first sample of which v, float32, is not finite; sample.n: none. */
static size_t first_not_finite(const tuning *t, const qg_value *v, enum qg_lane lane)
{
    size_t i = 0;
    for (; i < t->stream.sample.n; i++) {
        const qg_tensor *x = qg_stream_value(&t->stream, v, lane, i);
        if (x && !isfinite(qg_power_row(x->f32, NULL, (size_t)qg_tensor_count(x))))
            break;
    }
    return i;
}

/* Where NaN begins in the network as it was; i: the first sample whose outputs have
 * some, sample.n: none is known. */
static qg_status name_not_finite(const tuning *t, qg_run_mode mode, size_t i)
{
    const qg_feed *feed = t->split->choose;
    size_t at = i < t->stream.sample.n ? t->stream.given[i] : feed->n;
    if (at >= feed->n && i < t->stream.sample.n) {
        at -= feed->n;
        feed = t->split->judge;
    }
    return qg_model_warn_not_finite(t->m, mode, &t->o->work, feed, at);
}

/* An output of the network that is not finite: neither the loss nor the verdict would
 * say anything. */
static qg_status check_output(const tuning *t, const qg_value *v)
{
    const size_t i = first_not_finite(t, v, QG_LANE_FLOAT);
    if (i == t->stream.sample.n)
        return QG_OK;
    QG_TRY(name_not_finite(t, QG_RUN_FLOAT, i));
    return qg_fail(t->m->ctx, QG_ENUMERIC,
                   "tune: sample %zu: the float network gives NaN or infinity at its "
                   "output '%s', expected finite numbers",
                   t->stream.given[i], v->name);
}

static qg_status check_outputs(const tuning *t, const qg_tape *tape)
{
    for (size_t k = 0; k < tape->n_out; k++) {
        const qg_value *v = tape->out[k];
        if (v->is_output && v->type.dtype == QG_F32 &&
            qg_loss_compares(&t->choice.loss, t->m->graph, v))
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
    return t->choice.method->weighs && t->choice.loss.kind == QG_LOSS_BLOCKS;
}

static size_t steps_of(const tuning *t)
{
    return t->o->steps ? t->o->steps : t->choice.method->iterations;
}

static qg_status learn_block(tuning *t, size_t k)
{
    const size_t steps = steps_of(t);
    t->result[k] = (qg_reconstruction){ .ctx = t->m->ctx,
                                        .method = t->choice.method,
                                        .stream = &t->stream,
                                        .tapes = &t->tapes[k],
                                        .loss = t->choice.loss,
                                        .drops = t->o->qdrop,
                                        .importance = weighs(t) ? &t->importance : NULL,
                                        .steps = steps,
                                        .optimizer = t->choice.optimizer,
                                        .rate = t->choice.rate,
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
    t->resumed += found && k != t->own;
    if (found)
        return qg_ctx_step(r->ctx, r->progress, "resume", r->done + steps, r->total);
    QG_TRY(qg_reconstruct(r));
    t->own = k;
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
    const bool chosen = qg_tuning_learns(t, b);
    uint8_t *part = qg_block_part(t->m->graph, b, t->wanted, t->arena);
    qg_tapes *tapes = &t->tapes[k];
    if (!part)
        return qg_nomem(ctx);
    const qg_tape_options o = { .part = part,
                                .learns = chosen,
                                .gradient = t->choice.gradient,
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
static qg_status tune_in_some_way(tuning *t, size_t k)
{
    static const thrift ways[] = {
        {false,  false},
        { false, true },
        { true,  false},
        { true,  true }
    };
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
    return s;
}

static qg_status tune_block(tuning *t, size_t k)
{
    qg_status s = tune_in_some_way(t, k);
    if (s == QG_EMEMORY && qg_stream_unmix(&t->stream)) {
        qg_tapes_free(&t->tapes[k]);
        QG_TRY(qg_stream_undo(&t->stream, k));
        s = tune_in_some_way(t, k);
    }
    return qg_node_memory(t->m->ctx, s, "learn", qg_tuning_head(t, &t->block[k]));
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
                                   qg_tuning_name(t, b));
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
        b = strcmp(t->o->block, qg_tuning_name(t, &t->block[k])) == 0 ? &t->block[k]
                                                                      : NULL;
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
    const qg_value *first = t->m->graph->output.n ? t->m->graph->output.at[0] : NULL;
    if (t->choice.loss.kind == QG_LOSS_LABELS && first &&
        !qg_loss_compares(&t->choice.loss, t->m->graph, first))
        return qg_fail(t->m->ctx, QG_EUNSUPPORTED,
                       "tune: loss labels: the first output '%s' is %s, expected the "
                       "scores of classes in float32",
                       first->name, qg_dtype_name(first->type.dtype));
    const qg_node *stop = NULL;
    for (size_t k = 0; k < t->n_block; k++)
        stop = t->block[k].stop ? t->block[k].stop : stop;
    if (stop)
        return qg_node_fail(t->m->ctx, QG_EUNSUPPORTED, "tune", stop,
                            "has no gradient, expected one for --loss %s",
                            qg_loss_name(t->choice.loss.kind));
    return qg_fail(t->m->ctx, QG_EUNSUPPORTED,
                   "tune: loss %s: no output is computed by a node with weights, "
                   "expected one",
                   qg_loss_name(t->choice.loss.kind));
}

static qg_status tune_all(tuning *t)
{
    qg_ctx *ctx = t->m->ctx;
    const bool whole = t->choice.loss.kind != QG_LOSS_BLOCKS && !t->o->block;
    QG_TRY(qg_blocks_of(ctx, t->m->graph, whole ? SIZE_MAX : t->choice.method->depth,
                        t->arena, &t->block, &t->n_block));
    t->tapes = QG_NEWN(t->arena, t->n_block, qg_tapes);
    t->result = QG_NEWN(t->arena, t->n_block, qg_reconstruction);
    t->learned = QG_NEWN(t->arena, t->m->quant->tqc.n, const qg_tape_step *);
    if (!t->tapes || !t->result || !t->learned)
        return qg_nomem(ctx);
    for (size_t k = 0; k < t->n_block; k++)
        t->chosen += qg_tuning_learns(t, &t->block[k]);
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

/* Of the one block that learned, which is as it was again. */
static void judge_undone(const tuning *t, qg_judgement *j)
{
    for (size_t k = 0; k < t->n_block && t->chosen == 1; k++)
        if (qg_tuning_learns(t, &t->block[k]))
            j->loss[1] = t->result[k].after;
    j->top1[1] = NAN;
}

/* Labels also want as many right as before. */
static qg_status judge_classes(const tuning *t, qg_judgement *j)
{
    const bool labels = t->choice.loss.kind == QG_LOSS_LABELS;
    QG_TRY(qg_judge_classes(&t->stream, &t->choice.loss, t->arena, j));
    if (labels)
        QG_TRY(qg_judge_labels(&t->stream, &t->choice.loss, t->arena, j));
    if (!qg_tuning_better(t))
        judge_undone(t, j);
    else if (labels)
        j->better = j->better && j->top1[1] >= j->top1[0];
    return QG_OK;
}

static qg_status judge_network(const tuning *t, qg_judgement *j)
{
    QG_TRY(qg_judge_outputs(&t->stream, t->arena, j));
    memcpy(j->loss, j->noise, sizeof j->loss);
    return qg_tuning_has_verdict(t) ? judge_classes(t, j) : QG_OK;
}

/* --- writing what was learned ---------------------------------------------------- */

static qg_status write_all(tuning *t)
{
    qg_learned_block *block = QG_NEWN(t->arena, t->n_block, qg_learned_block);
    if (!block)
        return qg_nomem(t->m->ctx);
    for (size_t k = 0; k < t->n_block; k++)
        block[k] = (qg_learned_block){ .name = qg_tuning_name(t, &t->block[k]),
                                       .tape = t->tapes[k].tape[0],
                                       .before = t->result[k].before,
                                       .after = t->result[k].after };
    return qg_learned_write(t->m, t->choice.method, block, t->n_block);
}

/* --- all together ---------------------------------------------------------------- */

/* A gradient that was asked for and that no step of the network can have. */
static void warn_of_no_step(const tuning *t)
{
    const bool none = t->choice.gradient == QG_STEP_GRADIENT_USUAL ||
                      t->choice.gradient == QG_STEP_GRADIENT_STE;
    for (size_t i = 0; i < t->m->quant->tqc.n; i++)
        if (t->learned[i])
            return;
    if (t->choice.method->steps && !none)
        qg_warn(t->m->ctx,
                "tune: gradient %s: fits no step size here, none was learned, expected "
                "one for %s",
                qg_step_gradient_name(t->choice.gradient),
                t->choice.gradient == QG_STEP_GRADIENT_TQT ? "linear steps: lsq"
                                                           : "powers of two: tqt");
}

/* Of most blocks the loss has at least doubled on the samples that judge, also with a
 * quarter of what was learned. */
static void warn_of_divergence(const tuning *t)
{
    const double rate = t->choice.rate, usual = t->choice.usual_rate;
    size_t n = 0;
    for (size_t k = 0; k < t->n_block; k++)
        n += qg_tuning_learns(t, &t->block[k]) && isfinite(t->result[k].before) &&
             !(t->result[k].after <= 2 * t->result[k].before);
    if (2 * n > t->chosen)
        qg_warn(t->m->ctx,
                "tune: learning rate %g: %zu of %zu blocks diverged, expected about %g",
                rate, n, t->chosen, rate > usual ? usual : rate / 10);
}

/* A sample with NaN in it teaches nothing but NaN, whatever the learning rate. */
static qg_status warn_of_divergence_or_nan(const tuning *t)
{
    const qg_graph *g = t->m->graph;
    const size_t n = t->stream.sample.n;
    size_t first = n;
    for (size_t k = 0; k < g->output.n; k++) {
        const qg_value *v = g->output.at[k];
        const size_t i =
            v->type.dtype == QG_F32 ? first_not_finite(t, v, QG_LANE_BEFORE) : n;
        first = i < first ? i : first;
    }
    if (first == n)
        warn_of_divergence(t);
    return name_not_finite(t, QG_RUN_SIMULATE, first);
}

static void warn_of_samples(const tuning *t)
{
    const qg_tune_samples s = t->stream.sample;
    const size_t repeats = t->stream.repeats;
    if (t->o->holdout && !s.holdout)
        qg_warn(t->m->ctx,
                "tune: holdout '%s': has the samples of the data, which cannot judge "
                "what was made from them, expected others: every fourth of the data "
                "judges",
                t->o->holdout);
    else if (repeats)
        qg_warn(t->m->ctx,
                "tune: samples: %zu of %zu are equal to an earlier one and are left "
                "out, expected different ones",
                repeats, repeats + s.n);
    const size_t n = qg_n_judges(s), enough = QG_TUNE_ENOUGH / 4;
    if (s.holdout && n < enough)
        qg_warn(t->m->ctx,
                "tune: holdout: %zu sample%s: the result may not hold on others, "
                "expected at least %zu",
                n, n == 1 ? "" : "s", enough);
    else if (!s.holdout && s.n < QG_TUNE_LEAST)
        qg_warn(
            t->m->ctx,
            "tune: samples: %zu, which teach and judge: whether the result holds on "
            "others is not known, expected at least %d",
            s.n, QG_TUNE_ENOUGH);
    else if (!s.holdout && n < enough)
        qg_warn(t->m->ctx,
                "tune: samples: %zu, of which %zu judge%s: the result may not hold on "
                "others, expected at least %d",
                s.n, n, n == 1 ? "s" : "", QG_TUNE_ENOUGH);
}

static qg_status load_labels(tuning *t)
{
    const qg_tune_samples s = t->stream.sample;
    const qg_labelled of = { t->m->graph, s.n, t->o->work.samples > 0 && !s.holdout };
    if (!t->o->labels)
        return QG_OK;
    return qg_labels_load(t->m->ctx, t->o->labels, t->arena, &of,
                          &t->choice.loss.label);
}

static size_t n_mixtures(const tuning *t)
{
    const qg_tune_samples s = t->stream.sample;
    const qg_budget *b = t->m->ctx->budget;
    const size_t bytes = qg_stream_mixture_bytes(&t->stream);
    if (t->o->no_mixup || qg_tuning_has_verdict(t) || !bytes)
        return 0;
    return qg_mixup_count(s.n - qg_n_judges(s), steps_of(t), bytes,
                          b ? qg_budget_limit(b) : SIZE_MAX);
}

/* Of the samples that are left of all. */
static qg_status take_samples(tuning *t, const qg_split *split)
{
    QG_TRY(qg_stream_fetch(&t->stream, split->choose, split->judge));
    warn_of_samples(t);
    t->choice.loss.given = t->stream.given;
    t->stream.mixtures = n_mixtures(t);
    t->stream.rng = (qg_rng){ ~seed_of(t) };
    return qg_stream_open(&t->stream);
}

static qg_status run(tuning *t, const qg_split *split, qg_report **out)
{
    qg_report *r;
    qg_judgement j = { 0 };
    t->split = split;
    t->n_tape = qg_pool_workers(t->o->work.jobs, split->choose->n);
    t->stream = (qg_stream){ .ctx = t->m->ctx,
                             .graph = t->m->graph,
                             .sample = qg_stream_samples(split->choose, split->judge),
                             .n_in = t->n_tape };
    QG_TRY(load_labels(t));
    t->wanted = qg_block_wanted(t->m->graph, t->arena);
    if (!t->wanted)
        return qg_nomem(t->m->ctx);
    QG_TRY(tune_all(t));
    QG_TRY(take_samples(t, split));
    if (weighs(t))
        QG_TRY(weigh(t));
    QG_TRY(qg_stream_mix(&t->stream));
    for (size_t k = 0; k < t->n_block; k++)
        QG_TRY(tune_block(t, k));
    warn_of_no_step(t);
    QG_TRY(warn_of_divergence_or_nan(t));
    QG_TRY(judge_network(t, &j));
    if (j.better)
        QG_TRY(write_all(t));
    QG_TRY(qg_report_new(t->m->ctx, "tune", &r));
    return qg_report_end(qg_tune_report(t, &j, r), r, out);
}

/* What is measured is known, and found again however learning ends. */
static qg_status tune(tuning *t, qg_split *split, qg_report **out)
{
    qg_model *m = t->m;
    qg_status s = qg_measured_find(m->graph, split->choose, "tune", t->arena, &t->at);
    if (s == QG_OK && t->o->labels)
        s = qg_measured_labels(&t->at, "tune");
    qg_measured_begin(&t->at);
    if (s == QG_OK)
        s = run(t, split, out);
    if (s != QG_OK && t->has_folder)
        qg_checkpoint_tidy(t->o->checkpoint);
    qg_measured_end(&t->at);
    for (size_t k = 0; t->tapes && k < t->n_block; k++)
        qg_tapes_free(&t->tapes[k]);
    qg_stream_close(&t->stream);
    return s;
}

qg_status qg_model_tune(qg_model *m, const qg_tune_options *given, qg_report **out)
{
    qg_tune_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_tune_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    QG_TRY(qg_model_expect_quantized(m, "tune"));
    QG_TRY(qg_model_warn_clamps(m, "tune"));
    tuning t = { .m = m, .o = &o, .own = SIZE_MAX };
    QG_TRY(qg_tune_choose(m->ctx, &o, &t.choice));
    const qg_split_request want = { "tune", &o.work, o.holdout, o.holdout, true };
    qg_split split = { 0 };
    const qg_cancel_watch before = m->ctx->watch;
    qg_meter meter; /* counts nothing: learning reports its steps itself */
    qg_meter_begin(&meter, &o.work.progress, "tune", 0);
    m->ctx->watch = qg_meter_watch(&meter);
    t.arena = qg_arena_new(m->ctx->alloc);
    qg_status s = t.arena ? qg_split_open(m, &want, &split) : qg_nomem(m->ctx);
    if (s == QG_OK)
        s = tune(&t, &split, out);
    qg_split_close(&split);
    qg_arena_free(t.arena);
    m->ctx->watch = before;
    qg_meter_end(&meter);
    return s;
}

void qg_tune_forget(qg_ctx *ctx, const char *checkpoint)
{
    qg_checkpoint_remove(ctx, checkpoint);
}
