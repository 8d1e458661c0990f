#include "engine/formats/grid_record.h"

#include <math.h>
#include <stdio.h>

#include "engine/quant/backend.h"

qg_status qg_import_quant(qg_graph *g, const char *name, const char *profile,
                          qg_quant **out)
{
    qg_backend *b = QG_NEW(g->arena, qg_backend);
    qg_quant *q;
    if (!b || !(b->name = qg_arena_printf(g->arena, QG_IMPORTED "%s", name)))
        return qg_nomem(g->ctx);
    b->profile = profile;
    QG_TRY(qg_quant_new(g, b, &q));
    q->author = "import";
    *out = q;
    return QG_OK;
}

bool qg_import_is_scale(float x) { return isnormal(x) && x > 0; }

/* The verifier's rule about offsets, with the place that the file gives for it. */
static qg_status check_offsets(qg_ctx *ctx, const char *what,
                               const qg_grid_record *grid)
{
    const qg_scheme *s = &grid->scheme;
    bool symmetric = (s->policy & QG_SYMMETRIC) != 0;
    for (size_t i = 0; grid->param.offset && i < grid->param.n; i++) {
        int32_t o = grid->param.offset[i];
        if (symmetric ? o != 0 : o < s->qmin || o > s->qmax)
            return qg_fail(ctx, QG_EMODEL, "%s: offset %zu is %d, expected %s", what, i,
                           o, symmetric ? "0: symmetric" : "a code of the range");
    }
    return QG_OK;
}

qg_status qg_import_check(qg_ctx *ctx, const char *what, qg_endpoint at,
                          const qg_grid_record *grid)
{
    const qg_value *v = qg_endpoint_value(at);
    QG_TRY(qg_scheme_check(ctx, what, &grid->scheme));
    if (!v || v->type.dtype != QG_F32)
        return qg_fail(ctx, QG_EMODEL, "%s: is not float32, expected float32", what);
    if (qg_tensor_known(&v->type) &&
        qg_scheme_param_count(&grid->scheme, &v->type) != (int64_t)grid->param.n)
        return qg_fail(ctx, QG_EMODEL, "%s: %zu scales do not fit %s", what,
                       grid->param.n, qg_tensor_text(&v->type, (char[208]){ 0 }));
    return check_offsets(ctx, what, grid);
}

qg_status qg_import_record(qg_quant *q, qg_node *n, bool is_output, uint32_t slot,
                           const qg_grid_record *grid)
{
    const qg_endpoint at = { n, slot, is_output };
    char text[QG_ENDPOINT_TEXT], what[QG_ENDPOINT_TEXT + 8];
    const qg_value *v = qg_endpoint_value(at);
    qg_tqc *t;
    (void)snprintf(what, sizeof what, "import: %s", qg_endpoint_text(at, text));
    QG_TRY(qg_import_check(q->ctx, what, at, grid));
    QG_TRY(qg_quant_add(q, n, is_output, slot, &grid->scheme, &t));
    QG_TRY(
        qg_tqc_set_param(q, t, grid->param.n, grid->param.scale, grid->param.offset));
    QG_TRY(qg_tqc_set_state(q, t, QG_TQC_ACTIVATED));
    return v->constant ? qg_tqc_set_state(q, t, QG_TQC_BAKED) : QG_OK;
}

/* --- nodes --- */

qg_status qg_record_plan_at(qg_graph *g, qg_record_plan *p, qg_endpoint at,
                            const qg_grid_record ***out)
{
    const qg_node *n = at.node;
    const qg_grid_record ***row = at.is_output ? &p->out : &p->in;
    if (!*row)
        *row = QG_NEWN(g->arena, at.is_output ? n->n_out : n->n_in,
                       const qg_grid_record *);
    if (!*row)
        return qg_nomem(g->ctx);
    *out = &(*row)[at.slot];
    return QG_OK;
}

bool qg_record_planned(const qg_record_plan *p, qg_endpoint at)
{
    const qg_grid_record **row = at.is_output ? p->out : p->in;
    return row && row[at.slot];
}

/* Whether any endpoint of the node has a grid. */
static bool is_quantized(const qg_record_plan *p, const qg_node *n)
{
    for (uint32_t k = 0; k < qg_node_endpoints(n); k++)
        if (qg_record_planned(p, qg_node_endpoint(n, k)))
            return true;
    return false;
}

/* A record requires of a quantized node: an overlapped input after an active output. */
static qg_status add_follower(qg_quant *q, qg_node *n, uint32_t slot)
{
    qg_tqc *lead = n->in[slot] ? qg_producer_tqc(n->in[slot]) : NULL, *t;
    if (!lead || slot >= n->n_in - n->n_capture)
        return QG_OK;
    QG_TRY(qg_quant_add(q, n, false, slot, &lead->scheme, &t));
    return qg_tqc_join(q, t, lead);
}

/* Reads what its producers have rounded, and computes: what it stores is rounded where
 * a clamp behind it rounds. */
static bool reads_rounded(const qg_node *n)
{
    bool any = false;
    for (uint32_t i = 0; i < n->n_in - n->n_capture; i++)
        any |= n->in[i] && qg_producer_tqc(n->in[i]);
    return any && !qg_node_has(n, QG_OP_QUANTIZER | QG_OP_CONTROL | QG_OP_SHAPE);
}

qg_status qg_import_node(qg_quant *q, qg_node *n, const qg_record_plan *p)
{
    bool quantized = is_quantized(p, n) || reads_rounded(n);
    n->platform = quantized ? QG_PLATFORM_QUANTIZED : QG_PLATFORM_FP32;
    n->reason = quantized ? "import: an endpoint is quantized"
                          : "import: no endpoint is quantized";
    for (uint32_t i = 0; quantized && i < n->n_in; i++)
        QG_TRY(qg_record_planned(p, qg_input_at(n, i))
                   ? qg_import_record(q, n, false, i, p->in[i])
                   : add_follower(q, n, i));
    for (uint32_t i = 0; p->out && i < n->n_out; i++)
        if (p->out[i])
            QG_TRY(qg_import_record(q, n, true, i, p->out[i]));
    return QG_OK;
}

int16_t qg_guess_axis(qg_endpoint at, size_t count)
{
    const qg_node *n = at.node;
    const qg_tensor *t = &qg_endpoint_value(at)->type;
    bool weight = qg_endpoint_role(at) == 'w';
    int axis = weight && n->op->weight_axis ? n->op->weight_axis(n) : -1;
    if (axis < 0)
        axis = t->rank == 1 ? 0 : 1;
    if (!count || (axis < t->rank && t->dim[axis] == (int64_t)count))
        return (int16_t)axis;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] == (int64_t)count)
            return (int16_t)i;
    return (int16_t)axis;
}
