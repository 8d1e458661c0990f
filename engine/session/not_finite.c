/* not_finite.c -- where a NaN or an infinity first appears while a network runs.
 *
 * A few samples are run with every endpoint watched.  Rounding may hide a NaN
 * (number/round.h), so results alone do not show it. */
#include "engine/session/session.h"

#include "engine/ir/tensor_memory.h"

enum { SAMPLES = 4 }; /* examined at most */

/* The first endpoint of a kind, in order of samples and of execution. */
typedef struct place {
    bool there, rounded;
    size_t sample;
    char at[QG_ENDPOINT_TEXT];
    const qg_node *node;
} place;

typedef struct search {
    qg_arena *sample, *copy; /* of the inputs; of a value that is not plain */
    place nan, infinity;
} search;

static void note(place *p, size_t sample, const qg_hook_point *at)
{
    if (p->there)
        return;
    p->there = true;
    p->rounded = at->rounded;
    p->sample = sample;
    p->node = at->endpoint.node;
    (void)qg_endpoint_text(at->endpoint, p->at);
}

/* The exponent of NaN and infinities has only ones, their fraction differs. */
static void classify(const float *x, size_t n, bool *nan, bool *infinity)
{
    bool strange = false, fraction = false;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        strange |= (bits & 0x7fffffff) >= 0x7f800000;
        fraction |= (bits & 0x7fffffff) > 0x7f800000;
    }
    *nan = fraction;
    *infinity = strange && !fraction;
}

bool qg_tensor_is_finite(const qg_tensor *plain)
{
    bool nan = false, infinity = false;
    if (plain->dtype == QG_F32)
        classify(plain->f32, (size_t)qg_tensor_count(plain), &nan, &infinity);
    return !nan && !infinity;
}

static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *value)
{
    search *s = ud;
    qg_tensor plain = *value;
    bool nan, infinity;
    if (value->dtype != QG_F32 || s->nan.there || !value->data)
        return QG_OK;
    if (!qg_tensor_is_plain(value)) {
        qg_arena_reset(s->copy);
        qg_tensor_set_plain(&plain);
        QG_TRY(qg_tensor_alloc(ctx, s->copy, &plain));
        qg_tensor_copy(value, &plain);
    }
    classify(plain.f32, (size_t)qg_tensor_count(&plain), &nan, &infinity);
    if (nan)
        note(&s->nan, sample, at);
    if (infinity)
        note(&s->infinity, sample, at);
    return QG_OK;
}

/* Rounded constants are finite where the constants are: without them the plan needs no
 * copy of the weights. */
static qg_status plan(qg_model *m, const qg_finite_request *r, qg_arena *a,
                      qg_plan **out)
{
    const qg_quant *q = r->mode == QG_RUN_SIMULATE ? m->quant : NULL;
    uint8_t *mute = q ? QG_NEWN(a, q->tqc.n, uint8_t) : NULL;
    if (q && !mute)
        return qg_nomem(m->ctx);
    for (size_t i = 0; q && i < q->tqc.n; i++)
        mute[i] = qg_tqc_is_constant(q->tqc.at[i]);
    qg_plan_options o = { .mode = q ? QG_MODE_SIMULATE : QG_MODE_FLOAT,
                          .quant = q,
                          .mute = mute,
                          .watch_all = true,
                          .show_all = true,
                          .reference = r->reference,
                          .input = r->feed->shape };
    return qg_plan_new(m->ctx, m->graph, &o, out);
}

static const char *text_of(const search *s, const char *mode, qg_arena *a)
{
    const place *p = s->nan.there ? &s->nan : &s->infinity;
    return qg_arena_printf(a, "%s: sample %zu: %s first appears at %s (%s)%s", mode,
                           p->sample, s->nan.there ? "NaN" : "infinity", p->at,
                           p->node->op->name, p->rounded ? " when it is rounded" : "");
}

/* One sample after the other, until a NaN is there. */
static qg_status run_samples(qg_ctx *ctx, const qg_plan *p, const qg_feed *feed,
                             size_t first, search *s)
{
    qg_run *r;
    qg_hook hook = { see, s };
    qg_status st = QG_OK;
    const qg_tensor **in = QG_NEWN(p->arena, p->graph->input.n, const qg_tensor *);
    if (!in)
        return qg_nomem(ctx);
    QG_TRY(qg_run_new(ctx, p, &r));
    for (size_t i = first; i < feed->n && i - first < SAMPLES; i++) {
        qg_arena_reset(s->sample);
        st = feed->fetch(feed->ud, ctx, s->sample, i, in);
        if (st == QG_OK)
            st = qg_run_execute(r, in, &hook, 1, i);
        if (st != QG_OK || s->nan.there)
            break;
    }
    qg_run_free(r);
    return st;
}

qg_status qg_model_not_finite(qg_model *m, const qg_finite_request *r, qg_arena *a,
                              const char **out)
{
    qg_plan *p = NULL;
    search s = { .sample = qg_arena_new(m->ctx->alloc),
                 .copy = qg_arena_new(m->ctx->alloc) };
    *out = NULL;
    qg_status st = s.sample && s.copy ? plan(m, r, a, &p) : qg_nomem(m->ctx);
    if (st == QG_OK)
        st = run_samples(m->ctx, p, r->feed, r->first, &s);
    if (st == QG_OK && (s.nan.there || s.infinity.there)) {
        *out = text_of(&s, qg_run_mode_name(r->mode), a);
        st = *out ? QG_OK : qg_nomem(m->ctx);
    }
    qg_plan_free(p);
    qg_arena_free(s.sample);
    qg_arena_free(s.copy);
    return st;
}

qg_status qg_warn_not_finite(qg_model *m, const qg_finite_request *r)
{
    const char *text;
    QG_TRY(qg_model_not_finite(m, r, m->graph->arena, &text));
    if (text)
        qg_warn(m->ctx, "%s", text);
    return QG_OK;
}
