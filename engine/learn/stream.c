/* stream.c -- results of block b are in the arena held[b + 1], inputs of the graph in
 * held[0].  An arena is the unit of release, so that one long residual keeps all
 * results of its block; blocks end where few values lead on, which keeps that small. */
#include "engine/learn/stream.h"

#include <string.h>

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

static qg_status fetch(const qg_stream *s, const qg_feed *feed[2], size_t i,
                       qg_arena *a, const qg_tensor **in)
{
    const size_t first = s->sample.n - s->sample.holdout;
    const qg_feed *from = feed[i >= first];
    return from->fetch(from->ud, s->ctx, a, i < first ? i : i - first, in);
}

static qg_status fetch_all(qg_stream *s, const qg_feed *feed[2])
{
    const qg_graph *g = s->graph;
    const qg_tensor **in = QG_NEWN(s->arena, g->input.n, const qg_tensor *);
    qg_arena *sample = qg_arena_new(s->ctx->alloc);
    qg_status status = in && sample ? QG_OK : qg_nomem(s->ctx);
    for (size_t i = 0; status == QG_OK && i < s->sample.n; i++) {
        qg_arena_reset(sample);
        status = fetch(s, feed, i, sample, in);
        for (size_t k = 0; status == QG_OK && k < g->input.n; k++) {
            const qg_value *v = g->input.at[k];
            qg_tensor *copy;
            status = qg_tensor_clone(s->ctx, s->held[0], in[k], &copy);
            if (v->use.n)
                status = qg_node_memory(s->ctx, status, "learn", v->use.at[0].node);
            if (status == QG_OK)
                put_input(s, v, i, copy);
        }
    }
    qg_arena_free(sample);
    return status;
}

/* --- mixtures -------------------------------------------------------------------- */

static void inputs_of(const qg_stream *s, size_t sample, const qg_tensor **in)
{
    for (size_t k = 0; k < s->graph->input.n; k++)
        in[k] = qg_stream_value(s, s->graph->input.at[k], QG_LANE_FLOAT, sample);
}

static qg_status add_mixture(qg_stream *s, float part, const qg_tensor **x,
                             const qg_tensor **y)
{
    for (size_t k = 0; k < s->graph->input.n; k++) {
        const qg_value *v = s->graph->input.at[k];
        const qg_tensor *mixed;
        qg_status status = qg_mixup_input(s->ctx, part, x[k], y[k], s->held[0], &mixed);
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
    const qg_tensor **x = QG_NEWN(s->arena, inputs, const qg_tensor *);
    const qg_tensor **y = QG_NEWN(s->arena, inputs, const qg_tensor *);
    if (!pupil || !x || !y)
        return qg_nomem(s->ctx);
    for (size_t i = 0; i < s->sample.n; i++)
        if (qg_teaches(s->sample, i))
            pupil[n++] = i;
    for (size_t k = s->sample.n; n > 1 && k < s->room; k++) {
        const size_t first = qg_rng_below(&rng, n);
        const size_t second = (first + 1 + qg_rng_below(&rng, n - 1)) % n;
        const float part = qg_mixup_part(qg_rng_float(&rng));
        inputs_of(s, pupil[first], x);
        inputs_of(s, pupil[second], y);
        if (qg_mixup_can(x, y, inputs))
            QG_TRY(add_mixture(s, part, x, y));
    }
    return QG_OK;
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

qg_status qg_stream_open(qg_stream *s, const qg_feed *feed, const qg_feed *holdout)
{
    const qg_feed *both[] = { feed, holdout };
    const size_t values = s->graph->value.n;
    s->sample = qg_stream_samples(feed, holdout);
    s->room = s->sample.n + s->mixtures;
    s->arena = qg_arena_new(s->ctx->alloc);
    if (!s->arena)
        return qg_nomem(s->ctx);
    s->held = QG_NEWN(s->arena, s->n_block + 1, qg_arena *);
    s->last = QG_NEWN(s->arena, values, size_t);
    s->in = QG_NEWN(s->arena, s->n_in, const qg_tensor **);
    bool there = s->held && s->last && s->in;
    for (size_t k = 0; there && k < s->n_in; k++)
        there = (s->in[k] = QG_NEWN(s->arena, values, const qg_tensor *)) != NULL;
    for (int lane = 0; lane < QG_NLANE; lane++) {
        s->at[lane] = QG_NEWN(s->arena, values * s->room, const qg_tensor *);
        there = there && s->at[lane];
    }
    for (size_t b = 0; there && b <= s->n_block; b++)
        there = (s->held[b] = qg_arena_new(s->ctx->alloc)) != NULL;
    if (!there)
        return qg_nomem(s->ctx);
    find_readers(s);
    QG_TRY(fetch_all(s, both));
    return mix_all(s, s->rng);
}

void qg_stream_close(qg_stream *s)
{
    for (size_t b = 0; s->arena && s->held && b <= s->n_block; b++)
        qg_arena_free(s->held[b]);
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
    return qg_tape_forward(t, in);
}

static qg_status keep_outputs(void *ud, qg_tape *t, size_t i)
{
    const lane_run *r = ud;
    for (size_t o = 0; o < t->n_out; o++) {
        qg_tensor *copy;
        const qg_status s = qg_tensor_clone(r->s->ctx, r->s->held[r->block + 1],
                                            qg_tape_output(t, o), &copy);
        QG_TRY(qg_node_memory(r->s->ctx, s, "learn", t->out[o]->def));
        put(r->s, r->lane, t->out[o], i, copy);
    }
    return QG_OK;
}

qg_status qg_stream_run(qg_stream *s, size_t k, const qg_tapes *t, enum qg_lane lane)
{
    lane_run r = { s, k, lane };
    const size_t n = lane == QG_LANE_BEFORE ? s->sample.n : qg_n_samples(s->sample);
    const qg_tapes_work all = { n, run_sample, keep_outputs, &r };
    return qg_tapes_run(t, &all);
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
    s->held[b] = NULL;
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
}

qg_status qg_stream_undo(qg_stream *s, size_t k)
{
    forget(s, k + 1);
    s->held[k + 1] = qg_arena_new(s->ctx->alloc);
    return s->held[k + 1] ? QG_OK : qg_nomem(s->ctx);
}
