#include "engine/learn/tapes.h"

qg_status qg_tapes_new(qg_ctx *ctx, qg_graph *g, const qg_quant *q,
                       const qg_tape_options *o, size_t n, qg_tapes *out)
{
    *out = (qg_tapes){ .ctx = ctx, .arena = qg_arena_new(ctx->alloc) };
    out->tape = out->arena ? QG_NEWN(out->arena, n, qg_tape *) : NULL;
    if (!out->tape)
        return qg_nomem(ctx);
    for (; out->n < n; out->n++) {
        QG_TRY(qg_tape_new(ctx, g, q, o, &out->tape[out->n]));
        out->tape[out->n]->place = out->n;
        if (out->n > 0)
            qg_tape_follow(out->tape[out->n], out->tape[0]);
    }
    return n > 1 ? qg_team_new(ctx, (unsigned)n, &out->team) : QG_OK;
}

void qg_tapes_dismiss(qg_tapes *t)
{
    qg_team_free(t->team);
    t->team = NULL;
    while (t->n > 1)
        qg_tape_free(t->tape[--t->n]);
    qg_tape_rest(t->tape[0]);
}

void qg_tapes_free(qg_tapes *t)
{
    qg_team_free(t->team);
    for (size_t k = 0; k < t->n; k++)
        qg_tape_free(t->tape[k]);
    qg_arena_free(t->arena);
    *t = (qg_tapes){ 0 };
}

/* A round: samples first .. first + n - 1. */
typedef struct round {
    const qg_tapes *tapes;
    qg_status (*work)(void *ud, qg_tape *tape, size_t i);
    void *ud;
    size_t first, n;
} round_of;

static qg_status work_on(void *ud, qg_ctx *ctx, void *state, size_t k)
{
    const round_of *r = ud;
    qg_tape *tape = r->tapes->tape[k];
    (void)state;
    QG_TRY(qg_ctx_go_on(ctx));
    tape->ctx = ctx; /* of this thread, which ends with the round */
    const qg_status s = r->work(r->ud, tape, r->first + k);
    tape->ctx = r->tapes->ctx;
    return s;
}

qg_status qg_tapes_share(const qg_tapes *t, const qg_job *job)
{
    return t->team ? qg_team_run(t->team, t->ctx, job) : qg_pool_run(t->ctx, job);
}

static qg_status in_parallel(round_of *r)
{
    const qg_job job = { .n = r->n, .workers = 1, .work = work_on, .ud = r };
    return qg_tapes_share(r->tapes, &job);
}

qg_status qg_tapes_run(const qg_tapes *t, const qg_tapes_work *w)
{
    round_of r = { .tapes = t, .ud = w->ud };
    for (; r.first < w->n; r.first += r.n) {
        r.n = w->n - r.first < t->n ? w->n - r.first : t->n;
        r.work = w->work;
        QG_TRY(in_parallel(&r));
        for (size_t k = 0; w->done && k < r.n; k++)
            QG_TRY(w->done(w->ud, t->tape[k], r.first + k));
        r.work = w->after;
        if (r.work)
            QG_TRY(in_parallel(&r));
    }
    return QG_OK;
}
