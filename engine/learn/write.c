#include "engine/learn/write.h"

#include <string.h>

#include "engine/core/num.h"
#include "engine/ir/edit.h"
#include "engine/quant/journal.h"

typedef struct writing {
    qg_model *m;
    const qg_tune_method *method;
} writing;

static bool differs(const qg_tensor *a, const qg_tensor *b)
{
    return memcmp(a->data, b->data, (size_t)qg_tensor_count(a) * sizeof *a->f32) != 0;
}

/* What was learned of a constant. */
static const char *learned_of(const writing *t, const qg_tape_weight *w)
{
    return w->role == 'b'                              ? "bias"
           : t->method->rounding && w->step != QG_NONE ? "rounding"
                                                       : "weight";
}

static qg_status write_weight(const writing *t, const qg_tape_weight *w)
{
    qg_graph *g = t->m->graph;
    qg_tensor *copy;
    if (!differs(&w->now, &w->start))
        return QG_OK;
    QG_TRY(qg_edit_keep_untuned(g, w->value, w->value->constant));
    QG_TRY(qg_tensor_clone(t->m->ctx, g->arena, &w->now, &copy));
    QG_TRY(qg_journal_learned(t->m->quant, w->value, learned_of(t, w),
                              w->value->constant, copy));
    return qg_edit_make_constant(g, g->value.at[w->value->id], copy);
}

/* Baked scales are thawed to be set. */
static qg_status write_step(const writing *t, const qg_tape_step *s)
{
    qg_quant *q = t->m->quant;
    qg_tqc *root = q->tqc.at[s->root->id];
    const bool baked = root->state == QG_TQC_BAKED;
    const bool same = memcmp(s->scale, s->start, s->n * sizeof *s->scale) == 0;
    const bool moved =
        s->shifts && memcmp(s->offset, s->offset_start, s->n * sizeof *s->offset) != 0;
    if (!s->learned || (same && !moved))
        return QG_OK;
    if (baked)
        QG_TRY(qg_tqc_set_state(q, root, QG_TQC_ACTIVATED));
    QG_TRY(qg_tqc_set_param(q, root, s->n, s->scale,
                            s->shifts ? s->offset : root->offset));
    return baked ? qg_tqc_set_state(q, root, QG_TQC_BAKED) : QG_OK;
}

/* Of the endpoints that have entries since the first: the loss of the block that they
 * learned in. */
static qg_status write_losses(const writing *t, const qg_learned_block *b, size_t first)
{
    qg_quant *q = t->m->quant;
    bool *told = QG_NEWN(q->arena, q->tqc.n, bool);
    char before[QG_NUM_TEXT], after[QG_NUM_TEXT];
    qg_num_f32(before, (float)b->before);
    qg_num_f32(after, (float)b->after);
    const char *text = qg_arena_printf(q->arena, "%s in block %s", before, b->name);
    const char *now = qg_arena_strdup(q->arena, after);
    if (!told || !text || !now)
        return qg_nomem(t->m->ctx);
    for (size_t i = first, end = q->journal.n; i < end; i++) {
        const uint32_t id = q->journal.at[i].tqc;
        if (!told[id])
            QG_TRY(qg_journal_add(q, q->tqc.at[id], "loss", text, now));
        told[id] = true;
    }
    return QG_OK;
}

static qg_status write_block(const writing *t, const qg_learned_block *b)
{
    const qg_tape *tape = b->tape;
    const size_t first = t->m->quant->journal.n;
    for (size_t i = 0; i < tape->n_weight; i++)
        QG_TRY(write_weight(t, &tape->weight[i]));
    for (size_t i = 0; i < tape->n_step; i++)
        QG_TRY(write_step(t, &tape->step[i]));
    return write_losses(t, b, first);
}

/* Derived scales follow. */
static qg_status derive_again(const writing *t)
{
    qg_quant *q = t->m->quant;
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *d = q->tqc.at[i];
        const bool baked = d->state == QG_TQC_PASSIVE_BAKED;
        if (!d->derive || (!baked && d->state != QG_TQC_PASSIVE))
            continue;
        if (baked)
            QG_TRY(qg_tqc_set_state(q, d, QG_TQC_PASSIVE));
        QG_TRY(qg_tqc_derive(q, d, d->derive, d->lender[0], d->lender[1]));
        if (baked)
            QG_TRY(qg_tqc_set_state(q, d, QG_TQC_PASSIVE_BAKED));
    }
    return QG_OK;
}

qg_status qg_learned_write(qg_model *m, const qg_tune_method *method,
                           const qg_learned_block *block, size_t n)
{
    writing t = { m, method };
    qg_quant *q = m->quant;
    const char *author = q->author;
    qg_status s = QG_OK;
    q->author = qg_arena_printf(q->arena, "tune/%s", method->name);
    if (!q->author)
        s = qg_nomem(m->ctx);
    for (size_t k = 0; s == QG_OK && k < n; k++)
        s = write_block(&t, &block[k]);
    if (s == QG_OK)
        s = derive_again(&t);
    q->author = author;
    return s;
}
