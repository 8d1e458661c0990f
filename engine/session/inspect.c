#include "engine/session/inspect.h"

#include <assert.h>

#include "engine/calib/mask.h"

static qg_status look_and_fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                                const qg_tensor **in)
{
    qg_looks *l = ud;
    QG_TRY(l->inner.fetch(l->inner.ud, ctx, a, sample, in));
    for (size_t i = 0; i < l->inputs; i++) {
        qg_look *look = &l->look[i * l->feed.n + sample];
        if (look->n == 0 && in[i]->dtype == QG_F32)
            qg_look_at(in[i], l->kind[i].channels, look);
    }
    return QG_OK;
}

qg_status qg_looks_begin(qg_model *m, qg_arena *a, const qg_feed *inner, qg_looks *out)
{
    assert(m->graph);
    *out = (qg_looks){
        .feed = {.n = inner->n,
                 .shape = inner->shape,
                 .fetch = look_and_fetch,
                 .ud = out,
                 .from = inner->from},
        .inner = *inner,
        .inputs = m->graph->input.n
    };
    out->kind = QG_NEWN(a, out->inputs, qg_input_kind);
    out->look = QG_NEWN(a, out->inputs * inner->n, qg_look);
    if (!out->kind || !out->look)
        return qg_nomem(m->ctx);
    for (size_t i = 0; i < out->inputs; i++) {
        const qg_value *v = m->graph->input.at[i];
        out->kind[i] = qg_input_kind_of(v->name, &v->type);
        out->kind[i].mask = qg_may_hold_mask(v);
    }
    return QG_OK;
}

/* A calibration may read fewer samples than the feed has. */
static size_t looked_at(const qg_look *look, size_t n)
{
    size_t seen = 0;
    while (seen < n && look[seen].n)
        seen++;
    return seen;
}

qg_status qg_looks_judge(const qg_looks *l, qg_findings *f)
{
    for (size_t i = 0; i < l->inputs; i++) {
        const qg_look *look = l->look + i * l->feed.n;
        size_t seen = looked_at(look, l->feed.n);
        if (seen > 0)
            QG_TRY(qg_judge_input(f, &l->kind[i], look, seen));
    }
    return QG_OK;
}

qg_status qg_findings_report(qg_report *r, const qg_findings *f, size_t most)
{
    qg_table *t;
    if (f->found.n == 0)
        return QG_OK;
    QG_TRY(qg_report_table(r, "warnings", "kind sample where what", &t));
    for (size_t i = 0; i < f->found.n && (most == 0 || i < most); i++) {
        const qg_finding *g = &f->found.at[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(qg_finding_name(g->kind)),
                              g->sample == SIZE_MAX ? (qg_cell){ 0 }
                                                    : qg_cell_count(g->sample),
                              qg_cell_text(g->where), qg_cell_text(g->what)));
    }
    return QG_OK;
}
