#include "engine/learn/reconstruct.h"

#include <math.h>
#include <string.h>

#include "engine/learn/drop.h"
#include "engine/learn/error_row.h"
#include "engine/learn/parameters.h"

typedef struct work {
    qg_reconstruction *r;
    qg_tape *tape; /* that leads */
    qg_arena *arena;
    qg_parameters p;
    const qg_tensor ***in, ***grad; /* [tapes][n_in], [tapes][n_out] */
    qg_tensor **grad_at;            /* [tapes][n_out] */
    qg_tensor **mixed;              /* [tapes][n_in] inputs of lanes NOW and FLOAT */
    double *loss_of;                /* [tapes] of the last forward */
    bool *failed;                   /* [tapes] it was a mixture that cannot be run */
    size_t *pupil, n_pupil;         /* samples that teach */
    size_t *judge, n_judge;
    size_t drawn;                  /* of the present order of the pupils */
    size_t first, n_batch;         /* the first step of the present update; its steps */
    size_t batch[QG_TUNE_BATCH];   /* a sample of each */
    uint64_t draws[QG_TUNE_BATCH]; /* for drop.h */
    double *noise, *signal;        /* [n_judge * n_out] */
    double *power;                 /* [n_out * samples] sum of squares of a target */
    size_t in_tenth;               /* steps so far in the present tenth */
    double *loss;                  /* [2 * n_judge] of two results */
    double least;                  /* of the mean that was kept; INFINITY: none */
    double last;                   /* loss of the last tenth */
    size_t rises; /* tenths in a row that have more than the one before */
} work;

/* --- loss ------------------------------------------------------------------------ */

static const double *weight_of(const work *w, size_t k)
{
    return w->r->importance ? w->r->importance->weight[w->tape->out[k]->id] : NULL;
}

static const qg_tensor *target(const work *w, size_t k, size_t sample)
{
    return qg_stream_value(w->r->stream, w->tape->out[k], QG_LANE_FLOAT, sample);
}

/* Samples that were given, and mixtures. */
static size_t n_all(const work *w) { return qg_n_samples(w->r->stream->sample); }

static bool is_float(const qg_tensor *y) { return y->dtype == QG_F32; }

static double power_of(const work *w, size_t k, size_t sample)
{
    return w->power[k * n_all(w) + sample];
}

/* Whether output k is part of the loss. */
static bool counts(const work *w, size_t k, const qg_tensor *y)
{
    return is_float(y) &&
           qg_loss_compares(&w->r->loss, w->r->stream->graph, w->tape->out[k]);
}

static bool is_of_classes(const work *w)
{
    return w->r->loss.kind == QG_LOSS_KD || w->r->loss.kind == QG_LOSS_LABELS;
}

static qg_status forward(work *w, qg_tape *t, size_t sample)
{
    const qg_tensor **in = w->in[t->place];
    qg_stream_inputs(w->r->stream, t, QG_LANE_NOW, sample, in);
    return qg_tape_forward(t, in);
}

/* --- on the samples that judge --------------------------------------------------- */

static qg_status judge_sample(void *ud, qg_tape *t, size_t i)
{
    work *w = ud;
    QG_TRY(forward(w, t, w->judge[i]));
    for (size_t k = 0; k < t->n_out; k++) {
        const qg_tensor *y = qg_tape_output(t, k);
        double power[2] = { 0, 0 };
        if (counts(w, k, y) && is_of_classes(w)) {
            power[0] = qg_loss_of_classes(&w->r->loss, y, target(w, k, w->judge[i]),
                                          w->judge[i], NULL);
            power[1] = 1;
        } else if (counts(w, k, y)) {
            power[0] =
                qg_error_row(y->f32, target(w, k, w->judge[i])->f32, weight_of(w, k), 0,
                             NULL, (size_t)qg_tensor_count(y));
            power[1] = power_of(w, k, w->judge[i]);
        }
        w->noise[k * w->n_judge + i] = power[0];
        w->signal[k * w->n_judge + i] = power[1];
    }
    return QG_OK;
}

/* loss[n_judge]; *mean of them. */
static qg_status judge(work *w, double *loss, double *mean)
{
    const size_t n = w->n_judge;
    const qg_tapes_work all = { .n = n, .work = judge_sample, .ud = w };
    QG_TRY(qg_tapes_run(w->r->tapes, &all));
    memset(loss, 0, n * sizeof *loss);
    for (size_t k = 0; k < w->tape->n_out; k++)
        for (size_t i = 0; i < n; i++)
            if (w->signal[k * n + i] > 0)
                loss[i] += w->noise[k * n + i] / w->signal[k * n + i];
    *mean = 0;
    for (size_t i = 0; i < n; i++)
        *mean += loss[i] / (double)n;
    return QG_OK;
}

/* --- a step ---------------------------------------------------------------------- */

/* The dims of t, in the memory that take_room gave. */
static void shape_like(const qg_tensor *t, qg_tensor *out)
{
    void *data = out->data;
    qg_tensor_init(out, QG_F32, t->rank, t->dim);
    qg_tensor_set_plain(out);
    out->data = data;
}

/* Of output k, into the tensor that the tape keeps for it. */
static void gradient_of_output(work *w, const qg_tape *t, size_t k, size_t sample)
{
    const qg_tensor *y = qg_tape_output(t, k), *f = target(w, k, sample);
    w->grad[t->place][k] = NULL;
    if (!counts(w, k, y))
        return;
    qg_tensor *g = w->grad_at[t->place] + k;
    w->grad[t->place][k] = g;
    shape_like(f, g);
    if (is_of_classes(w)) {
        w->loss_of[t->place] += qg_loss_of_classes(&w->r->loss, y, f, sample, g);
        return;
    }
    const double power = power_of(w, k, sample);
    const size_t n = (size_t)qg_tensor_count(y);
    const double channels = y->rank > 1 ? (double)y->dim[1] : 1;
    const double by = w->r->method->rounding ? channels / (double)(n ? n : 1)
                      : power > 0            ? 1 / power
                                             : 0;
    const double noise = qg_error_row(y->f32, f->f32, weight_of(w, k), by, g->f32, n);
    w->loss_of[t->place] += power > 0 ? noise / power : 0;
}

static const qg_tensor *input(const work *w, size_t k, enum qg_lane lane, size_t sample)
{
    return qg_stream_value(w->r->stream, w->tape->in[k], lane, sample);
}

/* Elements of inputs come from the float network where they are drawn. */
static void mix_inputs(work *w, size_t place, size_t sample, qg_rng *rng)
{
    for (size_t k = 0; k < w->tape->n_in; k++) {
        const qg_tensor *now = input(w, k, QG_LANE_NOW, sample),
                        *f = input(w, k, QG_LANE_FLOAT, sample);
        qg_tensor *to = &w->mixed[place][k];
        if (now == f || !is_float(now) || !qg_same_dims(now, f))
            continue;
        shape_like(now, to);
        qg_tensor_copy(now, to);
        qg_drop_mix(rng, (size_t)qg_tensor_count(now), f->f32, to->f32);
        w->in[place][k] = to;
    }
}

static qg_status forward_to_learn(work *w, qg_tape *t, size_t i)
{
    const size_t sample = w->batch[i];
    qg_rng rng = { w->draws[i] };
    if (!w->r->drops)
        return forward(w, t, sample);
    qg_stream_inputs(w->r->stream, t, QG_LANE_NOW, sample, w->in[t->place]);
    mix_inputs(w, t->place, sample, &rng);
    t->drop = qg_rng_next(&rng) | 1;
    const qg_status s = qg_tape_forward(t, w->in[t->place]);
    t->drop = 0;
    return s;
}

static qg_status learn_sample(void *ud, qg_tape *t, size_t i)
{
    work *w = ud;
    const size_t sample = w->batch[i], place = t->place;
    const qg_status s = forward_to_learn(w, t, i);
    w->failed[place] = qg_stream_leaves_out(w->r->stream, sample, s);
    if (s != QG_OK)
        return w->failed[place] ? QG_OK : s;
    w->loss_of[place] = 0;
    for (size_t k = 0; k < t->n_out; k++)
        gradient_of_output(w, t, k, sample);
    return qg_tape_backward(t, w->grad[place]);
}

/* The mean of the losses of a tenth; t: the step, from 1. */
static void note_loss(work *w, size_t t, double loss)
{
    qg_reconstruction *r = w->r;
    double *mean = &r->curve[(t - 1) * QG_LOSS_CURVE / r->steps];
    w->in_tenth = isnan(*mean) ? 1 : w->in_tenth + 1;
    *mean = isnan(*mean) ? loss : *mean + (loss - *mean) / (double)w->in_tenth;
}

static qg_status add_sample(void *ud, qg_tape *t, size_t i)
{
    work *w = ud;
    if (w->failed[t->place])
        return QG_OK;
    note_loss(w, w->first + i, w->loss_of[t->place]);
    return qg_parameters_add(&w->p, t);
}

/* Without replacement: each sample once before any twice. */
static size_t draw(work *w)
{
    const size_t at = w->drawn++ % w->n_pupil;
    const size_t other = at + qg_rng_below(&w->r->rng, w->n_pupil - at);
    const size_t sample = w->pupil[other];
    w->pupil[other] = w->pupil[at];
    w->pupil[at] = sample;
    return sample;
}

static size_t updates_of(size_t steps)
{
    return (steps + QG_TUNE_BATCH - 1) / QG_TUNE_BATCH;
}

/* The steps from t on that make one update. */
static qg_status update(work *w, size_t t)
{
    const size_t left = w->r->steps - (t - 1);
    const size_t n = left < QG_TUNE_BATCH ? left : QG_TUNE_BATCH;
    const qg_tapes_work all = {
        .n = n, .work = learn_sample, .done = add_sample, .ud = w
    };
    w->first = t;
    w->n_batch = n;
    for (size_t i = 0; i < n; i++) {
        w->batch[i] = draw(w);
        w->draws[i] = w->r->drops ? qg_rng_next(&w->r->rng) : 0;
    }
    qg_parameters_store(&w->p);
    QG_TRY(qg_tapes_run(w->r->tapes, &all));
    return qg_parameters_step(&w->p, (t - 1) / QG_TUNE_BATCH + 1,
                              updates_of(w->r->steps));
}

/* --- all ------------------------------------------------------------------------- */

/* Memory for the value of the largest sample: samples may differ in size, and threads
 * must not take memory from one arena. */
static qg_status take_room(work *w, const qg_value *v, qg_tensor *out)
{
    const qg_stream *s = w->r->stream;
    const qg_tensor *largest = NULL;
    for (size_t i = 0; i < n_all(w); i++) {
        const qg_tensor *t = qg_stream_value(s, v, QG_LANE_FLOAT, i);
        if (is_float(t) && (!largest || qg_tensor_count(t) > qg_tensor_count(largest)))
            largest = t;
    }
    if (!largest)
        return QG_OK;
    qg_tensor_init(out, QG_F32, largest->rank, largest->dim);
    return qg_tensor_alloc(w->r->ctx, w->arena, out);
}

static qg_status take_rooms(work *w, size_t place)
{
    for (size_t k = 0; k < w->tape->n_out; k++)
        QG_TRY(take_room(w, w->tape->out[k], &w->grad_at[place][k]));
    for (size_t k = 0; w->r->drops && k < w->tape->n_in; k++)
        QG_TRY(take_room(w, w->tape->in[k], &w->mixed[place][k]));
    return QG_OK;
}

static qg_status prepare_tapes(work *w)
{
    const size_t n = w->r->tapes->n;
    w->in = QG_NEWN(w->arena, n, const qg_tensor **);
    w->grad = QG_NEWN(w->arena, n, const qg_tensor **);
    w->grad_at = QG_NEWN(w->arena, n, qg_tensor *);
    w->mixed = QG_NEWN(w->arena, n, qg_tensor *);
    w->loss_of = QG_NEWN(w->arena, n, double);
    w->failed = QG_NEWN(w->arena, n, bool);
    if (!w->mixed || !w->in || !w->grad || !w->grad_at || !w->loss_of || !w->failed)
        return qg_nomem(w->r->ctx);
    for (size_t k = 0; k < n; k++) {
        w->in[k] = QG_NEWN(w->arena, w->tape->n_in, const qg_tensor *);
        w->grad[k] = QG_NEWN(w->arena, w->tape->n_out, const qg_tensor *);
        w->grad_at[k] = QG_NEWN(w->arena, w->tape->n_out, qg_tensor);
        w->mixed[k] = QG_NEWN(w->arena, w->tape->n_in, qg_tensor);
        if (!w->in[k] || !w->grad[k] || !w->grad_at[k] || !w->mixed[k])
            return qg_nomem(w->r->ctx);
        QG_TRY(take_rooms(w, k));
    }
    return QG_OK;
}

static qg_status prepare_power(work *w, size_t k)
{
    for (size_t i = 0; i < n_all(w); i++) {
        const qg_tensor *f = target(w, k, i);
        if (!counts(w, k, f))
            continue;
        QG_TRY(qg_loss_check(w->r->ctx, &w->r->loss, f, i));
        w->power[k * n_all(w) + i] =
            qg_power_row(f->f32, weight_of(w, k), (size_t)qg_tensor_count(f));
    }
    return QG_OK;
}

/* A mixture for which the float network gives no finite numbers. */
static bool says_nothing(const work *w, size_t i)
{
    for (size_t k = 0; i >= w->r->stream->sample.n && k < w->tape->n_out; k++)
        if (!isfinite(power_of(w, k, i)))
            return true;
    return false;
}

static qg_status prepare_samples(work *w)
{
    const qg_tune_samples s = w->r->stream->sample;
    w->pupil = QG_NEWN(w->arena, n_all(w), size_t);
    w->judge = QG_NEWN(w->arena, s.n, size_t);
    w->noise = QG_NEWN(w->arena, w->tape->n_out * s.n, double);
    w->signal = QG_NEWN(w->arena, w->tape->n_out * s.n, double);
    w->power = QG_NEWN(w->arena, w->tape->n_out * n_all(w), double);
    if (!w->pupil || !w->judge || !w->noise || !w->signal || !w->power)
        return qg_nomem(w->r->ctx);
    for (size_t k = 0; k < w->tape->n_out; k++)
        QG_TRY(prepare_power(w, k));
    for (size_t i = 0; i < n_all(w); i++) {
        if (qg_teaches(s, i) && !says_nothing(w, i))
            w->pupil[w->n_pupil++] = i;
        if (qg_judges(s, i))
            w->judge[w->n_judge++] = i;
    }
    return QG_OK;
}

enum { PATIENCE = 3 };
static const double FAR_ABOVE = 1.25;

/* Where a tenth ends, the mean over it, in the second half over all of that, is judged;
 * *stop: the loss has risen a few times in a row and is far above the least. */
static qg_status judge_tenth(work *w, bool *stop)
{
    double loss;
    qg_parameters_store_mean(&w->p);
    QG_TRY(judge(w, w->loss, &loss));
    if (loss < w->least) {
        w->least = loss;
        qg_parameters_keep_mean(&w->p);
    }
    w->rises = loss > w->last ? w->rises + 1 : 0;
    w->last = loss;
    *stop = w->rises >= PATIENCE && loss > FAR_ABOVE * w->least;
    return QG_OK;
}

/* t: behind the steps of the last update. */
static qg_status end_of_update(work *w, size_t t, bool *stop)
{
    const qg_reconstruction *r = w->r;
    const size_t first = (t - 1 - w->n_batch) * QG_LOSS_CURVE / r->steps;
    const size_t next = (t - 1) * QG_LOSS_CURVE / r->steps;
    *stop = false;
    if (next == first || next == QG_LOSS_CURVE)
        return QG_OK;
    if (!r->method->rounding)
        QG_TRY(judge_tenth(w, stop));
    if (next <= QG_LOSS_CURVE / 2)
        qg_parameters_begin_mean(&w->p);
    return QG_OK;
}

static qg_status learn(work *w)
{
    qg_reconstruction *r = w->r;
    bool stop = false;
    for (size_t t = 1; t <= r->steps && !stop;) {
        QG_TRY(update(w, t));
        t += w->n_batch;
        QG_TRY(end_of_update(w, t, &stop));
        QG_TRY(qg_ctx_step(r->ctx, r->progress, "tune",
                           r->done + (stop ? r->steps : t - 1), r->total));
    }
    if (stop)
        qg_parameters_return_to_kept(&w->p);
    qg_parameters_finish(&w->p);
    return QG_OK;
}

/* The part of the way with the least loss, the longest of equal ones; w->loss: of it,
 * in the first half. */
static qg_status choose_part(work *w)
{
    double *loss = w->loss;
    static const double part[] = { 1, 0.75, 0.5, 0.25 };
    enum { N = sizeof part / sizeof *part };
    const size_t n = w->n_judge;
    size_t best = 0;
    QG_TRY(judge(w, loss, &w->r->after));
    for (size_t i = 1; i < N; i++) {
        double mean;
        qg_parameters_take(&w->p, part[i]);
        QG_TRY(judge(w, loss + n, &mean));
        if (!(mean < w->r->after))
            continue;
        best = i;
        w->r->after = mean;
        memcpy(loss, loss + n, n * sizeof *loss);
    }
    qg_parameters_take(&w->p, part[best]);
    return QG_OK;
}

/* Or the mean over an earlier tenth, where that has less. */
static qg_status choose_result(work *w)
{
    QG_TRY(choose_part(w));
    if (!(w->least < w->r->after))
        return QG_OK;
    qg_parameters_return_to_kept(&w->p);
    qg_parameters_take(&w->p, 1);
    return judge(w, w->loss, &w->r->after);
}

/* A rounding moves a weight by less than a step: where the loss is less it stays, and
 * the network has a verdict of its own (tune.c).  Weights and steps that move freely
 * must be clearly better, and the one block of a loss of classes as a network is. */
static bool is_kept(const work *w, const double *before)
{
    if (is_of_classes(w))
        return qg_is_classifier_better(before, w->loss, w->n_judge);
    if (w->r->method->rounding)
        return isfinite(w->r->after) && !(w->r->after >= w->r->before);
    return qg_is_better(before, w->loss, w->n_judge, QG_ONE_IN_SIX);
}

/* What does not help is undone. */
static qg_status run(work *w)
{
    qg_reconstruction *r = w->r;
    QG_TRY(prepare_tapes(w));
    QG_TRY(prepare_samples(w));
    double *before = QG_NEWN(w->arena, w->n_judge, double);
    w->loss = QG_NEWN(w->arena, 2 * w->n_judge, double);
    w->least = w->last = (double)INFINITY;
    if (!before || !w->loss)
        return qg_nomem(r->ctx);
    QG_TRY(judge(w, before, &r->before));
    r->after = r->before;
    r->kept = false;
    for (size_t i = 0; i < QG_LOSS_CURVE; i++)
        r->curve[i] = NAN;
    w->p = (qg_parameters){ .ctx = r->ctx,
                            .arena = w->arena,
                            .tapes = r->tapes,
                            .method = r->method,
                            .optimizer = r->optimizer,
                            .rate = r->rate };
    QG_TRY(qg_parameters_of(&w->p, w->tape));
    if (!w->p.array.n)
        return QG_OK;
    QG_TRY(learn(w));
    QG_TRY(choose_result(w));
    r->kept = is_kept(w, before);
    if (!r->kept)
        qg_tape_reset(w->tape);
    return QG_OK;
}

qg_status qg_reconstruct(qg_reconstruction *r)
{
    work w = { .r = r,
               .tape = r->tapes->tape[0],
               .arena = qg_arena_new(r->ctx->alloc) };
    qg_status s = w.arena ? run(&w) : qg_nomem(r->ctx);
    qg_arena_free(w.arena);
    return s;
}
