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
    const qg_tapes_work *w;
    size_t first;
} round_of;

static qg_status work_on(void *ud, qg_ctx *ctx, void *state, size_t k)
{
    const round_of *r = ud;
    qg_tape *tape = r->tapes->tape[k];
    (void)state;
    tape->ctx = ctx; /* of this thread, which ends with the round */
    const qg_status s = r->w->work(r->w->ud, tape, r->first + k);
    tape->ctx = r->tapes->ctx;
    return s;
}

qg_status qg_tapes_run(const qg_tapes *t, const qg_tapes_work *w)
{
    for (size_t first = 0, n; first < w->n; first += n) {
        n = w->n - first < t->n ? w->n - first : t->n;
        round_of r = { t, w, first };
        const qg_job job = { .n = n, .workers = 1, .work = work_on, .ud = &r };
        QG_TRY(t->team ? qg_team_run(t->team, t->ctx, &job)
                       : qg_pool_run(t->ctx, &job));
        for (size_t k = 0; k < n; k++)
            QG_TRY(w->done(w->ud, t->tape[k], first + k));
    }
    return QG_OK;
}
