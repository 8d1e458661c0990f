#include "engine/device/suspect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/change.h"
#include "engine/device/exact.h"
#include "engine/exec/pool.h"

/* Samples of the first round, and hypotheses that enter the second. */
enum { SCREEN = 1, FINALISTS = 16 };

/* One step and its hypotheses.  With many samples they are tried in two rounds: all
 * on the first sample, then the best on every sample.  A hypothesis whose effect is
 * rare can lose in the first round when FINALISTS others explain more of that
 * sample. */
typedef struct court {
    const qg_device *d;
    qg_finding *f;
    const qg_others *others;
    qg_change_list list;
    size_t limit; /* samples of this round; 0: all */
} court;

/* --- trying --- */

/* One hypothesis in a worker, which writes to its own change only.  One that cannot
 * be computed is dropped: the operator refuses it. */
static qg_status work(void *ud, qg_ctx *ctx, void *state, size_t i)
{
    court *c = ud;
    qg_change *x = &c->list.change.at[i];
    (void)state;
    if (x->dropped)
        return QG_OK;
    qg_status s = qg_step_try(x->d, ctx, x->step, &x->cut,
                              &(qg_step_see){ NULL, NULL, c->limit }, &x->tally);
    x->dropped = s != QG_OK;
    return qg_refusal(s);
}

static qg_status try_all(court *c, size_t limit)
{
    qg_job job = {
        .n = c->list.change.n, .workers = c->d->work.jobs, .work = work, .ud = c
    };
    c->limit = limit;
    return qg_pool_run(c->d->ctx, &job);
}

/* Pointers into one array: the last criterion is the order in which they were made,
 * so that the result does not depend on qsort. */
static int by_differ(const void *a, const void *b)
{
    const qg_change *x = *(qg_change *const *)a, *y = *(qg_change *const *)b;
    if (x->tally.differ != y->tally.differ)
        return x->tally.differ < y->tally.differ ? -1 : 1;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : (x < y ? -1 : 1);
}

/* Leaves the best ones for the round over all samples; those that are as good as the
 * last finalist stay, too. */
static qg_status select_finalists(court *c)
{
    size_t n = c->list.change.n;
    qg_change **order = QG_NEWN(c->d->arena, n, qg_change *);
    if (!order)
        return qg_nomem(c->d->ctx);
    for (size_t i = 0; i < n; i++) {
        order[i] = &c->list.change.at[i];
        if (order[i]->dropped)
            order[i]->tally.differ = UINT64_MAX;
    }
    qsort(order, n, sizeof *order, by_differ);
    for (size_t i = FINALISTS; i < n; i++)
        if (order[i]->tally.differ > order[FINALISTS - 1]->tally.differ)
            order[i]->dropped = true;
    return QG_OK;
}

/* --- the verdict --- */

/* The order of qg_finding.suspect; verdicts as the last criterion make it
 * repeatable. */
static int by_fit(const void *a, const void *b)
{
    const qg_suspect *x = a, *y = b;
    if (x->undecided != y->undecided)
        return x->undecided ? 1 : -1;
    if (x->fits != y->fits)
        return x->fits > y->fits ? -1 : 1;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1)
                              : strcmp(x->verdict, y->verdict);
}

/* A hypothesis in the same words that explains as many elements: they are listed as
 * one. */
static qg_suspect *alike(const court *c, const qg_suspect *s)
{
    for (size_t i = 0; i < c->f->suspect.n; i++) {
        qg_suspect *x = &c->f->suspect.at[i];
        if (x->fits == s->fits && strcmp(x->cause, s->cause) == 0 &&
            strcmp(x->verdict, s->verdict) == 0)
            return x;
    }
    return NULL;
}

/* Takes s into the finding when it was tried on all elements and explains more of
 * them than the program itself, or is undecided. */
static qg_status add(court *c, qg_suspect s)
{
    const qg_tally *own = &c->f->tally;
    qg_suspect *same = alike(c, &s);
    if (s.of != own->of || (s.fits <= own->of - own->differ && !s.undecided))
        return QG_OK;
    if (same) {
        if (s.rank < same->rank)
            same->rank = s.rank;
        if (!same->detail || !s.detail)
            return QG_OK;
        same->detail = qg_arena_printf(c->d->arena, "%s; %s", same->detail, s.detail);
        return same->detail ? QG_OK : qg_nomem(c->d->ctx);
    }
    return qg_vec_push(c->d->ctx, c->d->arena, &c->f->suspect, s);
}

static qg_status collect(court *c)
{
    for (size_t i = 0; i < c->list.change.n; i++) {
        const qg_change *x = &c->list.change.at[i];
        if (x->dropped)
            continue;
        QG_TRY(add(c, (qg_suspect){ .cause = x->cause,
                                    .verdict = x->verdict,
                                    .detail = x->detail,
                                    .rank = x->rank,
                                    .fitted = x->fitted,
                                    .fits = x->tally.of - x->tally.differ,
                                    .of = x->tally.of }));
    }
    return QG_OK;
}

/* Floats on no code of the program's grid, from too few of which a step is found: codes
 * near them tell nothing.  In a dump of what quantizers read, they are usual. */
static qg_status judge_off(court *c)
{
    const qg_tally *t = &c->f->tally;
    const qg_pair *p = c->f->step->pair;
    if (!t->off || p->other || p->fed || c->d->unrounded)
        return QG_OK;
    const char *text = qg_arena_printf(
        c->d->arena,
        "its output grid is another, or none: %llu elements lie on no code of this one",
        (unsigned long long)t->off);
    return text ? add(c, (qg_suspect){ .cause = "grid",
                                       .verdict = text,
                                       .fits = t->off,
                                       .of = t->of })
                : qg_nomem(c->d->ctx);
}

/* Undecided ones of which no form explains more than the program: that refutes nothing.
 */
static qg_status add_undecided(court *c, const qg_exact *exact)
{
    size_t n = c->f->suspect.n;
    for (size_t i = 0; i < exact->n; i++) {
        const qg_suspect *s = &exact->suspect[i];
        bool found = !s->undecided;
        for (size_t k = 0; k < n && !found; k++)
            found = strncmp(c->f->suspect.at[k].verdict, s->verdict,
                            strlen(s->verdict)) == 0;
        if (!found)
            QG_TRY(add(c, *s));
    }
    return QG_OK;
}

/* Hypotheses about the real value first: qg_change_all tries the grid that they
 * find. */
static qg_status judge(court *c)
{
    qg_exact exact = { 0 };
    QG_TRY(judge_off(c));
    QG_TRY(qg_exact_study(c->d, c->f, &exact));
    for (size_t i = 0; i < exact.n; i++)
        if (!exact.suspect[i].undecided)
            QG_TRY(add(c, exact.suspect[i]));
    QG_TRY(qg_change_all(c->d, c->f->step, &exact, c->others, &c->list));
    if (c->d->samples > 2 * SCREEN) {
        QG_TRY(try_all(c, SCREEN));
        QG_TRY(select_finalists(c));
    }
    QG_TRY(try_all(c, 0));
    QG_TRY(collect(c));
    QG_TRY(add_undecided(c, &exact));
    if (c->f->suspect.n)
        qsort(c->f->suspect.at, c->f->suspect.n, sizeof(qg_suspect), by_fit);
    return QG_OK;
}

qg_status qg_suspect_step(const qg_device *d, const qg_others *others, qg_finding *f)
{
    court c = { .d = d, .f = f, .others = others };
    qg_status s = judge(&c);
    qg_change_free(&c.list);
    return s;
}
