#include "engine/formats/grid_record.h"

#include <stdio.h>

#include "engine/quant/backend.h"

qg_status qg_import_quant(qg_graph *g, const char *name, const char *profile,
                          qg_quant **out)
{
    qg_backend *b = QG_NEW(g->arena, qg_backend);
    qg_quant *q;
    if (!b || !(b->name = qg_arena_printf(g->arena, "imported from %s", name)))
        return qg_nomem(g->ctx);
    b->profile = profile;
    QG_TRY(qg_quant_new(g, b, &q));
    q->author = "import";
    *out = q;
    return QG_OK;
}

qg_status qg_import_record(qg_quant *q, qg_node *n, bool is_output, uint32_t slot,
                           const qg_grid_record *grid)
{
    const qg_endpoint at = { n, slot, is_output };
    char text[QG_ENDPOINT_TEXT], what[QG_ENDPOINT_TEXT + 8];
    const qg_value *v = qg_endpoint_value(at);
    qg_tqc *t;
    (void)snprintf(what, sizeof what, "import: %s", qg_endpoint_text(at, text));
    QG_TRY(qg_scheme_check(q->ctx, what, &grid->scheme));
    if (!v || v->type.dtype != QG_F32)
        return qg_fail(q->ctx, QG_EMODEL, "%s: is not float32, expected float32", what);
    if (qg_tensor_known(&v->type) &&
        qg_scheme_param_count(&grid->scheme, &v->type) != (int64_t)grid->param.n)
        return qg_fail(q->ctx, QG_EMODEL, "%s: %zu scales do not fit %s", what,
                       grid->param.n, qg_tensor_text(&v->type, (char[208]){ 0 }));
    QG_TRY(qg_quant_add(q, n, is_output, slot, &grid->scheme, &t));
    QG_TRY(
        qg_tqc_set_param(q, t, grid->param.n, grid->param.scale, grid->param.offset));
    QG_TRY(qg_tqc_set_state(q, t, QG_TQC_ACTIVATED));
    return v->constant ? qg_tqc_set_state(q, t, QG_TQC_BAKED) : QG_OK;
}
