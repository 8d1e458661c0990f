#include "engine/analysis/parts.h"

#include <assert.h>

#include "engine/core/num.h"

const char *qg_sharing_rule(const qg_backend *b, const char *by)
{
    const char *slash = strrchr(by, '/');
    for (size_t i = 0; slash && i < b->sharing.n; i++)
        if (strcmp(b->sharing.at[i].origin.id, slash + 1) == 0)
            return b->sharing.at[i].origin.id;
    return NULL;
}

/* A list of scales is no number and is left out: it cannot be shared. */
static void note(qg_parts *p, const qg_journal_entry *e)
{
    assert(e->tqc < p->q->tqc.n);
    qg_before *w = &p->was[e->tqc];
    double x;
    int64_t k;
    size_t n = strlen(e->new_value);
    if (strcmp(e->field, "dominator") == 0) {
        const qg_tqc *lead = qg_tqc_named(p->q->graph, e->new_value);
        w->up = lead ? lead->id : e->tqc;
    } else if (strcmp(e->field, "state") == 0) {
        int state = qg_tqc_state_named(e->new_value);
        w->state = state < 0 ? w->state : (qg_tqc_state)state;
    } else if (strcmp(e->field, "scale") == 0 &&
               qg_num_parse_f64(e->new_value, n, &x)) {
        w->scale = (float)x;
    } else if (strcmp(e->field, "offset") == 0 &&
               qg_num_parse_i64(e->new_value, n, &k) && k >= INT32_MIN &&
               k <= INT32_MAX) {
        w->offset = (int32_t)k;
    }
}

/* Inputs that take the grid of input 0 (bounds of Clip) got their scale after sharing,
 * from the joint dominator: they belong to the part of that input. */
static void place_bounds(qg_parts *p)
{
    for (size_t i = 0; i < p->q->tqc.n; i++) {
        const qg_tqc *t = p->q->tqc.at[i];
        const qg_tqc *lead = qg_tqc_role(t) == 'p' ? qg_input_tqc(t->node, 0) : NULL;
        if (lead)
            p->was[i].up = lead->id;
    }
}

qg_status qg_parts_read(qg_ctx *ctx, const qg_quant *q, qg_arena *a, qg_parts *out)
{
    qg_parts p = { .q = q, .was = QG_NEWN(a, q->tqc.n, qg_before) };
    if (!p.was)
        return qg_nomem(ctx);
    for (uint32_t i = 0; i < q->tqc.n; i++)
        p.was[i] = (qg_before){ .up = i, .state = QG_TQC_INITIAL };
    for (size_t i = 0; i < q->journal.n; i++)
        if (!qg_sharing_rule(q->backend, q->journal.at[i].by))
            note(&p, &q->journal.at[i]);
    place_bounds(&p);
    *out = p;
    return QG_OK;
}

uint32_t qg_part_of(const qg_parts *p, uint32_t t)
{
    assert(t < p->q->tqc.n);
    for (size_t steps = 0; p->was[t].up != t && steps < p->q->tqc.n; steps++)
        t = p->was[t].up;
    return t;
}

/* --- groups without their sharing rules --- */

static bool can_stand_alone(const qg_parts *p, const qg_tqc *lead)
{
    return p->was[lead->id].scale > 0 && qg_tqc_param(lead).n == 1;
}

size_t qg_parts_count(const qg_parts *p, const qg_tqc *root)
{
    size_t n = 0;
    if (root->up != root || root->next == root)
        return 0;
    for (const qg_tqc *t = root; t; t = qg_group_next(t, root)) {
        const qg_tqc *lead = p->q->tqc.at[qg_part_of(p, t->id)];
        if (qg_tqc_root(lead) != root || p->was[lead->id].up != lead->id)
            return 0;
        if (lead == t && !can_stand_alone(p, t))
            return 0;
        n += lead == t;
    }
    return n;
}

/* The endpoint that leads a part, with the scale it had. */
static qg_status stand_in_lead(qg_ctx *ctx, const qg_parts *p, qg_arena *a,
                               qg_tqc *copy)
{
    copy->state = qg_tqc_is_constant(copy) ? QG_TQC_BAKED : QG_TQC_ACTIVATED;
    copy->up = copy;
    copy->nparam = 1;
    copy->scale = QG_NEWN(a, 1, float);
    copy->offset = QG_NEWN(a, 1, int32_t);
    if (!copy->scale || !copy->offset)
        return qg_nomem(ctx);
    copy->scale[0] = p->was[copy->id].scale;
    copy->offset[0] = p->was[copy->id].offset;
    return QG_OK;
}

qg_status qg_parts_separate(qg_ctx *ctx, const qg_parts *p, qg_arena *a,
                            const qg_tqc *root, qg_tqc **copy)
{
    for (const qg_tqc *t = root; t; t = qg_group_next(t, root)) {
        copy[t->id] = QG_NEW(a, qg_tqc);
        if (!copy[t->id])
            return qg_nomem(ctx);
        *copy[t->id] = *t;
    }
    for (const qg_tqc *t = root; t; t = qg_group_next(t, root)) {
        uint32_t lead = qg_part_of(p, t->id);
        if (lead == t->id)
            QG_TRY(stand_in_lead(ctx, p, a, copy[t->id]));
        else
            copy[t->id]->up = copy[lead];
        if (lead != t->id && p->was[t->id].state == QG_TQC_OVERLAPPED)
            copy[t->id]->state = QG_TQC_OVERLAPPED;
    }
    return QG_OK;
}
