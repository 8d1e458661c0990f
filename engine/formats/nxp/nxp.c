/* nxp.c -- the float model with the limits of its activations, as NXP's converters read
 * it: for an activation `x` two scalars, which are initializers and inputs at once.
 *
 *     x_min = -scale * 2^(bits - 1)         -2.0        scale 2^-6, 8 bits
 *     x_max = x_min's opposite - scale       1.984375
 *
 * Rows     activations on symmetric grids with one scale; the converter computes the
 *          scales of weights and biases itself
 * Names    `x_min` must be free: a model that has a value of that name is refused
 * Source   OpenPPL/ppq@e39eecb ppq/parser/nxp_exporter.py.  PPQ writes nodes in the
 *          order of its table of operations, not in topological order; this file is
 *          ordered */
#include "engine/formats/table.h"
#include "engine/ir/edit.h"
#include "engine/onnx/export.h"

/* All codes of a signed type: the limits give scale and bits back. */
static bool grid(const qg_export *e, const qg_tqc *t, qg_table_grid *g)
{
    (void)e, (void)t;
    qg_scheme *s = &g->scheme;
    if (s->policy & (QG_BLOCK | QG_DYNAMIC | QG_FLOATING | QG_PER_CHANNEL))
        return false;
    s->policy &= (uint16_t)~QG_ASYMMETRIC;
    s->policy |= QG_SYMMETRIC;
    s->qmin = -(INT64_C(1) << (s->bits - 1));
    s->qmax = -s->qmin - 1;
    return true;
}

/* The scalar is borrowed by the graph: it lies in the graph's arena. */
static qg_status add_limit(qg_graph *g, const char *of, const char *suffix, float limit)
{
    qg_value *v;
    qg_tensor *t = QG_NEW(g->arena, qg_tensor);
    const char *name = qg_arena_printf(g->arena, "%s%s", of, suffix);
    if (!t || !name)
        return qg_nomem(g->ctx);
    if (qg_graph_value(g, name))
        return qg_fail(g->ctx, QG_EUNSUPPORTED,
                       "export: value '%.1000s': its name is that of the limit of "
                       "'%.1000s', expected another name",
                       name, of);
    qg_tensor_init(t, QG_F32, 0, NULL);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, t));
    t->f32[0] = limit;
    QG_TRY(qg_graph_add_value(g, name, &v));
    return qg_edit_make_constant(g, v, t);
}

static qg_status build(qg_export *e)
{
    QG_TRY(qg_table_build(e));
    const qg_table *t = e->built;
    QG_TRY(qg_graph_clone(e->quant->graph, &e->graph));
    for (size_t i = 0; i < t->row.n; i++) {
        const qg_table_row *r = &t->row.at[i];
        float low = (float)qg_table_low(e, r->tqc, 0);
        float high = (float)qg_table_high(e, r->tqc, 0);
        QG_TRY(add_limit(e->graph, r->value->name, "_min", low));
        QG_TRY(add_limit(e->graph, r->value->name, "_max", high));
    }
    return QG_OK;
}

static qg_status write(qg_export *e)
{
    const qg_export_options o = { .list_unread = true, .learned_alone = true };
    QG_TRY(qg_onnx_export(e->ctx, e->graph, e->path, &o));
    return qg_export_wrote(e, e->path);
}

static const qg_quirk_row quirks[] = {
    QG_TABLE_PPQ_ROWS("parser/nxp_exporter.py"),
    { 0 },
};

static const qg_table_form form = {
    .grid = grid,
    .ppq = { .states = QG_TABLE_EXPORTED },
};

const qg_format qg_format_nxp_onnx = {
    .name = "nxp-onnx",
    .suffix = ".onnx",
    .summary =
        "the float model with limits of activations, as NXP's converters read it",
    .says = QG_SAYS_BITS | QG_SAYS_POWER_OF_2 | QG_SAYS_SHARING | QG_SAYS_SILENT,
    .table = &form,
    .quirk = quirks,
    .build = build,
    .write = write,
};
