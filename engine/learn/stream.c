/* stream.c -- results of block b are in the arena held[b + 1], inputs of the graph in
 * held[0].  An arena is the unit of release, so that one long residual keeps all
 * results of its block; blocks end where few values lead on, which keeps that small. */
#include "engine/learn/stream.h"

#include <string.h>

#include "engine/analysis/split.h"
#include "engine/learn/mixup.h"

static void put(qg_stream *s, enum qg_lane lane, const qg_value *v, size_t i,
                const qg_tensor *x)
{
    s->at[lane][v->id * s->room + i] = x;
}

/* An input of the graph is the same in all lanes. */
static void put_input(qg_stream *s, const qg_value *v, size_t i, const qg_tensor *x)
{
    for (int lane = 0; lane < QG_NLANE; lane++)
        put(s, lane, v, i, x);
}

static const qg_tensor **inputs_of(const qg_stream *s, size_t sample)
{
    return s->input + sample * s->graph->input.n;
}

static qg_status keep_inputs(qg_stream *s, const qg_tensor *const *in)
{
    for (size_t k = 0; k < s->graph->input.n; k++) {
        const qg_value *v = s->graph->input.at[k];
        qg_tensor *copy;
        qg_status status = qg_tensor_clone(s->ctx, s->held[0], in[k], &copy);
        if (v->use.n)
            status = qg_node_memory(s->ctx, status, "learn", v->use.at[0].node);
        QG_TRY(status);
        inputs_of(s, s->sample.n)[k] = copy;
    }
    return QG_OK;
}

/* Sample i of the feed; number: of both. */
static qg_status fetch(qg_stream *s, const qg_feed *feed, size_t i, size_t number,
                       qg_names *known)
{
    const size_t inputs = s->graph->input.n;
    QG_TRY(qg_ctx_go_on(s->ctx));
    qg_arena *a = qg_arena_new(s->ctx->alloc);
    const qg_tensor **in = a ? QG_NEWN(a, inputs, const qg_tensor *) : NULL;
    qg_status status = in ? feed->fetch(feed->ud, s->ctx, a, i, in) : qg_nomem(s->ctx);
    bool repeats = false;
    if (status == QG_OK)
        status = qg_sample_add(s->ctx, known, in, inputs, &repeats);
    if (status == QG_OK && !repeats)
        status = keep_inputs(s, in);
    qg_arena_free(a);
    s->repeats += repeats;
    if (status == QG_OK && !repeats)
        s->given[s->sample.n++] = number;
    return status;
}

static qg_status fetch_new(qg_stream *s, const qg_feed *feed, const qg_feed *holdout,
                           qg_names *known)
{
    const qg_tune_samples all = qg_stream_samples(feed, holdout);
    const size_t first = all.n - all.holdout;
    s->given = QG_NEWN(s->arena, all.n, size_t);
    s->input = QG_NEWN(s->arena, all.n * s->graph->input.n, const qg_tensor *);
    if (!s->given || !s->input)
        return qg_nomem(s->ctx);
    s->sample = (qg_tune_samples){ 0 };
    for (size_t i = 0; i < first; i++)
        QG_TRY(fetch(s, feed, i, i, known));
    const size_t own = s->sample.n;
    for (size_t i = first; i < all.n; i++)
        QG_TRY(fetch(s, holdout, i - first, i, known));
    s->sample.holdout = s->sample.n - own;
    return QG_OK;
}

static qg_status fetch_all(qg_stream *s, const qg_feed *feed, const qg_feed *holdout)
{
    qg_names *known = qg_names_new(s->ctx->alloc);
    qg_status status = known ? fetch_new(s, feed, holdout, known) : qg_nomem(s->ctx);
    qg_names_free(known);
    return status;
}

/* --- mixtures -------------------------------------------------------------------- */

size_t qg_stream_mixture_bytes(const qg_stream *s)
{
    const size_t inputs = s->graph->input.n;
    size_t most = 0;
    for (size_t i = 0; i < s->sample.n; i++) {
        const size_t bytes = qg_mixup_bytes(inputs_of(s, i), inputs);
        if (!qg_mixup_agree(inputs_of(s, 0), inputs_of(s, i), inputs))
            return 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static qg_status add_mixture(qg_stream *s, float part, const qg_tensor *const *x,
                             const qg_tensor *const *y)
{
    for (size_t k = 0; k < s->graph->input.n; k++) {
        const qg_value *v = s->graph->input.at[k];
        const qg_tensor *mixed;
        qg_status status =
            qg_mixup_input(s->ctx, part, x[k], y[k], s->mixed[0], &mixed);
        if (v->use.n)
            status = qg_node_memory(s->ctx, status, "learn", v->use.at[0].node);
        QG_TRY(status);
        put_input(s, v, qg_n_samples(s->sample), mixed);
    }
    s->sample.mixed++;
    return QG_OK;
}

/* Two different samples that teach, where they can be mixed. */
static qg_status mix_all(qg_stream *s, qg_rng rng)
{
    const size_t inputs = s->graph->input.n;
    size_t *pupil = QG_NEWN(s->arena, s->sample.n, size_t), n = 0;
    if (!pupil)
        return qg_nomem(s->ctx);
    for (size_t i = 0; i < s->sample.n; i++)
        if (qg_teaches(s->sample, i))
            pupil[n++] = i;
    for (size_t k = s->sample.n; n > 1 && k < s->room; k++) {
        const size_t first = qg_rng_below(&rng, n);
        const size_t second = (first + 1 + qg_rng_below(&rng, n - 1)) % n;
        const float part = qg_mixup_part(qg_rng_float(&rng));
        const qg_tensor **x = inputs_of(s, pupil[first]);
        const qg_tensor **y = inputs_of(s, pupil[second]);
        if (qg_mixup_can(x, y, inputs))
            QG_TRY(add_mixture(s, part, x, y));
    }
    return QG_OK;
}

static void unmix(qg_stream *s)
{
    for (size_t b = 0; b <= s->n_block; b++) {
        qg_arena_free(s->mixed[b]);
        s->mixed[b] = NULL;
    }
    s->mixtures = s->sample.mixed = 0;
    qg_warn(s->ctx, "tune: mixtures: memory lacks for them, the rest is learned from "
                    "the samples alone, expected a larger --max-mem, or --no-mixup");
}

qg_status qg_stream_mix(qg_stream *s)
{
    const qg_status status = mix_all(s, s->rng);
    if (status == QG_EMEMORY)
        unmix(s);
    return status == QG_EMEMORY ? QG_OK : status;
}

bool qg_stream_unmix(qg_stream *s)
{
    if (s->sample.mixed == 0)
        return false;
    unmix(s);
    return true;
}

bool qg_stream_leaves_out(const qg_stream *s, size_t sample, qg_status why)
{
    return sample >= s->sample.n && why != QG_OK && qg_refusal(why) == QG_OK;
}

static void remove_mixture(qg_stream *s, size_t i)
{
    const size_t behind = qg_n_samples(s->sample) - i - 1;
    for (int lane = 0; lane < QG_NLANE; lane++)
        for (size_t v = 0; v < s->graph->value.n; v++) {
            const qg_tensor **at = s->at[lane] + v * s->room + i;
            memmove(at, at + 1, behind * sizeof *at);
        }
    s->sample.mixed--;
}

static void remove_failed(qg_stream *s)
{
    for (size_t i = qg_n_samples(s->sample); i-- > s->sample.n;)
        if (s->failed[i])
            remove_mixture(s, i);
    memset(s->failed, 0, s->room);
}

/* --- all ------------------------------------------------------------------------- */

/* The outputs of the graph are read after the last block. */
static void find_readers(qg_stream *s)
{
    for (size_t b = 0; b < s->n_block; b++)
        for (size_t i = s->block[b].first; i < s->block[b].end; i++) {
            const qg_node *n = s->graph->node.at[i];
            for (uint32_t k = 0; k < n->n_in; k++)
                if (n->in[k])
                    s->last[n->in[k]->id] = b + 1;
        }
    for (size_t k = 0; k < s->graph->output.n; k++)
        s->last[s->graph->output.at[k]->id] = s->n_block + 1;
}

qg_tune_samples qg_stream_samples(const qg_feed *feed, const qg_feed *holdout)
{
    const size_t apart = holdout ? holdout->n : 0;
    return (qg_tune_samples){ .n = feed->n + apart, .holdout = apart };
}

/* For results of block b - 1. */
static qg_status take_arenas(qg_stream *s, size_t b)
{
    s->held[b] = qg_arena_new(s->ctx->alloc);
    s->mixed[b] = s->held[b] && s->mixtures ? qg_arena_new(s->ctx->alloc) : NULL;
    return s->held[b] && (s->mixed[b] || !s->mixtures) ? QG_OK : qg_nomem(s->ctx);
}

qg_status qg_stream_fetch(qg_stream *s, const qg_feed *feed, const qg_feed *holdout)
{
    s->arena = qg_arena_new(s->ctx->alloc);
    if (!s->arena)
        return qg_nomem(s->ctx);
    s->held = QG_NEWN(s->arena, s->n_block + 1, qg_arena *);
    s->mixed = QG_NEWN(s->arena, s->n_block + 1, qg_arena *);
    if (!s->held || !s->mixed || !(s->held[0] = qg_arena_new(s->ctx->alloc)))
        return qg_nomem(s->ctx);
    return fetch_all(s, feed, holdout);
}

qg_status qg_stream_open(qg_stream *s)
{
    const size_t values = s->graph->value.n;
    s->room = s->sample.n + s->mixtures;
    s->last = QG_NEWN(s->arena, values, size_t);
    s->failed = QG_NEWN(s->arena, s->room, uint8_t);
    s->in = QG_NEWN(s->arena, s->n_in, const qg_tensor **);
    bool there = s->last && s->failed && s->in;
    for (size_t k = 0; there && k < s->n_in; k++)
        there = (s->in[k] = QG_NEWN(s->arena, values, const qg_tensor *)) != NULL;
    for (int lane = 0; lane < QG_NLANE; lane++) {
        s->at[lane] = QG_NEWN(s->arena, values * s->room, const qg_tensor *);
        there = there && s->at[lane];
    }
    s->mixed[0] = s->mixtures ? qg_arena_new(s->ctx->alloc) : NULL;
    if (!there || (s->mixtures && !s->mixed[0]))
        return qg_nomem(s->ctx);
    for (size_t b = 1; b <= s->n_block; b++)
        QG_TRY(take_arenas(s, b));
    find_readers(s);
    for (size_t i = 0; i < s->sample.n; i++)
        for (size_t k = 0; k < s->graph->input.n; k++)
            put_input(s, s->graph->input.at[k], i, inputs_of(s, i)[k]);
    return QG_OK;
}

void qg_stream_close(qg_stream *s)
{
    for (size_t b = 0; s->arena && s->held && s->mixed && b <= s->n_block; b++) {
        qg_arena_free(s->held[b]);
        qg_arena_free(s->mixed[b]);
    }
    qg_arena_free(s->arena);
    *s = (qg_stream){ 0 };
}

const qg_tensor *qg_stream_value(const qg_stream *s, const qg_value *v,
                                 enum qg_lane lane, size_t sample)
{
    return s->at[lane][v->id * s->room + sample];
}

void qg_stream_inputs(const qg_stream *s, const qg_tape *t, enum qg_lane lane,
                      size_t sample, const qg_tensor **in)
{
    for (size_t k = 0; k < t->n_in; k++)
        in[k] = qg_stream_value(s, t->in[k], lane, sample);
}

/* One block in one lane. */
typedef struct lane_run {
    qg_stream *s;
    size_t block;
    enum qg_lane lane;
} lane_run;

static qg_status run_sample(void *ud, qg_tape *t, size_t i)
{
    const lane_run *r = ud;
    const qg_tensor **in = r->s->in[t->place];
    qg_stream_inputs(r->s, t, r->lane, i, in);
    const qg_status s = qg_tape_forward(t, in);
    if (!qg_stream_leaves_out(r->s, i, s))
        return s;
    r->s->failed[i] = true;
    return QG_OK;
}

/* Threads must not take memory from one arena. */
static qg_status take_outputs(void *ud, qg_tape *t, size_t i)
{
    const lane_run *r = ud;
    qg_arena **held = i < r->s->sample.n ? r->s->held : r->s->mixed;
    for (size_t o = 0; !r->s->failed[i] && o < t->n_out; o++) {
        qg_tensor *copy = QG_NEW(held[r->block + 1], qg_tensor);
        qg_status s = copy ? QG_OK : qg_nomem(r->s->ctx);
        if (copy) {
            *copy = *qg_tape_output(t, o);
            s = qg_tape_room(r->s->ctx, held[r->block + 1], copy);
        }
        QG_TRY(qg_node_memory(r->s->ctx, s, "learn", t->out[o]->def));
        put(r->s, r->lane, t->out[o], i, copy);
    }
    return QG_OK;
}

static qg_status copy_outputs(void *ud, qg_tape *t, size_t i)
{
    const lane_run *r = ud;
    for (size_t o = 0; !r->s->failed[i] && o < t->n_out; o++) {
        qg_tensor copy = *qg_stream_value(r->s, t->out[o], r->lane, i);
        qg_tensor_copy(qg_tape_output(t, o), &copy);
    }
    return QG_OK;
}

qg_status qg_stream_run(qg_stream *s, size_t k, const qg_tapes *t, enum qg_lane lane)
{
    lane_run r = { s, k, lane };
    const size_t n = lane == QG_LANE_BEFORE ? s->sample.n : qg_n_samples(s->sample);
    const qg_tapes_work all = { n, run_sample, take_outputs, copy_outputs, &r };
    const qg_status status = qg_tapes_run(t, &all);
    remove_failed(s);
    return status;
}

/* Whether the value is in held[b]: a result of block b - 1, or an input. */
static bool is_of(const qg_stream *s, const qg_value *v, size_t b)
{
    if (!v->def || b == 0)
        return !v->def && b == 0;
    return v->def->id >= s->block[b - 1].first && v->def->id < s->block[b - 1].end;
}

static void forget(qg_stream *s, size_t b)
{
    qg_arena_free(s->held[b]);
    qg_arena_free(s->mixed[b]);
    s->held[b] = s->mixed[b] = NULL;
    for (size_t i = 0; i < s->graph->value.n; i++)
        for (int lane = 0; is_of(s, s->graph->value.at[i], b) && lane < QG_NLANE;
             lane++)
            memset(&s->at[lane][i * s->room], 0, s->room * sizeof *s->at[lane]);
}

/* The last reader of any value in held[b]. */
static size_t last_of(const qg_stream *s, size_t b)
{
    size_t last = 0;
    for (size_t i = 0; i < s->graph->value.n; i++)
        if (is_of(s, s->graph->value.at[i], b) && s->last[i] > last)
            last = s->last[i];
    return last;
}

void qg_stream_done(qg_stream *s, size_t k)
{
    for (size_t b = 0; b <= k + 1; b++)
        if (s->held[b] && last_of(s, b) <= k + 1)
            forget(s, b);
    for (size_t b = 0; k + 1 == s->n_block && b <= s->n_block; b++) {
        qg_arena_free(s->mixed[b]); /* outputs of mixtures are not judged */
        s->mixed[b] = NULL;
    }
}

qg_status qg_stream_undo(qg_stream *s, size_t k)
{
    forget(s, k + 1);
    return take_arenas(s, k + 1);
}
